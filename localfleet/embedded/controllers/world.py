"""What controllers see: every watched object, and indexes by owner, node and uid, fresh at each
reconcile.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from localfleet.embedded.api import Api, Event, Subscription
from localfleet.embedded.meta import Object, controller_of

Clock = Callable[[], float]
_ADOPTABLE = ("pods", "replicasets.apps")


class Ref(NamedTuple):
    """Which object: plural with group, namespace ("" for cluster-wide ones), name."""

    resource: str
    namespace: str
    name: str


class World:
    """A cache of `resources` that is brought up to date in place. Objects in it are read-only."""

    def __init__(self, api: Api, resources: Sequence[str]) -> None:
        self._api = api
        self._objects: dict[str, dict[Ref, Object]] = {resource: {} for resource in resources}
        self._dependents: dict[str, dict[Ref, Object]] = {}
        self._on_node: dict[str, dict[Ref, Object]] = {}
        self._orphans: dict[str, dict[Ref, Object]] = {}
        self._uids: dict[str, Ref] = {}
        self._watches: dict[str, Subscription] = {}

    def open(self) -> Iterator[tuple[Ref, Object]]:
        """Watch from now on; answers everything that is there."""
        for resource in self._objects:
            self._watches[resource] = self._api.watch(resource)
            for obj in self._api.list(resource):
                yield self._keep(resource, obj), obj

    def refresh(self) -> Iterator[tuple[Ref, Event]]:
        """Take over what has changed; answers the changes."""
        for resource, watch in self._watches.items():
            for event in watch.drain():
                yield self.take(resource, event), event

    def subscriptions(self) -> dict[str, Subscription]:
        """The open watches by resource, for who waits on them."""
        return self._watches

    def take(self, resource: str, event: Event) -> Ref:
        """Take over one change."""
        return (
            self._drop(resource, event.object)
            if event.type == "DELETED"
            else self._keep(resource, event.object)
        )

    def get(self, ref: Ref) -> Object | None:
        """The object, or None when there is none."""
        return self._objects[ref.resource].get(ref)

    def all(self, resource: str) -> Iterator[tuple[Ref, Object]]:
        """Every object of a watched resource."""
        return iter(self._objects[resource].items())

    def dependents(self, uid: str, resource: str = "") -> list[tuple[Ref, Object]]:
        """Objects with an owner reference to `uid`, of one resource or of all."""
        found = self._dependents.get(uid, {})
        return [
            (ref, obj) for ref, obj in found.items() if not resource or ref.resource == resource
        ]

    def controlled(self, uid: str, resource: str) -> list[Object]:
        """Objects of `resource` whose controller is `uid`."""
        found = self.dependents(uid, resource)
        return [
            obj
            for _, obj in found
            if (owner := controller_of(obj)) is not None and owner["uid"] == uid
        ]

    def orphans(self, resource: str, namespace: str) -> list[tuple[Ref, Object]]:
        """Pods or ReplicaSets of a namespace that nobody controls."""
        return list(self._orphans.get(f"{resource}/{namespace}", {}).items())

    def on_node(self, name: str) -> list[tuple[Ref, Object]]:
        """Pods bound to the node `name`."""
        return list(self._on_node.get(name, {}).items())

    def by_uid(self, uid: str) -> Ref | None:
        """Where the object with this uid is, if it is watched and exists."""
        return self._uids.get(uid)

    def _keep(self, resource: str, obj: Object) -> Ref:
        ref = ref_of(resource, obj)
        kept = self._objects[resource]
        if ref in kept:
            self._unindex(ref, kept[ref])
        kept[ref] = obj
        self._uids[obj["metadata"].get("uid", "")] = ref
        for index, key in self._places(ref, obj):
            index.setdefault(key, {})[ref] = obj
        return ref

    def _drop(self, resource: str, obj: Object) -> Ref:
        ref = ref_of(resource, obj)
        old = self._objects[resource].pop(ref, None)
        if old is not None:
            self._unindex(ref, old)
        return ref

    def _unindex(self, ref: Ref, obj: Object) -> None:
        self._uids.pop(obj["metadata"].get("uid", ""), None)
        for index, key in self._places(ref, obj):
            bucket = index.get(key, {})
            bucket.pop(ref, None)
            if not bucket:
                index.pop(key, None)

    def _places(self, ref: Ref, obj: Object) -> Iterator[tuple[dict[str, dict[Ref, Object]], str]]:
        """The index entries of an object."""
        for owner in obj["metadata"].get("ownerReferences") or ():
            yield self._dependents, owner.get("uid", "")
        if ref.resource in _ADOPTABLE and controller_of(obj) is None:
            yield self._orphans, f"{ref.resource}/{ref.namespace}"
        if ref.resource == "pods" and (node := obj["spec"].get("nodeName")):
            yield self._on_node, node


def ref_of(resource: str, obj: Object) -> Ref:
    """The reference of an object of `resource`."""
    metadata = obj["metadata"]
    return Ref(resource, metadata.get("namespace") or "", metadata["name"])
