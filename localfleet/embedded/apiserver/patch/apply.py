"""Server-side apply: who applied which field (metadata.managedFields), merging, giving up, and
conflicts.
"""

import copy
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from localfleet.embedded.apiserver.schema import Field, ObjectType
from localfleet.embedded.apiserver.status import ApiError, Object

Fields = dict[str, Any]  # metav1.FieldsV1: "f:name", "k:{...}", "v:value" -> nested
Path = tuple[str, ...]

_UNOWNED = (("f:apiVersion",), ("f:kind",), ("f:metadata", "f:name"), ("f:metadata", "f:namespace"))


@dataclass(frozen=True, slots=True)
class Applier:
    """Who applies, when (metav1.Time), and whether it takes fields over from others."""

    manager: str
    now: str
    force: bool = False
    subresource: str = ""


def apply(current: Object, applied: Object, kind: ObjectType, applier: Applier) -> Object:
    """`current` after `applier` applied `applied`.

    Fields it applied before and left out now are removed unless another manager applies them too.
    ApiError 409 lists the fields that others applied with other values, unless it forces, which
    takes them over.
    """
    # Deep, because taking a field over edits the records of others.
    entries: list[Object] = copy.deepcopy(
        list((current.get("metadata") or {}).get("managedFields") or ())
    )
    own = [entry for entry in entries if _is_applier(entry, applier)]
    others = [entry for entry in entries if not _is_applier(entry, applier)]
    fields = owned(applied, kind)
    taken = _conflicts(current, applied, fields, others, kind)
    if taken and not applier.force:
        raise _conflict(taken)
    for path, entry in taken:
        drop(entry["fieldsV1"], path)
    others = [entry for entry in others if entry.get("fieldsV1")]
    merged: Object = merge(current, applied, kind)
    held_by_others = {path for entry in others for path in leaves(entry.get("fieldsV1") or {})}
    mine = set(leaves(fields))
    for entry in own:
        for path in leaves(entry.get("fieldsV1") or {}):
            if path not in mine and path not in held_by_others:
                remove(merged, path, kind)
    unchanged = own and own[0].get("fieldsV1") == fields
    record = {
        "manager": applier.manager,
        "operation": "Apply",
        "apiVersion": applied.get("apiVersion", ""),
    }
    record |= {"subresource": applier.subresource} if applier.subresource else {}
    record |= {
        "time": own[0]["time"] if unchanged else applier.now,
        "fieldsType": "FieldsV1",
        "fieldsV1": fields,
    }
    merged["metadata"] = merged["metadata"] | {
        "managedFields": [*([record] if fields else []), *others]
    }
    return merged


def _is_applier(entry: Object, applier: Applier) -> bool:
    same = entry.get("manager") == applier.manager and entry.get("operation") == "Apply"
    return same and entry.get("subresource", "") == applier.subresource


def as_sent(clean: Any, sent: Any) -> Any:
    """What was read of a body, without what reading added to it: nobody owns a field that was not
    sent.
    """
    if isinstance(clean, dict) and isinstance(sent, dict):
        return {key: as_sent(clean[key], value) for key, value in sent.items() if key in clean}
    if isinstance(clean, list) and isinstance(sent, list) and len(clean) == len(sent):
        return [as_sent(*pair) for pair in zip(clean, sent, strict=True)]
    return clean


def merge(current: Any, applied: Any, kind: ObjectType | None) -> Any:
    """Objects merge, lists merge by key or as sets where the schema says so, everything else is
    replaced.
    """
    merged = dict(current) if isinstance(current, dict) else {}
    for key, value in applied.items():
        field = kind.fields.get(key) if kind else None
        if isinstance(value, dict) and not (field and field.atomic):
            merged[key] = merge(merged.get(key), value, field.type if field else None)
        elif isinstance(value, list) and field and (field.map_keys or field.set_list):
            merged[key] = _list(merged.get(key) or [], value, field)
        else:
            merged[key] = value
    return merged


def _list(current: list[Any], applied: list[Any], field: Field) -> list[Any]:
    if field.set_list:
        return [*applied, *(item for item in current if item not in applied)]
    known = {_item_key(item, field): item for item in current}
    kind = field.element.type if field.element else None
    merged = {
        _item_key(item, field): merge(known.get(_item_key(item, field)), item, kind)
        for item in applied
    }
    return list({**{key: merged.get(key, item) for key, item in known.items()}, **merged}.values())


def _item_key(item: Object, field: Field) -> str:
    keys = {name: item.get(name, _KEY_DEFAULTS.get(name)) for name in field.map_keys}
    return "k:" + json.dumps(
        {name: value for name, value in keys.items() if value is not None}, separators=(",", ":")
    )


