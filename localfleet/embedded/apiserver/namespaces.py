"""The life of a namespace: nothing is created outside one, and a terminating one goes with the last
object in it.
"""

from collections.abc import Callable

from localfleet.embedded.apiserver import metadata
from localfleet.embedded.apiserver.bootstrap import NAMESPACE_OBJECTS
from localfleet.embedded.apiserver.objects import Objects
from localfleet.embedded.apiserver.resources import Resource
from localfleet.embedded.apiserver.status import Object, not_found, terminating
from localfleet.embedded.apiserver.store import Record
from localfleet.embedded.apiserver.validate import admission

KEY = "namespaces"


class Namespaces:
    """`create` and `delete` are the API's verbs: (resource, object, namespace) and (resource, name,
    namespace).
    """

    def __init__(
        self,
        objects: Objects,
        create: Callable[[str, Object, str], object],
        delete: Callable[[str, str, str], object],
    ) -> None:
        self._objects = objects
        self._create = create
        self._delete = delete

    def admit(self, row: Resource, namespace: str, obj: Object) -> None:
        """Whether an object may be created there; ApiError."""
        if not row.namespaced:
            return
        found = self._objects.get(KEY, ("", namespace))
        if found is None:
            raise not_found(KEY, namespace)
        if found.object["metadata"].get("deletionTimestamp"):
            raise terminating(row.key, obj["metadata"].get("name", ""), namespace)

    def furnish(self, name: str) -> None:
        """What every new namespace has."""
        for what, first in NAMESPACE_OBJECTS:
            self._create(what, first, name)

    def end(self, record: Record, dry_run: bool) -> Object:
        """Begin to delete one and all that is in it; the terminating object."""
        name = record.object["metadata"]["name"]
        admission.may_delete_namespace(name)
        if dry_run or record.object["metadata"].get("deletionTimestamp"):
            return record.object
        marked = record.object | {"status": {"phase": "Terminating"}}
        marked["metadata"] = marked["metadata"] | {
            "deletionTimestamp": metadata.timestamp(self._objects.now())
        }
        ending = self._objects.set(KEY, ("", name), marked).object
        for resource, key in self._objects.contents(name):
            if self._objects.get(resource, key) is not None:
                self._delete(resource, key[1], name)
        self.finish(name)
        return ending

    def finish(self, name: str) -> None:
        """It goes if it is terminating and empty, unless finalizers of its own hold it."""
        record = self._objects.get(KEY, ("", name))
        if record is None or not record.object["metadata"].get("deletionTimestamp"):
            return
        if self._objects.empty(name) and not record.object["metadata"].get("finalizers"):
            self._objects.remove(KEY, ("", name), dict(record.object))
