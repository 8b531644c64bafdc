"""Services and EndpointSlices that this agent, or an earlier life of it, has made for pods of other
clusters: found by their marks, and deleted.
"""

from urllib.parse import quote

import msgspec

from agents.executor.context.local import Local, Moment
from agents.executor.context.service_table import Space
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
from shared.kube.http import FORBIDDEN, Procedure
from shared.kube.verdicts import NOT_FOUND, Answer, error_text
from shared.messages import UNKNOWN
from shared.model import names


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
    """Of one `services` or `endpointslices`, or of all in a namespace."""
    group = "/api/v1" if kind == "services" else "/apis/discovery.k8s.io/v1"
    held = f"{group}/namespaces/{quote(namespace, safe='')}/{kind}"
    return f"{held}/{quote(name, safe='')}" if name else held


def here_of(space: Space) -> Procedure[Here]:
    """What is here of this namespace of a source. ListError."""
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


def list_all(local: Local, now: Moment) -> Procedure[str]:
    """Find what an earlier life of this agent has made. Who may not list in the whole cluster finds
    that alone of which delegates come.
    """

    def take(item: bytes) -> None:
        space = space_of(read_object(item).metadata)
        if space is not None and not local.services.full(space):
            local.services.put(space, now.mono, used=False)

    for of in ("/api/v1/services", "/apis/discovery.k8s.io/v1/endpointslices"):
        try:
            yield from pages.each(of, take, names.COPY)
        except ListError as error:
            if error.status != FORBIDDEN:
                return str(error)
    local.services.listed = True
    return ""
