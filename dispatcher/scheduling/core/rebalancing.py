"""Rebalancing in the core: a look once a minute, the moves that follow from it, and the report of
them.

A move is the eviction of a pod where it runs, its delegate or itself; its controller makes another
one, which is decided as any other pod. So nothing is booked for it, and the delegate protocol need
know nothing of it. Looks begin when every cluster was heard of.
"""

from collections import deque
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from dispatcher.scheduling import events
from dispatcher.scheduling.core.evictions import Evictions
from dispatcher.scheduling.core.state import CoreState
from dispatcher.scheduling.delegation import intents
from dispatcher.scheduling.delegation.side_intents import RetryPolicy
from dispatcher.scheduling.fleet.occupants import Occupant
from dispatcher.scheduling.framework import PodInfo
from dispatcher.scheduling.framework.lifecycle import Victim
from dispatcher.scheduling.rebalancing.movable import stays
from dispatcher.scheduling.rebalancing.moves import Move
from dispatcher.scheduling.rebalancing.rebalancer import Look, Rebalancer
from dispatcher.scheduling.rebalancing.rules import RebalancingRules
from dispatcher.scheduling.records.decision import Decision
from shared.messages import DONE, NO_PRIORITY, UNKNOWN, Evict, Outcome
from shared.model.backoff import Backoff
from shared.model.crossing import untold
from shared.model.names import REBALANCE
from shared.model.pod import PodId

Row = dict[str, Any]
LOOK_S = 60.0
COUNTER = "rebalancing_moves"
_ASKED_S = 60.0  # an eviction that is not answered is sent again for so long
_KEPT = 512  # moves that are remembered for people
_AGAIN = RetryPolicy(Backoff(1.0, 15.0))


class Mode(StrEnum):
    """`dry_run`: say what would be moved, and move nothing."""

    OFF = "off"
    DRY_RUN = "dry_run"
    ON = "on"


class Result(StrEnum):
    """What came of a move."""

    PLANNED = "planned"  # in a dry run
    ORDERED = "ordered"
    EVICTED = "evicted"
    REFUSED = "refused"


@dataclass(slots=True)
class _MoveResult:
    move: Move
    result: Result
    message: str = ""


