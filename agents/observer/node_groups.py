"""The node groups that autoscalers of this cluster have: what a report tells of them."""

from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

import msgspec

from agents.observer.changes import ChangeLog
from agents.observer.seen import AutoscalerSeen, NodeGroupSeen, Seen
from shared.model.node_group import MAX_GROUPS, NodeGroup, NodeGroups

NODE_GROUPS: Final = "node groups"  # what the log of changes calls them, all together
_ALL = ""
MOST_SEEN: Final = 10_000  # objects of a kind


class _Growth(NamedTuple):
    """Nodes that a group is to have, and since when."""

    target: int
    since: float


class NodeGroupWatch:
    """The sink of the watches of groups, and of the status of their autoscaler. `clock` in seconds,
    of this machine; `only_these`: nothing else makes nodes, by the word of the operator.
    """

    def __init__(
        self,
        log: ChangeLog,
        kinds: Iterable[str],
        clock: Callable[[], float],
        *,
        only_these: bool = False,
    ) -> None:
        self._log = log
        self._clock = clock
        self._only_these = only_these
        self._seen: dict[str, dict[str, NodeGroup | None]] = {kind: {} for kind in kinds}
        self._listed: dict[str, set[str]] = {}
        self._unknown = set(self._seen)  # kinds that were not listed yet, or are not shown
        self._backing_off: frozenset[str] = frozenset()
        self._growing: dict[str, _Growth] = {}
        self._seconds: dict[str, float] = {}
        # of a kind that is not shown: whether that is as the server has none
        self.is_unserved: Callable[[str], bool] = lambda kind: False
        self._told = NodeGroups()

    def told(self) -> NodeGroups:
        """All groups by name; where these are more than can be told, some of them, and not as
        all.
        """
        found = [one for seen in self._seen.values() for one in seen.values() if one is not None]
        told = tuple(map(self._now, sorted(found, key=lambda one: one.name)[:MAX_GROUPS]))
        hidden = [kind for kind in self._unknown if not self.is_unserved(kind)]
        return NodeGroups(told, self._only_these and not hidden and len(told) == len(found))

    def _now(self, group: NodeGroup) -> NodeGroup:
        return msgspec.structs.replace(
            group,
            seconds=self._seconds.get(group.name, 0.0),
            backs_off=group.backs_off or group.name in self._backing_off,
        )

    def _changed(self) -> None:
        told = self.told()
        if told != self._told:
            self._told = told
            self._log.touch(NODE_GROUPS, _ALL)

    # --- as a sink
    # ----------------------------------------------------------------------------------------------

    def begin(self, kind: str, *, forget_versions: bool = False) -> None:
        """A list starts."""
        self._listed[kind] = set()

    def page(self, kind: str, items: tuple[Seen, ...]) -> tuple[int, int] | None:
        """Part of the list."""
        for seen in items:
            self._listed[kind].add(seen.key)
            self._put(seen)
        return None

    def end(self, kind: str) -> None:
        """The list is complete: what was not in it is gone."""
        listed = self._listed.pop(kind, set())
        for key in self._seen.get(kind, {}).keys() - listed:
            self._drop(kind, key)
        if kind not in self._seen and not listed:
            self._backing_off = frozenset()
        self._unknown.discard(kind)
        self._changed()

    def absent(self, kind: str) -> None:
        """The server does not show this kind: nothing is known of it."""
        for key in tuple(self._seen.get(kind, ())):
            self._drop(kind, key)
        if kind in self._seen:
            self._unknown.add(kind)
        else:
            self._backing_off = frozenset()
        self._changed()

    def apply(self, seen: Seen) -> None:
        """One of them as it is now."""
        if self._put(seen):
            self._changed()

    def forget(self, kind: str, key: str) -> None:
        """One of them was deleted."""
        self._drop(kind, key)
        if kind not in self._seen:
            self._backing_off = frozenset()
        self._changed()

    def count(self, kind: str) -> int:
        """Objects that the server has shown."""
        return len(self._seen.get(kind, ()))

    def _put(self, seen: Seen) -> bool:
        """Whether something else may be told then: most objects of a management cluster are no
        groups of this one.
        """
        if isinstance(seen, AutoscalerSeen):
            self._backing_off = seen.backing_off
        elif isinstance(seen, NodeGroupSeen):
            kept = self._seen[seen.kind]
            if seen.key not in kept and len(kept) >= MOST_SEEN:
                self._only_these = False  # one that is left out may be a group
                return True
            before = kept.get(seen.key)
            kept[seen.key] = seen.group
            if seen.group is None:
                return before is not None
            self._time(before, seen.group, seen.ready)
        return True

    def _drop(self, kind: str, key: str) -> None:
        self._seen.get(kind, {}).pop(key, None)
        self._growing.pop(key, None)
        self._seconds.pop(key, None)

    def _time(self, before: NodeGroup | None, after: NodeGroup, ready: int) -> None:
        """How long it takes from when a group is to have more nodes until it has them."""
        name = after.name
        if before is not None and after.size > before.size and name not in self._growing:
            self._growing[name] = _Growth(after.size, self._clock())
        growing = self._growing.get(name)
        if growing is None:
            return
        if after.size < growing.target:  # given up
            del self._growing[name]
        elif ready >= growing.target:
            del self._growing[name]
            self._seconds[name] = float(round(self._clock() - growing.since))
