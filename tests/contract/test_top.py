"""kubectl top and metrics.k8s.io, of a node whose kubelet is somebody else's: as metrics-server answers."""

import asyncio
import re
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from aiohttp import web

from tests.contract.client import Api, Body, pod
from tests.contract.conftest import Kubectl
from tests.contract.foreign_nodes import running_at
from tests.contract.servers import Server
from tests.embedded.tls_server import serving

METRICS = "/apis/metrics.k8s.io/v1beta1"
PATH = "metrics.k8s.io/resource-metrics-path"
AGE_S = 11.0  # of every container
WAIT_S = 60.0
TOLD = [("whole", "main", 128), ("whole", "aside", 1), ("half", "main", 1), ("half", "b", 0), ("pending", "main", 1)]
GO_DURATION = r"(\d+m)?\d+(\.\d+)?s"


def page(namespace: str, began: float) -> str:
    """What a kubelet tells: two containers of pod whole, of pod half one without memory, one of pending; the node."""
    now = time.time()
    used, millis = AGE_S / 4 + (now - began) / 4, int(now * 1000)
    lines = []
    for name, container, memory in [
        ("whole", "main", 128),
        ("whole", "aside", 1),
        ("half", "main", 1),
        ("half", "b", 0),
    ]:
        labels = f'{{container="{container}",namespace="{namespace}",pod="{name}"}}'
        lines.append(f"container_cpu_usage_seconds_total{labels} {used} {millis}")
        lines.append(f"container_start_time_seconds{labels} {now - AGE_S}")
        lines += [f"container_memory_working_set_bytes{labels} {memory * 2**20} {millis}"] if memory else []
    lines += [f"node_cpu_usage_seconds_total {2 * used} {millis}", f"node_memory_working_set_bytes {2**30} {millis}"]
    return "\n".join(lines) + "\n"


@asynccontextmanager
async def kubelet(namespace: str) -> AsyncIterator[int]:
    """Its port; its page is that of a proxy node."""
    began = time.time()

    async def answer(_: web.Request) -> web.Response:
        return web.Response(text=page(namespace, began))

    app = web.Application()
    app.router.add_get("/metrics/resource/mine", answer)
    async with serving(app) as port:
        yield port


async def measured(api: Api) -> None:
    """Wait until pod whole is shown."""
    async with asyncio.timeout(WAIT_S):
        while (await api.get(f"{METRICS}/namespaces/{api.namespace}/pods/whole")).status != 200:  # noqa: ASYNC110
            await asyncio.sleep(0.2)


def shape(item: Body) -> Body:
    """What does not change from look to look, once it was checked that the rest is sound."""
    kept = dict(item)
    assert re.fullmatch(GO_DURATION, kept.pop("window"))
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", kept.pop("timestamp"))
    kept["metadata"] = {name: value for name, value in kept["metadata"].items() if name != "creationTimestamp"}
    for one in sorted(kept.get("containers", []), key=lambda found: str(found["name"])):
        assert re.fullmatch(r"\d+[num]", one["usage"].pop("cpu"))
    return kept


async def test_usage_is_served_to_clients_and_kubectl_top_as_by_metrics_server(
    server: Server, api: Api, kubectl: Kubectl, tmp_path: Path
) -> None:
    """One test for all, as metrics-server asks kubelets 12 s apart."""
    async with AsyncExitStack() as stack:
        port = await stack.enter_async_context(kubelet(api.namespace))
        node = await stack.enter_async_context(
            running_at(api, "whole", port, annotations={PATH: "/metrics/resource/mine"})
        )
        await api.change("pods", "whole", {"metadata": {"labels": {"app": "shop"}}})
        for name in ("half", "untold", "pending"):
            await api.add("pods", pod(name, spec={"nodeName": node}))
            if name != "pending":
                await api.change("pods", f"{name}/status", {"status": {"phase": "Running"}})
        await asyncio.to_thread(stack.enter_context, server.measuring(tmp_path / "metrics-server"))
        await measured(api)
        await check_pods(api)
        async with running_at(api, "silent", 1) as silent:
            await check_refusals(api, silent)
        await check_discovery(api)
        await asyncio.to_thread(check_kubectl, kubectl)


