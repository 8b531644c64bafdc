"""Remote pods that do not start: told, and moved on from a cluster where no container of theirs has
ever run.

One whose images are being pulled is told and stays: it would begin to pull them again elsewhere.
So is one that waits for what follows it and is lacking at home.

A pod is bound once, so it moves as in rebalancing: its delegate is deleted where it is, and the
controller of its source makes another one, which passes that cluster over. The executor there reads
the delegate once more first, and deletes it only as it was read. The pace is bounded, so that a
registry that fails everywhere turns nothing over: six a minute of one cluster. A namespace of which
one was moved within a minute leaves one place to others.
"""

from dispatcher.scheduling import events
from dispatcher.scheduling.core.state import CoreState
from dispatcher.scheduling.delegation import intents
from dispatcher.scheduling.delegation.protocol import target_of
from dispatcher.scheduling.delegation.tracking import Tracked
from dispatcher.scheduling.rebalancing.movable import keeps_place
from shared.messages import DONE, NO_PRIORITY, Evict, Outcome
from shared.model.copy_names import lacking
from shared.model.names import FOLLOWERS
from shared.model.pod import Pod, PodId
from shared.model.starting import NotStarted, not_started
from shared.model.token_buckets import TokenBuckets

COUNTER = "not_started"  # (COUNTER, "told" or "moved")
_PER_S = 0.1  # moves of one cluster
_BURST = 4  # pods are looked at each 30 s: three are moved then, and one place is left
# moves of one namespace in one cluster, at which it may take the place that is left
_LITTLE_PER_S = 1 / 60
_ASKED_S = 60.0  # an order that is not answered is sent again for so long


class Starts:
    """Looks at delegates that are Pending for long."""

    def __init__(self, state: CoreState) -> None:
        self._state = state
        self._pace = TokenBuckets(_BURST, _PER_S)
        self._little = TokenBuckets(1, _LITTLE_PER_S)

    def tick(self, now: float) -> None:
        """Time has passed."""
        unstarted = self._state.unstarted
        for pod_id in unstarted.due(now):
            tracked = self._state.tracked.get(pod_id)
            source = tracked.source if tracked is not None else None
            target = target_of(pod_id[0], source) if source is not None else ""
            delegate = tracked.delegates.get(target) if tracked is not None else None
            if tracked is None or source is None or delegate is None or source.terminating:
                continue
            seen = not_started(delegate.status)
            if seen is None:
                unstarted.told.pop(pod_id, None)
                continue
            stays = _stays(seen, source, delegate)
            self._tell(tracked, target, seen.why, stays)
            if not stays and self._may_move(pod_id[0], source.namespace, target, now):
                self._move(pod_id, source, target, delegate, seen.why, now)

    def _tell(self, tracked: Tracked, target: str, why: str, stays: str) -> None:
        state = self._state
        text = (
            f"no container has started in cluster {target} for {state.unstarted.start_s:g} s: {why}"
        )
        if stays:
            text += f"; it stays there, since {stays}"
        known = state.unstarted.told.get(tracked.pod_id)
        if known == (target, text):
            return
        state.counters[COUNTER, "told"] += known is None
        state.unstarted.told[tracked.pod_id] = target, text
        state.report_waiting(tracked, text)

    def _may_move(self, home_name: str, namespace: str, target: str, now: float) -> bool:
        home = self._state.clusters[home_name]
        view = self._state.clusters.get(target)
        answer = (
            home.ready
            and home.takes_orders
            and view is not None
            and view.ready
            and view.takes_orders
        )
        if not answer or target in home.fenced:
            return False
        whose = (target, home_name, namespace)
        kept = 0.0 if self._little.left(now, whose) >= 1.0 else 1.0
        if self._pace.left(now, target) < 1.0 + kept:
            return False
        self._little.admit(now, whose)
        return self._pace.admit(now, target) is not None

    def _move(
        self, pod_id: PodId, source: Pod, target: str, delegate: Pod, why: str, now: float
    ) -> None:
        state = self._state
        state.unstarted.asked(pod_id)
        words = f"pod {source.name} did not start there within {state.unstarted.start_s:g} s: {why}"
        # Before the answer: the replacement may be seen earlier.
        state.refusals.note_unstarted(pod_id, source, target, words, now)

        def wanted(name: str) -> bool:
            return state.fleet.now - now < _ASKED_S

        def done(answer: Outcome, later: float) -> None:
            if answer.verdict == DONE:
                state.counters[COUNTER, "moved"] += 1
            else:
                state.warn(
                    f"pod {source.key} was not moved off cluster {target}, where it does not "
                    f"start: {answer.message}"
                )

        text = f"not started for {state.unstarted.start_s:g} s: {why}"
        intent = Evict(
            "", intents.ref(delegate), 0, delegate.node, NO_PRIORITY, "", text, unstarted=True
        )
        state.side_intents.send(target, "start", intent, done, wanted=wanted)
        state.effects.append(
            events.OperatorNotice(f"pod {source.key} is moved off cluster {target}: {text}")
        )


def _stays(seen: NotStarted, source: Pod, delegate: Pod) -> str:
    """Why it is not moved although it does not start; '' if it is."""
    if seen.pulls:
        return "its images are being pulled"
    if lacks := lacking(seen.why, delegate.annotations.get(FOLLOWERS, "")):
        return f"it would wait at home as well: {lacks} is lacking there, or a key of it"
    return keeps_place(source) or (
        "" if seen.failed else "its kubelet tells of no failure: images may be being pulled"
    )