_KEY_DEFAULTS = {"protocol": "TCP"}


def owned(applied: Object, kind: ObjectType) -> Fields:
    """The fields that `applied` sets, as FieldsV1."""
    fields = _fields(applied, kind)
    for path in _UNOWNED:
        drop(fields, path)
    return fields


def _fields(value: Object, kind: ObjectType | None) -> Fields:
    found: Fields = {}
    for key, item in value.items():
        field = kind.fields.get(key) if kind else None
        if isinstance(item, dict) and item and not (field and field.atomic):
            found["f:" + key] = _fields(item, field.type if field else None)
        elif isinstance(item, list) and field and field.map_keys:
            inner = field.element.type if field.element else None
            found["f:" + key] = {
                _item_key(part, field): {".": {}} | _fields(part, inner) for part in item
            }
        elif isinstance(item, list) and field and field.set_list:
            found["f:" + key] = {"v:" + json.dumps(part): {} for part in item}
        else:
            found["f:" + key] = {}
    return found


def leaves(fields: Fields, prefix: Path = ()) -> Iterator[Path]:
    """Paths of everything owned that has nothing owned below it, and of owned list items themselves
    (".").
    """
    for key, inner in fields.items():
        path = (*prefix, key)
        if inner:
            yield from leaves(inner, path)
        else:
            yield path


def drop(fields: Fields, path: Path) -> None:
    """Take a path out of a record, and what is empty then."""
    inner = fields.get(path[0])
    if inner is None:
        return
    if len(path) > 1:
        drop(inner, path[1:])
    if len(path) == 1 or not inner:
        del fields[path[0]]


def _step(
    value: Any, part: str, kind: ObjectType | None, field: Field | None
) -> tuple[Any, Field | None]:
    """What `part` of a path leads to inside `value`; None if nothing."""
    if part.startswith("f:") and isinstance(value, dict):
        name = part[2:]
        owner = field.type if field else kind
        return value.get(name), owner.fields.get(name) if owner else None
    if part.startswith("k:") and isinstance(value, list) and field:
        found = next((item for item in value if _item_key(item, field) == part), None)
        return found, field.element
    if part.startswith("v:") and isinstance(value, list):
        wanted = json.loads(part[2:])
        return (wanted if wanted in value else None), None
    return (value, field) if part == "." else (None, None)


def look(obj: Object, path: Path, kind: ObjectType) -> Any:
    """The value at `path`, None if there is none."""
    value: Any = obj
    field: Field | None = None
    for part in path:
        value, field = _step(value, part, kind, field)
    return value


def remove(obj: Object, path: Path, kind: ObjectType) -> None:
    """Take the value at `path` out of `obj`, whose containers on the way are copied first, not
    shared.
    """
    if path[-1] == ".":
        path = path[:-1]
    container: Any = obj
    field: Field | None = None
    for part in path[:-1]:
        value, below = _step(container, part, kind, field)
        if not isinstance(value, dict | list):
            return
        fresh = value.copy()
        if isinstance(container, dict):
            container[part[2:]] = fresh
        else:
            container[container.index(value)] = fresh
        container = fresh
        field = below
    target, _ = _step(container, path[-1], kind, field)
    if target is None:
        return
    if isinstance(container, dict):
        container.pop(path[-1][2:], None)
    else:
        container.remove(target)


def _conflicts(
    current: Object, applied: Object, fields: Fields, others: list[Object], kind: ObjectType
) -> list[tuple[Path, Object]]:
    mine = set(leaves(fields))
    return [
        (path, entry)
        for entry in others
        for path in leaves(entry.get("fieldsV1") or {})
        if path in mine
        and path[-1] != "."
        and look(current, path, kind) != look(applied, path, kind)
    ]


def _conflict(taken: list[tuple[Path, Object]]) -> ApiError:
    causes = [
        {
            "reason": "FieldManagerConflict",
            "message": f"conflict with {_holder(entry)}",
            "field": _shown(path),
        }
        for path, entry in taken
    ]
    plural = "s" if len(causes) > 1 else ""
    listed = ", ".join(f"{cause['message']}: {cause['field']}" for cause in causes)
    message = f"Apply failed with {len(causes)} conflict{plural}: {listed}"
    return ApiError(409, "Conflict", message, {"causes": causes})


def _holder(entry: Object) -> str:
    part = f' with subresource "{entry["subresource"]}"' if entry.get("subresource") else ""
    version = f" using {entry.get('apiVersion', '')}" if entry.get("operation") == "Update" else ""
    return f'"{entry["manager"]}"{part}{version}'


def _shown(path: Path) -> str:
    shown = ""
    for part in path:
        shown += "." + part[2:] if part.startswith("f:") else f"[{part[2:]}]"
    return shown
