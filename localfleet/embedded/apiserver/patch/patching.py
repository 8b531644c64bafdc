"""JSON merge patch (RFC 7386), JSON patch (RFC 6902), and the choice between them and strategic
merge patch.
"""

import copy
from typing import Any

from localfleet.embedded.apiserver.patch import strategic
from localfleet.embedded.apiserver.schema import ObjectType
from localfleet.embedded.apiserver.status import ApiError, Object, bad_request


def patched(kind: str, current: Object, patch: Any, fields: ObjectType) -> Object:
    """`current` after a patch of `kind` (json, strategic or merge); ApiError 400 if it leaves no
    object.
    """
    if kind == "json":
        result = json_patch(current, patch)
    elif not isinstance(patch, dict):
        found = "array" if isinstance(patch, list) else type(patch).__name__
        how = "" if kind == "strategic" else "error decoding patch: "
        raise bad_request(
            f"{how}json: cannot unmarshal {found} into Go value of type map[string]interface {{}}"
        )
    elif kind == "strategic":
        try:
            result = strategic.merge(current, patch, fields)
        except (TypeError, AttributeError, ValueError) as error:
            raise bad_request(
                f"error decoding patch: it does not fit the object: {error}"
            ) from None
    else:
        result = merge(current, patch)
    if not isinstance(result, dict) or not isinstance(result.get("metadata", {}), dict):
        raise bad_request("error decoding patch: the result is no object")
    return result


def merge(target: Any, patch: Any) -> Any:
    """`target` with `patch` merged in: null removes, objects merge, everything else replaces."""
    if not isinstance(patch, dict):
        return patch
    merged = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = merge(merged.get(key), value)
    return merged


def json_patch(target: Object, operations: Any) -> Any:
    """`target` after all `operations` in order; ApiError 400 or 422 if one cannot be done, and then
    none is.
    """
    if not isinstance(operations, list):
        raise _unreadable(operations, "[]handlers.jsonPatchOp")
    for operation in operations:
        if not isinstance(operation, dict):
            raise _unreadable(operation, "handlers.jsonPatchOp")
    document: Any = copy.deepcopy(target)
    for operation in operations:
        try:
            document = _operate(document, operation)
        except (KeyError, IndexError, ValueError, TypeError):
            raise _refused() from None
    if not isinstance(document, dict):
        raise _refused()
    return document


def _refused() -> ApiError:
    return ApiError(
        422, "Invalid", "the server rejected our request due to an error in our request", {}
    )


def _unreadable(found: Any, wanted: str) -> ApiError:
    words = {dict: "object", str: "string", bool: "bool"}.get(type(found), "number")
    return bad_request(
        f"error decoding patch: json: cannot unmarshal {words} into Go value of type {wanted}"
    )


def _operate(document: Any, operation: Object) -> Any:
    name = operation["op"]
    path = _pointer(operation["path"])
    if name == "test":
        if _read(document, path) != operation.get("value"):
            raise _refused()
        return document
    if name == "remove":
        return _remove(document, path)
    if name == "replace":
        # As the real server's library: a member that is not there is added, an item of a list is
        # not.
        return _write(document, path, operation.get("value"), replace=True)
    if name == "add":
        return _write(document, path, operation.get("value"), replace=False)
    source = _pointer(operation["from"])
    value = copy.deepcopy(_read(document, source))
    if name == "move":
        document = _remove(document, source)
    elif name != "copy":
        raise _refused()
    return _write(document, path, value, replace=False)


def _pointer(text: Any) -> list[str]:
    if text == "":
        return []
    if not isinstance(text, str) or not text.startswith("/"):
        raise ValueError(str(text)[:80])
    return [part.replace("~1", "/").replace("~0", "~") for part in text[1:].split("/")]


def _read(document: Any, path: list[str]) -> Any:
    for part in path:
        document = document[_index(document, part)]
    return document


def _index(container: Any, part: str) -> Any:
    return int(part) if isinstance(container, list) else part


def _write(document: Any, path: list[str], value: Any, *, replace: bool) -> Any:
    if not path:
        return value
    parent = _read(document, path[:-1])
    last = path[-1]
    if isinstance(parent, list):
        if replace:
            parent[int(last)] = value
        elif last == "-":
            parent.append(value)
        elif 0 <= int(last) <= len(parent):
            parent.insert(int(last), value)
        else:
            raise IndexError(last)
    else:
        parent[last] = value
    return document


def _remove(document: Any, path: list[str]) -> Any:
    parent = _read(document, path[:-1])
    del parent[_index(parent, path[-1])]
    return document