class Rebalancing:
    """Looks and orders. `look`: the last one."""

    def __init__(
        self, state: CoreState, evictions: Evictions, rules: RebalancingRules, mode: Mode
    ) -> None:
        self._state = state
        self._evictions = evictions
        self.mode = mode
        self._rebalancer = Rebalancer(state.fleet, rules, self._would_move, self._may_go)
        self._moves: deque[_MoveResult] = deque(maxlen=_KEPT)
        self._looked_at = float("-inf")
        self.last = Look(float("-inf"))

    def tick(self, now: float) -> None:
        """Time has passed."""
        if self.mode is Mode.OFF or now - self._looked_at < LOOK_S:
            return
        for entry in self._moves:
            if entry.result is Result.ORDERED and now - entry.move.at > 2 * _ASKED_S:
                self._answered(entry, UNKNOWN, "its agent has not answered", now)
        planned = {one.pod_id for one in self.last.moves}
        self._looked_at = now
        self.last = self._rebalancer.look()
        for move in self.last.moves:
            if self.mode is Mode.ON:
                self._order(move)
                continue
            self._rebalancer.moves.cancelled(move.pod_id)
            if move.pod_id not in planned:
                self._note(_MoveResult(move, Result.PLANNED))

    # --- what may go, and where to
    # -----------------------------------------------------------------------------------

    def would_go(self, occupant: Occupant) -> Decision | None:
        """Where the replacement of a pod would go, None if nowhere; not to a cluster that has ever
        refused it.
        """
        state = self._state
        tracked = state.tracked.peek(occupant.pod_id)
        if tracked is None or tracked.source is None:
            return None
        refused = state.refusals.remembered(occupant.pod_id, tracked.source, state.fleet.now)
        pod_info = state.fleet.with_use(
            PodInfo(tracked.source, tracked.home, refused)
        )  # as its replacement will be
        return state.profiles.of(pod_info).would_go(occupant.pod_id, pod_info)

    def _would_move(self, occupant: Occupant) -> Decision | str | None:
        """The same, or why nowhere: not to a cluster of which nobody knows whether it would take
        the replacement.
        """
        decision = self.would_go(occupant)
        tracked = self._state.tracked.peek(occupant.pod_id)
        source = tracked.source if tracked is not None else None
        if (
            decision is None
            or source is None
            or decision.cluster in (occupant.pod_info.home, occupant.cluster)
        ):
            return decision
        why = untold(source)
        return f"it would go to cluster {decision.cluster}, and {why}" if why else decision

    def _may_go(self, occupant: Occupant) -> str:
        state = self._state
        tracked = state.tracked.peek(occupant.pod_id)
        target = self._evictions.target_of(occupant)
        if tracked is None or tracked.source is None:
            return "it is of another scheduler"
        if why := stays(tracked.source):  # a delegate has neither its owner nor its annotations
            return why
        away = [
            name
            for name in sorted({occupant.cluster, tracked.home})
            if not state.clusters[name].ready
        ]
        if away:
            return f"cluster {away[0]} is not Ready"
        return (
            ""
            if target is not None and not target.terminating
            else "it is on its way out or to its node"
        )

    # --- moving
    # ----------------------------------------------------------------------------------------------

    def _order(self, move: Move) -> None:
        state = self._state
        victim = move.victim
        occupant = state.fleet.occupant(victim.pod_id)
        target = self._evictions.target_of(occupant) if occupant is not None else None
        if target is None:
            return
        entry = _MoveResult(move, Result.ORDERED)

        def done(answer: Outcome, now: float) -> None:
            self._answered(entry, answer.verdict, answer.message, now)

        def wanted(name: str) -> bool:
            return state.fleet.now - move.at < _ASKED_S

        tracked = state.tracked.peek(victim.pod_id)
        source = tracked.source if tracked is not None else None
        even_local = source is not None and source.annotations.get(REBALANCE, "") == "true"
        intent = Evict(
            "", intents.ref(target), 0, victim.node, NO_PRIORITY, "", move.why, even_local
        )
        state.side_intents.send(victim.cluster, "move", intent, done, _AGAIN, wanted)
        self._note(entry)

    def _answered(self, entry: _MoveResult, verdict: str, message: str, now: float) -> None:
        entry.result = Result.EVICTED if verdict == DONE else Result.REFUSED
        entry.message = message
        self._state.counters[COUNTER, entry.result] += 1
        if verdict != DONE:
            self._rebalancer.moves.refused(entry.move.pod_id, now)

    def _note(self, entry: _MoveResult) -> None:
        self._moves.append(entry)
        self._state.counters[COUNTER, entry.result] += 1
        pod = entry.move.victim.pod_info.pod.key
        where = "/".join(entry.move.spot.place)
        verb = "would be moved" if entry.result is Result.PLANNED else "is moved"
        self._state.effects.append(
            events.OperatorNotice(f"pod {pod} {verb} off {where}: {entry.move.why}")
        )

    # --- telling
    # ----------------------------------------------------------------------------------------------

    def rows(self) -> list[Row]:
        """Moves, the latest first, then the pods on hot spots that stay."""
        now = self._state.fleet.now
        moves = [
            {**_move_row(one), "age_s": round(now - one.move.at, 1)}
            for one in reversed(self._moves)
        ]
        age_s = round(now - self.last.at, 1)
        stays = [
            {**_row(one.victim), "result": "stays", "why": one.why, "age_s": age_s}
            for one in self.last.stays
        ]
        return [*moves, *stays]

    def of(self, pod_id: PodId, pod_info: PodInfo) -> Row | None:
        """The latest move of this pod, or of one of its controller that it may replace; None if
        none is known.
        """
        found = [one for one in self._moves if _means(one.move, pod_id, pod_info)]
        return _move_row(found[-1]) if found else None


def _means(move: Move, pod_id: PodId, pod_info: PodInfo) -> bool:
    moved = move.victim.pod_info
    pod = pod_info.pod
    alike = (moved.home, moved.pod.namespace, moved.pod.owner) == (
        pod_info.home,
        pod.namespace,
        pod.owner,
    )
    return move.pod_id == pod_id or (alike and bool(pod.owner))


def _row(victim: Victim) -> Row:
    pod = victim.pod_info.pod
    return {
        "namespace": pod.namespace,
        "name": pod.name,
        "source": victim.pod_info.home,
        "from": f"{victim.cluster}/{victim.node}",
        "to": None,
        "gain": None,
    }


def _move_row(entry: _MoveResult) -> Row:
    move = entry.move
    why = f"{move.why}{': ' if entry.message else ''}{entry.message}"
    return {
        **_row(move.victim),
        "to": "/".join(move.target),
        "gain": round(move.gain, 2),
        "result": entry.result.value,
        "why": why,
    }
