"""A small blocking client for one API server: what the harness itself and quick checks need."""

import ssl
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx

from localfleet.controlplane.credentials import Pair

Object = dict[str, Any]
_IN_FLIGHT = 16
_TIMEOUT_S = 30.0
# How a kept connection ends: by the server, or as another thread closes it.
_ENDED = (httpx.RemoteProtocolError, httpx.ReadError, httpx.WriteError)
_MERGE_PATCH = "application/merge-patch+json"


class Api:
    """JSON over HTTPS as one client; answers that are no success raise httpx.HTTPStatusError with
    the server's text.
    """

    def __init__(
        self, server: str, authority: Path, pair: Pair | None = None, token: str = ""
    ) -> None:
        context = ssl.create_default_context(cafile=str(authority))
        if pair is not None:
            context.load_cert_chain(pair.certificate, pair.key)
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        # No expiry: a thread that finds a connection expired would close it under another that was
        # just given it.
        limits = httpx.Limits(max_connections=_IN_FLIGHT, keepalive_expiry=None)
        self.http = httpx.Client(
            base_url=server,
            verify=context,
            headers=headers,
            limits=limits,
            timeout=_TIMEOUT_S,
            trust_env=False,
        )

    def get(self, path: str, **query: str) -> Object:
        """GET an object or a list."""
        return self._call("GET", path, params=query)

    def create(self, path: str, body: Mapping[str, Any]) -> Object:
        """POST an object to its collection, or to a subresource."""
        return self._call("POST", path, json=body)

    def patch(self, path: str, body: Mapping[str, Any], kind: str = _MERGE_PATCH) -> Object:
        """PATCH; a merge patch unless told otherwise."""
        return self._call("PATCH", path, json=body, headers={"Content-Type": kind})

    def delete(self, path: str, **query: str) -> Object:
        """DELETE an object."""
        return self._call("DELETE", path, params=query)

    def create_all(self, path: str, bodies: Iterable[Mapping[str, Any]]) -> None:
        """POST many objects, a few at a time; raises the first failure."""
        with ThreadPoolExecutor(_IN_FLIGHT) as pool:
            list(pool.map(lambda body: self.create(path, body), bodies))

    def answers(self, path: str) -> bool:
        """Whether a GET succeeds now; no server is no."""
        try:
            return self.http.get(path, timeout=2.0).is_success
        except httpx.TransportError:
            return False

    def close(self) -> None:
        """Close all connections."""
        self.http.close()

    def _call(self, method: str, path: str, **given: Any) -> Object:
        answer = self._answer(method, path, **given)
        if not answer.is_success:
            text = f"{method} {path}: {answer.status_code} {answer.text}"
            raise httpx.HTTPStatusError(text, request=answer.request, response=answer)
        body: Object = answer.json()
        return body

    def _answer(self, method: str, path: str, **given: Any) -> httpx.Response:
        """The answer; asked once more where a kept connection ended unanswered and asking twice
        does no harm.

        A server may end a kept connection at any time (RFC 9112, section 9.3.1), before or after it
        did what was asked; so may, on a starved machine, another thread that takes a connection
        with an answer in it for one that ended, and closes it under this one. So what the second
        answer says of the first is told as the success that it is: a DELETE finds nothing any more,
        a create finds the object there.
        """
        try:
            return self.http.request(method, path, **given)
        except _ENDED:
            if not _harmless_twice(method, given):
                raise
        again = self.http.request(method, path, **given)
        if method == "DELETE" and again.status_code == httpx.codes.NOT_FOUND:
            return httpx.Response(httpx.codes.OK, json={"status": "Success"}, request=again.request)
        if method == "POST" and again.status_code == httpx.codes.CONFLICT:
            return self.http.get(f"{path}/{given['json']['metadata']['name']}")
        return again


def _harmless_twice(method: str, given: Mapping[str, Any]) -> bool:
    """Whether a request that was carried out once and is asked again changes nothing more."""
    if method == "POST":  # of an object whose name the server makes up there would be two
        return bool(given["json"].get("metadata", {}).get("name"))
    if method == "PATCH":  # a JSON patch may add to a list each time
        return bool(given["headers"]["Content-Type"] == _MERGE_PATCH)
    return method in {"GET", "DELETE"}
