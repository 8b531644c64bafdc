"""The way of a sampled pod as spans, from what the service sees anyway: decisions, orders, answers, reports.

Sampled by the pod's UID, so every dispatcher, and every attempt, samples the same pods. A way is told once it is over:
the pod is shown bound in its own cluster, or nothing has been heard of it for too long.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from zlib import crc32

from dispatcher.scheduling.events import Answered, ClusterChanged, Event, Unanswered, Unsent
from dispatcher.scheduling.records.decision import Decision
from shared.messages import AnyIntent

MOST_WAYS = 4096  # at once; the oldest is told unfinished for a newer one
MOST_SPANS = 64  # of one way: of a pod that is tried again for ever, the first
ABANDONED_S = 3600.0

Attributes = Mapping[str, str | int]


@dataclass(frozen=True)
class Span:
    """A part of a way: seconds of Unix time from `start` to `end`."""

    name: str
    start: float
    end: float
    attributes: Attributes = field(default_factory=dict)


@dataclass
class Way:
    """What is known of one pod's way so far. `begun`: intent -> its kind, its cluster, and when it was handed over."""

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
    """A way that is over: the whole and its parts."""

    whole: Span
    parts: tuple[Span, ...]


class Ways:
    """Ways of a `share` 0..1 of all pods; each goes to `tell` when it is over."""

    def __init__(self, share: float, tell: Callable[[Trace], None]) -> None:
        self._below = int(share * 2**32)
        self._tell = tell
        self._ways: OrderedDict[str, Way] = OrderedDict()  # UID -> way, the one heard of for longest first
        self._pod_of: dict[str, str] = {}  # intent -> UID

    def decided(self, decision: Decision, now: float) -> None:
        """A pod has a place: it waited until its decision began, and was decided until now."""
        uid = decision.pod_id[1]
        if crc32(uid.encode()) >= self._below:
            return
        pod = decision.placed.pod
        way = self._ways.get(uid)
        if way is None:
            begun_at = pod.created if 0 < pod.created <= decision.time else decision.time
            name = f"{pod.namespace}/{pod.name}"
            way = self._ways[uid] = Way(decision.placed.home, name, begun_at, decision.context.profile)
            self._bound(now)
        way.attempts += 1
        way.cluster = decision.cluster
        way.node = decision.node
        queued_at = way.spans[-1].end if way.spans else way.begun_at
        way.add(Span("queue", min(queued_at, decision.time), decision.time))
        attributes: Attributes = {"cluster": way.cluster, "node": way.node}
        way.add(Span("decide", decision.time, max(now, decision.time), attributes))
        self._touch(uid, way, now)

    def sent(self, cluster: str, intents: Iterable[AnyIntent], now: float) -> None:
        """Intents are handed over to be sent to a cluster."""
        if not self._ways:
            return
        for intent in intents:
            if (way := self._ways.get(intent.pod.uid)) is not None:
                way.begun[intent.id] = (type(intent).__name__, cluster, now)
                self._pod_of[intent.id] = intent.pod.uid
                self._touch(intent.pod.uid, way, now)

    def event(self, event: Event, now: float) -> None:
        """Something was heard of a cluster."""
        if not self._ways:
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
                if pod.node and (way := self._ways.get(pod.uid)) is not None and way.home == event.changes.cluster:
                    self._shown(pod.uid, way, now)

    def _answered(self, intent_id: str, verdict: str, now: float) -> None:
        uid = self._pod_of.pop(intent_id, None)
        if uid is None:
            return
        way = self._ways[uid]
        kind, cluster, begun_at = way.begun.pop(intent_id)
        attributes: Attributes = {"intent": kind, "cluster": cluster, "verdict": verdict[:16]}
        way.add(Span("intent", begun_at, now, attributes))
        self._touch(uid, way, now)

    def _shown(self, uid: str, way: Way, now: float) -> None:
        way.spans.append(Span("bound shown", max(span.end for span in way.spans), now))
        self._over(uid, now, "shown")

    def _touch(self, uid: str, way: Way, now: float) -> None:
        way.since = now
        self._ways.move_to_end(uid)

    def _bound(self, now: float) -> None:
        """Ways that nothing comes of do not pile up."""
        while self._ways:
            uid, oldest = next(iter(self._ways.items()))
            if len(self._ways) <= MOST_WAYS and (not oldest.since or now - oldest.since <= ABANDONED_S):
                return
            self._over(uid, oldest.since, "abandoned")

    def _over(self, uid: str, now: float, result: str) -> None:
        way = self._ways.pop(uid)
        for intent_id in way.begun:
            self._pod_of.pop(intent_id, None)
        attributes: Attributes = {
            "pod": way.name,
            "uid": uid,
            "home": way.home,
            "cluster": way.cluster,
            "node": way.node,
            "profile": way.profile,
            "attempts": way.attempts,
            "result": result,
        }
        self._tell(Trace(Span("pod", way.begun_at, max(now, way.begun_at), attributes), tuple(way.spans)))
