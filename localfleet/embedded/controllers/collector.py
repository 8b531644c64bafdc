"""Garbage collection by owner references: background, foreground and orphan deletion."""

from collections.abc import Iterable, Mapping

from localfleet.embedded.api import Api
from localfleet.embedded.controllers.world import Ref, World
from localfleet.embedded.controllers.writes import Delete, Merge, carry_out
from localfleet.embedded.meta import Object, is_terminating

FOREGROUND = "foregroundDeletion"
ORPHAN = "orphan"


class Collector:
    """Deletes what has lost all its owners, and finishes deletions that wait for dependents.

    `kinds` maps (apiVersion, kind) to the watched resource; an owner of any other kind is taken to
    exist.
    """

    name = "garbage-collector"

    def __init__(self, api: Api, world: World, kinds: Mapping[tuple[str, str], str]) -> None:
        self._api = api
        self._world = world
        self._kinds = kinds

    def keys(self, ref: Ref, obj: Object, _old: Object | None) -> Iterable[Ref]:
        """The object if it has owners or waits for dependents; those it leaves behind; owners that
        wait for it.
        """
        metadata = obj["metadata"]
        owners = metadata.get("ownerReferences") or ()
        if owners or _waits(obj):
            yield ref
        current = self._world.get(ref)
        if current is None or current["metadata"].get("uid") != metadata.get("uid"):
            for dependent, _ in self._world.dependents(metadata.get("uid", "")):
                yield dependent
            for owner in owners:
                found = self._world.by_uid(owner.get("uid", ""))
                if found is not None:
                    yield found

    def reconcile(self, key: Ref, now: float) -> float | None:
        """One object."""
        obj = self._world.get(key)
        if obj is None:
            return None
        if is_terminating(obj):
            self._finish(key, obj)
        else:
            self._check_owners(key, obj)
        return None

    def _finish(self, key: Ref, obj: Object) -> None:
        finalizers = obj["metadata"].get("finalizers") or ()
        uid = obj["metadata"]["uid"]
        if ORPHAN in finalizers:
            for ref, dependent in self._world.dependents(uid):
                self._disown(ref, dependent, {uid})
            self._take_off(key, obj, ORPHAN)
        elif FOREGROUND in finalizers:
            blocking = False
            for ref, dependent in self._world.dependents(uid):
                blocking |= _blocks(dependent, uid)
                if not is_terminating(dependent):
                    way = (
                        "Foreground"
                        if self._world.dependents(dependent["metadata"]["uid"])
                        else "Background"
                    )
                    carry_out(self._api, Delete(ref, dependent["metadata"]["uid"], propagation=way))
            if not blocking:
                self._take_off(key, obj, FOREGROUND)

    def _check_owners(self, key: Ref, obj: Object) -> None:
        owners = obj["metadata"].get("ownerReferences") or ()
        gone = {owner["uid"] for owner in owners if not self._exists(owner, key.namespace)}
        if owners and len(gone) == len(owners):
            carry_out(self._api, Delete(key, obj["metadata"]["uid"]))
        elif gone:
            self._disown(key, obj, gone)

    def _exists(self, owner: Object, namespace: str) -> bool:
        resource = self._kinds.get((owner.get("apiVersion", ""), owner.get("kind", "")))
        if resource is None:
            return True
        found = self._world.by_uid(owner["uid"])
        return (
            found is not None and found.resource == resource and found.namespace in ("", namespace)
        )

    def _disown(self, ref: Ref, obj: Object, uids: set[str]) -> None:
        kept = [
            owner
            for owner in obj["metadata"].get("ownerReferences") or ()
            if owner["uid"] not in uids
        ]
        change = {"metadata": {"uid": obj["metadata"]["uid"], "ownerReferences": kept or None}}
        carry_out(self._api, Merge(ref, change))

    def _take_off(self, ref: Ref, obj: Object, finalizer: str) -> None:
        kept = [name for name in obj["metadata"]["finalizers"] if name != finalizer]
        carry_out(
            self._api,
            Merge(ref, {"metadata": {"uid": obj["metadata"]["uid"], "finalizers": kept or None}}),
        )


def _waits(obj: Object) -> bool:
    finalizers = obj["metadata"].get("finalizers") or ()
    return is_terminating(obj) and (FOREGROUND in finalizers or ORPHAN in finalizers)


def _blocks(dependent: Object, uid: str) -> bool:
    owners = dependent["metadata"].get("ownerReferences") or ()
    return any(owner["uid"] == uid and owner.get("blockOwnerDeletion") for owner in owners)
