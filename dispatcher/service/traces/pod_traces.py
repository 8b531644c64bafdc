"""The trace of a sampled pod as spans, from what the service sees anyway: decisions, orders,
answers, reports.

Sampled by the pod's UID, so every dispatcher, and every attempt, samples the same pods. A trace is
told once it ends: the pod is shown bound in its own cluster, or nothing has been heard of it for
too long.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from zlib import crc32

from dispatcher.scheduling.events import Answered, ClusterChanged, Event, Unanswered, Unsent
from dispatcher.scheduling.records.decision import Decision
from shared.messages import AnyIntent

MOST_TRACES = 4096  # at once; the oldest is told unfinished for a newer one
MOST_SPANS = 64  # of one trace: of a pod that is tried again for ever, the first
ABANDONED_S = 3600.0

Attributes = Mapping[str, str | int]


@dataclass(frozen=True)
class Span:
    """A part of a trace: seconds of Unix time from `start` to `end`."""

    name: str
    start: float
    end: float
    attributes: Attributes = field(default_factory=dict)


@dataclass
class PodTrace:
    """What is known of one trace so far. `begun`: intent -> its kind, its cluster, and when it was
    handed over.
    """

    home: str
    name: str
    begun_at: float
    profile: str
    cluster: str = ""
    node: str = ""
    attempts: int = 0
    since: float = 0.0  # the last that was heard of it
    spans: list[Span] = field(default_factory=list)
    begun: dict[str, tuple[str, str, float]] = field(default_factory=dict)

    def add(self, span: Span) -> None:
        """One part more."""
        if len(self.spans) < MOST_SPANS:
            self.spans.append(span)


@dataclass(frozen=True)
class Trace:
    """A trace that is over: the whole and its parts."""

    whole: Span
    parts: tuple[Span, ...]


class PodTraces:
    """PodTraces of a `share` 0..1 of all pods; each goes to `tell` when it is over."""

    def __init__(self, share: float, tell: Callable[[Trace], None]) -> None:
        self._below = int(share * 2**32)
        self._tell = tell
        # UID -> trace, the one heard of for longest first
        self._traces: OrderedDict[str, PodTrace] = OrderedDict()
        self._pod_of: dict[str, str] = {}  # intent -> UID

    def decided(self, decision: Decision, now: float) -> None:
        """A pod has a place: it waited until its decision began, and was decided until now."""
        uid = decision.pod_id[1]
        if crc32(uid.encode()) >= self._below:
            return
        pod = decision.pod_info.pod
        trace = self._traces.get(uid)
        if trace is None:
            begun_at = pod.created if 0 < pod.created <= decision.time else decision.time
            name = f"{pod.namespace}/{pod.name}"
            trace = self._traces[uid] = PodTrace(
                decision.pod_info.home, name, begun_at, decision.context.profile
            )
            self._bound(now)
        trace.attempts += 1
        trace.cluster = decision.cluster
        trace.node = decision.node
        queued_at = trace.spans[-1].end if trace.spans else trace.begun_at
        trace.add(Span("queue", min(queued_at, decision.time), decision.time))
        attributes: Attributes = {"cluster": trace.cluster, "node": trace.node}
        trace.add(Span("decide", decision.time, max(now, decision.time), attributes))
        self._touch(uid, trace, now)

    def sent(self, cluster: str, intents: Iterable[AnyIntent], now: float) -> None:
        """Intents are handed over to be sent to a cluster."""
        if not self._traces:
            return
        for intent in intents:
            if (trace := self._traces.get(intent.pod.uid)) is not None:
                trace.begun[intent.id] = (type(intent).__name__, cluster, now)
                self._pod_of[intent.id] = intent.pod.uid
                self._touch(intent.pod.uid, trace, now)

    def event(self, event: Event, now: float) -> None:
        """Something was heard of a cluster."""
        if not self._traces:
            return
        self._bound(now)
        if isinstance(event, Answered):
            for outcome in event.outcomes:
                self._answered(outcome.id, outcome.verdict, now)
        elif isinstance(event, Unanswered | Unsent):
            for intent_id in event.intent_ids:
                self._answered(intent_id, type(event).__name__.lower(), now)
        elif isinstance(event, ClusterChanged):
            for pod in event.changes.pods:
                if (
                    pod.node
                    and (trace := self._traces.get(pod.uid)) is not None
                    and trace.home == event.changes.cluster
                ):
                    self._shown(pod.uid, trace, now)

    def _answered(self, intent_id: str, verdict: str, now: float) -> None:
        uid = self._pod_of.pop(intent_id, None)
        if uid is None:
            return
        trace = self._traces[uid]
        kind, cluster, begun_at = trace.begun.pop(intent_id)
        attributes: Attributes = {"intent": kind, "cluster": cluster, "verdict": verdict[:16]}
        trace.add(Span("intent", begun_at, now, attributes))
        self._touch(uid, trace, now)

    def _shown(self, uid: str, trace: PodTrace, now: float) -> None:
        trace.spans.append(Span("bound shown", max(span.end for span in trace.spans), now))
        self._over(uid, now, "shown")

    def _touch(self, uid: str, trace: PodTrace, now: float) -> None:
        trace.since = now
        self._traces.move_to_end(uid)

    def _bound(self, now: float) -> None:
        """PodTraces that nothing comes of do not pile up."""
        while self._traces:
            uid, oldest = next(iter(self._traces.items()))
            if len(self._traces) <= MOST_TRACES and (
                not oldest.since or now - oldest.since <= ABANDONED_S
            ):
                return
            self._over(uid, oldest.since, "abandoned")

    def _over(self, uid: str, now: float, result: str) -> None:
        trace = self._traces.pop(uid)
        for intent_id in trace.begun:
            self._pod_of.pop(intent_id, None)
        attributes: Attributes = {
            "pod": trace.name,
            "uid": uid,
            "home": trace.home,
            "cluster": trace.cluster,
            "node": trace.node,
            "profile": trace.profile,
            "attempts": trace.attempts,
            "result": result,
        }
        self._tell(
            Trace(
                Span("pod", trace.begun_at, max(now, trace.begun_at), attributes),
                tuple(trace.spans),
            )
        )
