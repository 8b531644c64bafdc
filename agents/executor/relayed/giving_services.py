"""What this cluster gives to another one, within one pod network, of the Services of a namespace
whose pods go there: see `services`, on that side. Who asks was checked by `giving`.
"""

from agents.executor.context.local import Local
from agents.executor.objects import pages
from agents.executor.objects.contents import digest_of
from agents.executor.objects.pages import ListError
from agents.executor.objects.service_content import (
    KIND,
    ServiceObject,
    ServicesError,
    SliceObject,
    content_of,
    read_service,
    read_slice,
)
from agents.executor.objects.services_here import path
from shared.kube.http import Procedure
from shared.messages.relay import CONTENT, DENIED, SAME, Given, RelayAsk, WantedObject


def asks(wanted: WantedObject) -> bool:
    """Whether it is Services that are asked for."""
    return wanted.kind == KIND


def read(ask: RelayAsk, namespace: str, local: Local) -> Procedure[Given]:
    """All Services of the namespace and where they lead, as the API server shows them now."""
    what = f'Services of namespace "{namespace}"'
    if not local.serves:
        why = f'cluster "{local.cluster}" gives no {what}: set its `executor.services`'
        return Given(DENIED, text=why)
    routed = local.peers.routed(ask.target, ask.target_uid)
    if routed is None:
        why = "the dispatcher has not said yet"
        return Given(DENIED, text=f'{what} are not given: {why} which `network` "{ask.target}" has')
    if not routed:
        why = f'`network` of clusters "{ask.target}" and "{local.cluster}" is not the same'
        return Given(DENIED, text=f"no {what} are given: {why}, as the dispatcher has it")
    services: list[ServiceObject] = []
    slices: list[SliceObject] = []
    try:
        yield from pages.each(
            path("services", namespace), lambda item: services.append(read_service(item))
        )
        yield from pages.each(
            path("endpointslices", namespace), lambda item: slices.append(read_slice(item))
        )
        return Given(CONTENT, content_of(services, slices, namespace).encoded)
    except ListError as error:
        return Given(DENIED, text=f"{what} are not known just now: {error}")
    except ServicesError as error:
        return Given(DENIED, text=f'namespace "{namespace}" {error}')


def told(given: Given, wanted: WantedObject) -> Given:
    """The same, or that it is what the asker has."""
    if given.state == CONTENT and digest_of(given.content) == wanted.digest:
        return Given(SAME)
    return given
