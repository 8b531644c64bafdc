"""The API server as the client of kubelets that are no part of its process: those that agents serve for proxy nodes.

As kube-apiserver does without --kubelet-certificate-authority: it shows its client certificate, and verifies none.
Refusals of a kubelet are told as GenericHttpResponseChecker of kube-apiserver does (k8s.io/apiserver,
pkg/registry/generic/rest/response_checker.go; tests/contract/test_kubelets.py asks the real one).
"""

import json
import ssl
from typing import NamedTuple

import aiohttp
from aiohttp import web
from yarl import URL

from localfleet.embedded.apiserver.status import ApiError, bad_request, unexplained
from localfleet.embedded.rest.location import Kubelet

_CONNECT_S = 10.0
_MOST = 10 * 1024  # bytes of a refusal that are told


class _Told(NamedTuple):
    reason: str
    message: str


_TOLD = {
    401: _Told("Unauthorized", "the server has asked for the client to provide credentials"),
    403: _Told("Forbidden", "{plain}"),
    404: _Told("NotFound", "the server could not find the requested resource"),
    405: _Told("MethodNotAllowed", "the server does not allow this method on the requested resource"),
    503: _Told("ServiceUnavailable", "the server is currently unable to handle the request"),
}
_OF_SERVER = _Told("InternalError", "an error on the server ({text}) has prevented the request from succeeding")
_UNKNOWN = _Told("", "the server responded with the status code {code} but did not return more information")


class KubeletClient:
    """`context` has the client certificate."""

    def __init__(self, context: ssl.SSLContext) -> None:
        self._context = context

    async def passed_on(
        self, request: web.Request, kubelet: Kubelet, log: tuple[str, str, str], query: dict[str, str]
    ) -> web.StreamResponse:
        """The kubelet's log of (namespace, pod, container) as it comes; ApiError if it refuses or nobody answers."""
        url = URL(f"https://{kubelet.authority}/containerLogs/{'/'.join(log)}").with_query(query)
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_S)
        async with aiohttp.ClientSession(timeout=timeout) as session:
            try:
                answer = await session.get(url, ssl=self._context)
            except (aiohttp.ClientError, OSError) as error:
                raise unexplained(f'Get "{url}": {error}') from None
            async with answer:
                if not 200 <= answer.status <= 206:
                    raise _refusal(answer.status, (await answer.content.read(_MOST)).decode(errors="replace"), log[1])
                return await _copied(request, answer)


async def _copied(request: web.Request, answer: aiohttp.ClientResponse) -> web.StreamResponse:
    response = web.StreamResponse()
    response.content_type = answer.content_type
    await response.prepare(request)
    async for chunk in answer.content.iter_any():
        await response.write(chunk)
    return response


def _refusal(code: int, text: str, pod: str) -> ApiError:
    if code == 400:
        return bad_request(text)
    if code == 500:
        return ApiError(500, "InternalError", f"Internal error occurred: {text}", {"causes": [{"message": text}]})
    told = _TOLD.get(code, _OF_SERVER if code > 500 else _UNKNOWN)
    message = f"{told.message.format(code=code, text=json.dumps(text), plain=text)} ( pods/log {pod})"
    return ApiError(code, told.reason, message, {"name": pod, "kind": "pods/log"})
