"""What clusters have refused, and until when each is passed over for it: 30 s, doubling to 15 min
while it goes on.

Where a failure refused, a webhook that does not answer, the first pause is 2 s, so that it ends
soon after the failure does. A cluster whose server makes the pod larger is not passed over: the
true size is kept for 15 min after it was last told, and the pod is placed by it there. Of several
sizes that were told the largest amounts count, so that a webhook that adds now more, now less is
met by one size. One that makes the pod larger than the size it was placed by, again and again, is
met by none: from the fourth time on the cluster is passed over as for any other refusal.

Where a pod has not started for long the pause is 15 min at first, doubling to 4 h.

A refusal that has ended is still remembered for as long as the longest pause: the pod may go there,
but no running pod is evicted there for it, as it may be refused once more (one that a failure made
is not).

Kept per template (the pods of one controller in its namespace), since what one replica is refused
for holds for the others; of a pod without a controller for itself. Time ends a refusal, and so does
a change of the pod's namespace in that cluster. A refusal is forgotten when the cluster has not
refused again for as long as the longest pause. Of one namespace MOST_TEMPLATES are kept: whoever
makes ever new pods that are refused takes no more memory than that. Nothing outlives the process: a
restarted dispatcher asks each cluster once more.
"""

import heapq
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from dispatcher.scheduling.delegation.in_flight import InFlightIntent, IntentKind
from shared.messages import OF_CLUSTER, OF_NODE, OF_POD, Outcome
from shared.model.backoff import Backoff
from shared.model.pod import Pod, PodId
from shared.model.refusal import ALL_OTHERS, ClusterRefusal

# What a refusal is about where its agent does not say it.
_UNSAID: dict[IntentKind, str] = {
    IntentKind.BIND: OF_NODE,
    IntentKind.CLAIM: OF_POD,
    IntentKind.CREATE: OF_CLUSTER,
}
# a StatefulSet or DaemonSet keeps its UID when its template changes
_REVISION = "controller-revision-hash"

# of one namespace, in some 10 MiB; beyond, who was refused longest ago is forgotten
MOST_TEMPLATES = 4096
_MOST_OWNER = 512  # characters; kind, name and UID of a controller are fewer

_Template = tuple[str, ...]
_Key = tuple[str, str]  # cluster, and what is kept of it
_PASSED_OVER = "passed over"
_SIZE = "size"
# larger than what the pod was placed by, so often in a row, before the cluster is passed over
_MOST_GROWTHS = 3


@dataclass(slots=True)
class _Entry:
    refusal: ClusterRefusal
    namespace: str
    # refusals in a row; of a size: how often it has grown beyond what a pod was placed by
    rounds: int = 1
    passing: bool = False
    pods: set[PodId] = field(default_factory=set)  # that were queued with it


