"""What users write, dispatchers that begin anew and servers that went back do to pods that run elsewhere: nothing.

The product's own core, executors and caches in virtual time without faults but the one that each test is about.
"""

import copy
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

from shared.kube.http import MERGE_PATCH, Request, Response
from shared.model import names
from tests.agents.executor.world import Object, pod_object, pod_path
from tests.simulation.cluster import Cluster
from tests.simulation.fleet import Fleet


class Calm(Fleet):
    """No faults, but those of the test."""

    def __init__(self) -> None:
        super().__init__(1)
        self.trouble = False

    def _check(self) -> None:
        """By annotations alone a forged copy is a copy: each test says itself what must hold."""

    async def run(self, seconds: int) -> None:
        for _ in range(seconds):
            await self.step()

    async def until(self, holds: Callable[[], object], most: int = 60) -> None:
        for _ in range(most):
            if holds():
                return
            await self.step()
        assert holds()

    def submit(self, name: str = "web", clusters: str = "west", cpu: str = "100m") -> None:
        pod = pod_object(name, cpu=cpu)
        pod["metadata"]["annotations"] = {names.CLUSTERS: clusters} if clusters else {}
        self.clusters["north"].api.put_pod(pod)

    async def remote(self, name: str = "web") -> None:
        """A pod of north runs in west, and north shows it."""
        self.submit(name)
        await self.until(lambda: source(self, name)["status"].get("phase") == "Running")


@asynccontextmanager
async def calm() -> AsyncIterator[Calm]:
    fleet = Calm()
    try:
        yield fleet
    finally:
        for cluster in fleet.clusters.values():
            await cluster.executor.stop()


def source(fleet: Fleet, name: str = "web") -> Object:
    pod = fleet.clusters["north"].api.pod(name)
    assert pod is not None, "the pod is gone"
    return pod


def patch(cluster: Cluster, name: str, metadata: Object) -> None:
    body = msgspec.json.encode({"metadata": metadata})
    assert cluster.api.answer(Request("PATCH", pod_path(name), body, MERGE_PATCH)).ok


def deleted(cluster: Cluster) -> list[str]:
    return [what for verb, _, what in cluster.api.done if verb in {"delete", "gone"} and "/pods/" in what]


def forged(name: str, cpu: str, uid: str, **spec: Any) -> Object:
    """A user's pod that says it is the delegate of another cluster's pod."""
    pod = pod_object(name, namespace="evil", cpu=cpu, **spec)
    pod["metadata"]["labels"][names.DELEGATE_LABEL] = "true"
    pod["metadata"]["annotations"] = {
        names.SOURCE_CLUSTER: "north",
        names.SOURCE_CLUSTER_UID: "north-cluster-uid",
        names.SOURCE_NAMESPACE: "default",
        names.SOURCE_NAME: "web",
        names.SOURCE_UID: uid,
        names.EPOCH: "9",
    }
    return pod


def copied(fleet: Fleet) -> dict[str, str]:
    """The marks of the genuine delegate: everybody may read them."""
    (delegate,) = fleet.clusters["west"].delegates()
    annotations = delegate["metadata"]["annotations"]
    return {key: annotations[key] for key in (names.CLAIM, names.DELEGATE_PROOF)}


@pytest.mark.parametrize("scheduler", ["default-scheduler", names.SCHEDULER_NAME, names.DELEGATE_SCHEDULER])
@pytest.mark.parametrize("copies", [False, True], ids=["without marks", "with the marks of the genuine one"])
async def test_a_pod_labelled_as_the_delegate_of_a_victim_does_nothing_to_it(scheduler: str, copies: bool) -> None:
    async with calm() as fleet:
        await fleet.remote()
        west = fleet.clusters["west"]
        west.api.namespaces.add("evil")
        pod = forged("evil", "100m", source(fleet)["metadata"]["uid"], nodeName="west-1", schedulerName=scheduler)
        pod["metadata"]["annotations"] |= copied(fleet) if copies else {}
        pod["metadata"]["finalizers"] = ["evil/hold"]
        pod["status"] = {"phase": "Running", "podIP": "6.6.6.6", "podIPs": [{"ip": "6.6.6.6"}]}
        west.api.put_pod(pod)
        await fleet.run(20)
        assert source(fleet)["status"].get("podIP") != "6.6.6.6"
        west.api.answer(Request("DELETE", pod_path("evil", "evil")))
        await fleet.run(60)
        assert source(fleet)["status"]["phase"] == "Running"
        assert not deleted(fleet.clusters["north"])


async def test_forged_delegates_hide_no_room() -> None:
    async with calm() as fleet:
        west = fleet.clusters["west"]
        west.api.namespaces.add("evil")
        for number in range(8):
            node = west.nodes[number % 2]
            west.api.put_pod(forged(f"evil{number}", "1", "same", nodeName=node, schedulerName="default-scheduler"))
        fleet.submit(cpu="900m")
        await fleet.run(30)
        assert "Insufficient cpu" in fleet.core.tracked["north", source(fleet)["metadata"]["uid"]].reported