async def check_pods(api: Api) -> None:
    pods = f"{METRICS}/namespaces/{api.namespace}/pods"
    whole = (await api.get(f"{pods}/whole")).ok()
    assert abs(time.time() - _seconds(whole["metadata"]["creationTimestamp"])) < 5
    assert sorted(shape(whole).pop("containers"), key=lambda one: str(one["name"])) == [
        {"name": "aside", "usage": {"memory": "1Mi"}},
        {"name": "main", "usage": {"memory": "128Mi"}},
    ]
    assert {key: value for key, value in whole.items() if key in ("kind", "apiVersion")} == {
        "kind": "PodMetrics",
        "apiVersion": "metrics.k8s.io/v1beta1",
    }
    assert whole["metadata"].keys() == {"name", "namespace", "labels", "creationTimestamp"}
    assert whole["metadata"]["labels"] == {"app": "shop"}

    async def listed(path: str, **query: str) -> list[str]:
        found = (await api.get(path, **query)).ok()
        assert (found["kind"], found["metadata"]) == ("PodMetricsList", {})
        return [one["metadata"]["name"] for one in found["items"] if one["metadata"]["namespace"] == api.namespace]

    assert await listed(pods) == ["whole"]
    assert await listed(f"{METRICS}/pods") == ["whole"]
    assert await listed(pods, labelSelector="app=shop") == ["whole"]
    assert await listed(pods, labelSelector="app!=shop") == []
    assert await listed(pods, fieldSelector="metadata.name=whole") == ["whole"]
    assert await listed(pods, fieldSelector="metadata.name!=whole") == []


async def check_refusals(api: Api, silent: str) -> None:
    pods, nodes = f"{METRICS}/namespaces/{api.namespace}/pods", f"{METRICS}/nodes"
    for path, message in [
        (f"{pods}/none", 'pods "none" not found'),
        (f"{pods}/pending", 'pods "pending" not found'),
        (f"{pods}/half", f'podmetrics.metrics.k8s.io "{api.namespace}/half" not found'),
        (f"{pods}/untold", f'podmetrics.metrics.k8s.io "{api.namespace}/untold" not found'),
        (f"{nodes}/none", 'node "none" not found'),
        (f"{nodes}/{silent}", f'nodemetrics.metrics.k8s.io "{silent}" not found'),
    ]:
        told = await api.get(path)
        assert (told.status, told.reason, told.message) == (404, "NotFound", message)


async def check_discovery(api: Api) -> None:
    listed = (await api.get(METRICS)).ok()
    assert (listed["kind"], listed["groupVersion"]) == ("APIResourceList", "metrics.k8s.io/v1beta1")
    assert listed["resources"] == [
        {"name": "nodes", "singularName": "", "namespaced": False, "kind": "NodeMetrics", "verbs": ["get", "list"]},
        {"name": "pods", "singularName": "", "namespaced": True, "kind": "PodMetrics", "verbs": ["get", "list"]},
    ]


def check_kubectl(kubectl: Kubectl) -> None:
    assert re.fullmatch(r"NAME +CPU\(cores\) +MEMORY\(bytes\) *\nwhole +\d+m +129Mi *\n", kubectl("top", "pod"))
    by_container = kubectl("top", "pod", "whole", "--containers", "--no-headers")
    assert sorted(line.split()[1] for line in by_container.splitlines()) == ["aside", "main"]
    assert 'pods "none" not found' in kubectl("top", "pod", "none", fails=True)
    assert "metrics not available yet" in kubectl("top", "pod", "-l", "app!=shop", fails=True)


def _seconds(text: str) -> float:
    return time.mktime(time.strptime(text, "%Y-%m-%dT%H:%M:%SZ")) - time.timezone
