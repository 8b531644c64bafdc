"""The HTTP conversations of an API server that the agent must survive, on loopback: no more than those."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from aiohttp import web

from agents.executor.trust import state
from agents.kube.objects import KINDS
from agents.runtime.executor_lease import PLACE
from tests.agents.kube.objects import Object, node_object

NODE_GROUPS = ("machinedeployments", "machinesets", "configmaps")
SERVED = ("nodes", "pods", "events", "podgroups", *NODE_GROUPS, *(kind.path.rpartition("/")[2] for kind in KINDS))
STATE = state.PATH
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class FakeApi:
    """Nodes and pods with versions, lists in pages, watches, and faults that a test switches on."""

    def __init__(self) -> None:
        self.objects: dict[str, dict[str, Object]] = {kind: {} for kind in SERVED}
        self.refused: dict[str, int] = {}  # kind -> status of every answer about it
        self.version = 10
        self.requests: list[str] = []
        self.lists: list[dict[str, str]] = []
        self.watches: list[dict[str, str]] = []
        self.posted: list[Object] = []
        self.status = 200  # of every answer
        self.retry_after = ""
        self.oldest = 0  # watches from before this version are 410
        self.expire_pages = 0  # so many continue tokens expire
        self.frozen = asyncio.Event()
        self.frozen.set()  # cleared: accept, then say nothing
        self.half_open: set[str] = set()  # kinds whose open watches stay open and bring nothing; later ones do
        self.lags = 0  # so many lists are answered as of version 1
        self.miscounts = 0  # so many objects more than there are remain after every page
        self.stalls: set[str] = set()  # pages by continue token that stop half-way and stay open, once each
        self.drips_s = 0.0  # between two eighths of a page
        self.port = 0
        self.cluster_uid = "cluster-uid"
        self.metrics: list[Object] = []
        self.scheduling = ""  # the version of scheduling.k8s.io that has PodGroups
        self.state: Object = {}  # the Lease in which an executor stores what it must not forget
        self.executor_lease: Object = {}  # the Lease by which one executor of the cluster acts
        self._queues: dict[str, list[asyncio.Queue[bytes | None]]] = {kind: [] for kind in SERVED}
        self._since: dict[asyncio.Queue[bytes | None], int] = {}
        self._log: list[tuple[str, int, bytes]] = []
        self._runner: web.AppRunner | None = None

    # --- life --------------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Listen, on the same port as before if there was one."""

        @web.middleware
        async def guard(request: web.Request, handler: Handler) -> web.StreamResponse:
            return await self._guard(request, handler)

        app = web.Application(middlewares=[guard])
        app.router.add_get("/version", self._get_version)
        app.router.add_get("/api/v1/namespaces/kube-system", self._namespace)
        app.router.add_get("/apis/metrics.k8s.io/v1/{kind}", self._missing)
        app.router.add_get("/apis/metrics.k8s.io/v1beta1/nodes", self._metrics)
        app.router.add_get("/api/v1/{kind}", self._collection)
        app.router.add_get("/apis/cluster.x-k8s.io/{version}/namespaces/fleet/{kind}", self._machines)
        app.router.add_get("/api/v1/namespaces/kube-system/{kind}", self._collection)
        app.router.add_get("/apis/scheduling.k8s.io/{version}/{kind}", self._scheduling)
        app.router.add_get("/apis/{group}/v1/{kind}", self._collection)
        app.router.add_get(STATE, self._get_state)
        app.router.add_patch(STATE, self._put_state)
        app.router.add_post(STATE.rpartition("/")[0], self._post_lease)
        app.router.add_get(PLACE.path, self._get_executor_lease)
        app.router.add_put(PLACE.path, self._put_executor_lease)
        app.router.add_post("/{path:.*}", self._post)
        self._runner = web.AppRunner(app, shutdown_timeout=0.05)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", self.port, reuse_address=True)
        await site.start()
        self.port = self._runner.addresses[0][1]

    async def stop(self) -> None:
        """Close every connection and the listener."""
        self.drop_watches()
        if self._runner is not None:
            await self._runner.cleanup()
        self._runner = None

    def kubeconfig(self, folder: Path, token: str = "secret") -> str:
        """A kubeconfig for this server."""
        path = folder / "kubeconfig"
        path.write_text(
            json.dumps(
                {
                    "current-context": "fake",
                    "clusters": [{"name": "fake", "cluster": {"server": f"http://127.0.0.1:{self.port}"}}],
                    "users": [{"name": "me", "user": {"token": token}}],
                    "contexts": [{"name": "fake", "context": {"cluster": "fake", "user": "me"}}],
                }
            )
        )
        return str(path)

    # --- what a test does --------------------------------------------------------------------------------------------

    def put(self, kind: str, thing: Object) -> None:
        """Create or change an object."""
        self.version += 1
        thing = {**thing, "metadata": {**thing["metadata"], "resourceVersion": str(self.version)}}
        name = thing["metadata"]["name"]
        verb = "MODIFIED" if name in self.objects[kind] else "ADDED"
        self.objects[kind][name] = thing
        self._tell(kind, verb, thing)

    def delete(self, kind: str, name: str, *, silently: bool = False) -> None:
        """Remove an object; silently: watches miss it."""
        self.version += 1
        thing = self.objects[kind].pop(name)
        thing = {**thing, "metadata": {**thing["metadata"], "resourceVersion": str(self.version)}}
        if not silently:
            self._tell(kind, "DELETED", thing)

    def restore(self, kind: str, things: list[Object], version: int) -> None:
        """The server comes back as it was long ago."""
        self.version, self._log = version, []
        self.objects[kind] = {thing["metadata"]["name"]: thing for thing in things}

    def send_line(self, kind: str, *parts: bytes) -> None:
        """Raw bytes to the watches of a kind, each part in a write of its own."""
        for queue in self._queues[kind]:
            for part in parts:
                queue.put_nowait(part)

    def expire(self, kind: str) -> None:
        """Tell the watches of a kind that their version is too old."""
        gone = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old resource version"}
        self.send_line(kind, json.dumps({"type": "ERROR", "object": gone}).encode() + b"\n")

    def drop_watches(self) -> None:
        """End every watch."""
        for queues in self._queues.values():
            for queue in queues:
                queue.put_nowait(None)

    def watching(self, kind: str) -> int:
        """How many watches of a kind are open."""
        return len(self._queues[kind])

    def _tell(self, kind: str, verb: str, thing: Object) -> None:
        line = json.dumps({"type": verb, "object": thing}).encode() + b"\n"
        self._log.append((kind, self.version, line))
        for queue in self._queues[kind]:
            if kind not in self.half_open and self.version > self._since[queue]:
                queue.put_nowait(line)

    def shown(self, limit: int) -> list[dict[str, str]]:
        """The lists of this limit that were asked for."""
        return [query for query in self.lists if query["limit"] == str(limit)]

    # --- answers -----------------------------------------------------------------------------------------------------

    async def _guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        self.requests.append(f"{request.method} {request.path}")
        await self.frozen.wait()
        if request.headers.get("Authorization") != "Bearer secret":
            return web.json_response({"message": "who are you", "code": 401}, status=401)
        if self.status != 200:
            headers = {"Retry-After": self.retry_after} if self.retry_after else {}
            return web.json_response({"message": "fault on order"}, status=self.status, headers=headers)
        return await handler(request)

    async def _get_version(self, _: web.Request) -> web.Response:
        return web.json_response({"gitVersion": "v1.36.3"})

    async def _namespace(self, _: web.Request) -> web.Response:
        return web.json_response({"metadata": {"name": "kube-system", "uid": self.cluster_uid}})

    async def _missing(self, request: web.Request) -> web.Response:
        return web.Response(status=404)

    async def _scheduling(self, request: web.Request) -> web.StreamResponse:
        served = request.match_info["version"] == self.scheduling
        return await self._collection(request) if served else await self._missing(request)

    async def _machines(self, request: web.Request) -> web.StreamResponse:
        """Of an older Cluster API, without MachinePools."""
        served = request.match_info["version"] == "v1beta1" and request.match_info["kind"] in NODE_GROUPS
        return await self._collection(request) if served else await self._missing(request)

    async def _metrics(self, _: web.Request) -> web.Response:
        return web.json_response({"items": self.metrics})

    async def _get_state(self, _: web.Request) -> web.Response:
        return _found(self.state)

    async def _get_executor_lease(self, _: web.Request) -> web.Response:
        return _found(self.executor_lease)

    async def _put_executor_lease(self, request: web.Request) -> web.Response:
        given = await request.json()
        known = self.executor_lease.get("metadata", {}).get("resourceVersion")
        if given["metadata"].get("resourceVersion") != known:
            return web.json_response({"message": "the object has been modified"}, status=409)
        given["metadata"]["resourceVersion"] = str(int(known or 0) + 1)
        self.executor_lease = given
        return web.json_response(given)

    async def _post_lease(self, request: web.Request) -> web.Response:
        given = await request.json()
        is_executors = given["metadata"]["name"] == PLACE.name
        return await (self._put_executor_lease if is_executors else self._put_state)(request)

    async def _put_state(self, request: web.Request) -> web.Response:
        given = await request.json()
        known = self.state.get("metadata", {}).get("resourceVersion")
        if given["metadata"].get("resourceVersion") != known:
            return web.json_response({"message": "the object has been modified"}, status=409)
        annotations = given["metadata"].get("annotations", {})
        given["metadata"]["annotations"] = {key: text for key, text in annotations.items() if text is not None}
        self.state = {**given, "metadata": {**given["metadata"], "resourceVersion": str(int(known or 0) + 1)}}
        return web.json_response(self.state)

    async def _post(self, request: web.Request) -> web.Response:
        if request.path.endswith("/token"):
            return web.json_response({"status": {"token": "for-kubelets"}}, status=201)
        self.posted.append(await request.json())
        return web.json_response({}, status=201)

    async def _collection(self, request: web.Request) -> web.StreamResponse:
        query = dict(request.query)
        kind = request.match_info["kind"]
        if kind in self.refused:
            return web.json_response({"message": f"no {kind} for you"}, status=self.refused[kind])
        if query.get("watch"):
            self.watches.append({"kind": kind, **query})
            return await self._watch(request, kind, int(query["resourceVersion"]))
        self.lists.append({"kind": kind, **query})
        page = self._list(kind, query)
        stalls = query.get("continue", "") in self.stalls
        return await self._slowly(request, page, stalls=stalls) if stalls or self.drips_s else page

    def _list(self, kind: str, query: dict[str, str]) -> web.Response:
        start = int(query.get("continue", "0"))
        if start and self.expire_pages:
            self.expire_pages -= 1
            return web.json_response({"message": "continue token expired", "code": 410}, status=410)
        everything = sorted(self.objects[kind].items())
        page = [thing for _, thing in everything[start : start + int(query["limit"])]]
        meta: Object = {"resourceVersion": str(self.version)}
        if self.lags:
            self.lags -= 1
            meta["resourceVersion"] = "1"
        if start + len(page) < len(everything):
            meta["continue"] = str(start + len(page))
            meta["remainingItemCount"] = len(everything) - start - len(page) + self.miscounts
        return web.json_response({"metadata": meta, "items": page})

    async def _slowly(self, request: web.Request, page: web.Response, *, stalls: bool) -> web.StreamResponse:
        """The page in eight pieces, or half of them."""
        self.stalls.discard(request.query.get("continue", ""))
        body = bytes(page.body) if isinstance(page.body, bytes) else b""
        size = -(-len(body) // 8)
        answer = web.StreamResponse(headers={"Content-Length": str(len(body))})
        await answer.prepare(request)
        for start in range(0, len(body), size):
            if stalls and start >= len(body) // 2:
                await asyncio.Event().wait()
            await answer.write(body[start : start + size])
            await asyncio.sleep(self.drips_s)
        return answer

    async def _watch(self, request: web.Request, kind: str, since: int) -> web.StreamResponse:
        if since < self.oldest:
            return web.json_response({"message": "too old resource version", "code": 410}, status=410)
        answer = web.StreamResponse()
        queue: asyncio.Queue[bytes | None] = asyncio.Queue()
        for logged, version, missed in self._log:
            if logged == kind and version > since:
                queue.put_nowait(missed)
        self._queues[kind].append(queue)
        self._since[queue] = since
        self.half_open.discard(kind)
        try:
            await answer.prepare(request)
            while (line := await queue.get()) is not None:
                await self.frozen.wait()
                await answer.write(line)
        finally:
            self._queues[kind].remove(queue)
        return answer


def _found(lease: Object) -> web.Response:
    if lease:
        return web.json_response(lease)
    return web.json_response({"kind": "Status", "reason": "NotFound", "code": 404}, status=404)


@asynccontextmanager
async def fake_api(nodes: int = 2) -> AsyncIterator[FakeApi]:
    """A running fake with some Ready nodes n0, n1, ..."""
    api = FakeApi()
    for index in range(nodes):
        api.put("nodes", node_object(f"n{index}"))
    await api.start()
    try:
        yield api
    finally:
        api.frozen.set()
        await api.stop()


async def until(holds: Callable[[], object], seconds: float = 60.0) -> None:
    """Wait for a condition; TimeoutError if it does not come about."""
    async with asyncio.timeout(seconds):
        while not holds():  # noqa: ASYNC110 - the condition is anybody's
            await asyncio.sleep(0.005)
