"""The command's side of the HTTP API."""

import os
import re
from contextlib import AbstractContextManager, nullcontext
from typing import Any
from urllib.parse import quote

import httpx

from dispatcher.cli.kubectl_forward import SCHEME, forwarded
from dispatcher.service.errors import CommandError, ExitCode

TOKEN_VARIABLE = "GLOBAL_DISPATCHER_TOKEN"  # noqa: S105 - the name of a variable; for `http.login` of the dispatcher


class ApiClient:
    """Asks one running dispatcher. Every failure is a CommandError that names the server and the
    fix.
    """

    def __init__(self, server: str, timeout_s: float = 10.0) -> None:
        if not server.startswith(("http://", "https://", SCHEME)):
            address = server.partition("://")[2] or server
            raise CommandError(f"--server {server}: write http://{address}", ExitCode.USAGE)
        self._server = server if server.startswith(SCHEME) else server.rstrip("/")
        self._told = without_password(self._server)
        self._timeout_s = timeout_s
        token = os.environ.get(TOKEN_VARIABLE, "").strip()
        if token and not re.fullmatch(
            r"[!-~]+", token
        ):  # what HTTP cannot carry would be told with the error
            raise CommandError(
                f"{TOKEN_VARIABLE} holds no token: give one alone, without spaces, line breaks "
                "and other letters than "
                "those of ASCII",
                ExitCode.USAGE,
            )
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}

    def rows(self, kind: str, **query: str) -> list[dict[str, Any]]:
        """Rows of clusters, nodes, pods or tenants; empty query values do not select."""
        wanted = {key: value for key, value in query.items() if value}
        answer = self._get(f"/v1/{kind}", wanted)
        rows: list[dict[str, Any]] = answer[kind]
        return rows

    def explain(self, namespace: str, name: str, cluster: str = "") -> dict[str, Any]:
        """The whole record of one pod."""
        path = f"/v1/explain/{quote(namespace, safe='')}/{quote(name, safe='')}"
        return self._get(path, {"cluster": cluster} if cluster else {})

    def queue(self, limit: int) -> dict[str, Any]:
        """Rows of the first pods that are to be decided, and how many pods wait in which state."""
        return self._get("/v1/queue", {"limit": str(limit)})

    def place(self, namespace: str, name: str, cluster: str = "") -> dict[str, Any]:
        """Where one pod stands in the queue."""
        path = f"/v1/queue/{quote(namespace, safe='')}/{quote(name, safe='')}"
        return self._get(path, {"cluster": cluster} if cluster else {})

    def tenant(self, name: str) -> dict[str, Any]:
        """All about one tenant."""
        return self._get(f"/v1/tenants/{quote(name, safe='')}", {})

    def quota(self, **query: str) -> dict[str, Any]:
        """Whether quota lets pods pass: see the dispatcher's /v1/quota."""
        return self._get("/v1/quota", {key: value for key, value in query.items() if value})

    def version(self) -> str:
        """The server's version."""
        return str(self._get("/v1/version", {})["version"])

    def _base(self) -> AbstractContextManager[str]:
        return (
            forwarded(self._server)
            if self._server.startswith(SCHEME)
            else nullcontext(self._server)
        )

    def content(self, path: str) -> bytes:
        """What is answered there, as it stands."""
        return self._asked(path, {}).content

    def _get(self, path: str, query: dict[str, str]) -> dict[str, Any]:
        answer = self._asked(path, query)
        try:
            found: dict[str, Any] = answer.json()
        except ValueError as error:
            raise self._unreached(error) from None
        return found

    def _asked(self, path: str, query: dict[str, str]) -> httpx.Response:
        try:
            with self._base() as base:
                answer = httpx.get(
                    f"{base}{path}",
                    params=query,
                    headers=self._headers,
                    timeout=self._timeout_s,
                    trust_env=False,
                )
            if answer.status_code == 200:
                return answer
            body = answer.json()
        except httpx.RemoteProtocolError as error:
            text = (
                f"the dispatcher at {self._told} ended the connection before its answer was whole "
                f"({error})"
            )
            raise CommandError(
                f"{text}: its log says why, if it runs", ExitCode.UNREACHABLE
            ) from None
        except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
            raise self._unreached(error) from None
        code = ExitCode.NOT_FOUND if answer.status_code == 404 else ExitCode.FAILED
        message = body.get("error") if isinstance(body, dict) else None
        raise CommandError(
            str(message or f"{self._told}{path} answered {answer.status_code}"), code
        )

    def _unreached(self, error: Exception) -> CommandError:
        return CommandError(
            f"no dispatcher answers at {self._told} ({error or type(error).__name__}): start one "
            "with "
            "`global-dispatcher demo --keep` or `run`, or name it with --server (kubectl:CONTEXT "
            "for one in a cluster)",
            ExitCode.UNREACHABLE,
        )


def without_password(server: str) -> str:
    """A server's address as it may be shown."""
    return re.sub(r"^(https?://)[^/]*@", r"\1", server)
