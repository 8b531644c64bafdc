"""What an `install` has made in a cluster, in whichever namespaces: found by its label or, of
versions that wrote none, by name.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from dispatcher.cli.joining.target import Target

Object = dict[str, Any]
LABEL = "app.kubernetes.io/managed-by"
INSTALL = "global-dispatcher-install"
_Name = tuple[str, str, str]


def labelled(one: Object) -> Object:
    """The same, to be found again."""
    meta = one["metadata"]
    return {**one, "metadata": {**meta, "labels": {**meta.get("labels", {}), LABEL: INSTALL}}}


async def beyond(
    target: Target, wanted: Iterable[Object], all_kinds: Sequence[Object]
) -> list[Object]:
    """What an install has made that is not `wanted`, bindings first. `all_kinds`: all objects that
    one makes where it limits nothing to namespaces. CommandError where that cannot be listed.
    """
    keep = set(map(_name, wanted))
    found: dict[_Name, Object] = {}
    kinds = {(one["kind"], one["apiVersion"]) for one in all_kinds}
    for kind, version in sorted(kinds):
        for one in await target.listed(kind, version, labelSelector=f"{LABEL}={INSTALL}"):
            found[_name(one)] = one
    for one in all_kinds:
        if _name(one) not in keep and await target.found(one) is not None:
            found[_name(one)] = one
        if one["kind"] == "ClusterRoleBinding":  # may have been limited to namespaces
            name = f"metadata.name={one['metadata']['name']}"
            for held in await target.listed("RoleBinding", one["apiVersion"], fieldSelector=name):
                if held.get("roleRef") == one["roleRef"]:
                    found[_name(held)] = held
    rest = [one for name, one in found.items() if name not in keep]
    return sorted(rest, key=lambda one: not one["kind"].endswith("Binding"))


def _name(one: Object) -> _Name:
    meta = one["metadata"]
    return one["kind"], meta.get("namespace", ""), meta["name"]