@pytest.mark.parametrize("gated", [False, True])
async def test_a_claim_that_its_user_wrote_chooses_nothing_and_passes_no_gate(gated: bool) -> None:
    async with calm() as fleet:
        north = fleet.clusters["north"]
        pod = pod_object("web", cpu="1")
        pod["spec"]["schedulingGates"] = [{"name": "example.com/hold"}] if gated else []
        claim = {names.CLAIM_CLUSTER: "west", names.CLAIM_NODE: "west-0", names.EPOCH: "1", names.STAY: "true"}
        pod["metadata"]["annotations"] = {key: value for key, value in claim.items() if not gated or key != names.STAY}
        pod["metadata"]["finalizers"] = [names.FINALIZER]
        north.api.put_pod(pod)
        await fleet.run(60)
        assert not fleet.clusters["west"].delegates()
        assert source(fleet)["spec"].get("nodeName", "").startswith("" if gated else "north-")
        assert bool(source(fleet)["spec"].get("nodeName")) is not gated


STRIPS: dict[str, Object] = {
    "the cluster": {"annotations": {names.CLAIM_CLUSTER: None}},
    "the claim": {"annotations": {names.CLAIM: None}},
    "all annotations": {"annotations": None},
    "the finalizer": {"finalizers": []},
    "everything": {"annotations": None, "finalizers": []},
}


@pytest.mark.parametrize("what", STRIPS)
async def test_a_running_pod_whose_marks_are_taken_off_runs_on_and_can_be_deleted(what: str) -> None:
    async with calm() as fleet:
        await fleet.remote()
        north, west = fleet.clusters["north"], fleet.clusters["west"]
        patch(north, "web", STRIPS[what])
        await fleet.run(40)
        assert source(fleet)["status"]["phase"] == "Running"
        assert names.FINALIZER in source(fleet)["metadata"]["finalizers"]
        assert len(west.delegates()) == 1
        assert not deleted(west)
        north.delete(source(fleet))
        await fleet.until(lambda: north.api.pod("web") is None and not west.delegates())


async def test_a_restart_of_the_dispatcher_with_watches_that_lag_kills_nobody() -> None:
    async with calm() as fleet:
        north, west = fleet.clusters["north"], fleet.clusters["west"]
        fleet.submit()
        north.watch()
        west.watch()
        behind = {"north", "west"}
        for cluster in (north, west):
            real = cluster.watch
            cluster.watch = lambda name=cluster.name, real=real: None if name in behind else real()  # type: ignore[method-assign,misc]
        await fleet.until(lambda: source(fleet)["spec"].get("nodeName") == names.proxy_node_name("west"))
        fleet._boot()
        await fleet.run(3)
        behind.discard("north")
        await fleet.run(30)
        behind.discard("west")
        await fleet.run(30)
        assert source(fleet)["status"]["phase"] == "Running"
        assert not deleted(north)
        assert not deleted(west)


async def test_a_claim_that_a_dead_dispatcher_left_is_decided_anew_as_the_pod_is_now(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with calm() as fleet:
        west, north = fleet.clusters["west"], fleet.clusters["north"]
        with monkeypatch.context() as patches:
            patches.setattr(west, "_answer", lambda request: Response(0, b"no answer"))
            fleet.submit()
            await fleet.until(lambda: source(fleet)["metadata"]["annotations"].get(names.CLAIM_CLUSTER) == "west")
            await fleet.run(3)
            patch(north, "web", {"annotations": {names.CLUSTERS: "east"}})
            fleet._boot()
        await fleet.until(lambda: source(fleet)["spec"].get("nodeName") == names.proxy_node_name("east"))
        assert not west.delegates()


async def test_a_target_that_is_lost_before_it_was_asked_is_given_up_at_once() -> None:
    async with calm() as fleet:
        north, west, east = (fleet.clusters[name] for name in ("north", "west", "east"))
        for node in east.nodes:
            east.rival(f"load-{node}", node)
        fleet.submit(clusters="west,east")
        await fleet.until(lambda: source(fleet)["metadata"].get("finalizers"))
        west.down = True
        fleet.silent.add("west")
        await fleet.until(east.delegates, most=10)
        await fleet.until(lambda: source(fleet)["status"]["phase"] == "Running")
        north.delete(source(fleet))
        await fleet.until(lambda: north.api.pod("web") is None and not east.delegates())


async def test_a_source_cluster_that_lacks_its_remote_pods_costs_no_delegate_until_that_is_confirmed() -> None:
    async with calm() as fleet:
        north, west = fleet.clusters["north"], fleet.clusters["west"]
        backup = copy.deepcopy(north.api.objects)
        for number in range(10):
            fleet.submit(f"web{number}")
        await fleet.until(lambda: len(west.delegates()) == 10)
        await fleet.run(20)
        north.api.objects = backup
        fleet.warnings = []
        await fleet.run(1500)
        assert len(west.delegates()) == 10
        assert not deleted(west)
        assert any("restored from a backup?" in text for text in fleet.warnings)
        north.confirmed += 1
        await fleet.until(lambda: not west.delegates(), most=900)


async def test_one_orphan_among_many_goes_after_its_server_was_asked_twice() -> None:
    async with calm() as fleet:
        north, west = fleet.clusters["north"], fleet.clusters["west"]
        for number in range(10):
            fleet.submit(f"web{number}")
        await fleet.until(lambda: len(west.delegates()) == 10)
        await fleet.run(20)
        del north.api.objects[pod_path("web3")]
        await fleet.run(300)
        assert len(west.delegates()) == 10
        await fleet.until(lambda: len(west.delegates()) == 9, most=900)


async def test_a_pod_that_its_user_bound_to_a_proxy_node_is_left_alone() -> None:
    async with calm() as fleet:
        north = fleet.clusters["north"]
        north.api.put_pod(pod_object("web", nodeName=names.proxy_node_name("west")))
        await fleet.run(60)
        assert source(fleet)["status"]["phase"] == "Pending"
        assert not fleet.clusters["west"].delegates()
