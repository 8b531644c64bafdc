"""Logs of pods that the cluster's own kubelets play; those of real kubelets are a case of tests/contract."""

import pytest

from tests.embedded.api_client import NODES, PODS, ApiClient, Body, binding, node, pod, serving


async def test_logs_come_from_the_kubelets_in_plain_text() -> None:
    async with serving() as (client, api):
        api.log_source = lambda found, container, query: (
            f"{found['metadata']['name']}/{container} {query.get('tailLines')}\n"
        )
        await client.make(PODS, pod())
        waiting = await client.get(f"{PODS}/web/log")
        assert (waiting.status, waiting.message) == (400, "pod web does not have a host assigned")
        await _run(client)
        assert (await client.get(f"{PODS}/web/log", tailLines="5")).body == "web/main 5\n"
        wrong = await client.get(f"{PODS}/web/log", container="other")
        assert (wrong.status, wrong.message) == (400, "container other is not valid for pod web")


@pytest.mark.parametrize(
    ("state", "query", "words"),
    [
        ({"running": {}}, {"previous": "true"}, 'previous terminated container "main" in pod "web" not found'),
        (
            {"waiting": {"reason": "CreateContainerConfigError"}},
            {},
            'container "main" in pod "web" is waiting to start: CreateContainerConfigError',
        ),
    ],
)
async def test_a_container_without_such_a_run_has_no_log_as_with_a_kubelet(
    state: Body, query: dict[str, str], words: str
) -> None:
    async with serving() as (client, api):
        api.log_source = lambda found, container, query: "invented\n"
        await client.make(PODS, pod())
        await _run(client)
        entry = {"name": "main", "state": state, "restartCount": 0, "ready": False, "image": "i", "imageID": ""}
        (await client.patch(f"{PODS}/web/status", {"status": {"containerStatuses": [entry]}})).ok()
        told = await client.get(f"{PODS}/web/log", **query)
        assert (told.status, told.message) == (400, words)


async def test_a_node_without_a_kubelet_has_no_logs() -> None:
    async with serving() as (client, api):
        api.log_source = lambda found, container, query: "invented\n"
        await client.make(PODS, pod())
        await _run(client, addresses=[])
        told = await client.get(f"{PODS}/web/log")
        assert (told.status, told.message) == (500, "no preferred addresses found; known addresses: []")


async def _run(client: ApiClient, addresses: list[Body] | None = None) -> None:
    """On a node that has an address, if nothing else is said."""
    await client.make(NODES, node())
    found = [{"type": "InternalIP", "address": "127.0.0.1"}] if addresses is None else addresses
    (await client.patch(f"{NODES}/n1/status", {"status": {"addresses": found}})).ok()
    (await client.post(f"{PODS}/web/binding", binding("web", "n1"))).ok()
    (await client.patch(f"{PODS}/web/status", {"status": {"phase": "Running"}})).ok()


async def test_a_followed_log_ends_with_its_pod() -> None:
    async with serving() as (client, api):
        lines = ["one\n"]
        api.log_source = lambda found, container, query: "".join(lines)
        await client.make(PODS, pod())
        await _run(client)
        async with client.session.get(f"{client.url}{PODS}/web/log?follow=true") as response:
            assert await response.content.readline() == b"one\n"
            lines.append("two\n")
            (await client.patch(f"{PODS}/web/status", {"status": {"phase": "Succeeded"}})).ok()
            assert await response.content.read() == b"two\n"
