"""What a path means: resource, namespace, name, subresource."""

from typing import NamedTuple

from localfleet.embedded.apiserver.resources import BY_PATH, Resource


class Target(NamedTuple):
    """Where a request goes. `row` is None for paths outside the table of resources."""

    row: Resource | None
    group: str
    version: str
    plural: str
    namespace: str
    name: str
    subresource: str


_NAMESPACE_PARTS = ("status", "finalize")


def parse(path: str) -> Target | None:
    """Read /api/v1/... or /apis/GROUP/VERSION/...; None if there is no resource in it."""
    parts = [part for part in path.split("/") if part]
    if len(parts) >= 3 and parts[0] == "api":
        group = ""
        version = parts[1]
        rest = parts[2:]
    elif len(parts) >= 4 and parts[0] == "apis":
        group = parts[1]
        version = parts[2]
        rest = parts[3:]
    else:
        return None
    namespace = ""
    if rest[0] == "namespaces" and len(rest) >= 3 and rest[2] not in _NAMESPACE_PARTS:
        namespace = rest[1]
        rest = rest[2:]
    if len(rest) > 3:
        return None
    plural, name, subresource = (*rest, "", "")[:3]
    return Target(
        BY_PATH.get((group, version, plural)), group, version, plural, namespace, name, subresource
    )
