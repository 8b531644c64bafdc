"""List and watch: a cache that ends equal to the server, whatever happens on the way."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from agents.kube.convert import pod_seen
from agents.kube.listwatch import ListWatch, Pace
from agents.kube.pod_groups import KUBERNETES
from agents.observer.cache import ClusterCache
from agents.observer.changes import ChangeLog
from shared.kube.client import PAGES_AT_ONCE, KubeClient, Patience
from shared.kube.http import Request, Response
from shared.kube.session import Access
from shared.model.group_kinds import POD_GROUPS
from tests.agents.kube.fake_server import FakeApi, fake_api, until
from tests.agents.kube.objects import Object, pod_object, raw
from tests.agents.kube.test_objects import BY_NAME

FAST = Pace(silence_s=30.0, watch_s=60.0, list_s=2.0, backoff_s=0.01, max_backoff_s=0.05, relist_s=0.01, page=2)


class Followed:
    """A fake API, the cache that follows its pods, and the loop between."""

    def __init__(self, api: FakeApi, cache: ClusterCache, watch: ListWatch) -> None:
        self.api, self.cache, self.watch = api, cache, watch
        self.task = asyncio.create_task(watch.run())

    async def stop(self) -> None:
        """End the loop."""
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)

    async def restart(self) -> None:
        """End the loop and begin it again."""
        opened = len(self.api.watches)
        await self.stop()
        self.task = asyncio.create_task(self.watch.run())
        await until(lambda: len(self.api.watches) > opened)

    def equal(self) -> bool:
        """Whether the cache holds just the server's pods, at their latest."""
        mine = {pod.name: pod.labels for pod in self.cache.pods()}
        return mine == {name: thing["metadata"].get("labels", {}) for name, thing in self.api.objects["pods"].items()}


@asynccontextmanager
async def following(folder: Path, pods: int = 5, pace: Pace = FAST) -> AsyncIterator[Followed]:
    """A loop that has listed and watches."""
    async with fake_api() as api:
        for index in range(pods):
            api.put("pods", pod_object(f"p{index}"))
        cache = ClusterCache(ChangeLog())
        client = KubeClient(Access(api.kubeconfig(folder)), Patience(connect_s=1.0, request_s=0.3))
        watch = ListWatch(client, "pods", "/api/v1/pods", pod_seen, cache, pace)
        followed = Followed(api, cache, watch)
        try:
            await until(lambda: api.watching("pods") and followed.equal())
            yield followed
        finally:
            await followed.stop()
            await client.close()


async def test_a_list_is_read_in_pages_and_with_quorum(tmp_path: Path) -> None:
    async with following(tmp_path, pods=5) as followed:
        assert len(followed.api.lists) == 3
        assert all("resourceVersion" not in query for query in followed.api.lists)
        await until(lambda: followed.watch.problem == "")


async def test_a_page_that_stops_half_way_is_asked_for_once_more_and_the_list_goes_on(tmp_path: Path) -> None:
    async with fake_api() as api:
        for index in range(6):
            api.put("pods", pod_object(f"p{index}"))
        api.stalls = {"2"}
        cache = ClusterCache(ChangeLog())
        client = KubeClient(Access(api.kubeconfig(tmp_path)), Patience(silent_s=0.5))
        followed = Followed(api, cache, ListWatch(client, "pods", "/api/v1/pods", pod_seen, cache, FAST))
        await until(lambda: followed.equal() and api.watching("pods"))
        await followed.stop()
        await client.close()
    assert [query.get("continue", "") for query in api.lists] == ["", "2", "2", "4"]


async def test_a_page_that_comes_slowly_is_not_cut(tmp_path: Path) -> None:
    async with fake_api() as api:
        api.put("pods", pod_object("p0"))
        api.drips_s = 0.1
        client = KubeClient(Access(api.kubeconfig(tmp_path)), Patience(silent_s=0.7))
        answer = await client.send(Request("GET", "/api/v1/pods", params={"limit": "500"}), timeout_s=60.0)  # 0.8 s
        await client.close()
    assert (answer.status, len(api.lists)) == (200, 1)


async def test_changes_arrive_in_order(tmp_path: Path) -> None:
    async with following(tmp_path) as followed:
        for value in range(20):
            followed.api.put("pods", pod_object("p0", metadata={"labels": {"v": str(value)}}))
        followed.api.put("pods", pod_object("new"))
        followed.api.delete("pods", "p1")
        await until(followed.equal)
        assert len(followed.api.lists) == 3


