"""Strategic merge patch: JSON merge patch that knows, from the schema, which lists merge by a key or as a set.

Directives: `$patch: replace|delete|merge` in an object or a list item, `$retainKeys`, `$deleteFromPrimitiveList/<list>`
and `$setElementOrder/<list>`.
"""

from typing import Any

from agents.embedded.apiserver.schema import Field, ObjectType
from agents.embedded.apiserver.status import Object, bad_request

_PATCH, _RETAIN = "$patch", "$retainKeys"
_DELETE_PRIMITIVE, _ORDER = "$deleteFromPrimitiveList/", "$setElementOrder/"


def merge(target: Object, patch: Object, kind: ObjectType | None) -> Object:
    """`target` with `patch` merged in as `kind` says; ApiError 400 for an unknown directive."""
    directive = patch.get(_PATCH)
    if directive == "replace":
        return {key: value for key, value in patch.items() if key != _PATCH}
    if directive == "delete":
        return {}
    if directive not in (None, "merge"):
        raise bad_request(f"unrecognized type: {directive}")
    merged = dict(target)
    if _RETAIN in patch:
        merged = {key: value for key, value in merged.items() if key in patch[_RETAIN]}
    for key, value in patch.items():
        if not key.startswith("$"):
            _member(merged, key, value, kind.fields.get(key) if kind else None)
    for key, value in patch.items():
        if key.startswith(_DELETE_PRIMITIVE):
            _delete_primitives(merged, key.removeprefix(_DELETE_PRIMITIVE), value)
        elif key.startswith(_ORDER):
            _reorder(merged, key.removeprefix(_ORDER), value, kind)
    return merged


def _member(merged: Object, key: str, value: Any, field: Field | None) -> None:
    current = merged.get(key)
    if value is None:
        merged.pop(key, None)
    elif isinstance(value, dict):
        inner = field.type if field else None
        merged[key] = merge(current if isinstance(current, dict) else {}, value, inner)
    elif isinstance(value, list) and field is not None and field.merge_key is not None:
        merged[key] = _list(current if isinstance(current, list) else [], value, field)
    else:
        merged[key] = value


def _list(current: list[Any], patch: list[Any], field: Field) -> list[Any]:
    if not field.merge_key:
        return [*current, *(item for item in dict.fromkeys(patch) if item not in current)]
    key = field.merge_key
    kind = field.element.type if field.element else None
    if any(item == {_PATCH: "replace"} for item in patch):
        return [item for item in patch if item != {_PATCH: "replace"}]
    merged = list(current)
    for item in patch:
        if not isinstance(item, dict) or key not in item:
            raise bad_request(f"map: {str(item)[:100]} does not contain declared merge key: {key}")
        places = [place for place, known in enumerate(merged) if known.get(key) == item[key]]
        if item.get(_PATCH) == "delete":
            merged = [known for known in merged if known.get(key) != item[key]]
        elif places:
            merged[places[0]] = merge(merged[places[0]], item, kind)
        else:
            merged.append(merge({}, item, kind))
    return merged


def _delete_primitives(merged: Object, key: str, values: list[Any]) -> None:
    if isinstance(merged.get(key), list):
        merged[key] = [item for item in merged[key] if item not in values]


def _reorder(merged: Object, key: str, order: list[Any], kind: ObjectType | None) -> None:
    field = kind.fields.get(key) if kind else None
    if field is None or not isinstance(merged.get(key), list):
        return
    name = field.merge_key or ""
    wanted = [item.get(name) if isinstance(item, dict) else item for item in order]

    def place(item: Any) -> int:
        found = item.get(name) if isinstance(item, dict) else item
        return wanted.index(found) if found in wanted else len(wanted)

    merged[key] = sorted(merged[key], key=place)
