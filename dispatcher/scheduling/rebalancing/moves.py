"""Moves that were ordered: what they will change on their nodes, which of them are under way, and
who rests.
"""

from collections import deque
from dataclasses import dataclass

import numpy as np

from dispatcher.scheduling.fleet.fleet import FleetState
from dispatcher.scheduling.fleet.readings import left_to_settle
from dispatcher.scheduling.framework import Floats
from dispatcher.scheduling.framework.lifecycle import Victim
from dispatcher.scheduling.framework.pod_sets import app_name
from dispatcher.scheduling.rebalancing.hot_spots import HotSpot, Place, highest
from shared.model.pod import PodId

LANDS_S = 60.0  # until then a pod that was moved is expected to be placed anew
_LOOKED_BACK_S = 900.0  # by moves of that time a node is judged
_ENOUGH = 2  # moves off a node by which it is judged
_LEAST_DUE = 0.05  # of a node: less may be noise
_MISSING = 0.75  # of what was due
_SATURATED = 0.95  # readings end at 1, so a node that wants more shows no relief
_KEPT_S = 1800.0  # means have taken in by then what has left


@dataclass(frozen=True, slots=True, eq=False)
class Move:
    """A pod that goes from a hot spot to a better place.

    use, there: [signals] what it makes of its node now, and will make of the other. expected: the
    utilisation of that one with it, of the signal that is hot. gain: points that the two nodes cost
    less.
    """

    victim: Victim
    spot: HotSpot
    target: Place
    row: int  # of the target when it was ordered
    use: Floats
    there: Floats
    expected: float
    gain: float
    at: float

    @property
    def pod_id(self) -> PodId:
        """Whose it is."""
        return self.victim.pod_id

    @property
    def why(self) -> str:
        """For people."""
        spot, (cluster, node) = self.spot, self.target
        return (
            f"node {spot.place[1]} of cluster {spot.place[0]} has been above the threshold for "
            f"{(self.at - spot.since) / 60:.0f} min ({spot.signal} {spot.utilisation:.0%}); node "
            f"{node} of cluster "
            f"{cluster} is expected to have {self.expected:.0%} with this pod"
        )


class Moves:
    """Those of the last half hour; a pod that was refused is kept as one that rests."""

    def __init__(self) -> None:
        self._moves: deque[Move] = deque()
        self._refused: dict[PodId, float] = {}

    def add(self, move: Move) -> None:
        """A move is ordered."""
        self._moves.append(move)

    def cancelled(self, pod_id: PodId) -> None:
        """As if its move had never been ordered."""
        self._moves = deque(one for one in self._moves if one.pod_id != pod_id)

    def refused(self, pod_id: PodId, now: float) -> None:
        """The pod stays where it is, and rests."""
        self.cancelled(pod_id)
        self._refused[pod_id] = now

    def expire(self, now: float, longest_s: float) -> None:
        """Forget what does not matter any more."""
        keep_s = max(longest_s, _KEPT_S)
        while self._moves and now - self._moves[0].at > keep_s:
            self._moves.popleft()
        self._refused = {pod_id: at for pod_id, at in self._refused.items() if now - at <= keep_s}

    def under_way(self, fleet: FleetState) -> list[Move]:
        """Those whose pod is still where it was, or has not been placed anew for all we know."""
        return [one for one in self._moves if fleet.now - one.at < LANDS_S or _is_there(fleet, one)]

    def rests(self, victim: Victim, now: float, rest_s: float, app_rest_s: float) -> bool:
        """Whether this pod was ordered to go, or one of its app was, a short while ago."""
        app = app_name(victim.pod_info.pod)
        recent = (one for one in self._moves if now - one.at < app_rest_s)
        ordered = any(one.pod_id == victim.pod_id and now - one.at < rest_s for one in self._moves)
        return (
            ordered
            or now - self._refused.get(victim.pod_id, -np.inf) < rest_s
            or any(app[1] and app_name(one.victim.pod_info.pod) == app for one in recent)
        )

    def in_vain(
        self, fleet: FleetState, spot: HotSpot, signal: int, evaluated_from: float = -np.inf
    ) -> int:
        """How many pods have left a hot spot of late that it has not become cooler for; 0 if it
        has, or may yet.

        What must have left the mean by now: due = sum(use * (1 - left_to_settle)), and what has not
        is missing. A node to which others came meanwhile is not judged, nor one that is or was
        saturated. `signal`: the row of the spot's signal in `Move.use`. `evaluated_from`: moves
        before that do not count.
        """
        alike = (
            one
            for one in self._moves
            if (one.spot.place, one.spot.signal) == (spot.place, spot.signal)
        )
        earliest = max(fleet.now - _LOOKED_BACK_S, evaluated_from)
        gone = [one for one in alike if one.at >= earliest and not _is_there(fleet, one)]
        if len(gone) < _ENOUGH or any(
            one.placed_at > gone[0].at for one in fleet.occupants_on(*spot.place)
        ):
            return 0
        if max(gone[0].spot.utilisation, highest(fleet, spot)) >= _SATURATED:
            return 0
        read_at = float(fleet.used_at[:, spot.row].max())
        due = sum(float(one.use[signal]) * (1.0 - left_to_settle(one.at, read_at)) for one in gone)
        expected = gone[0].spot.utilisation - sum(float(one.use[signal]) for one in gone)
        missing = spot.utilisation - expected
        return len(gone) if due >= _LEAST_DUE and missing >= _MISSING * due else 0

    def shift(self, fleet: FleetState, carried: Floats, expected: Floats) -> None:
        """Take out of both ([signals, n]) what has left but is in the means; add to `expected` what
        is on its way.
        """
        for move in self._moves:
            source = fleet.row_of(*move.spot.place)
            target = fleet.row_of(*move.target)
            if source is not None:
                read_at = float(fleet.used_at[:, source].max())
                left = move.use * (
                    1.0 if _is_there(fleet, move) else left_to_settle(move.at, read_at)
                )
                carried[:, source] -= left
                expected[:, source] -= left
            if target is not None and fleet.now - move.at < LANDS_S:
                expected[:, target] += move.there


def _is_there(fleet: FleetState, move: Move) -> bool:
    occupant = fleet.occupant(move.pod_id)
    return occupant is not None and (occupant.cluster, occupant.node) == move.spot.place