class Refusals:
    """Pauses in seconds: `first_s`, of failures `passing_s`, doubling to `longest_s`.

    Whatever is about a node alone is not kept.
    """

    def __init__(
        self, first_s: float = 30.0, longest_s: float = 900.0, passing_s: float = 2.0
    ) -> None:
        self._longest_s = longest_s
        self._pause = Backoff(first_s, longest_s)
        self._passing_pause = Backoff(passing_s, longest_s)
        # It takes minutes to see that a pod does not start: so many that each other cluster is
        # tried meanwhile.
        self._unstarted_pause = Backoff(longest_s, 16 * longest_s)
        self._kept: dict[_Template, dict[_Key, _Entry]] = {}
        self._ends: list[tuple[float, _Template, _Key]] = []  # when to look at what is kept
        self._of: dict[
            tuple[str, str], dict[_Template, None]
        ] = {}  # by home and namespace, kept last at the end
        self._freed: set[PodId] = set()  # that were queued with what was forgotten

    def __bool__(self) -> bool:
        return bool(self._kept)

    def note(
        self,
        pod_id: PodId,
        pod: Pod,
        in_flight: InFlightIntent,
        outcome: Outcome,
        now: float,
        placed_by: Sequence[ClusterRefusal] = (),
    ) -> None:
        """A cluster has answered REFUSED. What comes in while it is passed over already makes no
        longer pause.

        `placed_by`: what was known when the pod was placed.
        """
        words = outcome.message or outcome.verdict
        if outcome.scope == OF_CLUSTER and outcome.requests:
            grown = self._grown(pod_id, pod, in_flight.cluster, outcome.requests, placed_by, now)
            self.note_size(pod_id, pod, in_flight.cluster, outcome.requests, now)
            if grown <= _MOST_GROWTHS:
                # a size that was known already: its node was full, and it is tried again after a
                # back-off
                return
            words = f"{words}; it was larger than the time before {grown} times in a row"
        scope = outcome.scope or _UNSAID.get(in_flight.kind, OF_NODE)
        if scope not in (OF_CLUSTER, OF_POD):
            return
        # That the pod can run nowhere else only its own cluster says: one that was to take it
        # speaks for itself.
        at_home = in_flight.kind is not IntentKind.CREATE
        cluster = ALL_OTHERS if scope == OF_POD and at_home else in_flight.cluster
        self._pass_over(pod_id, pod, cluster, words, now, passing=outcome.passing)

    def note_untaken(
        self, pod_id: PodId, pod: Pod, cluster: str, outcome: Outcome, now: float
    ) -> None:
        """A cluster has evicted nobody for the pod, since it would refuse it."""
        self._pass_over(pod_id, pod, cluster, outcome.message, now, passing=outcome.passing)

    def _pass_over(
        self, pod_id: PodId, pod: Pod, cluster: str, words: str, now: float, *, passing: bool
    ) -> None:
        template = _template(pod_id, pod)
        key = (cluster, _PASSED_OVER)
        known = self._kept.setdefault(template, {}).get(key)
        if known is not None and now < known.refusal.until:
            return
        rounds = known.rounds + 1 if known is not None and known.passing == passing else 1
        pause = (self._passing_pause if passing else self._pause).after(rounds)
        refusal = ClusterRefusal(cluster, words, now, now + pause, passing=passing)
        self._keep(template, key, _Entry(refusal, pod.namespace, rounds, passing))

    def note_unstarted(self, pod_id: PodId, pod: Pod, cluster: str, words: str, now: float) -> None:
        """A pod has not started in a cluster, whose agent has refused nothing."""
        template = _template(pod_id, pod)
        key = (cluster, _PASSED_OVER)
        known = self._kept.get(template, {}).get(key)
        if known is not None and now < known.refusal.until:
            return
        rounds = known.rounds + 1 if known is not None else 1
        refusal = ClusterRefusal(cluster, words, now, now + self._unstarted_pause.after(rounds))
        self._keep(template, key, _Entry(refusal, pod.namespace, rounds))

    def note_unconfirmed(
        self, pod_id: PodId, pod: Pod, cluster: str, words: str, now: float, again_s: float
    ) -> None:
        """The pod's own cluster does not confirm that it waits for a place there: for `again_s` it
        may go to that cluster, and nobody is evicted there for it.
        """
        template = _template(pod_id, pod)
        key = (cluster, _PASSED_OVER)
        known = self._kept.get(template, {}).get(key)
        if known is None or known.passing:
            refusal = ClusterRefusal(cluster, words, now, now + again_s - self._longest_s)
            self._keep(template, key, _Entry(refusal, pod.namespace))

    def note_size(
        self, pod_id: PodId, pod: Pod, cluster: str, requests: Mapping[str, int], now: float
    ) -> None:
        """The server of a cluster makes a pod request this, which is more than it asks for."""
        template = _template(pod_id, pod)
        key = (cluster, _SIZE)
        known = self._kept.get(template, {}).get(key)
        largest = dict(known.refusal.requests) if known is not None else {}
        for name, amount in requests.items():
            if amount > max(largest.get(name, 0), pod.requests.get(name, 0)):
                largest[name] = amount
        if not largest:
            return
        size = ClusterRefusal(
            cluster,
            "the server makes it larger",
            now,
            now + self._longest_s,
            tuple(sorted(largest.items())),
        )
        grown, pods = (known.rounds, known.pods) if known is not None else (0, set())
        self._keep(template, key, _Entry(size, pod.namespace, grown, pods=pods))

    def _grown(
        self,
        pod_id: PodId,
        pod: Pod,
        cluster: str,
        requests: Mapping[str, int],
        placed_by: Sequence[ClusterRefusal],
        now: float,
    ) -> int:
        """How often in a row a pod was made larger than the largest size known, by which it was
        placed.

        A pod that was placed by less, as replicas are that were sent at the same time, says nothing
        new of that.
        """
        known = self._kept.get(_template(pod_id, pod), {}).get((cluster, _SIZE))
        if known is None or now >= known.refusal.until or known.refusal not in placed_by:
            return 0
        largest = dict(known.refusal.requests)
        if any(
            amount > max(largest.get(name, 0), pod.requests.get(name, 0))
            for name, amount in requests.items()
        ):
            known.rounds += 1
            return known.rounds
        return 0

    def _keep(self, template: _Template, key: _Key, kept: _Entry) -> None:
        self._kept.setdefault(template, {})[key] = kept
        heapq.heappush(self._ends, (kept.refusal.until, template, key))
        beside = self._of.setdefault((template[0], kept.namespace), {})
        beside.pop(template, None)
        beside[template] = None
        if len(beside) > MOST_TEMPLATES:
            oldest = next(iter(beside))
            for forgotten in list(self._kept[oldest]):
                self._freed |= self._kept[oldest][forgotten].pods
                self._forget(oldest, forgotten)

    def about(self, pod_id: PodId, pod: Pod, now: float) -> tuple[ClusterRefusal, ...]:
        """The refusals that hold for a pod now, by cluster; it is told by `ended` when one of them
        ends.
        """
        if not self._kept:
            return ()
        for kept in (*self._holding(pod_id, pod, now), *self._over(pod_id, pod, now)):
            kept.pods.add(pod_id)
        return self.seen(pod_id, pod, now)

    def seen(self, pod_id: PodId, pod: Pod, now: float) -> tuple[ClusterRefusal, ...]:
        """The same for somebody who only looks."""
        over = [replace(kept.refusal, over=True) for kept in self._over(pod_id, pod, now)]
        return (*self.known(pod_id, pod, now), *over)

    def remembered(self, pod_id: PodId, pod: Pod, now: float) -> tuple[ClusterRefusal, ...]:
        """All that is kept of a pod, as if no time had passed, for somebody who only looks."""
        kept = (*self._holding(pod_id, pod, now), *self._over(pod_id, pod, now))
        return tuple([one.refusal for one in kept])

    def _over(self, pod_id: PodId, pod: Pod, now: float) -> Iterator[_Entry]:
        """Refusals whose time has passed: the cluster is asked once more, but not at the cost of a
        running pod.
        """
        for (_, what), kept in sorted(self._kept.get(_template(pod_id, pod), {}).items()):
            if what == _PASSED_OVER and not kept.passing and now >= kept.refusal.until:
                yield kept

    def known(self, pod_id: PodId, pod: Pod, now: float) -> list[ClusterRefusal]:
        """Of these the ones whose time has not passed."""
        return [kept.refusal for kept in self._holding(pod_id, pod, now)]

    def _holding(self, pod_id: PodId, pod: Pod, now: float) -> Iterator[_Entry]:
        kept = self._kept.get(_template(pod_id, pod), {})
        return (kept[key] for key in sorted(kept) if now < kept[key].refusal.until)

    def ended(self, now: float) -> list[PodId]:
        """Pods for which a refusal has ended since the last call."""
        pods = self._freed
        self._freed = set()
        while self._ends and self._ends[0][0] <= now:
            _, template, key = heapq.heappop(self._ends)
            kept = self._kept.get(template, {}).get(key)
            if kept is None or kept.refusal.until > now:
                continue  # forgotten meanwhile, or refused anew
            pods |= kept.pods
            kept.pods = set()
            last = kept.refusal.until + self._longest_s
            if last > now and not kept.refusal.requests:
                heapq.heappush(self._ends, (last, template, key))
            else:
                self._forget(template, key)
        return sorted(pods)

    def namespace_changed(self, cluster: str, namespace: str) -> list[PodId]:
        """Forget what a cluster has refused of pods of a namespace that changed there; the pods it
        held for.
        """
        pods: set[PodId] = set()
        for template, kept in list(self._kept.items()):
            for key in [(cluster, _PASSED_OVER), (cluster, _SIZE)]:
                found = kept.get(key)
                if found is not None and found.namespace == namespace:
                    pods |= found.pods
                    self._forget(template, key)
        return sorted(pods)

    def _forget(self, template: _Template, key: _Key) -> None:
        lane = template[0], self._kept[template].pop(key).namespace
        if not self._kept[template]:
            del self._kept[template], self._of[lane][template]
            if not self._of[lane]:
                del self._of[lane]


def _template(pod_id: PodId, pod: Pod) -> _Template:
    # Anybody may name any controller as the owner of his pods: it tells of pods of its own
    # namespace alone.
    return (
        (pod_id[0], pod.namespace, pod.owner[:_MOST_OWNER], pod.labels.get(_REVISION, ""))
        if pod.owner
        else pod_id
    )
