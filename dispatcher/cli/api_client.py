"""The command's side of the HTTP API."""

from typing import Any
from urllib.parse import quote

import httpx

from dispatcher.service.errors import CommandError, ExitCode


class ApiClient:
    """Asks one running dispatcher. Every failure is a CommandError that names the server and the fix."""

    def __init__(self, server: str, timeout_s: float = 10.0) -> None:
        if not server.startswith(("http://", "https://")):
            raise CommandError(f"--server {server}: write http://{server}", ExitCode.USAGE)
        self._server = server.rstrip("/")
        self._timeout_s = timeout_s

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

    def version(self) -> str:
        """The server's version."""
        return str(self._get("/v1/version", {})["version"])

    def _get(self, path: str, query: dict[str, str]) -> dict[str, Any]:
        try:
            answer = httpx.get(f"{self._server}{path}", params=query, timeout=self._timeout_s, trust_env=False)
            body = answer.json()
        except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
            raise CommandError(
                f"no dispatcher answers at {self._server} ({error or type(error).__name__}): start one with "
                "`global-dispatcher demo --keep` or `run`, or name it with --server",
                ExitCode.UNREACHABLE,
            ) from None
        if answer.status_code != 200:
            code = ExitCode.NOT_FOUND if answer.status_code == 404 else ExitCode.FAILED
            message = body.get("error") if isinstance(body, dict) else None
            raise CommandError(str(message or f"{self._server}{path} answered {answer.status_code}"), code)
        found: dict[str, Any] = body
        return found
