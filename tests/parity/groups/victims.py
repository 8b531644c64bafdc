"""Whom a group may evict, in which order they may stay, and who goes: kube-scheduler's rules, told plainly.

Source: framework/preemption podgrouppreemption.go (selectVictimsOnDomain) and util.go (MoreImportantVictim,
FilterVictimsWithPDBViolation). What an eviction costs: preemption.go, pickOneNodeForPreemption.
"""

from collections.abc import Callable, Iterable, Sequence

from tests.parity.case import Object, key_of
from tests.parity.groups.case import Gang
from tests.parity.oracle.judge import Oracle
from tests.parity.oracle.selectors import selects
from tests.parity.oracle.world import Seat
from tests.parity.preemption import SHIFT

Unit = tuple[Seat, ...]  # pods that stay or go together, the one that started first first
Cost = tuple[int, int, int, int, str]


class Evictions:
    """Those who may go for one gang, on some nodes. `units`: in the order in which they may stay; `guarded`: pods for
    whom a budget has nothing left if all of these go. `groups`: those that count as such.
    """

    def __init__(
        self, oracle: Oracle, gang: Gang, groups: Iterable[Object], objects: Iterable[Object], nodes: Iterable[str]
    ) -> None:
        self._oracle, self._gang, self._groups = oracle, gang, {key_of(one): one for one in groups}
        self.nodes = set(nodes)
        priority = _priority(gang.members[0])
        found: dict[str, list[Seat]] = {}
        for _, seat in oracle.world.seats():
            found.setdefault(self._together(seat), []).append(seat)
        lower = [tuple(sorted(one, key=_start)) for one in found.values() if _priority(one[0].pod) < priority]
        here = [unit for unit in lower if not self.nodes.isdisjoint(seat.pod["spec"]["nodeName"] for seat in unit)]
        in_order = sorted(here, key=self._importance)
        self.guarded = _guarded(in_order, [one for one in objects if one["kind"] == "PodDisruptionBudget"])
        self.units = sorted(in_order, key=lambda unit: self.guarded.isdisjoint(_keys(unit)))

    def _group(self, seat: Seat) -> Object | None:
        name = seat.pod["spec"].get("schedulingGroup", {}).get("podGroupName")
        return self._groups.get(f"{seat.namespace}/{name}")

    def _together(self, seat: Seat) -> str:
        group = self._group(seat)
        whole = group is not None and "all" in (group["spec"].get("disruptionMode") or {})
        return f"group {key_of(group)}" if group is not None and whole else key_of(seat.pod)

    def _importance(self, unit: Unit) -> tuple[int, bool, int, str]:
        first = unit[0]
        return -_priority(first.pod), self._group(first) is None, -len(unit), _start(first)

    def where_they_are(self, promised: dict[str, str]) -> frozenset[str]:
        """Who goes by kube-scheduler's rule: all come back who leave each member on the node that it is promised."""
        world = self._oracle.world
        kept = {name: [*place.seats] for name, place in world.places.items()}
        gone = [*self.units]
        try:
            for unit in self.units:
                without = [one for one in gone if one is not unit]
                away = {id(seat) for one in without for seat in one}
                for name, place in world.places.items():
                    place.seats = [seat for seat in kept[name] if id(seat) not in away]
                if self._all_fit(promised):
                    gone = without
        finally:
            for name, place in world.places.items():
                place.seats = kept[name]
        return frozenset(key for unit in gone for key in _keys(unit))

    def _all_fit(self, promised: dict[str, str]) -> bool:
        for pod in self._gang.members:
            node = promised.get(key_of(pod))
            if node is None:
                continue
            if not self._oracle.allows(pod, node):
                return False
            self._oracle.book(pod, node)
        return True

    def cost(self, victims: Iterable[str]) -> Cost:
        """The lowest is the best; a later start counts as less."""
        chosen = frozenset(victims)
        seats = [seat for unit in self.units for seat in unit if key_of(seat.pod) in chosen]
        priorities = [_priority(seat.pod) for seat in seats]
        first = min(_start(seat) for seat in seats if _priority(seat.pod) == max(priorities))
        later = "".join(chr(0x7E - ord(letter)) for letter in first)
        total = sum(one + SHIFT for one in priorities)
        return len(self.guarded & chosen), max(priorities), total, len(seats), later


def fewest(units: Sequence[Unit], fits: Callable[[frozenset[str]], bool]) -> frozenset[str] | None:
    """Who goes by our rule: all come back without whom so many find places as are needed; None if that never is so."""
    gone = [*units]
    if not gone or not fits(frozenset(key for unit in gone for key in _keys(unit))):
        return None
    for unit in units:
        without = [one for one in gone if one is not unit]
        if without and fits(frozenset(key for one in without for key in _keys(one))):
            gone = without
    return frozenset(key for unit in gone for key in _keys(unit))


def _keys(unit: Unit) -> list[str]:
    return [key_of(seat.pod) for seat in unit]


def _priority(pod: Object) -> int:
    return int(pod["spec"].get("priority") or 0)


def _start(seat: Seat) -> str:
    return str((seat.pod.get("status") or {}).get("startTime") or "9999")


def _guarded(units: Iterable[Unit], budgets: Sequence[Object]) -> set[str]:
    """The pods for whom nothing is left of a budget, if all go in this order; of budgets one at most covers a pod."""
    left = {key_of(one): int(one["status"]["disruptionsAllowed"]) for one in budgets}
    found = set()
    for unit in units:
        for seat in unit:
            for one in budgets:
                if one["metadata"]["namespace"] == seat.namespace and selects(one["spec"]["selector"], seat.labels):
                    left[key_of(one)] -= 1
                    if left[key_of(one)] < 0:
                        found.add(key_of(seat.pod))
    return found
