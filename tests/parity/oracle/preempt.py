"""DefaultPreemption: which pods of lower priority are evicted, tried on the world itself, node by node."""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tests.parity.case import Object, key_of
from tests.parity.oracle.filters import lasting
from tests.parity.oracle.selectors import is_empty, selects
from tests.parity.oracle.world import Place, Seat, World

Reasons = Callable[[Object], dict[str, list[str]]]
_SHIFT = 2**31
# Where a pod is refused for one of these, another pod's leaving may help.
_OF_ROOM = ("Too many pods", "Insufficient ")
_HELPED = (
    *_OF_ROOM,
    "node(s) didn't have free ports",
    "node(s) didn't match pod anti-affinity rules",
    "node(s) didn't satisfy existing pods anti-affinity rules",
)
_SPREAD = "node(s) didn't match pod topology spread constraints"
_NOBODY = "No preemption victims found for incoming pod"
_NOT_HELPFUL = "Preemption is not helpful for scheduling"


class Preemption:
    """What may be done for a pod that no node takes; `reasons` are those of the filters, with the world as it is."""

    def __init__(self, world: World, budgets: list[Object], reasons: Reasons) -> None:
        self._world, self._budgets, self._reasons = world, budgets, reasons

    def help(self, pod: Object) -> tuple[frozenset[str], str]:
        """The pods to evict, but those that are going already; if there is nothing to be done, why."""
        if pod["spec"].get("preemptionPolicy") == "Never":
            return frozenset(), "preemption: not eligible due to preemptionPolicy=Never."
        refused = self._reasons(pod)
        places = [place for place in self._world.places.values() if _may_help(pod, place, refused[place.name])]
        texts = Counter({_NOT_HELPFUL: len(refused) - len(places)})
        found = []
        for place in places:
            answer = self._try(pod, place)
            if isinstance(answer, list):
                texts.update(answer)
            else:
                found.append(answer)
        if found:
            return min(found)[-1], ""
        parts = sorted(f"{count} {text}" for text, count in texts.items() if count)
        return frozenset(), f"preemption: 0/{len(refused)} nodes are available: {', '.join(parts)}."

    def _try(
        self, pod: Object, place: Place
    ) -> "list[str] | tuple[tuple[int, int, int, int, str], str, frozenset[str]]":
        """Why not on this node, or (cost, node, victims)."""
        lower = _ordered([seat for seat in place.seats if _priority(seat.pod) < _priority(pod)])
        if not lower:
            return [_NOBODY]
        with _without(place, lower):
            if why := self._reasons(pod)[place.name]:
                return why
        forbidden = self._violating(lower)
        gone = list(lower)
        for seat in [*forbidden, *(one for one in lower if one not in forbidden)]:
            rest = [one for one in gone if one is not seat]
            with _without(place, rest):
                if not self._reasons(pod)[place.name]:
                    gone = rest
        return (
            _cost(gone, sum(one in forbidden for one in gone)),
            place.name,
            frozenset(key_of(one.pod) for one in gone if not one.terminating),
        )

    def _violating(self, seats: list[Seat]) -> list[Seat]:
        left = {key_of(one): int((one.get("status") or {}).get("disruptionsAllowed") or 0) for one in self._budgets}
        found = []
        for seat in seats:
            mine = [key_of(one) for one in self._budgets if _covers(one, seat, quirks=self._world.quirks)]
            for key in mine:
                left[key] -= 1
            if any(left[key] < 0 for key in mine):
                found.append(seat)
        return found


@contextmanager
def _without(place: Place, seats: list[Seat]) -> Iterator[None]:
    kept, place.seats = place.seats, [one for one in place.seats if one not in seats]
    try:
        yield
    finally:
        place.seats = kept


def _may_help(pod: Object, place: Place, why: list[str]) -> bool:
    if any(text.startswith(_OF_ROOM) for text in why) and lasting(pod, place):
        return False  # more is asked than the node has; told only where no filter before NodeResourcesFit refused
    return all(text == _SPREAD or text.startswith(_HELPED) for text in why)


def _covers(budget: Object, seat: Seat, *, quirks: bool) -> bool:
    selector = budget["spec"].get("selector")
    disrupted = (budget.get("status") or {}).get("disruptedPods") or {}
    if budget["metadata"]["namespace"] != seat.namespace:
        return False
    if quirks and (not seat.labels or is_empty(selector)):
        return False
    return selects(selector, seat.labels) and seat.pod["metadata"]["name"] not in disrupted


def _priority(pod: Object) -> int:
    return int(pod["spec"].get("priority") or 0)


def _start(seat: Seat) -> str:
    return str((seat.pod.get("status") or {}).get("startTime") or "9999")


def _ordered(seats: list[Seat]) -> list[Seat]:
    """The most important first."""
    return sorted(seats, key=lambda one: (-_priority(one.pod), _start(one), key_of(one.pod)))


def _cost(victims: list[Seat], violated: int) -> tuple[int, int, int, int, str]:
    priorities = [_priority(one.pod) for one in victims]
    first = min(_start(one) for one in victims if _priority(one.pod) == max(priorities))
    later = "".join(chr(0x7E - ord(letter)) for letter in first)
    return violated, max(priorities), sum(one + _SHIFT for one in priorities), len(victims), later
