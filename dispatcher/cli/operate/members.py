"""The API servers of the member clusters, with the rights of whoever runs the command."""

import sys
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from dispatcher.config import DispatcherConfig, agent_settings
from dispatcher.config.access import AccessError, server_of
from dispatcher.config.sections import ClusterSection
from shared.kube.client import KubeClient, Patience
from shared.kube.http import JSON, Request
from shared.kube.session import Access
from shared.kube.verdicts import error_text

Object = dict[str, Any]
_PAGE = "500"
LONG_S = 5.0  # a call that gets no answer in so long is the last one, where that is asked for
_METADATA = f"{JSON};as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"


class MemberError(Exception):
    """A cluster did not do what it was asked. `status`: its answer, 0 if none came; the text says
    what.
    """

    def __init__(self, status: int, text: str) -> None:
        super().__init__(" ".join(text.split()))
        self.status = status


class Member:
    """One cluster's API server."""

    def __init__(
        self, name: str, client: KubeClient, wrong: str = "", *, patient: bool = True
    ) -> None:
        """`wrong`: why there is no way to it. Not `patient`: what has let one call wait in vain is
        asked nothing more, and `silent` says so.
        """
        self.name = name
        self._client = client
        self.wrong = wrong
        self.silent = ""
        self._patient = patient

    async def call(
        self, method: str, path: str, body: Object | None = None, kind: str = JSON
    ) -> Object:
        """The object that is answered; MemberError for anything but 2xx."""
        return await self._send(
            Request(method, path, msgspec.json.encode(body) if body is not None else b"", kind)
        )

    async def _send(self, request: Request) -> Object:
        if self.wrong or self.silent:
            raise MemberError(0, self.wrong or self.silent)
        begun = time.monotonic()
        response = await self._client.send(request)
        if not response.ok:
            text = error_text(response)
            waited = not response.status and time.monotonic() - begun >= LONG_S
            if waited and not self._patient:
                self.silent = text
            raise MemberError(response.status, text)
        found: Object = msgspec.json.decode(response.body)
        return found

    async def items(self, path: str, **query: str) -> list[Object]:
        """All objects of a list, page by page; MemberError if it cannot be had whole."""
        return await self.first(path, sys.maxsize, **query)

    async def first(self, path: str, most: int, **query: str) -> list[Object]:
        """The first of them, `most` and what is left of a page. MemberError."""
        return await self._list(path, most, JSON, query)

    async def metadata(self, path: str, most: int, **query: str) -> list[Object]:
        """The same without what they hold: of Secrets nothing but names, labels and annotations is
        sent.
        """
        return await self._list(path, most, _METADATA, query)

    async def _list(
        self, path: str, most: int, accept: str, query: Mapping[str, str]
    ) -> list[Object]:
        found: list[Object] = []
        more = ""
        while True:
            params = {**query, "limit": _PAGE, **({"continue": more} if more else {})}
            page = await self._send(Request("GET", path, params=params, accept=accept))
            found += page.get("items") or ()
            more = page.get("metadata", {}).get("continue", "")
            if not more or len(found) >= most:
                return found


@asynccontextmanager
async def reached(
    config: DispatcherConfig, *, patient: bool = True
) -> AsyncIterator[dict[str, Member]]:
    """The clusters of a configuration by name; connections are made when they are used. `patient`:
    as of Member.
    """
    clients = []
    members = {}
    for cluster in config.clusters:
        clients.append(client := KubeClient(access_to(cluster), Patience()))
        members[cluster.name] = Member(cluster.name, client, _wrong(cluster), patient=patient)
    try:
        yield members
    finally:
        for client in clients:
            await client.close()


Members = Mapping[str, Member]


def chosen(
    config: DispatcherConfig, members: Members, only: str = ""
) -> list[tuple[ClusterSection, Member]]:
    """All of them with their entries in the configuration, or one."""
    return [(one, members[one.name]) for one in config.clusters if only in ("", one.name)]


def has_context(cluster: ClusterSection) -> bool:
    """Whether the configuration tells a way to its API server: of one that dials in it need not."""
    return cluster.via != "gateway" or bool(cluster.context or cluster.kubeconfig)


def access_to(cluster: ClusterSection) -> Access:
    """By its kubeconfig and context, else the usual ones, as its agent has it where that runs
    beside the dispatcher.
    """
    settings = agent_settings(cluster)
    return Access(settings.kubeconfig, settings.context)


def _wrong(cluster: ClusterSection) -> str:
    try:
        server_of(cluster)
    except AccessError as error:
        return f"`{error.key}` of its entry: {error}"
    return ""
