"""The log of a pod on a node whose kubelet is no part of this process.

Refusals of a kubelet are told as GenericHttpResponseChecker of kube-apiserver does
(k8s.io/apiserver, pkg/registry/generic/rest/response_checker.go; tests/contract/test_kubelets.py
asks the real one).
"""

import asyncio
import json
import ssl
from contextlib import closing, suppress
from typing import NamedTuple

import h11
from aiohttp import web
from yarl import URL

from localfleet.embedded.apiserver.status import ApiError, bad_request, unexplained
from localfleet.embedded.rest.kubelet_wire import (
    FAILURES,
    KubeletWire,
    copy_body,
    dial,
    while_client_stays,
)
from localfleet.embedded.rest.location import Kubelet

# of a refusal: how many bytes are told, how long they are waited for
_MOST_BYTES = 10 * 1024
_MOST_S = 10.0


class _Status(NamedTuple):
    reason: str
    message: str


_STATUSES = {
    401: _Status("Unauthorized", "the server has asked for the client to provide credentials"),
    403: _Status("Forbidden", "{plain}"),
    404: _Status("NotFound", "the server could not find the requested resource"),
    405: _Status(
        "MethodNotAllowed", "the server does not allow this method on the requested resource"
    ),
    503: _Status("ServiceUnavailable", "the server is currently unable to handle the request"),
}
_SERVER_ERROR = _Status(
    "InternalError", "an error on the server ({text}) has prevented the request from succeeding"
)
_OTHER_ERROR = _Status(
    "", "the server responded with the status code {code} but did not return more information"
)


async def passed_on(
    request: web.Request,
    kubelet: Kubelet,
    log: tuple[str, str, str],
    query: dict[str, str],
    context: ssl.SSLContext,
) -> web.StreamResponse:
    """The kubelet's log of (namespace, pod, container) as it comes; ApiError if it refuses or
    nobody answers.
    """
    target = str(URL.build(path="/containerLogs/" + "/".join(log), query=query))
    try:
        wire = await dial(kubelet, context)
        with closing(wire.pipe):
            asked = h11.Request(method="GET", target=target, headers=[("Host", kubelet.authority)])
            return await while_client_stays(request, _answer(request, wire, asked, log[1]))
    except FAILURES as error:
        raise unexplained(f'Get "https://{kubelet.authority}{target}": {error}') from None


async def _answer(
    request: web.Request, wire: KubeletWire, asked: h11.Request, pod: str
) -> web.StreamResponse:
    """As of `passed_on`. One of FAILURES before anything was answered."""
    head = await wire.ask(asked)
    if 200 <= head.status_code <= 206:
        response = web.StreamResponse()
        response.content_type = "text/plain"
        return await copy_body(request, response, wire.body())
    if 300 <= head.status_code < 400 and (where := dict(head.headers).get(b"location")):
        raise unexplained(f'Get "{where.decode("latin-1")}": redirects forbidden')
    raise _refusal(head.status_code, await _text(wire), pod)


async def _text(wire: KubeletWire) -> str:
    """The beginning of a refusal."""
    found = bytearray()
    with suppress(*FAILURES):
        async with asyncio.timeout(_MOST_S):
            async for data in wire.body():
                found += data
                if len(found) >= _MOST_BYTES:
                    break
    return found[:_MOST_BYTES].decode(errors="replace")


def _refusal(code: int, text: str, pod: str) -> ApiError:
    if code == 400:
        return bad_request(text)
    if code == 500:
        return ApiError(
            500,
            "InternalError",
            f"Internal error occurred: {text}",
            {"causes": [{"message": text}]},
        )
    told = _STATUSES.get(code, _SERVER_ERROR if code > 500 else _OTHER_ERROR)
    message = (
        f"{told.message.format(code=code, text=json.dumps(text), plain=text)} ( pods/log {pod})"
    )
    return ApiError(code, told.reason, message, {"name": pod, "kind": "pods/log"})
