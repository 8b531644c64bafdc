"""Between watch and cache: says once what could not be read of an object, and fills in a node's default bandwidth."""

from dataclasses import replace

import structlog

from agents.observer.cache import ClusterCache
from agents.observer.seen import NodeSeen, ObjectSeen, Seen
from agents.runtime.readings import with_bandwidth

LOG = structlog.get_logger("agent.intake")
MAX_TOLD = 10_000


class Intake:
    """The sink of the watches."""

    def __init__(self, cache: ClusterCache, bandwidth: int) -> None:
        self._cache = cache
        self._bandwidth = bandwidth
        self._told: set[tuple[str, tuple[str, ...]]] = set()

    def begin(self, kind: str, *, forget_versions: bool = False) -> None:
        """A list starts."""
        self._cache.begin(kind, forget_versions=forget_versions)

    def page(self, kind: str, items: tuple[Seen, ...]) -> None:
        """Part of the list."""
        self._cache.page(kind, [self._ready(seen) for seen in items])

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

    def _ready(self, seen: Seen) -> Seen:
        if isinstance(seen, ObjectSeen):
            self._tell(seen.kind, seen)
        if not isinstance(seen, NodeSeen):
            return seen
        self._tell("Node", seen)
        if seen.target is None:
            return seen
        return replace(seen, target=with_bandwidth(seen.target, self._bandwidth))

    def _tell(self, kind: str, seen: NodeSeen | ObjectSeen) -> None:
        what = (f"{kind} {seen.key}", seen.problems)
        if seen.problems and what not in self._told and len(self._told) < MAX_TOLD:
            self._told.add(what)
            LOG.warning("object not fully readable", object=what[0], problems=seen.problems)
