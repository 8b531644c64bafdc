"""Objects beside nodes and pods, by cluster and kind, and how often each kind has changed.

An object may be *assumed*: as if its cluster had already changed it in one field, for the pods that
need it so. What the cluster reports meanwhile shows through in all other fields.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from types import MappingProxyType
from typing import Any, TypeVar, cast

import msgspec

from dispatcher.scheduling.framework.fleet_view import Watched

K = TypeVar("K")
T = TypeVar("T")
_NONE: Mapping[str, Any] = MappingProxyType({})
# Fields by whose values objects of a kind are counted.
_COUNTED: Mapping[str, Callable[[Any], Any]] = {
    "PersistentVolume": attrgetter("driver", "handle"),
    "PersistentVolumeClaim": attrgetter("volume"),
}


def version_of(kind: str, fields: tuple[str, ...]) -> str:
    """The name under which `versions` counts changes of these fields; of all without any."""
    return f"{kind}.{','.join(fields)}" if fields else kind


@dataclass(slots=True)
class _Part:
    """The objects of a kind in one namespace of a cluster; what `versions` said at the last change
    of any of them, by name; and what was derived from them, as of that.
    """

    objects: dict[str, Any] = field(default_factory=dict)
    changed: dict[str, int] = field(default_factory=dict)
    derived: dict[Callable[..., Any], tuple[tuple[int, ...], Any]] = field(default_factory=dict)


_NO_PART = _Part()


@dataclass
class _Assumed:
    fields: dict[str, Any]
    holders: set[Hashable] = field(default_factory=set)


class ClusterObjects:
    """(cluster, kind) -> key -> record. `versions` moves with every change of a kind, wherever it
    happens, and of the fields of it that somebody watches.
    """

    def __init__(self) -> None:
        self._kept: dict[tuple[str, str], dict[str, Any]] = {}
        self._assumed: dict[tuple[str, str, str], _Assumed] = {}
        self._reported: dict[
            tuple[str, str, str], Any
        ] = {}  # of what is assumed: as its cluster reports it
        self.versions = defaultdict[str, int](int)  # a Counter calls Python for what is not there
        self._watched: dict[
            str, dict[str, Callable[[Any], Any]]
        ] = {}  # kind -> name in `versions` -> what is watched
        self._alike: Counter[tuple[str, str, Any]] = Counter()
        self._parts: dict[
            str, dict[tuple[str, str], _Part]
        ] = {}  # kind, from when it is asked for so -> place -> part
        self._derived: dict[tuple[str, Callable[..., Any]], tuple[tuple[int, ...], Any]] = {}

    def of(self, cluster: str, kind: type[K], *fields: str) -> Mapping[str, K]:
        """key -> object, read-only; all of it, whatever `fields` are to be read."""
        return cast(
            Mapping[str, K], MappingProxyType(self._kept.get((cluster, kind.__name__), _NONE))
        )

    def in_namespace(self, cluster: str, kind: type[K], namespace: str) -> Mapping[str, K]:
        """key -> object of a namespaced kind, read-only, without a look at those in others."""
        return cast(Mapping[str, K], MappingProxyType(self._part(cluster, kind, namespace).objects))

    def _part(self, cluster: str, kind: type[Any], namespace: str) -> _Part:
        parts = self._parts.get(kind.__name__)
        if parts is None:
            parts = self._parts[kind.__name__] = {}
            for owner, found in self.every(kind):
                parts.setdefault((owner, cast(Any, found).namespace), _Part()).objects[
                    cast(Any, found).key
                ] = found
        return parts.get((cluster, namespace), _NO_PART)

    def watch(self, kind: str, fields: tuple[str, ...]) -> str:
        """The name in `versions` that from now on moves only when an object of the kind comes, goes
        or changes in one of these fields.
        """
        name = version_of(kind, fields)
        if fields:
            self._watched.setdefault(kind, {}).setdefault(name, attrgetter(*fields))
        return name

    def named(self, cluster: str, kind: type[K], key: str) -> K | None:
        """One object, None if it is not known."""
        found: K | None = self.get(cluster, kind.__name__, key)
        return found

    def alike(self, cluster: str, kind: type[Any], values: object) -> int:
        """How many volumes have this (driver, handle), or how many claims name this volume."""
        return self._alike[cluster, kind.__name__, values]

    def name_of(self, watched: Watched) -> str:
        """The name in `versions` of a kind, or of some fields of it."""
        return (
            self.watch(watched[0].__name__, watched[1:])
            if isinstance(watched, tuple)
            else watched.__name__
        )

    def derived(
        self, cluster: str, make: Callable[..., T], *kinds: Watched, namespace: str = ""
    ) -> T:
        """What `make` says of the mappings of these kinds (of what is in a namespace, if one is
        named); kept until one of them changes.
        """
        names = [self.name_of(kind) for kind in kinds]
        found = [kind[0] if isinstance(kind, tuple) else kind for kind in kinds]
        if namespace:
            return self._derived_in(
                [self._part(cluster, kind, namespace) for kind in found], make, names
            )
        now = tuple([self.versions[name] for name in names])
        known = self._derived.get((cluster, make))
        if known is None or known[0] != now:
            known = self._derived[cluster, make] = (
                now,
                make(*(self.of(cluster, kind) for kind in found)),
            )
        return cast(T, known[1])

    def _derived_in(
        self, parts: Sequence[_Part], make: Callable[..., T], names: Sequence[str]
    ) -> T:
        now = tuple([part.changed.get(name, 0) for part, name in zip(parts, names, strict=True)])
        known = parts[0].derived.get(make)
        if known is None or known[0] != now:
            known = now, make(*(MappingProxyType(part.objects) for part in parts))
            if parts[0] is not _NO_PART:
                parts[0].derived[make] = known
        return cast(T, known[1])

    def every(self, kind: type[K]) -> Iterator[tuple[str, K]]:
        """(cluster, object) of a kind in all clusters."""
        for (cluster, name), kept in self._kept.items():
            if name == kind.__name__:
                yield from ((cluster, found) for found in kept.values())

    def keys_of(self, cluster: str) -> Iterator[tuple[str, str]]:
        """(kind, key) of everything kept of a cluster."""
        for (owner, kind), kept in self._kept.items():
            if owner == cluster:
                for key in kept:
                    yield kind, key

    def get(self, cluster: str, kind: str, key: str) -> Any:
        """One record, None if it is not known."""
        return self._kept.get((cluster, kind), _NONE).get(key)

    def put(self, cluster: str, found: Any) -> bool:
        """Insert or update as the cluster reports it; False if nothing has changed."""
        assumed = self._assumed.get((cluster, type(found).__name__, found.key))
        if assumed is not None:
            self._reported[cluster, type(found).__name__, found.key] = found
            found = msgspec.structs.replace(found, **assumed.fields)
        return self._show(cluster, found)

    def _show(self, cluster: str, found: Any) -> bool:
        kind = type(found).__name__
        kept = self._kept.setdefault((cluster, kind), {})
        before = kept.get(found.key)
        if before == found:
            return False
        kept[found.key] = found
        self._moved(cluster, kind, before, found)
        return True

    def _moved(self, cluster: str, kind: str, before: Any, after: Any) -> None:
        """An object came (`before` None), changed or went (`after` None)."""
        moved = [kind]
        whole = before is None or after is None
        moved += [
            name
            for name, look in self._watched.get(kind, {}).items()
            if whole or look(before) != look(after)
        ]
        for name in moved:
            self.versions[name] += 1
        if kind in self._parts:
            self._move_part(
                self._parts[kind], (cluster, (after or before).namespace), moved, before, after
            )
        counted = _COUNTED.get(kind)
        if counted is not None:
            if after is not None:
                self._alike[cluster, kind, counted(after)] += 1
            if before is not None:
                values = cluster, kind, counted(before)
                self._alike[values] -= 1
                if not self._alike[values]:
                    del self._alike[values]

    def _move_part(
        self,
        parts: dict[tuple[str, str], _Part],
        place: tuple[str, str],
        moved: Sequence[str],
        before: Any,
        after: Any,
    ) -> None:
        part = parts.setdefault(place, _Part())
        if after is None:
            part.objects.pop(before.key, None)
        else:
            part.objects[after.key] = after
        for name in moved:
            part.changed[name] = self.versions[name]
        if not part.objects:
            del parts[place]

    def remove(self, cluster: str, kind: str, key: str) -> bool:
        """Forget one; False if it was not known."""
        before = self._kept.get((cluster, kind), {}).pop(key, None)
        if before is None:
            return False
        self._assumed.pop((cluster, kind, key), None)
        self._reported.pop((cluster, kind, key), None)
        self._moved(cluster, kind, before, None)
        return True

    # --- assumed
    # ----------------------------------------------------------------------------------------------

    def reported(self, cluster: str, found: K) -> K | None:
        """The object of `found`'s kind and key as its cluster reports it, None if it is gone."""
        where = (cluster, type(found).__name__, cast(Any, found).key)
        known: K | None = self._reported.get(where) or self.get(*where)
        return known

    def assume(self, cluster: str, found: Any, fields: Mapping[str, Any], holder: Hashable) -> None:
        """Show a known object with other values in `fields`, as long as any holder wants it so."""
        where = (cluster, type(found).__name__, found.key)
        known = self.get(*where)
        if known is None:
            return
        assumed = self._assumed.setdefault(where, _Assumed(dict(fields)))
        assumed.fields.update(fields)
        assumed.holders.add(holder)
        self._reported.setdefault(where, known)
        self._show(cluster, msgspec.structs.replace(known, **assumed.fields))

    def release(self, cluster: str, found: Any, holder: Hashable) -> bool:
        """The holder does not want it any more; without holders the object shows as its cluster
        reports it. False if it was no holder.
        """
        where = (cluster, type(found).__name__, found.key)
        assumed = self._assumed.get(where)
        if assumed is None or holder not in assumed.holders:
            return False
        assumed.holders.discard(holder)
        if not assumed.holders:
            del self._assumed[where]
            self._show(cluster, self._reported.pop(where))
        return True
