"""Failover mode `lease` across a cut: the copy that nobody can reach stops by itself before another one is made.

The product's own core and executors; beside them a ReplicaSet and the taint manager of the home cluster, and kubelets
that take the whole grace period. Clocks run at different rates, calls come late or lose their replies, agents and
dispatcher die.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest

from agents.executor.failover_mode import STRICT, tolerations_for
from dispatcher.scheduling import events
from dispatcher.scheduling.delegation.timing import CoreTiming
from shared.kube.http import Request
from shared.messages import Peers
from shared.model import names
from shared.model.leases import LEASE, RATE, stopped_after_s
from tests.agents.executor.world import pod_object, pod_path
from tests.laws.examples import examples
from tests.simulation.cluster import Cluster
from tests.simulation.fleet import Fleet

LEASE_S, GRACE_S = CoreTiming().delegate_lease_s, 30.0
WAIT_S = int(stopped_after_s(LEASE_S, GRACE_S))
PROXY = f"/api/v1/nodes/{names.proxy_node_name('west')}"
# A pod that is evicted at once: nothing but the lease keeps the second copy from being made.
AT_ONCE = [
    {"key": f"node.kubernetes.io/{name}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 0}
    for name in ("not-ready", "unreachable")
]


class Cut(Fleet):
    """A pod of `north` runs in `west`, which the dispatcher is cut off from; whoever replaces it runs in `east`."""

    def __init__(self, seed: int, mode: str, *, drift: bool) -> None:
        super().__init__(seed)
        self.trouble, self.mode, self.made = False, mode, 0
        self.network.trouble = self.network.slow = 0.0
        self.chance = random.Random(seed)
        if drift:
            self.rates = {name: self.chance.choice((1 / RATE, 1.0, RATE)) for name in self.clusters}
        self.lose = self.delay = 0.0  # the shares of calls about peers whose replies are lost, and that come late
        self.letters: list[tuple[float, str, int, Peers]] = []
        self.ending: dict[str, float] = {}
        self.north, self.west, self.east = (self.clusters[name] for name in ("north", "west", "east"))
        for cluster in self.clusters.values():
            cluster.api.kubelet_stops = lambda at=cluster: self._kubelets(at)  # type: ignore[method-assign,misc]
        self.submit("west")

    def submit(self, clusters: str) -> None:
        pod = pod_object(f"web-{self.made}", tolerations=AT_ONCE)
        pod["metadata"]["labels"] = {"app": "web"}
        pod["metadata"]["annotations"] = {names.CLUSTERS: clusters, names.FAILOVER: self.mode}
        self.north.api.put_pod(pod)
        self.made += 1

    def _kubelets(self, cluster: Cluster) -> None:
        """What is deleted ends after its grace period."""
        for pod in [one for one in cluster.bound() if one["metadata"].get("deletionTimestamp")]:
            meta = pod["metadata"]
            since = self.ending.setdefault(meta["uid"], cluster.now.mono)
            if cluster.now.mono - since >= GRACE_S:
                options = msgspec.json.encode({"gracePeriodSeconds": 0})
                pod["status"]["phase"] = "Succeeded"
                cluster.api.answer(Request("DELETE", pod_path(meta["name"]), options))

    async def run(self, seconds: float) -> None:
        for _ in range(int(seconds)):
            await self.step()
            self._evict()
            self._replace()
            for letter in [one for one in self.letters if one[0] <= self.now]:
                self.letters.remove(letter)
                await self.clusters[letter[1]].hear(*letter[2:])
            assert self.running <= 1, f"{self.running} copies run at {self.now}"

    async def _tell(self, told: events.SendPeers) -> None:
        draw = self.chance.random()
        if draw < self.delay:
            at = self.now + self.chance.randrange(1, 400)
            self.letters.append((at, told.cluster, self.boots, self._letter(told)))
        elif draw < self.delay + self.lose:
            await self.clusters[told.cluster].hear(self.boots, self._letter(told))
        else:
            await super()._tell(told)

    # --- kube-controller-manager of north ----------------------------------------------------------------------------

    def _evict(self) -> None:
        if self.condition != "False":
            return
        for pod in self.north.sources():
            tolerations = pod["spec"].get("tolerations", [])
            kept = tolerations_for(STRICT, tolerations) == tolerations
            on_proxy = pod["spec"].get("nodeName") == names.proxy_node_name("west")
            if on_proxy and not kept and not pod["metadata"].get("deletionTimestamp"):
                self.north.delete(pod)

    def _replace(self) -> None:
        metas = [pod["metadata"] for pod in self.north.sources()]
        if all(meta.get("deletionTimestamp") for meta in metas):
            self.submit("west,east")

    # --- what is to be seen ------------------------------------------------------------------------------------------

    @property
    def condition(self) -> str:
        conditions: list[dict[str, Any]] = self.north.api.objects[PROXY]["status"].get("conditions", [])
        return next((str(one["status"]) for one in conditions if one["type"] == "Ready"), "")

    @property
    def running(self) -> int:
        """Pods that have a kubelet and have not ended. Of a cluster that can be reached, those that nobody deletes: a
        ReplicaSet replaces a pod while that has its grace period, in one cluster as in two.
        """
        return sum(
            pod["status"]["phase"] != "Succeeded"
            and (cluster.name in self.silent or "deletionTimestamp" not in pod["metadata"])
            for cluster in self.clusters.values()
            for pod in cluster.bound()
        )

    def copies(self, cluster: Cluster) -> int:
        return len(cluster.delegates())


def live(story: Callable[[Cut], Awaitable[None]], seed: int = 1, mode: str = LEASE, *, drift: bool = False) -> None:
    async def told() -> None:
        fleet = Cut(seed, mode, drift=drift)
        try:
            await fleet.run(30)
            assert fleet.copies(fleet.west) == 1
            await story(fleet)
        finally:
            for cluster in fleet.clusters.values():
                await cluster.executor.stop()

    asyncio.run(told())


async def nothing() -> None:
    """Nobody is at home."""


def test_the_copy_that_is_cut_off_stops_by_itself_and_then_another_is_made() -> None:
    async def story(fleet: Cut) -> None:
        fleet.silent.add("west")
        await fleet.run(LEASE_S - 10)
        assert fleet.running == 1
        await fleet.run(GRACE_S + 20)
        assert (fleet.running, fleet.made) == (0, 1)
        await fleet.run(WAIT_S - LEASE_S - GRACE_S)
        assert (fleet.copies(fleet.east), fleet.made) == (1, 2)
        fleet.silent.clear()
        await fleet.run(120)
        assert (fleet.running, [*fleet.astray()]) == (1, [])

    live(story)


def test_calls_that_arrive_late_in_the_cut_prolong_nothing() -> None:
    async def story(fleet: Cut) -> None:
        for after_s in (100, 200, 300):  # each before a lease would have lapsed that counts from the one before
            late = fleet._letter(events.SendPeers("west", ()))
            fleet.letters.append((fleet.now + after_s, "west", fleet.boots, late))
        fleet.silent.add("west")
        await fleet.run(WAIT_S + 60)
        assert (fleet.copies(fleet.east), fleet.made) == (1, 2)

    live(story)


@pytest.mark.parametrize("seconds", [10, 60, int(LEASE_S) - 15])
def test_a_cut_that_is_shorter_than_the_lease_changes_nothing(seconds: int) -> None:
    async def story(fleet: Cut) -> None:
        fleet.silent.add("west")
        await fleet.run(seconds)
        fleet.silent.clear()
        await fleet.run(300)
        assert (fleet.copies(fleet.west), fleet.made) == (1, 1)

    live(story)


def test_a_dispatcher_that_is_dead_for_the_lease_stops_the_pod() -> None:
    async def story(fleet: Cut) -> None:
        fleet.silent.update(fleet.clusters)
        await fleet.run(LEASE_S + GRACE_S + 10)
        assert (fleet.running, fleet.made) == (0, 1)
        fleet.silent.clear()
        await fleet.run(120)
        assert (fleet.running, fleet.made) == (1, 2)

    live(story)


@pytest.mark.parametrize("mode", ["strict", "asap"])
def test_copies_of_other_modes_go_on(mode: str) -> None:
    async def story(fleet: Cut) -> None:
        fleet.silent.add("west")
        await fleet.run(25)  # under `asap` the second copy comes next
        fleet.silent.update(fleet.clusters)
        await fleet.run(3 * LEASE_S)
        assert fleet.copies(fleet.west) == 1

    live(story, mode=mode)


def test_a_cluster_whose_api_server_failed_first_is_waited_for() -> None:
    async def story(fleet: Cut) -> None:
        fleet.west.down = True
        await fleet.run(5)
        fleet.silent.add("west")
        await fleet.run(3 * WAIT_S)
        assert (fleet.running, fleet.made) == (1, 1)

    live(story)


def test_an_api_server_that_is_away_while_the_dispatcher_speaks_stops_nothing_when_it_is_back() -> None:
    async def story(fleet: Cut) -> None:
        fleet.west.down = True
        await fleet.run(3 * LEASE_S)
        fleet.west.down = False
        await fleet.run(60)
        assert (fleet.copies(fleet.west), fleet.made) == (1, 1)

    live(story)


def test_an_agent_that_is_dead_stops_nothing() -> None:
    """Told in docs/protocol.md; and the proof that this test would see two copies."""

    async def story(fleet: Cut) -> None:
        fleet.silent.add("west")
        fleet.west.executor.tend = nothing  # type: ignore[method-assign]
        with pytest.raises(AssertionError, match="2 copies run"):
            await fleet.run(2 * WAIT_S)
        assert fleet.made == 2

    live(story)


@pytest.mark.parametrize("seed", range(examples(8)))
def test_no_two_copies_run_whoever_dies_and_however_late_calls_come(seed: int) -> None:
    async def story(fleet: Cut) -> None:
        dice = fleet.chance
        fleet.lose, fleet.delay = dice.choice((0.0, 0.3)), dice.choice((0.0, 0.3))
        await fleet.run(dice.randrange(5, 60))
        agent_dies, dispatcher_dies, home_dies = (dice.randrange(2 * int(LEASE_S)) for _ in range(3))
        fleet.silent.add("west")
        for second in range(dice.randrange(100, 3 * WAIT_S)):
            if second == agent_dies:
                await fleet.west.kill_agent()
            if second == home_dies:
                await fleet.north.kill_agent()
            if second == dispatcher_dies:
                fleet._boot()
            await fleet.run(1)
        fleet.silent.clear()
        fleet.lose = fleet.delay = 0.0
        await fleet.run(400)
        assert (fleet.running, [*fleet.astray()]) == (1, [])

    live(story, seed, drift=True)
