"""The API servers of the member clusters, with the rights of whoever runs the command."""

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from agents.executor.answer import error_text
from agents.executor.http import JSON, Request
from agents.kube.client import KubeClient, Patience
from agents.kube.session import Access
from dispatcher.config import DispatcherConfig, agent_settings

Object = dict[str, Any]
_PAGE = "500"


class MemberError(Exception):
    """A cluster did not do what it was asked. `status`: its answer, 0 if none came; the text says what."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(" ".join(text.split()))
        self.status = status


class Member:
    """One cluster's API server."""

    def __init__(self, name: str, client: KubeClient) -> None:
        self.name = name
        self._client = client

    async def call(self, method: str, path: str, body: Object | None = None, kind: str = JSON) -> Object:
        """The object that is answered; MemberError for anything but 2xx."""
        return await self._send(Request(method, path, msgspec.json.encode(body) if body is not None else b"", kind))

    async def _send(self, request: Request) -> Object:
        response = await self._client.send(request)
        if not response.ok:
            raise MemberError(response.status, error_text(response))
        found: Object = msgspec.json.decode(response.body)
        return found

    async def items(self, path: str, **query: str) -> list[Object]:
        """All objects of a list, page by page; MemberError if it cannot be had whole."""
        found: list[Object] = []
        more = ""
        while True:
            params = {**query, "limit": _PAGE, **({"continue": more} if more else {})}
            page = await self._send(Request("GET", path, params=params))
            found += page.get("items") or ()
            more = page.get("metadata", {}).get("continue", "")
            if not more:
                return found


@asynccontextmanager
async def reached(config: DispatcherConfig, only: Iterable[str] | None = None) -> AsyncIterator[dict[str, Member]]:
    """The clusters of a configuration by name; connections are made when they are used."""
    wanted = set(only) if only is not None else None
    members = {}
    for cluster in config.clusters:
        if wanted is None or cluster.name in wanted:
            settings = agent_settings(cluster)
            members[cluster.name] = KubeClient(Access(settings.kubeconfig, settings.context), Patience())
    try:
        yield {name: Member(name, client) for name, client in members.items()}
    finally:
        for client in members.values():
            await client.close()
