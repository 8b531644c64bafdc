"""pods/exec, pods/attach and pods/portforward: upgraded connections, passed on to the kubelet of
the pod's node.

Checks, queries and words are kube-apiserver's (streamLocation and streamParams of
pkg/registry/core/pod/strategy.go; tests/contract/test_streams.py asks the real one). In one thing
it differs: WebSockets go on to every kubelet. To one that does not declare
ExtendWebSocketsToKubelet kube-apiserver speaks SPDY; here it refuses them by itself, and kubectl
comes again with SPDY.
"""

from collections.abc import Iterator

from aiohttp import web
from yarl import URL

from localfleet.embedded.api import Api
from localfleet.embedded.apiserver.status import Object, bad_request, plain
from localfleet.embedded.rest.location import container_of, kubelet_of, node_of
from localfleet.embedded.rest.upgrade import is_upgrade, passed_on

# subresource -> how kubelets call it
KUBELET_VERBS = {"exec": "exec", "attach": "attach", "portforward": "portForward"}
_STREAMS = {
    "stderr": "error",
    "stdin": "input",
    "stdout": "output",
    "tty": "tty",
}  # as clients and kubelets name them
_MOST_PORT = 65535


async def serve(
    request: web.Request, api: Api, namespace: str, name: str, subresource: str
) -> web.StreamResponse:
    """One connection, to its end; ApiError."""
    if request.method not in ("GET", "POST"):
        raise plain(405)
    query = sorted(_kubelet_query(subresource, request), key=lambda pair: pair[0])
    pod = api.get("pods", name, namespace)
    path = _path(pod, subresource, request.query.get("container", ""))
    kubelet = kubelet_of(node_of(pod, api))
    if not is_upgrade(request):
        raise bad_request("Upgrade request required")
    target = URL.build(path=path, query=query)
    return await passed_on(request, kubelet, str(target), api.kubelet_credentials())


def _path(pod: Object, subresource: str, container: str) -> str:
    meta = pod["metadata"]
    parts = [KUBELET_VERBS[subresource], meta["namespace"], meta["name"]]
    if subresource != "portforward":
        parts.append(container_of(pod, container))
    return "/" + "/".join(parts)


def _kubelet_query(subresource: str, request: web.Request) -> Iterator[tuple[str, str]]:
    """What the kubelet is asked. ApiError 400: a port that is none."""
    given = request.query
    if subresource == "portforward":
        if ports := [_port(one) for text in given.getall("ports", []) for one in text.split(",")]:
            yield "port", ",".join(ports)
        return
    for name, kubelets in _STREAMS.items():
        if name in given and given[name].lower() not in ("0", "false"):
            yield kubelets, "1"
    if subresource == "exec":
        yield from (("command", word) for word in given.getall("command", []))


def _port(text: str) -> str:
    why = ""
    if not (text.isascii() and text.isdigit()):
        why = "invalid syntax"
    elif int(text.lstrip("0")[:6] or 0) > _MOST_PORT:
        why = "value out of range"
    if why:
        raise bad_request(
            f'cannot convert to []int32: strconv.ParseUint: parsing "{text[:40]}": {why}'
        )
    return text.lstrip("0") or "0"
