"""A calm fleet of the product's own core and executors: what clusters refuse, and quota while one of them is silent."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable

import pytest

from dispatcher.scheduling.core import CoreTiming
from dispatcher.scheduling.quota import QuotaLedger
from dispatcher.scheduling.unsynced_usage import PersistedUsage, UnsyncedUsage
from dispatcher.scheduling.views import explain
from shared.messages import AnyIntent
from shared.model import names
from shared.model.tenant import Share, Tenant
from tests.agents.executor.world import Object, pod_object
from tests.laws.cores import make_core
from tests.simulation.fleet import CLUSTERS, Fleet


class Calm(Fleet):
    """No trouble but what a test makes; what is sent is counted."""

    def __init__(self) -> None:
        super().__init__(seed=1)
        self.trouble = False
        self.network.trouble = self.network.slow = 0.0
        self.sent: Counter[tuple[str, str]] = Counter()

    def _send(self, name: str, intents: tuple[AnyIntent, ...]) -> None:
        self.sent.update((name, type(one).__name__) for one in intents)
        super()._send(name, intents)

    async def run(self, seconds: int) -> None:
        for _ in range(seconds):
            await self.step()

    def where(self, name: str) -> list[tuple[str, str]]:
        """(cluster, node) of each copy that has a kubelet."""
        return [
            (cluster.name, pod["spec"]["nodeName"])
            for cluster in self.clusters.values()
            for pod in cluster.bound()
            if pod["metadata"]["name"].startswith(name)
        ]


def calmly(story: Callable[[Calm], Awaitable[None]]) -> None:
    async def told() -> None:
        fleet = Calm()
        try:
            await story(fleet)
        finally:
            for cluster in fleet.clusters.values():
                await cluster.executor.stop()

    asyncio.run(told())


def web(clusters: str) -> Object:
    pod = pod_object("web", cpu="100m")
    pod["metadata"]["annotations"] = {names.CLUSTERS: clusters}
    return pod


@pytest.mark.parametrize(("allowed", "ends_in"), [("west,east", "east"), ("west,north", "north")])
def test_a_cluster_without_the_namespace_is_asked_once_and_the_next_best_runs_the_pod(
    allowed: str, ends_in: str
) -> None:
    async def story(fleet: Calm) -> None:
        west, other = fleet.clusters["west"], fleet.clusters[ends_in]
        for node in other.nodes:
            other.rival(f"rival-{node}", node)  # west is better
        west.api.namespaces.discard("default")
        fleet.clusters["north"].api.put_pod(web(allowed))
        await fleet.run(10)
        assert [cluster for cluster, _ in fleet.where("web")] == [ends_in]
        assert fleet.sent["west", "CreateDelegate"] == 1
        found = explain(fleet.core, "default", "web")
        assert found is not None
        assert ['namespace "default" does not exist' in one["message"] for one in found["refusals"]] == [True]

    calmly(story)


def test_a_pod_that_no_cluster_takes_is_tried_less_and_less_often() -> None:
    async def story(fleet: Calm) -> None:
        fleet.clusters["west"].api.namespaces.discard("default")
        fleet.clusters["north"].api.put_pod(web("west"))
        await fleet.run(900)
        assert fleet.where("web") == []
        assert 4 <= fleet.sent["west", "CreateDelegate"] <= 6  # at 0, 30, 90, 210, 450 seconds
        (source,) = fleet.clusters["north"].sources()
        (condition,) = source["status"]["conditions"]
        assert 'cluster west refused it: namespace "default" does not exist' in condition["message"]

    calmly(story)


def test_a_pod_that_cannot_travel_runs_at_home() -> None:
    async def story(fleet: Calm) -> None:
        north = fleet.clusters["north"]
        for node in north.nodes:
            north.rival(f"rival-{node}", node)  # the others are better
        north.api.put_pod(pod_object("web", cpu="100m", hostPID=True))
        await fleet.run(10)
        assert [cluster for cluster, _ in fleet.where("web")] == ["north"]
        assert fleet.sent["north", "Claim"] == 0  # its agent says so before anybody asks

    calmly(story)


TEAM = (Tenant("team", ("default",), {"cpu": Share(absolute=1000)}),)


@pytest.mark.parametrize(
    ("remembered", "why"),
    [
        (None, "tenant team: cluster east has not been heard since the start"),
        (
            {"east": {"team": {"cpu": 1000, "pods": 1}}, "north": {}, "west": {}},
            "used 1 (1 of it in clusters not heard",
        ),
    ],
    ids=["nothing is remembered", "a ledger is"],
)
def test_quota_is_not_given_out_again_after_a_restart_while_a_cluster_is_silent(
    remembered: PersistedUsage | None, why: str
) -> None:
    async def story(fleet: Calm) -> None:
        fleet.clusters["east"].api.put_pod(pod_object("first", cpu="1"))
        await fleet.run(10)
        assert fleet.where("first")
        ledger = QuotaLedger(TEAM, UnsyncedUsage(remembered))
        fleet.boots += 1
        fleet.core = make_core(
            CLUSTERS, boot_epoch=fleet.boots * 1_000_000, timing=CoreTiming(absence_grace_s=15), ledger=ledger
        )
        fleet.silent.add("east")
        fleet.clusters["north"].api.put_pod(pod_object("second", cpu="1"))
        await fleet.run(10)
        assert fleet.where("second") == []
        found = explain(fleet.core, "default", "second")
        assert found is not None
        assert why in found["message"]
        fleet.silent.clear()
        await fleet.run(10)
        assert ledger.usage("team") == {"cpu": 1000, "pods": 1}
        fleet.clusters["east"].delete(*fleet.clusters["east"].sources())
        await fleet.run(10)
        assert fleet.where("second")

    calmly(story)
