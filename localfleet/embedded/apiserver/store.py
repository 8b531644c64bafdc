"""Objects of one resource in memory: records, indexes, the recent history of changes, and those who
follow it.
"""

import asyncio
from collections import deque
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import msgspec

from localfleet.embedded.apiserver.status import Object

ADDED = "ADDED"
MODIFIED = "MODIFIED"
DELETED = "DELETED"
Key = tuple[str, str]  # namespace, name

_encode = msgspec.json.Encoder().encode


class Record:
    """One version of one object, never changed afterwards; encodings are kept, so each is made
    once.
    """

    __slots__ = ("forms", "object", "version")

    def __init__(self, obj: Object, version: int) -> None:
        self.object = obj
        self.version = version
        self.forms: dict[str, bytes] = {}

    def body(self) -> bytes:
        """The object as JSON."""
        found = self.forms.get("")
        if found is None:
            found = self.forms[""] = _encode(self.object)
        return found


class Event(NamedTuple):
    """One change. `old` is the object before it, None for ADDED; a DELETED event carries the last
    state as `object`.
    """

    type: str
    object: Object
    old: Object | None
    resource_version: int
    record: Record
    old_record: Record | None = None


class Subscription:
    """Changes after one moment, in order, each once. `drain` takes what has come; iteration waits
    for more.
    """

    def __init__(self, shelf: "Shelf") -> None:
        self._shelf = shelf
        self._events: deque[Event] = deque()
        self._waiter: asyncio.Future[None] | None = None
        self.closed = False

    def push(self, event: Event) -> None:
        """Add one event and wake whoever waits."""
        self._events.append(event)
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def __len__(self) -> int:
        return len(self._events)

    def drain(self) -> list[Event]:
        """Everything that has come and was not yet taken, without waiting."""
        taken = list(self._events)
        self._events.clear()
        return taken

    async def wait(self, timeout_s: float | None = None) -> bool:
        """Wait for an event or the end; False if `timeout_s` passed first."""
        if self._events or self.closed:
            return True
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            await asyncio.wait_for(self._waiter, timeout_s)
        except TimeoutError:
            return False
        finally:
            self._waiter = None
        return True

    def __aiter__(self) -> "Subscription":
        return self

    async def __anext__(self) -> Event:
        while not self._events:
            if self.closed:
                raise StopAsyncIteration
            await self.wait()
        return self._events.popleft()

    def close(self) -> None:
        """Stop following; iteration ends after what has already come."""
        self.closed = True
        self._shelf.followers.discard(self)
        self._wake()


class Shelf:
    """All objects of one resource, ordered by namespace and name when listed.

    `history` holds the last changes; `oldest` is the resourceVersion after which it is complete.
    """

    def __init__(self, oldest: int, keep: int) -> None:
        self.records: dict[Key, Record] = {}
        self.by_namespace: dict[str, dict[Key, Record]] = {}
        self.by_node: dict[str, dict[Key, Record]] = {}
        self.history: deque[Event] = deque(maxlen=keep)
        self.oldest = oldest
        self.followers: set[Subscription] = set()

    def get(self, key: Key) -> Record | None:
        """The current record."""
        return self.records.get(key)

    def put(self, key: Key, record: Record) -> None:
        """Set the current record and its places in the indexes, without an event."""
        old = self.records.get(key)
        self.records[key] = record
        self.by_namespace.setdefault(key[0], {})[key] = record
        node = _node_of(record.object)
        if old is not None and (before := _node_of(old.object)) != node:
            _drop(self.by_node, before, key)
        if node:
            self.by_node.setdefault(node, {})[key] = record

    def remove(self, key: Key) -> None:
        """Forget an object, without an event."""
        old = self.records.pop(key)
        _drop(self.by_namespace, key[0], key)
        _drop(self.by_node, _node_of(old.object), key)

    def tell(self, event: Event) -> None:
        """Remember one change and tell all followers."""
        if len(self.history) == self.history.maxlen:
            self.oldest = self.history[0].resource_version
        self.history.append(event)
        for follower in tuple(self.followers):
            follower.push(event)

    def since(self, version: int) -> Iterator[Event]:
        """Changes after `version`, which must not be before `oldest`."""
        newest_first = []
        for event in reversed(self.history):
            if event.resource_version <= version:
                break
            newest_first.append(event)
        return reversed(newest_first)

    def select(self, namespace: str = "", node: str = "") -> list[Record]:
        """Records in the order of a list: by namespace, then name."""
        source: Iterable[tuple[Key, Record]]
        if node:
            source = self.by_node.get(node, {}).items()
            return [
                record
                for key, record in sorted(source, key=_by_key)
                if not namespace or key[0] == namespace
            ]
        source = self.by_namespace.get(namespace, {}).items() if namespace else self.records.items()
        return [record for _, record in sorted(source, key=_by_key)]

    def follow(self) -> Subscription:
        """A subscription to changes from now on."""
        subscription = Subscription(self)
        self.followers.add(subscription)
        return subscription


def _by_key(item: tuple[Key, Record]) -> Key:
    return item[0]


def _node_of(obj: Object) -> str:
    spec = obj.get("spec")
    node = spec.get("nodeName") if isinstance(spec, dict) else None
    return node if isinstance(node, str) else ""


def _drop(index: dict[str, dict[Key, Record]], bucket: str, key: Key) -> None:
    found = index.get(bucket)
    if found is not None:
        found.pop(key, None)
        if not found:
            del index[bucket]
