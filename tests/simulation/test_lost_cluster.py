"""A cluster that is lost and comes back, a dispatcher that is away: told by the product's own core and executors."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

import pytest

from shared.model import names
from tests.agents.executor.world import pod_object
from tests.simulation.cluster import Cluster
from tests.simulation.fleet import Fleet

LEASE = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/global-dispatcher-west"
PROXY = "/api/v1/nodes/global-dispatcher-west"


class Quiet(Fleet):
    """No trouble but that which a test makes. A pod of `north` runs in `west`."""

    def __init__(self) -> None:
        super().__init__(seed=1)
        self.trouble = False
        self.north, self.west = self.clusters["north"], self.clusters["west"]
        self.away = False

    def _feed(self, event: Any) -> None:
        if not self.away:
            super()._feed(event)

    def _report(self, cluster: Cluster) -> None:
        if not self.away:
            super()._report(cluster)

    async def run(self, seconds: int) -> None:
        for _ in range(seconds):
            if self.away:
                self.peers.clear()
            await self.step()

    async def until(self, condition: Callable[[], bool], most: int) -> int:
        """After how many seconds it holds."""
        for seconds in range(most):
            if condition():
                return seconds
            await self.run(1)
        raise AssertionError(f"not within {most} s")

    def lose(self) -> None:
        """West's API server and its network are gone; its kubelets go on."""
        self.west.down = True
        self.silent.add("west")

    def find(self) -> None:
        self.west.down = False
        self.silent.discard("west")

    @property
    def pod(self) -> dict[str, Any]:
        found = self.north.api.pod("web")
        assert found is not None
        return found

    @property
    def ready(self) -> str:
        return condition_of(self.pod)

    def writes(self) -> list[tuple[str, str, str]]:
        """What was really done at north about pods."""
        uid = self.pod["metadata"]["uid"]
        return [done for done in self.north.api.done if done[1] == uid]


def condition_of(obj: dict[str, Any]) -> str:
    conditions: Iterable[dict[str, Any]] = obj["status"].get("conditions", ())
    return next((str(one["status"]) for one in conditions if one["type"] == "Ready"), "")


def live(story: Callable[[Quiet], Awaitable[None]]) -> None:
    async def told() -> None:
        fleet = Quiet()
        try:
            pod = pod_object("web", cpu="100m")
            pod["metadata"]["annotations"] = {names.CLUSTERS: "west"}
            fleet.north.api.put_pod(pod)
            await fleet.until(lambda: fleet.ready == "True", 40)
            await fleet.run(10)
            await story(fleet)
        finally:
            for cluster in fleet.clusters.values():
                await cluster.executor.stop()

    asyncio.run(told())


def test_within_a_minute_the_proxy_node_and_the_pods_of_a_lost_cluster_are_not_ready_and_nothing_is_replaced() -> None:
    async def story(fleet: Quiet) -> None:
        fleet.lose()
        assert await fleet.until(lambda: condition_of(fleet.north.api.objects[PROXY]) == "False", 60) > 20
        assert await fleet.until(lambda: fleet.ready == "False", 3) <= 2
        writes = len(fleet.writes())
        await fleet.run(400)
        assert (fleet.ready, fleet.pod["status"]["phase"]) == ("False", "Running")
        assert len(fleet.writes()) == writes
        assert "deletionTimestamp" not in fleet.pod["metadata"]
        assert len(fleet.west.delegates()) == 1
        fleet.find()
        await fleet.until(lambda: condition_of(fleet.north.api.objects[PROXY]) == "True", 20)
        await fleet.run(5)
        assert fleet.ready == "True"

    live(story)


@pytest.mark.parametrize("agent_dies", [False, True])
def test_a_dispatcher_that_is_away_changes_nothing_however_long(agent_dies: bool) -> None:
    async def story(fleet: Quiet) -> None:
        fleet.away = True
        writes = len(fleet.writes())
        for minute in range(8):
            if agent_dies and minute % 3 == 1:
                await fleet.north.kill_agent()
            await fleet.run(60)
            renewed = fleet.north.api.objects[LEASE]["spec"]["renewTime"]
            await fleet.run(15)
            assert fleet.north.api.objects[LEASE]["spec"]["renewTime"] > renewed
        assert len(fleet.writes()) == writes
        assert (fleet.ready, condition_of(fleet.north.api.objects[PROXY])) == ("True", "True")

    live(story)


def test_a_short_silence_of_a_cluster_writes_nothing() -> None:
    async def story(fleet: Quiet) -> None:
        for _ in range(10):
            writes = len(fleet.writes())
            fleet.lose()
            await fleet.run(12)
            fleet.find()
            await fleet.run(8)
            assert len(fleet.writes()) == writes
        assert (fleet.ready, condition_of(fleet.north.api.objects[PROXY])) == ("True", "True")

    live(story)


def test_a_drain_of_a_proxy_node_takes_the_delegates_along_and_brings_no_new_pods() -> None:
    async def story(fleet: Quiet) -> None:
        fleet.north.api.objects[PROXY]["spec"]["unschedulable"] = True
        fleet.north.delete(fleet.pod)  # what an eviction comes to
        await fleet.until(lambda: not fleet.north.api.pod("web") and not fleet.west.delegates(), 60)
        pod = pod_object("next", cpu="100m")
        pod["metadata"]["annotations"] = {names.CLUSTERS: "west"}
        fleet.north.api.put_pod(pod)
        await fleet.run(60)
        assert not fleet.west.delegates()
        assert fleet.north.api.objects[PROXY]["spec"]["unschedulable"] is True

    live(story)
