"""Strategic merge patch: JSON merge patch that knows, from the schema, which lists merge by a key
or as a set.

Directives: `$patch: replace|delete|merge` in an object or a list item, `$retainKeys`,
`$deleteFromPrimitiveList/<list>` and `$setElementOrder/<list>`.
"""

from typing import Any

from localfleet.embedded.apiserver.schema import Field, ObjectType
from localfleet.embedded.apiserver.status import Object, unexplained

_PATCH = "$patch"
_RETAIN = "$retainKeys"
_DELETE_PRIMITIVE = "$deleteFromPrimitiveList/"
_ORDER = "$setElementOrder/"


def merge(target: Object, patch: Object, kind: ObjectType | None) -> Object:
    """`target` with `patch` merged in as `kind` says; ApiError 500 for an unknown directive, as on
    the real server.
    """
    directive = patch.get(_PATCH)
    if directive == "replace":
        return {key: value for key, value in patch.items() if key != _PATCH}
    if directive == "delete":
        return {}
    if directive not in (None, "merge"):
        raise unexplained(f"unknown patch type: {directive} in map: map[$patch:{directive}]")
    merged = dict(target)
    if _RETAIN in patch:
        merged = {key: value for key, value in merged.items() if key in patch[_RETAIN]}
    for key, value in patch.items():
        if not key.startswith("$"):
            _member(
                merged, key, value, kind.fields.get(key) if kind else None, patch.get(_ORDER + key)
            )
    for key, value in patch.items():
        if key.startswith(_DELETE_PRIMITIVE):
            _delete_primitives(merged, key.removeprefix(_DELETE_PRIMITIVE), value)
        elif key.startswith(_ORDER) and key.removeprefix(_ORDER) not in patch:
            _reorder(merged, key.removeprefix(_ORDER), value, kind)
    return merged


def _member(
    merged: Object, key: str, value: Any, field: Field | None, order: list[Any] | None
) -> None:
    current = merged.get(key)
    if value is None:
        merged.pop(key, None)
    elif isinstance(value, dict):
        inner = field.type if field else None
        merged[key] = merge(current if isinstance(current, dict) else {}, value, inner)
    elif isinstance(value, list) and field is not None and field.merge_key is not None:
        merged[key] = _list(current if isinstance(current, list) else [], value, field, order)
    else:
        merged[key] = value


def _list(current: list[Any], patch: list[Any], field: Field, order: list[Any] | None) -> list[Any]:
    key = field.merge_key or ""
    if any(item == {_PATCH: "replace"} for item in patch):
        return [item for item in patch if item != {_PATCH: "replace"}]
    kind = field.element.type if field.element else None
    found = {_key(item, key): item for item in current}
    for item in patch:
        if key and (not isinstance(item, dict) or key not in item):
            shown = (
                " ".join(f"{name}:{value}" for name, value in item.items())
                if isinstance(item, dict)
                else item
            )
            raise unexplained(
                f"map: map[{str(shown)[:100]}] does not contain declared merge key: {key}"
            )
        name = _key(item, key)
        if not key:
            found[name] = item
        elif item.get(_PATCH) == "delete":
            found.pop(name, None)
        else:
            found[name] = merge(found.get(name, {}), item, kind)
    return _ordered(
        found, [_key(item, key) for item in order or patch], [_key(item, key) for item in current]
    )


def _key(item: Any, key: str) -> Any:
    return item.get(key) if isinstance(item, dict) else item


def _ordered(found: Object, asked: list[Any], before: list[Any]) -> list[Any]:
    """What the patch names in its order, the rest in the order it had; what is new to the server
    comes early.
    """
    left = [name for name in dict.fromkeys(asked) if name in found]
    right = [name for name in before if name in found and name not in left]
    right += [name for name in found if name not in left and name not in right]
    place = {name: index for index, name in enumerate(before)}
    merged = []
    while left and right:
        known = left[0] in place and right[0] in place
        merged.append(right.pop(0) if known and place[right[0]] < place[left[0]] else left.pop(0))
    return [found[name] for name in [*merged, *left, *right]]


def _delete_primitives(merged: Object, key: str, values: list[Any]) -> None:
    if isinstance(merged.get(key), list):
        merged[key] = [item for item in merged[key] if item not in values]


def _reorder(merged: Object, key: str, order: list[Any], kind: ObjectType | None) -> None:
    field = kind.fields.get(key) if kind else None
    if field is None or not isinstance(merged.get(key), list):
        return
    key_name = field.merge_key or ""
    found = {_key(item, key_name): item for item in merged[key]}
    merged[key] = _ordered(found, [_key(item, key_name) for item in order], list(found))