async def test_a_watch_resumes_from_the_last_version_without_a_new_list(tmp_path: Path) -> None:
    async with following(tmp_path) as followed:
        followed.api.put("pods", pod_object("seen"))
        await until(followed.equal)
        seen = followed.api.version
        followed.api.drop_watches()
        followed.api.put("pods", pod_object("while-away"))
        await until(lambda: len(followed.api.watches) == 2 and followed.equal())
        assert int(followed.api.watches[-1]["resourceVersion"]) in (seen, seen + 1)
        assert len(followed.api.lists) == 3


async def test_a_bookmark_moves_the_version_on(tmp_path: Path) -> None:
    async with following(tmp_path) as followed:
        followed.api.send_line("pods", b'{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"9000"}}}\n')
        followed.api.drop_watches()
        await until(lambda: len(followed.api.watches) == 2)
        assert followed.api.watches[-1]["resourceVersion"] == "9000"
        assert followed.api.watches[0]["allowWatchBookmarks"] == "true"


@pytest.mark.parametrize("how", ["in the stream", "on opening"])
async def test_an_expired_watch_lists_anew_and_learns_what_it_missed(tmp_path: Path, how: str) -> None:
    async with following(tmp_path) as followed:
        followed.api.delete("pods", "p2", silently=True)
        if how == "in the stream":
            followed.api.expire("pods")
        else:
            followed.api.version += 1
            followed.api.oldest = followed.api.version
            followed.api.drop_watches()
        await until(lambda: len(followed.api.lists) >= 5 and followed.equal())
        assert followed.cache.pod("uid-p2") is None


async def test_a_list_whose_pages_expire_starts_over(tmp_path: Path) -> None:
    async with following(tmp_path) as followed:
        followed.api.expire_pages = 2
        followed.api.expire("pods")
        await until(lambda: followed.api.expire_pages == 0 and len(followed.api.watches) == 2)
        assert followed.equal()


async def test_events_split_and_joined_by_the_network_are_read(tmp_path: Path) -> None:
    async with following(tmp_path, pods=1) as followed:
        thing = pod_object("split", metadata={"resourceVersion": "5000"})
        line = b'{"type":"ADDED","object":' + raw(thing) + b"}\n"
        followed.api.objects["pods"]["split"] = thing
        followed.api.send_line("pods", line[:10], line[10:60], line[60:] + b"\n\n" + line[:5], line[5:])
        await until(followed.equal)


async def test_one_hostile_pod_stops_neither_list_nor_watch(tmp_path: Path) -> None:
    async with following(tmp_path) as followed:
        followed.api.put("pods", pod_object("evil", containers="none"))
        followed.api.put("pods", pod_object("good"))
        await until(followed.equal)
        followed.api.expire("pods")
        await until(lambda: len(followed.api.watches) == 2)
        evil, good = followed.cache.pod("uid-evil"), followed.cache.pod("uid-good")
        assert evil is not None
        assert good is not None
        assert "cannot be read" in evil.problems[0]
        assert good.problems == ()


@pytest.mark.parametrize("line", [b"}garbage{\n", b'{"type":"ADDED","object":7}\n{"no":"type"}\n', b"\xff\xfe\n"])
async def test_a_line_that_is_no_event_leads_to_a_new_list(tmp_path: Path, line: bytes) -> None:
    async with following(tmp_path) as followed:
        followed.api.delete("pods", "p0", silently=True)
        followed.api.send_line("pods", line)
        await until(followed.equal)


def large(name: str, size: int) -> Object:
    """A pod with an annotation of this size."""
    return pod_object(name, metadata={"annotations": {"note": "<" * size}})


async def test_pages_that_are_too_large_halve_until_they_can_be_read_and_grow_again(tmp_path: Path) -> None:
    async with following(tmp_path, pods=0, pace=replace(FAST, page=8, page_bytes=40_000)) as followed:
        for index in range(8):
            followed.api.put("pods", large(f"p{index}", 9_000))
        for index in range(20):
            followed.api.put("pods", pod_object(f"q{index:02}"))
        await until(followed.equal)
        followed.api.lists.clear()
        followed.api.expire("pods")
        await until(lambda: len(followed.api.watches) == 2 and followed.equal())
        limits = [int(query["limit"]) for query in followed.api.lists]
        assert limits == [8, 4, 4, 4, 8, 8]


async def test_one_object_that_is_too_large_is_set_aside_and_named(tmp_path: Path) -> None:
    async with following(tmp_path, pace=replace(FAST, page_bytes=40_000)) as followed:
        followed.api.objects["pods"]["p2"] = large("p2", 50_000)
        followed.api.put("pods", pod_object("after"))
        with capture_logs() as lines:
            followed.api.expire("pods")
            await until(lambda: len(followed.api.watches) == 2)
        assert {pod.name for pod in followed.cache.pods()} == {"p0", "p1", "p3", "p4", "after"}
        (line,) = [one for one in lines if "too large" in one["event"]]
        assert (line["kind"], line["namespace"], line["name"]) == ("pods", "default", "p2")
        assert followed.watch.problem == ""


