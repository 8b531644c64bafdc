"""pods/log: the text so far, or followed until the pod ends; of a pod on a proxy node, what its agent answers."""

import asyncio

from aiohttp import web

from localfleet.embedded.api import Api
from localfleet.embedded.apiserver.status import ApiError, Object, bad_request, unexplained
from localfleet.embedded.rest.kubelet_client import Kubelet, KubeletClient

_LOOK_S = 0.3


def container_of(pod: Object, asked: str) -> str:
    """The container whose log is meant; ApiError 400 when that is unclear or it has not started."""
    spec, name = pod["spec"], pod["metadata"]["name"]
    own = [container["name"] for container in spec.get("containers") or ()]
    initial = [container["name"] for container in spec.get("initContainers") or ()]
    if asked and asked not in [*own, *initial]:
        raise bad_request(f"container {asked} is not valid for pod {name}")
    if not asked and len(own) > 1:
        choices = f"choose one of: [{' '.join(own)}]"
        raise bad_request(f"a container name must be specified for pod {name}, {choices}")
    chosen = asked or own[0]
    if not spec.get("nodeName"):
        raise bad_request(f"pod {name} does not have a host assigned")
    if (pod.get("status") or {}).get("phase") == "Pending":
        raise bad_request(f'container "{chosen}" in pod "{name}" is waiting to start: ContainerCreating')
    return chosen


def _kubelet_of(name: str, api: Api) -> Kubelet | None:
    """Who else serves as the kubelet of this node; None: this process does. ApiError where a real API server reaches
    none.
    """
    status = api.get("nodes", name, "").get("status") or {}
    addresses = [one["address"] for one in status.get("addresses") or () if one.get("type") == "InternalIP"]
    if not addresses:
        raise unexplained("no preferred addresses found; known addresses: []")
    if not status.get("declaredFeatures"):  # kubelets here say nothing of their features
        return None
    return Kubelet(addresses[0], status["daemonEndpoints"]["kubeletEndpoint"]["Port"])


async def serve(request: web.Request, api: Api, namespace: str, name: str) -> web.StreamResponse:
    """Answer one log request."""
    query = dict(request.query)
    pod = api.get("pods", name, namespace)
    container = container_of(pod, query.pop("container", ""))
    kubelet = _kubelet_of(pod["spec"]["nodeName"], api)
    if kubelet is not None:
        log = (namespace, name, container)
        return await KubeletClient(api.kubelet_credentials()).passed_on(request, kubelet, log, query)
    follow = query.pop("follow", "") in ("true", "1")
    text = api.log_source(pod, container, query)
    if not follow:
        return web.Response(text=text)
    response = web.StreamResponse()
    response.content_type = "text/plain"
    await response.prepare(request)
    await response.write(text.encode())
    await _follow(request, response, api, pod, container)
    return response


async def _follow(request: web.Request, response: web.StreamResponse, api: Api, pod: Object, container: str) -> None:
    meta = pod["metadata"]
    sent = len(api.log_source(pod, container, {}))
    while request.transport is not None:
        try:
            pod = api.get("pods", meta["name"], meta["namespace"])
        except ApiError:
            return
        whole = api.log_source(pod, container, {})
        if len(whole) > sent:
            await response.write(whole[sent:].encode())
            sent = len(whole)
        if (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
            return
        await asyncio.sleep(_LOOK_S)
