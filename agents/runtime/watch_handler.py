"""Between watch and cache: believes no mark that this cluster has not signed, says once what could
not be read of an object, fills in a node's default bandwidth, and gives delegates the events about
them.
"""

from collections import deque
from dataclasses import replace

import msgspec
import structlog

from agents.executor.bounds.recent import Recent
from agents.observer.cache import ClusterCache
from agents.observer.delegate_events import DelegateEvents
from agents.observer.mark_verifier import MarkVerifier
from agents.observer.seen import NodeSeen, ObjectSeen, PodSeen, Seen
from agents.runtime.readings import with_bandwidth
from shared.messages import PodRef
from shared.model.pod import Pod

LOG = structlog.get_logger("agent.watch_handler")
MAX_LOGGED = 10_000
MAX_FORGED = 1000  # waiting to be reported


class WatchHandler:
    """The sink of the watches."""

    def __init__(self, cache: ClusterCache, bandwidth: int, authenticity: MarkVerifier) -> None:
        self._cache = cache
        self._bandwidth = bandwidth
        self._authenticity = authenticity
        self.events = DelegateEvents(cache.pod, self._show_again)
        self._forged: deque[tuple[PodRef, str]] = deque(maxlen=MAX_FORGED)
        self._warned: Recent[tuple[str, str], bool] = Recent(MAX_LOGGED)
        self._logged: set[tuple[str, tuple[str, ...]]] = set()

    def begin(self, kind: str, *, forget_versions: bool = False) -> None:
        """A list starts."""
        self._cache.begin(kind, forget_versions=forget_versions)

    def page(self, kind: str, items: tuple[Seen, ...]) -> tuple[int, int] | None:
        """Part of the list; as in ClusterCache."""
        return self._cache.page(kind, [self._ready(seen) for seen in items])

    def end(self, kind: str) -> None:
        """The list is complete."""
        self._cache.end(kind)

    def absent(self, kind: str) -> None:
        """The server does not show this kind."""
        self._cache.absent(kind)

    def apply(self, seen: Seen) -> None:
        """An object changed."""
        self._cache.apply(self._ready(seen))

    def forget(self, kind: str, key: str) -> None:
        """An object is gone."""
        self._cache.forget(kind, key)

    def take_forged(self) -> list[tuple[PodRef, str]]:
        """Pods found since the last call with marks of ours that do not verify, each once, and what
        to tell.
        """
        taken = list(self._forged)
        self._forged.clear()
        return taken

    def count(self, kind: str) -> int:
        """Objects that the server has shown."""
        return self._cache.count(kind)

    def _ready(self, seen: Seen) -> Seen:
        if isinstance(seen, PodSeen):
            return self._verified(seen)
        if isinstance(seen, ObjectSeen):
            self._log_problems(seen.kind, seen)
        if not isinstance(seen, NodeSeen):
            return seen
        self._log_problems("Node", seen)
        if seen.target is None:
            return seen
        return replace(seen, target=with_bandwidth(seen.target, self._bandwidth))

    def _verified(self, seen: PodSeen) -> PodSeen:
        verified, text = self._authenticity.verify(seen)
        if text and seen.pod is not None and not self._warned.get((seen.uid, text)):
            self._warned.put((seen.uid, text), True)
            self._forged.append((PodRef(seen.pod.namespace, seen.pod.name, seen.uid), text))
        if verified.pod is None:
            return verified
        shown = self.events.with_own_events(verified.pod)
        return verified if shown is verified.pod else msgspec.structs.replace(verified, pod=shown)

    def _show_again(self, pod: Pod) -> None:
        self._cache.apply(PodSeen(pod.uid, int(self._cache.pod_version(pod.uid) or 0), pod))

    def _log_problems(self, kind: str, seen: NodeSeen | ObjectSeen) -> None:
        what = (f"{kind} {seen.key}", seen.problems)
        if seen.problems and what not in self._logged and len(self._logged) < MAX_LOGGED:
            self._logged.add(what)
            LOG.warning("object not fully readable", object=what[0], problems=seen.problems)
