"""Who wrote which field by creating, updating or patching: the "Update" entries of
metadata.managedFields.

The real server records every writer. Here a writer is recorded that names itself (fieldManager, as
kubectl does), and any writer of an object that already has records, so that server-side apply knows
of conflicts; the rest costs nothing.
"""

import copy
from dataclasses import dataclass

from localfleet.embedded.apiserver.patch.apply import Fields, Path, drop, leaves, look, owned
from localfleet.embedded.apiserver.schema import ObjectType
from localfleet.embedded.apiserver.status import Object

# The server's own, owned by nobody.
_SYSTEM = ("uid", "resourceVersion", "generation", "creationTimestamp", "managedFields", "selfLink")
_SYSTEM_PATHS = frozenset(("f:metadata", f"f:{key}") for key in _SYSTEM)


@dataclass(frozen=True, slots=True)
class Writer:
    """Who writes, when (metav1.Time), of which API version, and through which subresource."""

    manager: str
    now: str
    version: str
    subresource: str = ""

    def entry(self, fields: Fields) -> Object:
        """The record of what was written."""
        record: Object = {
            "manager": self.manager,
            "operation": "Update",
            "apiVersion": self.version,
            "time": self.now,
        }
        record |= {"fieldsType": "FieldsV1", "fieldsV1": fields}
        return record | ({"subresource": self.subresource} if self.subresource else {})

    def wrote(self, entry: Object) -> bool:
        """Whether a record is this writer's."""
        same = entry.get("manager") == self.manager and entry.get("operation") == "Update"
        return same and entry.get("subresource", "") == self.subresource


def after_write(old: Object, new: Object, kind: ObjectType, writer: Writer) -> list[Object]:
    """managedFields of `new`: what the writer changed is the writer's, what is gone is nobody's."""
    before = _paths(old, kind)
    after = _paths(new, kind)
    changed = {
        path
        for path in after
        if path not in before or look(old, path, kind) != look(new, path, kind)
    }
    entries: list[Object] = copy.deepcopy(list(old["metadata"].get("managedFields") or ()))
    own = next((entry for entry in entries if writer.wrote(entry)), None)
    if own is None:
        own = writer.entry({})
        entries.append(own)
    for entry in entries:
        for path in changed | (before - after):
            drop(entry["fieldsV1"], path)
    for path in changed:
        _add(own["fieldsV1"], path)
    if changed:
        own["time"] = writer.now
    return [entry for entry in entries if entry["fieldsV1"]]


def _paths(obj: Object, kind: ObjectType) -> set[Path]:
    return (
        {path for path in leaves(owned(obj, kind)) if path[:2] not in _SYSTEM_PATHS}
        if obj
        else set()
    )


def _add(fields: Fields, path: Path) -> None:
    for part in path:
        fields = fields.setdefault(part, {})
