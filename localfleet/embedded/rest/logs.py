"""pods/log: the text so far, or followed until the pod ends; of a pod on a proxy node, what its
agent answers.
"""

import asyncio

from aiohttp import web

from localfleet.embedded.api import Api
from localfleet.embedded.apiserver.status import ApiError, Object, bad_request
from localfleet.embedded.rest import kubelet_log
from localfleet.embedded.rest.location import container_of, kubelet_of, node_of

_LOOK_S = 0.3


def _ran(pod: Object, container: str, *, previous: bool) -> None:
    """ApiError 400, in a kubelet's words, if the container has no run to tell of."""
    name = pod["metadata"]["name"]
    status = pod.get("status") or {}
    entry: Object = next(
        (one for one in status.get("containerStatuses") or () if one["name"] == container), {}
    )
    if (entry.get("lastState") or {}).get("terminated"):
        return
    if previous:
        raise bad_request(f'previous terminated container "{container}" in pod "{name}" not found')
    waiting = (entry.get("state") or {}).get("waiting") or {}
    if waiting or status.get("phase") == "Pending":
        why = waiting.get("reason") or "ContainerCreating"
        raise bad_request(f'container "{container}" in pod "{name}" is waiting to start: {why}')


async def serve(request: web.Request, api: Api, namespace: str, name: str) -> web.StreamResponse:
    """Answer one log request."""
    query = dict(request.query)
    pod = api.get("pods", name, namespace)
    container = container_of(pod, query.pop("container", ""))
    node = node_of(pod, api)
    kubelet = kubelet_of(node)
    if node["status"].get(
        "declaredFeatures"
    ):  # kubelets of this process say nothing of their features
        log = (namespace, name, container)
        return await kubelet_log.passed_on(request, kubelet, log, query, api.kubelet_credentials())
    _ran(pod, container, previous=query.get("previous") in ("true", "1"))
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


async def _follow(
    request: web.Request, response: web.StreamResponse, api: Api, pod: Object, container: str
) -> None:
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
