"""What an API server keeps: objects by path, one revision, and every write in order for watches and for judges."""

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import NamedTuple

import msgspec

from tests.simulation.world.objects import Object, Place, place_of

ADDED, MODIFIED, DELETED = "ADDED", "MODIFIED", "DELETED"
_ENCODE = msgspec.json.Encoder().encode
_DECODE = msgspec.json.Decoder().decode
_REVISION = itemgetter(0)


@dataclass(frozen=True, slots=True)
class Kept:
    """An object, never changed in place, and its JSON."""

    obj: Object
    raw: bytes
    revision: int


class Write(NamedTuple):
    """One write that took effect. `actor` is who asked; `verb` what was asked: create, patch, bind, delete, gone ..."""

    at: float
    cluster: str
    revision: int
    actor: str
    verb: str
    place: Place
    before: Object | None
    after: Object | None

    @property
    def event(self) -> str:
        """The watch event that it makes."""
        if self.after is None:
            return DELETED
        return ADDED if self.before is None else MODIFIED


def found(kept: Mapping[str, Kept], resource: str, namespace: str = "") -> list[Kept]:
    """All objects of a kind among these."""
    return [
        one
        for path, one in kept.items()
        if (place := place_of(path)).resource == resource and namespace in ("", place.namespace)
    ]


class Backup(NamedTuple):
    """What etcd held at some moment."""

    kept: dict[str, Kept]
    revision: int


class Store:
    """One etcd. `told` are called with each write, in order."""

    def __init__(self, cluster: str, clock: Callable[[], float]) -> None:
        self.cluster, self.revision, self.clock = cluster, 100, clock
        self._served = self.revision  # the highest revision before the last restore
        self.kept: dict[str, Kept] = {}
        # By resource: (revision, event, JSON) since `compacted`.
        self.history: dict[str, list[tuple[int, str, bytes]]] = {}
        self.compacted = self.revision
        self.told: list[Callable[[Write], None]] = []
        self._serial = 0
        self._lists: dict[tuple[str, str], list[Kept]] = {}  # of kinds that have not changed since they were asked for

    def new_uid(self, kind: str) -> str:
        """Never twice, restored or not."""
        self._serial += 1
        return f"{self.cluster}-{kind}-{self._serial}"

    def get(self, path: str) -> Object | None:
        """The object there: a copy that may be changed."""
        kept = self.kept.get(path)
        return _DECODE(kept.raw) if kept is not None else None

    def look(self, path: str) -> Object | None:
        """The object there, to be read only."""
        kept = self.kept.get(path)
        return kept.obj if kept is not None else None

    def all(self, resource: str, namespace: str = "") -> Sequence[Kept]:
        """All objects of a kind as they are now; not to be changed."""
        known = self._lists.get((resource, namespace))
        if known is None:
            known = self._lists[resource, namespace] = found(self.kept, resource, namespace)
        return known

    def put(self, path: str, obj: Object, actor: str, verb: str) -> Kept:
        """Store; an object that is as before is no write."""
        before = self.kept.get(path)
        if before is not None:
            obj["metadata"]["resourceVersion"] = str(before.revision)
            if obj == before.obj:
                return before
        self.revision += 1
        obj["metadata"]["resourceVersion"] = str(self.revision)
        raw = _ENCODE(obj)
        kept = self.kept[path] = Kept(_DECODE(raw), raw, self.revision)
        self._tell(path, actor, verb, before, kept)
        return kept

    def remove(self, path: str, actor: str) -> None:
        """It is gone; the last event shows it at the revision of its end."""
        before = self.kept.pop(path)
        self.revision += 1
        obj = _DECODE(before.raw)
        obj["metadata"]["resourceVersion"] = str(self.revision)
        self._tell(path, actor, "gone", before, None, _ENCODE(obj))

    def _tell(
        self, path: str, actor: str, verb: str, before: Kept | None, after: Kept | None, raw: bytes = b""
    ) -> None:
        write = Write(
            self.clock(),
            self.cluster,
            self.revision,
            actor,
            verb,
            place_of(path),
            before.obj if before else None,
            after.obj if after else None,
        )
        for key in [key for key in self._lists if key[0] == write.place.resource]:
            del self._lists[key]
        of_kind = self.history.setdefault(write.place.resource, [])
        of_kind.append((self.revision, write.event, after.raw if after else raw))
        for told in self.told:
            told(write)

    # --- the past ----------------------------------------------------------------------------------------------------

    def backup(self) -> Backup:
        """As etcdctl snapshot save."""
        return Backup(dict(self.kept), self.revision)

    def restore(self, backup: Backup, bump: int = 0) -> None:
        """As etcdctl snapshot restore, with --bump-revision and --mark-compacted if `bump`.

        A bump is chosen to lead above every revision that was ever served, also that of an earlier bump: it has no
        other purpose. `bump` is by how much more.
        """
        self._served = max(self._served, self.revision)
        self.kept, self.revision = dict(backup.kept), self._served + bump if bump else backup.revision
        self._lists.clear()
        self.compact()

    def compact(self) -> None:
        """Forget the past: watches of older revisions get 410."""
        self.history, self.compacted = {}, self.revision

    def since(self, revision: int, resource: str) -> list[bytes]:
        """Watch events after a revision."""
        of_kind = self.history.get(resource, [])
        after = bisect_right(of_kind, revision, key=_REVISION)
        return [b'{"type":"%s","object":%s}\n' % (event.encode(), raw) for _, event, raw in of_kind[after:]]
