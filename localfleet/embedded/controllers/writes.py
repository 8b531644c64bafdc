"""Writes as data: what a controller wants changed, and the one place that carries it out."""

from dataclasses import dataclass

from localfleet.embedded.api import Api, ApiError
from localfleet.embedded.apiserver.deletion import Options
from localfleet.embedded.controllers.world import Ref
from localfleet.embedded.meta import Object


@dataclass(frozen=True, slots=True)
class Create:
    """Create `obj` in its namespace."""

    resource: str
    obj: Object


@dataclass(frozen=True, slots=True)
class Merge:
    """A JSON merge patch, of a subresource when one is named."""

    ref: Ref
    change: Object
    subresource: str = ""


@dataclass(frozen=True, slots=True)
class PutStatus:
    """Replace the status of `obj`, unless somebody else has written it since it was read."""

    ref: Ref
    obj: Object
    status: Object


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete the object with this uid; grace_s None: its own grace period."""

    ref: Ref
    uid: str
    grace_s: int | None = None
    propagation: str = "Background"


Write = Create | Merge | PutStatus | Delete


def carry_out(api: Api, write: Write) -> None:
    """Do one write. What is gone already needs no deletion or change; other refusals are raised."""
    try:
        _do(api, write)
    except ApiError as error:
        if error.status.get("reason") != "NotFound" or isinstance(write, Create):
            raise


def _do(api: Api, write: Write) -> None:
    if isinstance(write, Create):
        api.create(write.resource, write.obj, write.obj["metadata"].get("namespace", ""))
    elif isinstance(write, Merge):
        ref = write.ref
        api.patch(
            ref.resource,
            ref.name,
            ref.namespace,
            write.change,
            kind="merge",
            subresource=write.subresource,
        )
    elif isinstance(write, PutStatus):
        if write.obj.get("status") != write.status:
            api.update(
                write.ref.resource, {**write.obj, "status": write.status}, subresource="status"
            )
    else:
        ref = write.ref
        options = Options(write.uid, grace_seconds=write.grace_s, propagation=write.propagation)
        api.delete(ref.resource, ref.name, ref.namespace, options)