async def test_an_event_of_an_object_that_is_too_large_is_passed_over_and_its_end_is_not(tmp_path: Path) -> None:
    async with following(tmp_path, pace=replace(FAST, max_event=40_000)) as followed:
        followed.api.put("pods", large("p2", 50_000))
        followed.api.put("pods", pod_object("after"))
        await until(lambda: followed.cache.pod("uid-after") is not None)
        assert followed.cache.pod("uid-p2") is not None
        followed.api.delete("pods", "p2")
        await until(followed.equal)
        assert len(followed.api.watches) == 1
        assert followed.watch.set_aside == 2


async def test_a_few_pages_of_all_lists_of_a_cluster_are_in_memory_at_once(tmp_path: Path) -> None:
    async with fake_api() as api:
        api.drips_s = 0.01
        client = KubeClient(Access(api.kubeconfig(tmp_path)), Patience())
        under_way, most = 0, 0

        async def counted(request: Request, **limits: Any) -> Response:
            nonlocal under_way, most
            under_way += 1
            most = max(most, under_way)
            answer = await KubeClient.send(client, request, **limits)
            under_way -= 1
            return answer

        client.send = counted  # type: ignore[method-assign]
        cache = ClusterCache(ChangeLog())
        several = [ListWatch(client, "pods", "/api/v1/pods", pod_seen, cache, FAST) for _ in range(12)]
        tasks = [asyncio.create_task(one.run()) for one in several]
        await until(lambda: all(one.problem == "" for one in several))
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await client.close()
    assert most == PAGES_AT_ONCE


async def test_an_event_above_the_bound_does_not_end_the_loop(tmp_path: Path) -> None:
    async with following(tmp_path, pace=replace(FAST, max_event=2000)) as followed:
        followed.api.send_line("pods", b"x" * 5000)
        followed.api.put("pods", pod_object("after"))
        await until(lambda: len(followed.api.watches) >= 2 and followed.equal())


@pytest.mark.parametrize("status", [403, 429, 500, 503])
async def test_errors_are_waited_out_and_told(tmp_path: Path, status: int) -> None:
    async with following(tmp_path) as followed:
        followed.api.status = status
        followed.api.drop_watches()
        await until(lambda: str(status) in followed.watch.problem)
        assert followed.watch.broken_since is not None
        followed.api.status = 200
        followed.api.put("pods", pod_object("after"))
        await until(lambda: followed.equal() and followed.watch.broken_since is None)


async def test_a_server_that_restarts_is_found_again(tmp_path: Path) -> None:
    async with following(tmp_path) as followed:
        await followed.api.stop()
        await until(lambda: followed.watch.problem)
        followed.api.put("pods", pod_object("after"))
        await followed.api.start()
        await until(followed.equal)


async def test_a_server_restored_while_it_was_away_is_seen_through_although_it_has_overtaken_what_was_seen(
    tmp_path: Path,
) -> None:
    async with following(tmp_path) as followed:
        api, seen = followed.api, followed.api.version
        await api.stop()
        await until(lambda: followed.watch.problem)
        kept = [one for name, one in api.objects["pods"].items() if name != "p0"]
        api.restore("pods", kept, version=seen - 1)
        api.put("pods", pod_object("instead-of-p0"))
        api.version = seen + 5
        await api.start()
        await until(followed.equal)
        assert followed.cache.pod("uid-p0") is None


async def test_a_silent_watch_is_opened_anew(tmp_path: Path) -> None:
    async with following(tmp_path, pace=replace(FAST, silence_s=0.1)) as followed:
        opened = len(followed.api.watches)
        await until(lambda: len(followed.api.watches) >= opened + 2)
        assert len(followed.api.lists) == 3


async def test_a_server_that_accepts_and_stalls_is_given_up_and_tried_again(tmp_path: Path) -> None:
    async with following(tmp_path) as followed:
        followed.api.frozen.clear()
        followed.api.drop_watches()
        await followed.api.stop()
        await followed.api.start()
        await until(lambda: "timeout" in followed.watch.problem)
        followed.api.frozen.set()
        followed.api.put("pods", pod_object("after"))
        await until(followed.equal)


async def test_a_list_older_than_what_was_seen_is_refused_until_the_server_insists(tmp_path: Path) -> None:
    async with following(tmp_path) as followed:
        followed.api.restore("pods", [pod_object("old")], version=3)
        before = len(followed.api.lists)
        followed.api.expire("pods")
        await until(followed.equal)
        assert len(followed.api.lists) - before == 3


def _opened_since(followed: Followed, opened: int) -> bool:
    return len(followed.api.watches) > opened


