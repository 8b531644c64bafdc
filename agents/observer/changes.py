"""Numbered changes: every change gets the next revision, and a follower asks for what changed after
the one it has.

Only the latest change of a key is kept, so the history is never longer than the cache plus
tombstones. Tombstones are bounded: a follower that is older than the oldest forgotten tombstone
gets everything anew.
"""

from collections.abc import Callable, Iterator

Key = tuple[str, str]  # kind ("nodes", "pods", "readings") and the key within it


class ChangeLog:
    """Which keys changed at which revision. Revision 0 is before everything; the first change is 1.

    `on_change` is called after every change, to wake who waits for one. `urgent` is the latest
    revision that somebody waits for: a pod to be placed; `unexpected` the latest that does not
    merely confirm what the follower has ordered.
    """

    def __init__(
        self, *, max_graves: int = 20_000, on_change: Callable[[], None] = lambda: None
    ) -> None:
        self.revision = self.urgent = self.unexpected = 0
        self._on_change = on_change
        self._alive: dict[Key, int] = {}  # insertion order is revision order
        self._gone: dict[Key, int] = {}
        self._missing: set[Key] = set()  # of the gone ones
        self._max_graves = max_graves
        self._forgotten = 0  # the highest revision of a tombstone that is no longer kept

    def touch(self, kind: str, key: str, *, urgent: bool = False, confirms: bool = False) -> None:
        """`key` is new or different; `confirms`: as was ordered, and in nothing else."""
        self._gone.pop((kind, key), None)
        self._missing.discard((kind, key))
        if urgent:
            self.urgent = self.revision + 1
        self._stamp(self._alive, (kind, key), expected=confirms)

    def drop(self, kind: str, key: str, *, missing: bool = False) -> None:
        """`key` is gone; `missing`: nobody has seen it go."""
        self._alive.pop((kind, key), None)
        (self._missing.add if missing else self._missing.discard)((kind, key))
        self._stamp(self._gone, (kind, key))
        while len(self._gone) > self._max_graves:
            oldest = next(iter(self._gone))
            self._forgotten = self._gone.pop(oldest)
            self._missing.discard(oldest)

    def forget(self, kind: str, key: str) -> None:
        """`key` is no more, and nobody needs to know."""
        self._alive.pop((kind, key), None)

    def bump(self) -> None:
        """Something without a key changed (health): wake the followers."""
        self.revision += 1
        self.unexpected = self.revision
        self._on_change()

    def knows(self, since: int) -> bool:
        """Whether all changes after `since` are still known; else only a full snapshot is right."""
        return self._forgotten <= since <= self.revision and since > 0

    def changed(self, since: int) -> Iterator[Key]:
        """Keys that exist and changed after `since`, latest first."""
        return _after(self._alive, since)

    def gone(self, since: int) -> Iterator[Key]:
        """Keys that went away after `since`, latest first."""
        return _after(self._gone, since)

    def missing(self, kind: str, key: str) -> bool:
        """Whether `key` is gone and nobody has seen it go."""
        return (kind, key) in self._missing

    def _stamp(self, where: dict[Key, int], key: Key, *, expected: bool = False) -> None:
        self.revision += 1
        if not expected:
            self.unexpected = self.revision
        where.pop(key, None)
        where[key] = self.revision
        self._on_change()


def _after(where: dict[Key, int], since: int) -> Iterator[Key]:
    for key, revision in reversed(where.items()):
        if revision <= since:
            return
        yield key
