"""What is too old says so: 410, after which a client lists again."""

import asyncio

from tests.contract.client import Api, config_map
from tests.contract.servers import Server


async def test_versions_and_pages_that_are_no_longer_kept_are_a_410(api: Api, server: Server) -> None:
    for name in "abc":
        await api.add("configmaps", config_map(name))
    path = api.at("configmaps")
    page = (await api.get(path, limit="1")).ok()
    version = page["metadata"]["resourceVersion"]
    await api.change("configmaps", "a", {"data": {"a": "2"}})
    await api.add("configmaps", config_map("d"))

    await asyncio.to_thread(server.forget_history)

    (event,) = await api.events(path, 1, resourceVersion=version)
    status = event["object"]
    assert (event["type"], status["code"], status["reason"]) == ("ERROR", 410, "Expired")
    assert status["message"].startswith(f"too old resource version: {version} (")
    following = await api.get(path, limit="1", **{"continue": page["metadata"]["continue"]})
    assert (following.status, following.reason) == (410, "Expired")
    assert following.message.startswith(
        "The provided continue parameter is too old to display a consistent list result."
    )
    exact = await api.get(path, resourceVersion=version, resourceVersionMatch="Exact")
    assert (exact.status, exact.reason) == (410, "Expired")
    assert exact.message.startswith("The resourceVersion for the provided list is too old")
    assert await api.names("configmaps", fieldSelector="metadata.name!=kube-root-ca.crt") == list("abcd")
