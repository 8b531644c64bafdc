"""List and decode of a large cluster's pods by the agent's own loop, over HTTP on loopback, in a
process of its own.
"""

import asyncio
import json
import multiprocessing
import tempfile
from collections.abc import Awaitable, Callable
from multiprocessing.connection import Connection
from pathlib import Path
from time import perf_counter

import structlog

from benchmarks.report.rows import Row

PAGE = 500
PLAIN = "json.loads of the same pages, nothing kept"
NODES = 5000


def list_and_decode(share: int) -> list[Row]:
    """150,000 pods in pages of 500; the baseline is `json.loads` of the same pages, which keeps
    nothing.
    """
    pods = 150_000 // share
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    server = context.Process(target=_serve, args=(theirs, pods), daemon=True)
    server.start()
    theirs.close()  # so that its end is noticed here
    port = ours.recv()
    try:
        result, child = context.Pipe()
        client = context.Process(target=_measure, args=(child, port, pods), daemon=True)
        client.start()
        child.close()
        seconds, plain_s, mib = result.recv()
        client.join()
    finally:
        server.terminate()
        server.join()
    counted = "HTTP list in pages, decoded into the agent's cache"
    return [
        Row(
            "list_and_decode",
            NODES,
            pods,
            seconds,
            "s",
            15,
            plain_s,
            counted,
            "json.loads of the same pages, nothing kept",
        ),
        Row(
            "list_and_decode_rss",
            NODES,
            pods,
            mib,
            "MiB",
            1024,
            None,
            "peak resident memory of the listing process",
        ),
    ]


def _page(page: int) -> bytes:
    return json.dumps([_pod(page * PAGE + i) for i in range(PAGE)])[1:-1].encode()


def _pod(number: int) -> dict[str, object]:
    """A pod of about 7 kB, as real ones are, managedFields included."""
    name = f"web-7c9d8b6f5-{number:06}"
    container = {
        "name": "main",
        "image": "registry.invalid/team/web:1.2.3",
        "resources": {
            "requests": {"cpu": "250m", "memory": "256Mi"},
            "limits": {"memory": "512Mi"},
        },
        "env": [{"name": f"SETTING_{i}", "value": "x" * 40} for i in range(20)],
        "volumeMounts": [{"name": "token", "mountPath": "/var/run/secrets", "readOnly": True}],
    }
    fields: dict[str, object] = {f"f:field-{i}": {"f:inner": {}, ".": {}} for i in range(80)}
    return {
        "metadata": {
            "name": name,
            "namespace": f"team-{number % 50}",
            "uid": f"00000000-0000-0000-0000-{number:012}",
            "resourceVersion": str(1000 + number),
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": {"app": "web", "team": f"t{number % 50}", "pod-template-hash": "7c9d8b6f5"},
            "managedFields": [
                {"manager": "m", "operation": "Update", "fieldsV1": fields} for _ in range(1)
            ],
        },
        "spec": {
            "nodeName": f"n{number % NODES:04}",
            "schedulerName": "default-scheduler",
            "containers": [container],
        },
        "status": {
            "phase": "Running",
            "conditions": [
                {"type": kind, "status": "True"}
                for kind in ("Ready", "Initialized", "PodScheduled")
            ],
            "podIP": "10.0.0.1",
        },
    }


def _serve(parent: Connection, pods: int) -> None:
    from aiohttp import web

    template, pages = _page(0), pods // PAGE
    mark = b"web-7c9d8b6f5-000"

    async def answer(request: web.Request) -> web.Response:
        page = int(request.query.get("continue", "0"))
        token = str(page + 1) if page + 1 < pages else ""
        items = template.replace(mark, b"web-%07d-000" % page).replace(
            b"0000-000000000", b"0000-%09d" % page
        )
        head = json.dumps(
            {"kind": "PodList", "metadata": {"resourceVersion": "999999", "continue": token}}
        )
        return web.Response(
            body=head[:-1].encode() + b', "items": [' + items + b"]}",
            content_type="application/json",
        )

    async def main() -> None:
        app = web.Application()
        app.router.add_get("/api/v1/pods", answer)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        parent.send(runner.addresses[0][1])
        await asyncio.Event().wait()

    asyncio.run(main())


def _measure(parent: Connection, port: int, pods: int) -> None:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger("warning"))
    with tempfile.TemporaryDirectory() as directory:
        config = Path(directory) / "kubeconfig"
        config.write_text(json.dumps(_kubeconfig(port)))
        seconds = asyncio.run(_timed(str(config), pods, _list))
        mib = _peak_mib()
        plain = asyncio.run(_timed(f"http://127.0.0.1:{port}", pods, _plain))
    parent.send((seconds, plain, mib))


def _peak_mib() -> float:
    # Not getrusage: its peak is that of the parent at the moment of the fork, too.
    status = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in status if line.startswith("VmHWM")) / 1024


async def _timed(where: str, pods: int, work: Callable[[str, int], Awaitable[None]]) -> float:
    start = perf_counter()
    await work(where, pods)
    return perf_counter() - start


async def _list(config: str, pods: int) -> None:
    from agents.kube.convert import pod_seen
    from agents.kube.listwatch import ListWatch, Pace
    from agents.observer.cache import ClusterCache
    from agents.observer.changes import ChangeLog
    from shared.kube.client import KubeClient
    from shared.kube.session import Access

    listed = asyncio.Event()

    class Told(ClusterCache):
        def end(self, kind: str) -> None:
            super().end(kind)
            listed.set()

    client, cache = KubeClient(Access(config, "bench")), Told(ChangeLog())
    watch = asyncio.create_task(
        ListWatch(client, "pods", "/api/v1/pods", pod_seen, cache, Pace(page=PAGE)).run()
    )
    await listed.wait()
    if sum(1 for _ in cache.pods()) != pods:
        raise RuntimeError("the list is not complete")
    watch.cancel()
    await asyncio.gather(watch, return_exceptions=True)
    await client.close()


async def _plain(server: str, pods: int) -> None:
    import aiohttp

    async with aiohttp.ClientSession() as session:
        token = "0"
        while token:
            async with session.get(
                f"{server}/api/v1/pods", params={"limit": str(PAGE), "continue": token}
            ) as answer:
                token = json.loads(await answer.read())["metadata"]["continue"]


def _kubeconfig(port: int) -> dict[str, object]:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "bench", "cluster": {"server": f"http://127.0.0.1:{port}"}}],
        "users": [{"name": "bench", "user": {"token": "none"}}],
        "contexts": [{"name": "bench", "context": {"cluster": "bench", "user": "bench"}}],
        "current-context": "bench",
    }


CASES = (list_and_decode,)
