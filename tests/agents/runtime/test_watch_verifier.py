"""A server that shows another world than its watches, whatever the reason, is found out and followed."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from agents.kube.convert import pod_seen
from agents.kube.listwatch import RESTORED_AFTER, ListWatch, Pace
from agents.kube.nodes import node_seen
from agents.observer.cache import ClusterCache
from agents.observer.changes import ChangeLog
from agents.observer.watch_count import ServerCount, WatchCount
from agents.runtime.settings import ApiSettings
from agents.runtime.watch_verifier import WatchVerifier, read_server_count
from shared.kube.client import KubeClient, Patience
from shared.kube.session import Access
from tests.agents.kube.fake_server import FakeApi, fake_api, until
from tests.agents.kube.objects import node_object, pod_object

PACE = Pace(silence_s=30.0, watch_s=60.0, backoff_s=0.01, max_backoff_s=0.05, relist_s=0.01, page=500)
LISTS = 500  # the limit of the watches' own lists
SETTINGS = ApiSettings(truth_s=0.1, probe_timeout_s=1.0)
PODS = ("old", "gone", "kept")


class Compared:
    """A fake server, the watches of its pods and nodes, and what compares them with it."""

    def __init__(self, api: FakeApi, client: KubeClient, pace: Pace) -> None:
        self.api = api
        self.cache = ClusterCache(ChangeLog())
        self.pods = ListWatch(client, "pods", "/api/v1/pods", pod_seen, self.cache, pace)
        self.nodes = ListWatch(client, "nodes", "/api/v1/nodes", node_seen, self.cache, pace)
        self.told: list[tuple[int, int]] = []
        self.ghosts_when_told: list[int] = []
        self.tasks: dict[str, asyncio.Task[None]] = {}
        watches = (self.pods, self.nodes)
        for watch in watches:
            watch.counted = WatchCount(patience_s=0.05)
            self.reopen(watch)
        self.watch_verifier = WatchVerifier(client, watches, SETTINGS, self.reopen, self._went_back)
        self.tasks["watch_verifier"] = asyncio.create_task(self.watch_verifier.run())

    def reopen(self, watch: ListWatch) -> None:
        if watch.kind in self.tasks:
            self.tasks[watch.kind].cancel()
        self.tasks[watch.kind] = asyncio.create_task(watch.run())

    def _went_back(self, known: int, found: int) -> None:
        self.told.append((known, found))
        self.ghosts_when_told.append(sum(1 for _ in self.cache.pods()))

    async def stop(self) -> None:
        for task in self.tasks.values():
            task.cancel()
        await asyncio.gather(*self.tasks.values(), return_exceptions=True)

    def shows(self) -> set[str]:
        """Names of the pods in the picture."""
        return {pod.name for pod in self.cache.pods()}

    def equal(self) -> bool:
        """Whether the picture is that of the server."""
        return self.shows() == set(self.api.objects["pods"])

    def listed(self, kind: str) -> int:
        """Lists that a watch has asked for."""
        return sum(query["kind"] == kind for query in self.api.shown(LISTS))

    async def looks(self, times: int = 6) -> None:
        """So many more comparisons of the pods."""
        asked = self._asked() + times
        await until(lambda: self._asked() >= asked)

    def _asked(self) -> int:
        return sum(query["kind"] == "pods" for query in self.api.shown(1))


@asynccontextmanager
async def compared(folder: Path, pace: Pace = PACE) -> AsyncIterator[Compared]:
    """All is listed and watched."""
    async with fake_api() as api:
        for name in PODS:
            api.put("pods", pod_object(name))
        client = KubeClient(Access(api.kubeconfig(folder)), Patience(connect_s=1.0, request_s=2.0))
        one = Compared(api, client, pace)
        try:
            await until(lambda: one.equal() and api.watching("pods") and api.watching("nodes"))
            yield one
        finally:
            await one.stop()
            await client.close()


async def test_a_watch_at_a_version_of_the_future_is_found_and_every_kind_listed_anew(tmp_path: Path) -> None:
    async with compared(tmp_path) as one:
        known = one.api.version
        one.api.restore("pods", [pod_object("old", metadata={"resourceVersion": "3"})], version=5)
        one.api.put("nodes", node_object("later"))
        await until(lambda: one.equal() and one.cache.node("later"))
        assert one.told == [(known, 6)]
        one.api.put("pods", pod_object("after"))
        await until(one.equal)
        await one.looks()
        assert (one.told, one.listed("pods"), one.listed("nodes")) == ([(known, 6)], 2, 2)


async def test_that_it_went_back_is_told_before_anything_is_taken_from_it(tmp_path: Path) -> None:
    async with compared(tmp_path) as one:
        one.api.restore("pods", [], version=5)
        await until(one.equal)
        assert one.ghosts_when_told == [len(PODS)]


async def test_an_older_state_of_a_known_object_is_taken_from_a_server_that_went_back(tmp_path: Path) -> None:
    async with compared(tmp_path) as one:
        before = one.api.objects["pods"]["old"]
        one.api.put("pods", pod_object("old", metadata={"labels": {"changed": "later"}}))
        await until(lambda: (pod := one.cache.pod("uid-old")) and pod.labels)
        one.api.restore("pods", [before], version=int(before["metadata"]["resourceVersion"]))
        await until(lambda: (pod := one.cache.pod("uid-old")) and not pod.labels)


@pytest.mark.parametrize("answers", [1, RESTORED_AFTER - 1])
async def test_a_server_that_lags_for_less_than_enough_answers_is_not_followed(tmp_path: Path, answers: int) -> None:
    async with compared(tmp_path) as one:
        one.tasks["nodes"].cancel()
        one.nodes.highest = 0  # so that the pods alone are asked about
        await one.looks(1)
        for _ in range(3):
            one.api.lags = answers
            await one.looks()
        assert (one.told, one.listed("pods")) == ([], 1)
        assert one.equal()


async def test_a_kind_that_is_stored_elsewhere_is_compared_with_itself_alone(tmp_path: Path) -> None:
    async with compared(tmp_path) as one:
        one.pods.highest = one.api.version
        one.nodes.highest = 3
        one.api.version = one.api.version + 100
        await one.looks()
        assert one.told == []


async def test_what_an_earlier_life_saw_shows_that_the_server_went_back_in_between(tmp_path: Path) -> None:
    async with compared(tmp_path) as one:
        now = one.api.version
        one.watch_verifier.remember({"pods": now + 1000, "nodes": 1, "unknown": 7})
        assert one.nodes.highest > 1
        await until(lambda: one.told)
        assert one.told == [(now + 1000, now)]
        await until(lambda: one.listed("nodes") == 2)
        await one.looks()
        assert len(one.told) == 1


async def test_a_list_that_finds_the_older_world_first_has_the_other_kinds_listed_too(tmp_path: Path) -> None:
    async with compared(tmp_path) as one:
        known = one.api.version
        one.api.restore("pods", [pod_object("old", metadata={"resourceVersion": "3"})], version=5)
        one.pods.on_back(known, 5)
        await until(lambda: one.listed("nodes") == 2)
        assert one.told[0] == (known, 5)


async def test_a_raised_revision_is_seen_by_an_object_that_is_older_than_it_was(tmp_path: Path) -> None:
    async with compared(tmp_path) as one:
        before = one.api.objects["pods"]["kept"]
        one.api.put("pods", pod_object("kept", metadata={"labels": {"changed": "later"}}))
        known = one.api.version
        await until(lambda: (pod := one.cache.pod("uid-kept")) and pod.labels)
        one.api.restore("pods", [before], version=10_000)
        one.api.oldest = 10_000
        one.api.expire("pods")
        await until(lambda: one.equal() and one.listed("nodes") == 2)
        assert one.told == [(known, int(before["metadata"]["resourceVersion"]))]
        kept = one.cache.pod("uid-kept")
        assert kept is not None
        assert kept.labels == {}


@pytest.mark.parametrize("lost", ["a deletion", "a creation"])
async def test_a_watch_that_lost_a_change_is_listed_anew_and_nobody_went_back(tmp_path: Path, lost: str) -> None:
    async with compared(tmp_path) as one:
        if lost == "a deletion":
            one.api.delete("pods", "gone", silently=True)
        else:
            one.api.half_open.add("pods")
            one.api.put("pods", pod_object("new"))
        await until(one.equal)
        await one.looks()
        assert (one.told, one.listed("pods"), one.listed("nodes")) == ([], 2, 1)


async def test_a_watch_that_lost_a_change_is_found_also_while_others_arrive(tmp_path: Path) -> None:
    async with compared(tmp_path) as one:
        one.api.delete("pods", "gone", silently=True)

        async def busy() -> None:
            for value in range(10_000):
                one.api.put("pods", pod_object("old", metadata={"labels": {"v": str(value)}}))
                await asyncio.sleep(0.005)

        traffic = asyncio.create_task(busy())
        try:
            await until(lambda: "gone" not in one.shows())
        finally:
            traffic.cancel()
            await asyncio.gather(traffic, return_exceptions=True)
        assert one.told == []


async def test_a_server_that_counts_wrongly_for_ever_is_not_listed_in_a_storm(tmp_path: Path) -> None:
    async with compared(tmp_path) as one:
        one.api.miscounts = 7
        await until(lambda: one.listed("pods") == 2)
        await one.looks(20)
        assert one.listed("pods") == 2


@pytest.mark.parametrize(
    ("body", "server"),
    [
        (b'{"metadata":{"resourceVersion":"7"},"items":[]}', ServerCount(7, 0)),
        (b'{"metadata":{"resourceVersion":"7","continue":"x","remainingItemCount":4},"items":[{}]}', ServerCount(7, 5)),
        (b'{"metadata":{"resourceVersion":"7","continue":"x"},"items":[{}]}', ServerCount(7, None)),
        (b'{"metadata":{"resourceVersion":"opaque"},"items":null}', ServerCount(0, 0)),
        (b"no list", None),
    ],
)
def test_the_server_count_is_read_from_a_list_of_one(body: bytes, server: ServerCount | None) -> None:
    assert read_server_count(body) == server
