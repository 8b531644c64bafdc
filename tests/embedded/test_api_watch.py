"""Watches of which only the embedded server can be asked; tests/contract has what real ones pass, too."""

import asyncio
import json

from tests.embedded.api_client import AS_TABLE, NODES, PODS, Body, node, pod, serving


def _short(events: list[Body]) -> list[tuple[str, str]]:
    return [(event["type"], event["object"]["metadata"].get("name", "")) for event in events]


async def test_the_history_of_one_resource_is_not_used_up_by_another() -> None:
    async with serving(history=3) as (client, _):
        version = await client.version()
        await client.make(PODS, pod("a"))
        for index in range(6):
            await client.make(NODES, node(f"n{index}"))
        assert _short(await client.events(PODS, 1, resourceVersion=version)) == [("ADDED", "a")]


async def test_a_stopping_server_ends_its_watches_cleanly() -> None:
    async with serving() as (client, _):
        version = await client.version()
        url = f"{client.url}{PODS}?watch=1&resourceVersion={version}"
        response = await client.session.get(url)
        await client.make(PODS, pod("a"))
        assert json.loads(await response.content.readline())["type"] == "ADDED"
        reading = asyncio.create_task(response.content.readline())
        await asyncio.sleep(0)
    assert await reading == b""


async def test_a_table_watch_tells_ages_by_the_time_of_the_event() -> None:
    now = [1000.0]
    async with serving(clock=lambda: now[0]) as (client, api):
        await client.make(PODS, pod("a"))
        watching = asyncio.create_task(client.events(PODS, 2, accept=AS_TABLE))
        while not api.objects.shelves["pods"].followers:  # noqa: ASYNC110 - the server offers no event for it
            await asyncio.sleep(0.01)
        now[0] += 60
        (await client.patch(f"{PODS}/a", {"metadata": {"labels": {"x": "y"}}})).ok()
        assert [event["object"]["rows"][0]["cells"][4] for event in await watching] == ["0s", "60s"]
