"""One look at the fleet: which nodes are hot spots, which pods go, and why the others stay.

For each hot spot, hottest first, the pods that may be moved are tried: first the smallest of those
whose leaving is enough to cool the node, then larger ones, then what comes nearest. For each the
scheduler is asked where it would go if it came anew. It goes if

    that is another node, of which all signals that are known here are known, too, and stay below
    `cool` with the pod and with all that is coming gain = cost(here) - cost(here without) -
    cost(there with) + cost(there) >= rules.gain

So each move makes the sum of the costs of all nodes smaller by `gain` at least, which is more than
0: without changes from outside a fleet comes to rest (tests/laws/test_rebalancing_laws.py). A pod
that came less than `rest_s` ago is not moved, so none goes to and fro.

Sources: Koordinator's LowNodeLoad (consecutive looks, thresholds for both ends), descheduler's
eviction rules; the gain is the fall of a potential as in load balancing games (Even-Dar and others,
ICALP 2003).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from dispatcher.scheduling.fleet.fleet import FleetState
from dispatcher.scheduling.fleet.nominations import is_seat
from dispatcher.scheduling.fleet.occupants import Occupant
from dispatcher.scheduling.framework import Floats
from dispatcher.scheduling.framework.lifecycle import Victim
from dispatcher.scheduling.rebalancing.cluster_shares import ClusterShares
from dispatcher.scheduling.rebalancing.hot_spots import HotSpot, HotSpots, Place, highest
from dispatcher.scheduling.rebalancing.moves import Move, Moves
from dispatcher.scheduling.rebalancing.rules import RebalancingRules
from dispatcher.scheduling.rebalancing.utilisation import coming, cost, in_node, measured, uses_on
from dispatcher.scheduling.records.decision import Decision
from dispatcher.scheduling.rules.budgets import Budgets, Left
from shared.model.pod import PodId

MOST_TRIES = 6  # what-ifs for one hot spot in one look
MOST_ASKED = 120  # what-ifs of one look
BURNT_S = 3600.0  # a node that moves do not relieve is left alone for so long, or until it is cool
# of a node: by so much more than when it was evaluated, so load rises, and it is evaluated anew
_ROSE = 0.1
MOST_TOLD = 2000  # pods that stay, of one look
_LEAST_USE = 0.01  # of a node: less is not worth a restart
WouldGo = Callable[[Occupant], Decision | str | None]  # a text: why it goes nowhere
MayGo = Callable[
    [Occupant], str
]  # why a pod must stay wherever it might go (`movable.stays`); "" if it need not


@dataclass(frozen=True, slots=True)
class Stay:
    """A pod on a hot spot that stays, and why."""

    victim: Victim
    why: str


@dataclass(frozen=True, slots=True)
class Look:
    """What one look came to."""

    at: float
    spots: tuple[HotSpot, ...] = ()
    moves: tuple[Move, ...] = ()
    stays: tuple[Stay, ...] = ()


class _Burnt(NamedTuple):
    """A node that stays hot though pods have left it: since when nobody goes, after how many moves,
    how busy it was.
    """

    since: float
    moves: int
    highest: float


class Rebalancer:
    """Remembers hot spots and moves between looks, which are to come once a minute."""

    def __init__(
        self, fleet: FleetState, rules: RebalancingRules, would_go: WouldGo, may_go: MayGo
    ) -> None:
        self._fleet = fleet
        self._rules = rules
        self._would_go = would_go
        self._may_go = may_go
        self._spots = HotSpots(rules)
        self.moves = Moves()
        self._asked = 0
        self._burnt: dict[Place, _Burnt] = {}
        self._evaluated_from: dict[Place, float] = {}  # moves before that say nothing of a node
        self._taken: Mapping[str, int] = {}  # moves of the last look by cluster
        # hot spots of which no pod could go at the last look: others come first
        self._fruitless: set[Place] = set()

    def look(self) -> Look:
        """The moves to be made now; they count as ordered. `moves.refused` tells of one that was
        not made.
        """
        fleet = self._fleet
        rules = self._rules
        self.moves.expire(fleet.now, rules.rest_s)
        carried = measured(fleet, rules.signals)
        expected = carried + coming(fleet, rules.signals)
        self.moves.shift(fleet, carried, expected)
        under_way = self.moves.under_way(fleet)
        budgets = Budgets(fleet.kept)
        left = Left()
        for ordered in under_way:
            budgets.take(ordered.victim, left)
        spots = self._spots.look(fleet, carried)
        self._burnt, self._evaluated_from = self._still_burnt({spot.place: spot for spot in spots})
        moves = list[Move]()
        staying = list[Stay]()
        room = rules.under_way - len(under_way)
        self._asked, fruitless = 0, set[Place]()
        shares = ClusterShares(rules, under_way, self._taken)
        for spot in _in_turn(sorted(spots, key=lambda one: one.place in self._fruitless), shares):
            if (
                len(moves) >= min(rules.moves_per_minute, room)
                or self._asked >= MOST_ASKED
                or len(staying) > MOST_TOLD
            ):
                break
            attempt = _Attempt(fleet, rules, spot, carried, expected)
            move = self._move_from(attempt, budgets, left, staying)
            if move is None:
                fruitless.add(spot.place)
            else:
                moves.append(move)
                shares.take(spot.place[0])
                self.moves.add(move)
                expected[:, move.row] += move.there
        self._fruitless = fruitless
        self._taken = shares.taken
        return Look(fleet.now, tuple(spots), tuple(moves), tuple(staying))

    def _move_from(
        self, attempt: "_Attempt", budgets: Budgets, left: Left, staying: list[Stay]
    ) -> Move | None:
        candidates = []
        burnt = self._burnt_by_one(attempt.spot)
        for occupant, use in attempt.pods():
            why = burnt or self._held(occupant)
            if why:
                staying.append(Stay(victim_of(occupant), why))
            else:
                candidates.append((occupant, use))
        for occupant, use in attempt.ordered(candidates)[:MOST_TRIES]:
            victim = victim_of(occupant)
            supposed = dict(left)
            forbidding = budgets.take(victim, supposed)
            self._asked += not forbidding
            found = (
                f"PodDisruptionBudget {forbidding} allows no disruption"
                if forbidding
                else attempt.move_or_reason(occupant, use, self._would_go(occupant))
            )
            if isinstance(found, Move):
                left.update(supposed)
                return found
            staying.append(Stay(victim, found))
        return None

    def _burnt_by_one(self, spot: HotSpot) -> str:
        """Why nobody goes from a node, '' if somebody may: those that went were not the ones that
        make it hot.
        """
        signal = self._rules.signals.index(spot.signal)
        evaluated_from = self._evaluated_from.get(spot.place, -np.inf)
        if count := self.moves.in_vain(self._fleet, spot, signal, evaluated_from):
            self._burnt.setdefault(
                spot.place, _Burnt(self._fleet.now, count, highest(self._fleet, spot))
            )
        if spot.place not in self._burnt:
            return ""
        count = self._burnt[spot.place].moves
        return (
            f"its node is as busy as before {count} pods left it: one that stays uses far more "
            "than it requests"
        )

    def _still_burnt(
        self, hot: Mapping[Place, HotSpot]
    ) -> tuple[dict[Place, "_Burnt"], dict[Place, float]]:
        """The nodes that are left alone on, and from when moves off the others count."""
        now = self._fleet.now
        recent = {
            place: one
            for place, one in self._burnt.items()
            if place in hot and now - one.since < BURNT_S
        }
        rose = {
            place for place, one in recent.items() if hot[place].utilisation >= one.highest + _ROSE
        }
        evaluated_from = {
            place: at for place, at in self._evaluated_from.items() if place in hot
        } | dict.fromkeys(rose, now)
        return {place: one for place, one in recent.items() if place not in rose}, evaluated_from

    def _held(self, occupant: Occupant) -> str:
        rules = self._rules
        now = self._fleet.now
        why = self._may_go(occupant)
        if why:
            return why
        if now - occupant.placed_at < rules.rest_s:
            return f"it came {now - occupant.placed_at:.0f} s ago, and rests for {rules.rest_s:g} s"
        resting = self.moves.rests(victim_of(occupant), now, rules.rest_s, rules.app_rest_s)
        return (
            "it, or a pod of its app, was moved or refused to go a short while ago"
            if resting
            else ""
        )


def _in_turn(spots: Iterable[HotSpot], shares: ClusterShares) -> Iterator[HotSpot]:
    """The hot spots in their order, but those of clusters whose share is spent by then after all
    others.
    """
    later = []
    for spot in spots:
        if shares.spent(spot.place[0]):
            later.append(spot)
        else:
            yield spot
    yield from later


class _Attempt:
    """One hot spot: who might go, and whether that is better."""

    def __init__(
        self,
        fleet: FleetState,
        rules: RebalancingRules,
        spot: HotSpot,
        carried: Floats,
        expected: Floats,
    ) -> None:
        self._fleet = fleet
        self._rules = rules
        self.spot = spot
        self._expected = expected
        self._known = ~np.isnan(carried[:, spot.row])
        self._here: Floats = np.nan_to_num(carried[:, spot.row])
        self._worst = rules.signals.index(spot.signal)

    def pods(self) -> list[tuple[Occupant, Floats]]:
        """The pods whose load the node's means hold, each with what it makes of it."""
        uses = uses_on(self._fleet, self.spot.row, self._here, self._rules.signals)
        there = [
            one for one in self._fleet.occupants_on(*self.spot.place) if not is_seat(one.pod_id)
        ]
        return [(one, uses[one.pod_id]) for one in there if one.pod_id in uses]

    def ordered(self, pods: list[tuple[Occupant, Floats]]) -> list[tuple[Occupant, Floats]]:
        """Those that are enough, the smallest first; then the others, the largest first."""
        need = self._here[self._worst] - self._rules.cool
        worst = self._worst

        def order(one: tuple[Occupant, Floats]) -> tuple[bool, float, PodId]:
            use = float(one[1][worst])
            return (use < need, use if use >= need else -use, one[0].pod_id)

        return sorted([one for one in pods if one[1][worst] >= _LEAST_USE], key=order)

    def move_or_reason(
        self, occupant: Occupant, use: Floats, decision: Decision | str | None
    ) -> Move | str:
        """The move, or why it is not made."""
        fleet = self._fleet
        rules = self._rules
        spot = self.spot
        if decision is None or isinstance(decision, str):
            return decision or "no node would take it"
        if decision.row == spot.row:
            return "its own node would be chosen again"
        before = np.where(self._known, self._expected[:, decision.row], 0.0)
        there = in_node(
            fleet, use, spot.row, decision.row, rules.signals
        )  # 0 of signals that are not known here
        where = f"node {decision.node} of cluster {decision.cluster}"
        after = before + there
        if np.isnan(after).any():
            return f"it would go to {where}, of which no fresh readings are known"
        if (after >= rules.cool).any():
            worst = int(np.argmax(after))
            return (
                f"it would go to {where}, which would have {after[worst]:.0%} of "
                f"{rules.signals[worst]} then"
            )
        names = rules.signals
        here = cost(self._here, names) - cost(self._here - use, names)
        gain = here - (cost(after, names) - cost(before, names))
        if gain < rules.gain:
            return f"going to {where} would win {gain:.1f} points, less than {rules.gain:g}"
        expected = float(after[self._worst])
        place = (decision.cluster, decision.node)
        return Move(
            victim_of(occupant), spot, place, decision.row, use, there, expected, gain, fleet.now
        )


def victim_of(occupant: Occupant) -> Victim:
    """The pod as evictions know it."""
    return Victim(occupant.pod_id, occupant.pod_info, occupant.cluster, occupant.node)
