"""Nodes whose kubelet is somebody else's, as proxy nodes are."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from tests.contract.client import Api, Body, pod

NO_ADDRESSES = [
    "127.0.0.1/x",
    "127.0.0.1?x=",
    "127.0.0.1#",
    "u:p@127.0.0.1",
    "a" * 64 + ".invalid",
    "a..b",
    "[::1]",
    "a\0b",
]


@asynccontextmanager
async def running_at(api: Api, name: str, port: int, **node_meta: Any) -> AsyncIterator[str]:
    """A pod that runs on a node of its own, whose kubelet answers at a port of loopback: the node's name.

    No node stays behind.
    """
    node = f"{api.namespace}-{name}"
    status: Body = {
        "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
        "declaredFeatures": ["ExtendWebSocketsToKubelet"],
    }
    await api.add("nodes", {"metadata": {"name": node, **node_meta}, "spec": {"unschedulable": True}})
    try:
        await api.change("nodes", f"{node}/status", {"status": status})
        await api.add("pods", pod(name, spec={"nodeName": node, "containers": [{"name": "main", "image": "i"}]}))
        await api.change("pods", f"{name}/status", {"status": {"phase": "Running"}})
        yield node
    finally:
        await api.delete(api.at("pods", name), gracePeriodSeconds="0")
        await api.delete(api.at("nodes", node))
