"""Objects as users and controllers write them, and how patches change them. JSON values, nothing of the product."""

import copy
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, NamedTuple

Object = dict[str, Any]
_MERGE_KEYS = {
    "conditions": "type",
    "podIPs": "ip",
    "hostIPs": "ip",
    "ownerReferences": "uid",
    "containers": "name",
    "initContainers": "name",
    "ephemeralContainers": "name",
    "addresses": "type",
}
_MERGE_SETS = frozenset(("finalizers",))
ENDED = frozenset(("Succeeded", "Failed"))


class Place(NamedTuple):
    """What a path means. `resource` is the path of all objects of the kind, whatever their namespace."""

    resource: str
    namespace: str
    name: str
    sub: str

    @property
    def path(self) -> str:
        """The path of the object itself."""
        if not self.namespace:
            return f"{self.resource}/{self.name}"
        prefix, _, plural = self.resource.rpartition("/")
        return f"{prefix}/namespaces/{self.namespace}/{plural}/{self.name}"


@lru_cache(maxsize=16384)
def place_of(path: str) -> Place:
    """Take a path apart."""
    parts = path.strip("/").split("/")
    head = 2 if parts[0] == "api" else 3
    prefix, rest = "/" + "/".join(parts[:head]), parts[head:]
    if len(rest) >= 3 and rest[0] == "namespaces" and rest[2] not in ("status", "finalize"):
        space, rest = rest[1], rest[2:]
    else:
        space = ""
    padded = [*rest, "", "", ""]
    return Place(f"{prefix}/{padded[0]}", space, padded[1], padded[2])


def class_of(priority: int) -> str:
    """The name of the PriorityClass of that value, "" for none."""
    return f"p{priority}" if priority else ""


def cpu_of(pod: Object) -> int:
    """Milli-CPU that a pod requests."""
    total = 0
    for container in pod["spec"].get("containers", ()):
        text = str(container.get("resources", {}).get("requests", {}).get("cpu", "0"))
        total += int(text[:-1]) if text.endswith("m") else int(float(text) * 1000)
    return total


class Named(NamedTuple):
    """What a pod names."""

    kind: str
    name: str
    optional: bool


_REFS = {"configMapRef": "ConfigMap", "secretRef": "Secret"}


def named_by(pod: Object) -> list[Named]:
    """The objects from which its containers have their environment, in order."""
    refs = [
        item for container in pod["spec"]["containers"] for one in container.get("envFrom", ()) for item in one.items()
    ]
    return [Named(_REFS[key], ref["name"], bool(ref.get("optional"))) for key, ref in refs]


def stamp(wall: float) -> str:
    """RFC 3339."""
    return datetime.fromtimestamp(wall, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def active(pod: Object) -> bool:
    """Whether it takes room where it is bound."""
    return pod["status"].get("phase") not in ENDED


def condition(obj: Object, kind: str) -> Object | None:
    """A condition of its status."""
    found: list[Object] = obj.get("status", {}).get("conditions") or []
    return next((one for one in found if one.get("type") == kind), None)


def merge(target: Object, patch: Object, *, strategic: bool) -> None:
    """JSON merge patch, or the part of strategic merge patch that API servers apply to what is stored here."""
    for key, value in patch.items():
        if value is None:
            target.pop(key, None)
        elif isinstance(value, dict):
            inner = target.get(key)
            if not isinstance(inner, dict):
                inner = target[key] = {}
            merge(inner, value, strategic=strategic)
        elif strategic and key in _MERGE_KEYS:
            target[key] = _merged_list(target.get(key) or [], value, _MERGE_KEYS[key])
        elif strategic and key in _MERGE_SETS:
            target[key] = list(dict.fromkeys([*(target.get(key) or []), *value]))
        else:
            target[key] = value


def _merged_list(old: list[Object], new: list[Object], by: str) -> list[Object]:
    if {"$patch": "replace"} in new:
        return [item for item in new if "$patch" not in item]
    merged = {item[by]: item for item in old}
    for item in new:
        if item.get("$patch") == "delete":
            merged.pop(item[by], None)
        else:
            merged[item[by]] = copy.deepcopy(merged.get(item[by], {}))
            merge(merged[item[by]], item, strategic=True)
    return list(merged.values())


class PatchError(ValueError):
    """A JSON patch that does not fit; a failed `test` among them."""


def json_patch(obj: Object, steps: list[Object]) -> Object:
    """RFC 6902: test, add, replace, remove."""
    made = copy.deepcopy(obj)
    for step in steps:
        *way, last = [part.replace("~1", "/").replace("~0", "~") for part in step["path"].split("/")[1:]]
        where: Any = made
        for part in way:
            where = where[int(part)] if isinstance(where, list) else where.setdefault(part, {})
        _step(where, last, step)
    return made


def _step(where: Any, last: str, step: Object) -> None:
    verb = step["op"]
    if isinstance(where, list):
        at = len(where) if last == "-" else int(last)
        if verb == "add":
            where.insert(at, step["value"])
        elif verb == "remove":
            del where[at]
        elif verb == "replace":
            where[at] = step["value"]
        elif where[at] != step["value"]:
            raise PatchError(f"test of {step['path']} failed")
    elif verb == "remove":
        if where.pop(last, None) is None:
            raise PatchError(f"nothing at {step['path']}")
    elif verb == "test":
        if where.get(last) != step["value"]:
            raise PatchError(f"test of {step['path']} failed")
    else:
        where[last] = step["value"]
