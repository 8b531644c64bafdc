"""Services and EndpointSlices that this agent, or an earlier life of it, has made for pods of other
clusters: found by their marks, and deleted.

Who may write Services in a namespace may forge the marks: what is found so is only ever deleted,
and counts for nothing until a delegate uses it.
"""

import math
from urllib.parse import quote

import msgspec

from agents.executor.context.local import Local, Moment
from agents.executor.context.service_table import Held, Space
from agents.executor.objects import pages
from agents.executor.objects.pages import ListError
from agents.executor.objects.reads import Metadata, read_object
from agents.executor.objects.service_content import (
    ServiceObject,
    SliceObject,
    mark_of,
    read_service,
    read_slice,
    space_of,
)
from shared.kube.deletes import delete_request
from shared.kube.http import Procedure, Request
from shared.kube.verdicts import NOT_FOUND, Answer, error_text
from shared.messages import UNKNOWN
from shared.model import names

KINDS = ("services", "endpointslices")
# Whoever may make Services may mark them: of all together no bound may end the list.
_LISTED = "10"  # each may have more than a mebibyte
_MAY = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"


class _Allowed(msgspec.Struct):
    allowed: bool = False


class _Review(msgspec.Struct):
    status: _Allowed = msgspec.field(default_factory=_Allowed)


class NotWritten(Exception):  # noqa: N818 - reads as what happened
    """Why something is not here as it should be."""

    def __init__(self, answer: Answer) -> None:
        super().__init__(answer.message)
        self.answer = answer


class Here(msgspec.Struct):
    """What is here of one namespace of a source."""

    services: dict[str, ServiceObject] = {}
    slices: dict[str, SliceObject] = {}


def path(kind: str, namespace: str, name: str = "") -> str:
    """Of one `services` or `endpointslices`, or of all in a namespace; of all there are if that is
    "".
    """
    group = "/api/v1" if kind == "services" else "/apis/discovery.k8s.io/v1"
    inside = f"/namespaces/{quote(namespace, safe='')}" if namespace else ""
    held = f"{group}{inside}/{kind}"
    return f"{held}/{quote(name, safe='')}" if name else held


def here_of(space: Space) -> Procedure[Here]:
    """What is here of a namespace of a source. ListError."""
    here = Here({}, {})

    def take_service(item: bytes) -> None:
        found = read_service(item)
        if space_of(found.metadata) == space:
            here.services[found.metadata.name] = found

    def take_slice(item: bytes) -> None:
        found = read_slice(item)
        if space_of(found.metadata) == space and not found.of_a_controller:
            here.slices[found.metadata.name] = found

    selector = f"{names.COPY}={mark_of(space)}"
    yield from pages.each(path("services", space.namespace), take_service, selector)
    yield from pages.each(path("endpointslices", space.namespace), take_slice, selector)
    return here


def delete(kind: str, space: Space, found: Metadata) -> Procedure[None]:
    """Delete exactly what was read. NotWritten."""
    at = path(kind, space.namespace, found.name)
    response = yield delete_request(at, found.uid, found.resource_version)
    if not response.ok and response.status != NOT_FOUND:
        raise NotWritten(Answer(UNKNOWN, f"{at}: {error_text(response)}"))


def remove_all(held: Held) -> Procedure[None]:
    """Delete all that is here of it, addresses first. ListError, NotWritten."""
    space = held.space
    held.removing = True
    try:
        here = yield from here_of(space)
        for found in here.slices.values():
            yield from delete("endpointslices", space, found.metadata)
        for service in here.services.values():
            yield from delete("services", space, service.metadata)
    finally:
        held.removing = False


def list_all(local: Local, now: Moment) -> Procedure[str]:
    """Find what an earlier life of this agent has made: in the whole cluster or, where that may not
    be listed, in each namespace where it may. What would be too many at once is found later.
    """
    table = local.services

    def take(item: bytes) -> None:
        space = space_of(read_object(item).metadata)
        if space is not None:
            table.found(space, now.mono)

    def listed(at: str) -> Procedure[bool]:
        return pages.each_allowed(at, take, names.COPY, page=_LISTED, most=math.inf)

    for kind in KINDS:
        try:
            may = yield from listed(path(kind, ""))
            for space in () if may else tuple(local.view.namespaces()):
                if (kind, space.name) not in table.listed_in:
                    yield from listed(path(kind, space.name))
                    table.listed_in.add((kind, space.name))
        except ListError as error:
            return str(error)
    table.listed_in.clear()
    table.listed = not table.overflowed
    table.overflowed = False
    return ""


def list_left(local: Local, now: Moment) -> Procedure[str]:
    """The same where none are made, or none any more, if they may be deleted still: that is asked
    first, for who never had the right is not to be denied anything.
    """
    for right in (("", "services"), ("discovery.k8s.io", "endpointslices")):
        asked = {"verb": "delete", "group": right[0], "resource": right[1]}
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": asked},
        }
        response = yield Request("POST", _MAY, msgspec.json.encode(review))
        if response.unknown:
            return f"{_MAY}: {error_text(response)}"
        if not response.ok or not msgspec.json.decode(response.body, type=_Review).status.allowed:
            local.services.listed = True
            return ""
    return (yield from list_all(local, now))
