"""All objects of one server under one resourceVersion counter: memory in front, storage behind,
followers told.
"""

import hashlib
import random
import uuid
from collections import deque
from collections.abc import Callable, Iterable

import msgspec

from localfleet.embedded.apiserver.resources import RESOURCES
from localfleet.embedded.apiserver.status import Object
from localfleet.embedded.apiserver.store import ADDED, DELETED, MODIFIED, Event, Key, Record, Shelf
from localfleet.embedded.storage import Storage

HISTORY = 5000  # changes kept a resource; an older resourceVersion gets 410
_EVENT_LIFE_S = 3600.0  # events leave after an hour, as on the real server


class Objects:
    """Current records of every resource. `version` is the last resourceVersion given out.

    After a restart the history is gone: only the version reached then can still be watched from.
    """

    def __init__(
        self,
        storage: Storage,
        clock: Callable[[], float],
        source: random.Random,
        name: str,
        history: int = HISTORY,
    ) -> None:
        self._storage = storage
        self._clock = clock
        self._random = source
        version, stored = storage.load()
        self.version = max(version, 1)
        self.shelves = {
            row.key: Shelf(self.version, history) for row in RESOURCES.values() if not row.stored_as
        }
        self.owned: dict[
            str, dict[tuple[str, Key], None]
        ] = {}  # owner uid -> what it owns, in order of creation
        self._expiries: deque[tuple[float, Key]] = deque()
        # UIDs differ between clusters and between lives of one, even with the same seed.
        life = hashlib.sha256(f"{name}/{self.version}".encode()).digest()
        self._salt = int.from_bytes(life[:16], "big")
        for row in stored:
            if row.resource in self.shelves:
                obj = msgspec.json.decode(row.body)
                self._place(row.resource, (row.namespace, row.name), Record(obj, row.version))

    def now(self) -> float:
        """Unix seconds."""
        return self._clock()

    def new_uid(self) -> str:
        """A UID never given out before."""
        return str(uuid.UUID(int=self._random.getrandbits(128) ^ self._salt, version=4))

    def letter(self, letters: str) -> str:
        """One letter at random."""
        return self._random.choice(letters)

    def get(self, resource: str, key: Key) -> Record | None:
        """The current record."""
        return self.shelves[resource].get(key)

    def set(self, resource: str, key: Key, obj: Object) -> Record:
        """Make `obj` the current state under a new resourceVersion."""
        self.version += 1
        obj["metadata"] = obj["metadata"] | {"resourceVersion": str(self.version)}
        record = Record(obj, self.version)
        old = self.get(resource, key)
        self._place(resource, key, record)
        self._storage.write((resource, *key), self.version, record.body())
        kind, before = (MODIFIED, old.object) if old else (ADDED, None)
        self.shelves[resource].tell(Event(kind, obj, before, self.version, record, old))
        return record

    def remove(self, resource: str, key: Key, last: Object) -> Record:
        """Forget an object; followers see `last` as its final state."""
        self.version += 1
        last["metadata"] = last["metadata"] | {"resourceVersion": str(self.version)}
        record = Record(last, self.version)
        shelf = self.shelves[resource]
        old = shelf.records[key]
        shelf.remove(key)
        self._disown(resource, key, old.object)
        self._storage.write((resource, *key), self.version, None)
        shelf.tell(Event(DELETED, last, old.object, self.version, record, old))
        return record

    def _place(self, resource: str, key: Key, record: Record) -> None:
        shelf = self.shelves[resource]
        old = shelf.get(key)
        shelf.put(key, record)
        if resource == "events":
            if old is None:
                self._expiries.append((self.now() + _EVENT_LIFE_S, key))
            return
        owners = record.object["metadata"].get("ownerReferences")
        if old is not None and old.object["metadata"].get("ownerReferences") != owners:
            self._disown(resource, key, old.object)
        for owner in owners or ():
            self.owned.setdefault(owner["uid"], {})[resource, key] = None

    def _disown(self, resource: str, key: Key, obj: Object) -> None:
        for owner in obj["metadata"].get("ownerReferences") or ():
            owned = self.owned.get(owner["uid"], {})
            owned.pop((resource, key), None)
            if not owned:
                self.owned.pop(owner["uid"], None)

    def expire_events(self) -> None:
        """Drop events older than an hour."""
        now = self.now()
        while self._expiries and self._expiries[0][0] <= now:
            _, key = self._expiries.popleft()
            record = self.get("events", key)
            if record is not None:
                self.remove("events", key, dict(record.object))

    def contents(self, namespace: str) -> Iterable[tuple[str, Key]]:
        """Everything in a namespace."""
        return [
            (resource, key)
            for resource, shelf in self.shelves.items()
            for key in shelf.by_namespace.get(namespace, ())
        ]

    def empty(self, namespace: str) -> bool:
        """Whether a namespace has no objects left."""
        return not any(namespace in shelf.by_namespace for shelf in self.shelves.values())
