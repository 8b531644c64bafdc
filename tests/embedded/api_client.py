"""A small HTTP client for API tests, and a server in this process for it. The tests know only the URL."""

import json
import random
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import aiohttp
from aiohttp import web

from localfleet.embedded.api import Api
from localfleet.embedded.http import make_app
from localfleet.embedded.storage import Storage

TOKEN = "test-token"
MERGE, JSON_PATCH = "application/merge-patch+json", "application/json-patch+json"
STRATEGIC, APPLY = "application/strategic-merge-patch+json", "application/apply-patch+yaml"
AS_TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
AS_METADATA = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io,application/json"
PODS, NODES = "/api/v1/namespaces/default/pods", "/api/v1/nodes"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
Body = dict[str, Any]


class Answer(NamedTuple):
    """What came back."""

    status: int
    body: Any

    @property
    def message(self) -> str:
        return str(self.body.get("message", ""))

    @property
    def reason(self) -> str:
        return str(self.body.get("reason", ""))

    def ok(self) -> Body:
        """The body of a success."""
        assert 200 <= self.status < 300, self.body
        return dict(self.body)


@dataclass
class ApiClient:
    """Calls to one API server, ours or a real one."""

    url: str
    session: aiohttp.ClientSession

    async def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        kind: str = "application/json",
        accept: str = "",
        **query: str,
    ) -> Answer:
        data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        headers = ({"Content-Type": kind} if data is not None else {}) | ({"Accept": accept} if accept else {})
        async with self.session.request(method, self.url + path, data=data, headers=headers, params=query) as response:
            text = await response.read()
            return Answer(response.status, json.loads(text) if text[:1] in (b"{", b"[") else text.decode())

    async def get(self, path: str, *, accept: str = "", **query: str) -> Answer:
        return await self.call("GET", path, accept=accept, **query)

    async def post(self, path: str, body: Any, **query: str) -> Answer:
        return await self.call("POST", path, body, **query)

    async def put(self, path: str, body: Any, **query: str) -> Answer:
        return await self.call("PUT", path, body, **query)

    async def patch(self, path: str, body: Any, kind: str = MERGE, **query: str) -> Answer:
        return await self.call("PATCH", path, body, kind=kind, **query)

    async def delete(self, path: str, body: Any = None, **query: str) -> Answer:
        return await self.call("DELETE", path, body, **query)

    async def make(self, path: str, body: Body) -> Body:
        return (await self.post(path, body)).ok()

    async def version(self) -> str:
        """The server's current resourceVersion."""
        return str((await self.get(PODS)).ok()["metadata"]["resourceVersion"])

    async def events(self, path: str, count: int, *, accept: str = "", **query: str) -> list[Body]:
        """The first `count` lines of a watch."""
        found: list[Body] = []
        headers = {"Accept": accept} if accept else {}
        params = {"watch": "true", "timeoutSeconds": "10"} | query
        async with self.session.get(self.url + path, params=params, headers=headers) as response:
            assert response.status == 200, await response.text()
            async for line in response.content:
                found.append(json.loads(line))
                if len(found) == count:
                    break
        return found


@asynccontextmanager
async def serving(
    state: Path | None = None, *, history: int = 5000, clock: Callable[[], float] = time.time
) -> AsyncIterator[tuple[ApiClient, Api]]:
    """An embedded server on loopback, with or without a state file, and a client for it."""
    storage = Storage(state)
    api = Api(clock=clock, storage=storage, random=random.Random(7), name="test", history=history)
    runner = web.AppRunner(make_app(api, TOKEN), shutdown_timeout=1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    async with aiohttp.ClientSession(headers={"Authorization": f"Bearer {TOKEN}"}) as session:
        try:
            yield ApiClient(url, session), api
        finally:
            await runner.cleanup()
            storage.close()


def pod(name: str = "web", *, spec: Body | None = None, **meta: Any) -> Body:
    """A small valid pod."""
    container = {"name": "main", "image": "busybox:1", "resources": {"requests": {"cpu": "100m"}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, **meta},
        "spec": {"containers": [container], **(spec or {})},
    }


def deployment(name: str = "shop", replicas: int = 2) -> Body:
    """A small valid Deployment."""
    spec = {"containers": [{"name": "main", "image": "busybox:1"}]}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": spec},
        },
    }


def node(name: str = "n1", *, ready: bool = True) -> Body:
    """A node with room for anything."""
    conditions = [{"type": "Ready", "status": "True" if ready else "False"}]
    capacity = {"cpu": "8", "memory": "32Gi", "pods": "110"}
    status = {"capacity": capacity, "conditions": conditions}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": status}


def binding(name: str, target: str, **meta: Any) -> Body:
    """A Binding of a pod to a node."""
    target_object = {"apiVersion": "v1", "kind": "Node", "name": target}
    return {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name, **meta}, "target": target_object}
