"""Removes namespaces that were made here (`made_namespaces`), once nothing is in them.

Deleting a namespace deletes all that is in it, and no precondition of the API stops that. So each
kind that the server has is listed first: what cannot be listed may hold something. The Namespace is
deleted only at the version at which it was read before, so that whoever writes to it keeps it; and
only if no order has named it for `remove_after_s`, nor does now.
"""

from collections.abc import Iterator
from typing import NamedTuple, TypeVar

import msgspec

from agents.executor.context.local import Local, Moment
from agents.executor.context.reconcile_task import ReconcileTask
from agents.executor.objects import made_namespaces
from shared.kube.deletes import delete_request
from shared.kube.http import Procedure, Request
from shared.kube.verdicts import NOT_FOUND, error_text
from shared.model.names import MADE_FOR

T = TypeVar("T")
TASK = "empty namespaces"  # one is looked at at a time
# What Kubernetes itself puts into each namespace.
_GIVEN = {("", "serviceaccounts"): "default", ("", "configmaps"): "kube-root-ca.crt"}
_HISTORY = "events"  # of core and events.k8s.io: they tell of what was there, and end by themselves
_LISTED = {"limit": "2"}  # one may be Kubernetes' own
_READS = frozenset(("get", "list"))


class _Kind(NamedTuple):
    group: str
    plural: str
    path: str  # without the namespace: /api/v1, /apis/apps/v1


class _GroupVersion(msgspec.Struct, rename="camel"):
    group_version: str


class _Group(msgspec.Struct, rename="camel"):
    name: str
    versions: tuple[_GroupVersion, ...] = ()


class _Groups(msgspec.Struct):
    groups: tuple[_Group, ...]


class _Resource(msgspec.Struct):
    name: str
    namespaced: bool = False
    verbs: tuple[str, ...] = ()


class _Resources(msgspec.Struct):
    resources: tuple[_Resource, ...]


class _Metadata(msgspec.Struct):
    name: str = ""


class _Item(msgspec.Struct):
    metadata: _Metadata


class _List(msgspec.Struct):
    items: tuple[_Item, ...] | None


class _UnknownError(Exception):
    """It is not known whether the namespace is empty; the text says why."""


def reconcile_tasks(local: Local, now: Moment) -> Iterator[ReconcileTask]:
    """A task for each namespace that was made here and has not been named, nor looked at, for so
    long.
    """
    after_s = local.policy.namespaces.remove_after_s
    for one in local.view.namespaces() if after_s > 0 else ():
        if MADE_FOR not in one.labels or one.system:
            continue
        if local.named.get(one.name) is None:
            local.named.put(one.name, now.mono)  # first seen in this life
        seen = max(local.named.get(one.name) or 0.0, local.looked_at.get(one.name) or 0.0)
        if now.mono - seen >= after_s:
            yield ReconcileTask(TASK, one.name, _remove(one.name, local, now))


def _remove(name: str, local: Local, now: Moment) -> Procedure[str]:
    local.looked_at.put(name, now.mono)
    named = local.named.get(name)
    response = yield Request("GET", made_namespaces.path(name))
    found = made_namespaces.read(response)
    if found is None:
        return "" if response.status == NOT_FOUND else error_text(response)
    if found.terminating or not found.untouched:
        return ""
    try:
        if (yield from _holds_something(name)):
            return ""
    except _UnknownError as error:
        return f'whether namespace "{name}" is empty is not known: {error}'
    # An order has come meanwhile, which may have begun before this.
    if local.named.get(name) != named:
        return ""
    exactly = (found.metadata.uid, found.metadata.resource_version)
    local.leaving.add(name)
    try:
        response = yield delete_request(made_namespaces.path(name), *exactly)
    finally:
        local.leaving.discard(name)
    local.made.drop(name)
    return "" if response.ok or response.status == NOT_FOUND else error_text(response)


def _holds_something(name: str) -> Procedure[bool]:
    """Whether anything is in the namespace that Kubernetes does not put into each."""
    for kind in (yield from _kinds()):
        path = f"{kind.path}/namespaces/{name}/{kind.plural}"
        found = yield from _asked(Request("GET", path, params=_LISTED), _List)
        given = _GIVEN.get((kind.group, kind.plural))
        if any(one.metadata.name != given for one in found.items or ()):
            return True
    return False


def _kinds() -> Procedure[list[_Kind]]:
    """All kinds of a namespace that the server keeps, in any version, pods first."""
    found: dict[tuple[str, str], _Kind] = {}
    served = yield from _asked(Request("GET", "/apis"), _Groups)
    named = [
        (group.name, f"/apis/{one.group_version}")
        for group in served.groups
        for one in group.versions
    ]
    for group, path in (("", "/api/v1"), *named):
        resources = yield from _asked(Request("GET", path), _Resources)
        for one in resources.resources:
            if not one.namespaced or "/" in one.name or one.name == _HISTORY:
                continue
            if "list" in one.verbs:
                found.setdefault((group, one.name), _Kind(group, one.name, path))
            elif not _READS.isdisjoint(one.verbs):
                raise _UnknownError(f"{path}/{one.name} cannot be listed")
    return sorted(found.values(), key=lambda one: (one.group, one.plural) != ("", "pods"))


def _asked(request: Request, wanted: type[T]) -> Procedure[T]:
    response = yield request
    if not response.ok:
        raise _UnknownError(f"{request.path}: {error_text(response)}")
    try:
        return msgspec.json.decode(response.body, type=wanted)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise _UnknownError(f"{request.path} cannot be read ({error})") from None
