"""What survives the end of the process, and what a restarted server still knows."""

import random
import subprocess
import sys
from pathlib import Path

import pytest

from localfleet.embedded.api import Api
from localfleet.embedded.storage import Storage
from tests.embedded.api_client import NODES, PODS, binding, node, pod, serving


async def test_a_restarted_server_has_the_same_objects_and_counts_on(tmp_path: Path) -> None:
    state = tmp_path / "state" / "objects.sqlite"
    async with serving(state) as (client, _):
        await client.make(PODS, pod("a", labels={"x": "y"}))
        (await client.post(f"{PODS}/a/binding", binding("a", "n1"))).ok()
        await client.make(PODS, pod("gone"))
        (await client.delete(f"{PODS}/gone")).ok()
        before = (await client.get("/api/v1/pods")).ok()
    async with serving(state) as (client, _):
        after = (await client.get("/api/v1/pods")).ok()
        assert after == before
        found = await client.get(PODS, fieldSelector="spec.nodeName=n1")
        assert [item["metadata"]["name"] for item in found.ok()["items"]] == ["a"]
        made = await client.make(PODS, pod("b"))
        assert int(made["metadata"]["resourceVersion"]) > int(before["metadata"]["resourceVersion"])


async def test_a_restarted_server_continues_from_the_last_version_and_no_other(tmp_path: Path) -> None:
    state = tmp_path / "objects.sqlite"
    async with serving(state) as (client, _):
        older = await client.version()
        await client.make(PODS, pod("a"))
        last = await client.version()
    async with serving(state) as (client, _):
        await client.make(PODS, pod("b"))
        events = await client.events(PODS, 1, resourceVersion=last)
        assert (events[0]["type"], events[0]["object"]["metadata"]["name"]) == ("ADDED", "b")
        expired = await client.events(PODS, 1, resourceVersion=older)
        assert (expired[0]["type"], expired[0]["object"]["code"]) == ("ERROR", 410)


async def test_uids_are_never_given_out_twice_over_restarts_and_clusters(tmp_path: Path) -> None:
    uids: list[str] = []
    for life in range(3):
        async with serving(tmp_path / "objects.sqlite") as (client, _):
            uids.append((await client.make(NODES, node(f"n{life}")))["metadata"]["uid"])
    for name in ("east", "west"):
        api = Api(clock=lambda: 0.0, storage=Storage(), random=random.Random(7), name=name)
        uids.append(api.get("namespaces", "kube-system")["metadata"]["uid"])
    assert len(set(uids)) == len(uids)


_WRITER = """
import asyncio, random, sys, time
from pathlib import Path
from localfleet.embedded.api import Api
from localfleet.embedded.storage import Storage

async def write():
    storage = Storage(Path(sys.argv[1]))
    api = Api(clock=time.time, storage=storage, random=random.Random(1), name="t")
    async def one(index):
        for step in range(1000):
            made = api.create("configmaps", {"metadata": {"name": f"c{index}-{step}"}}, "default")
            await storage.durable()
            print(made["metadata"]["name"], flush=True)
    await asyncio.gather(*(one(index) for index in range(8)))

asyncio.run(write())
"""


def test_every_acknowledged_write_outlives_a_kill(tmp_path: Path) -> None:
    state = tmp_path / "objects.sqlite"
    writer = subprocess.Popen([sys.executable, "-c", _WRITER, str(state)], stdout=subprocess.PIPE, text=True)
    assert writer.stdout is not None
    with writer:
        acknowledged = [writer.stdout.readline().strip() for _ in range(400)]
        writer.kill()
        acknowledged += [line.strip() for line in writer.stdout if line.endswith("\n")]
    api = Api(clock=lambda: 0.0, storage=Storage(state), random=random.Random(2), name="t")
    stored = {found["metadata"]["name"] for found in api.list("configmaps")}
    assert len(acknowledged) >= 400
    assert set(acknowledged) <= stored
    versions = [int(found["metadata"]["resourceVersion"]) for found in api.list("configmaps")]
    assert api.objects.version >= max(versions)


async def test_a_write_that_the_disk_refuses_is_not_acknowledged(tmp_path: Path) -> None:
    async with serving(tmp_path / "objects.sqlite") as (client, api):
        connection = api.storage._connection
        assert connection is not None
        connection.execute("PRAGMA query_only = ON")
        answer = await client.post(PODS, pod())
        assert (answer.status, answer.reason) == (500, "InternalError")
        connection.execute("PRAGMA query_only = OFF")
        await client.make(PODS, pod("b"))
    reopened = Storage(tmp_path / "objects.sqlite")
    names = {row.name for row in reopened.load()[1] if row.resource == "pods"}
    reopened.close()
    assert names == {"web", "b"}, "what could not be written is written with the next"


def test_events_leave_after_an_hour() -> None:
    now = [1000.0]
    api = Api(clock=lambda: now[0], storage=Storage(), random=random.Random(1), name="t")

    def names() -> list[str]:
        return [found["metadata"]["name"] for found in api.list("events")]

    for name, at in (("first", 1000.0), ("second", 2000.0), ("third", 4700.0)):
        now[0] = at
        api.create("events", {"metadata": {"name": name}, "involvedObject": {"namespace": "default"}}, "default")
    assert names() == ["second", "third"]


@pytest.mark.parametrize("finalizers", [[], ["a.io/one"]])
def test_what_an_owner_owns_is_known_by_its_uid(finalizers: list[str]) -> None:
    api = Api(clock=lambda: 0.0, storage=Storage(), random=random.Random(1), name="t")
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "o", "uid": "u1"}
    api.create("pods", pod(ownerReferences=[owner], finalizers=finalizers), "default")
    assert [(resource, found["metadata"]["name"]) for resource, found in api.owned("u1")] == [("pods", "web")]
    api.patch("pods", "web", "default", {"metadata": {"ownerReferences": None}}, kind="merge")
    assert api.owned("u1") == []