async def test_a_server_that_expires_every_watch_is_not_asked_in_a_storm(tmp_path: Path) -> None:
    async with following(tmp_path, pods=1, pace=replace(FAST, backoff_s=0.05, max_backoff_s=10.0)) as followed:
        for _ in range(4):
            opened = len(followed.api.watches)
            followed.api.expire("pods")
            await until(partial(_opened_since, followed, opened))
        assert followed.watch.fails == 4


async def test_a_storm_of_410_between_good_events_leads_to_no_storm_of_lists(tmp_path: Path) -> None:
    async with following(tmp_path, pods=1, pace=replace(FAST, relist_s=3600.0, max_relist_s=3600.0)) as followed:
        api, watch = followed.api, followed.watch
        for opened in (1, 2):
            await until(partial(_well, followed, opened))
            api.put("pods", pod_object("p0", metadata={"labels": {"v": str(opened)}}))
            await until(followed.equal)
            assert watch.fails == 0
            api.expire("pods")
            await until(lambda: "410" in watch.problem)
        api.put("pods", pod_object("p1"))
        opened = len(api.watches)
        with pytest.raises(TimeoutError):
            await until(partial(_opened_since, followed, opened), seconds=0.5)
        assert (len(api.lists), len(api.watches)) == (2, 2)


def _well(followed: Followed, opened: int) -> bool:
    return len(followed.api.watches) == opened and followed.watch.problem == ""


async def test_a_loop_begun_again_goes_on_where_it_was_without_the_earned_pause(tmp_path: Path) -> None:
    async with following(tmp_path, pace=replace(FAST, backoff_s=0.01, max_backoff_s=1000.0)) as followed:
        followed.watch.fails = 16
        await followed.restart()
        followed.api.delete("pods", "p0", silently=True)
        followed.api.expire("pods")
        await until(followed.equal)


async def test_a_loop_that_outlives_its_cancellation_ends_once_another_has_begun(tmp_path: Path) -> None:
    async with following(tmp_path) as followed:
        first = followed.task
        followed.task = asyncio.create_task(followed.watch.run())
        await until(lambda: followed.api.watching("pods") == 2)
        followed.api.drop_watches()
        await until(first.done)
        followed.api.put("pods", pod_object("after"))
        await until(lambda: followed.equal() and followed.api.watching("pods") == 1)


@pytest.mark.parametrize("status", [403, 404], ids=["forbidden", "not served"])
async def test_an_optional_kind_that_is_not_shown_is_absent_and_asked_for_seldom(tmp_path: Path, status: int) -> None:
    async with following(tmp_path) as followed:
        api, cache = followed.api, ClusterCache(ChangeLog(), ["Namespace"])
        api.refused["namespaces"] = status
        client = KubeClient(Access(api.kubeconfig(tmp_path)), Patience(connect_s=1.0, request_s=0.3))
        pace = Pace(backoff_s=0.001, max_backoff_s=0.002, absent_s=3600)
        path = "/api/v1/namespaces"
        watch = ListWatch(client, "Namespace", path, BY_NAME["Namespace"].seen, cache, pace, optional=True)
        for kind in ("nodes", "pods"):
            cache.absent(kind)
        task = asyncio.create_task(watch.run())
        try:
            await until(lambda: cache.synced and watch.fails)
            for value in range(20):
                api.put("pods", pod_object("p0", metadata={"labels": {"v": str(value)}}))
                await until(followed.equal)
            assert api.requests.count(f"GET {path}") == 1
            assert watch.problem == f"Namespace: {status} no namespaces for you"
        finally:
            task.cancel()
            await client.close()


async def test_of_an_api_with_several_versions_the_first_that_is_served_is_watched_also_after_an_upgrade(
    tmp_path: Path,
) -> None:
    async with following(tmp_path) as followed:
        api, cache = followed.api, ClusterCache(ChangeLog(), groups=True)
        api.scheduling = "v1alpha2"
        client = KubeClient(Access(api.kubeconfig(tmp_path)), Patience(connect_s=1.0, request_s=0.3))
        pace = Pace(backoff_s=0.001, max_backoff_s=0.002, absent_s=0.01)
        path, *others = KUBERNETES.paths
        watch = ListWatch(client, POD_GROUPS, path, KUBERNETES.seen, cache, pace, optional=True, others=others)
        task = asyncio.create_task(watch.run())
        try:
            for version, name in (("v1alpha2", "a"), ("v1beta1", "b"), ("v1", "c")):
                api.scheduling = version
                api.drop_watches()
                await until(lambda: watch.path.split("/")[-2] == api.scheduling and not watch.problem)
                api.put("podgroups", {"metadata": {"name": name}})
                await until(lambda: cache.count(POD_GROUPS) == len(api.objects["podgroups"]))
        finally:
            task.cancel()
            await client.close()
