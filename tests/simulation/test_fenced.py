"""A cluster that is lost for good, by an operator's word, and comes back all the same."""

from typing import Any

import msgspec
import pytest

from shared.kube.http import STRATEGIC_PATCH, Request, Response
from shared.model import names
from tests.agents.executor.world import pod_object
from tests.simulation.test_refusals import Calm, calmly

PODS = [f"p{number}" for number in range(6)]


def submit(fleet: Calm, name: str, clusters: str = "north,west") -> None:
    pod = pod_object(name)
    pod["metadata"]["annotations"] = {names.CLUSTERS: clusters}
    fleet.clusters["east"].api.put_pod(pod)


def fence(fleet: Calm, cluster: str, *, on: bool = True) -> None:
    """What `global-dispatcher cluster fence` writes in the cluster of submission."""
    body: dict[str, Any] = {"metadata": {"labels": {names.FENCED: "true" if on else None}}}
    path = f"/api/v1/nodes/{names.proxy_node_name(cluster)}"
    raw = msgspec.json.encode(body)
    assert fleet.clusters["east"].api.answer(Request("PATCH", path, raw, STRATEGIC_PATCH)).ok


def lose(fleet: Calm, cluster: str) -> None:
    fleet.clusters[cluster].down = True
    fleet.silent.add(cluster)


def find(fleet: Calm, cluster: str) -> None:
    fleet.clusters[cluster].down = False
    fleet.silent.discard(cluster)


def sources(fleet: Calm) -> set[str]:
    return {pod["metadata"]["name"] for pod in fleet.clusters["east"].sources()}


def delegates(fleet: Calm, cluster: str) -> set[str]:
    """UIDs of the copies that are there and that nobody deletes."""
    metas = [pod["metadata"] for pod in fleet.clusters[cluster].delegates()]
    return {meta["uid"] for meta in metas if "deletionTimestamp" not in meta}


def test_pods_of_a_lost_cluster_run_elsewhere_once_it_is_fenced_and_their_old_copies_are_deleted_when_it_is_back() -> (
    None
):
    async def story(fleet: Calm) -> None:
        for name in PODS:
            submit(fleet, name)
        await fleet.run(20)
        lost = {name for name in PODS if fleet.where(name)[0][0] == "west"}
        assert lost
        assert lost != set(PODS)
        lose(fleet, "west")
        await fleet.run(120)
        assert sources(fleet) == set(PODS)  # a lost cluster costs nobody anything until somebody says so
        fence(fleet, "west")
        await fleet.run(10)
        assert sources(fleet) == set(PODS) - lost
        for name in lost:  # as their controller does
            submit(fleet, f"new-{name}")
        await fleet.run(20)
        here = delegates(fleet, "north")
        assert len(here) == len(PODS)
        assert len(delegates(fleet, "west")) == len(lost)  # nobody can reach them
        find(fleet, "west")
        await fleet.run(30)
        assert delegates(fleet, "west") == set()
        assert delegates(fleet, "north") == here
        assert not [*fleet.astray()]

    calmly(story)


def test_a_fenced_cluster_that_is_back_loses_its_copies_also_if_the_dispatcher_has_forgotten_all() -> None:
    async def story(fleet: Calm) -> None:
        for name in PODS:
            submit(fleet, name, "west")
        await fleet.run(20)
        assert len(delegates(fleet, "west")) == len(PODS)
        lose(fleet, "west")
        fence(fleet, "west")
        await fleet.run(10)
        assert sources(fleet) == set()
        fleet._boot()
        find(fleet, "west")
        await fleet.run(60)
        assert delegates(fleet, "west") == set()

    calmly(story)


def test_nothing_goes_to_a_fenced_cluster_and_the_label_stays_until_it_is_taken_off() -> None:
    async def story(fleet: Calm) -> None:
        await fleet.run(5)
        fence(fleet, "west")
        submit(fleet, "waits", "west")
        await fleet.run(60)
        assert delegates(fleet, "west") == set()
        node = fleet.clusters["east"].api.objects[f"/api/v1/nodes/{names.proxy_node_name('west')}"]
        assert node["metadata"]["labels"][names.FENCED] == "true"
        fence(fleet, "west", on=False)
        await fleet.run(20)
        assert len(delegates(fleet, "west")) == 1

    calmly(story)


def test_a_pod_on_its_way_to_a_cluster_turns_back_when_that_is_fenced(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(fleet: Calm) -> None:
        await fleet.run(5)
        west, north = fleet.clusters["west"], fleet.clusters["north"]
        for node in north.nodes:
            north.cordon(node, on=True)
        monkeypatch.setattr(west, "_answer", lambda request: Response(0, b"no answer"))
        submit(fleet, "turns")
        await fleet.run(5)
        lose(fleet, "west")  # with an order to make the delegate on its way
        for node in north.nodes:
            north.cordon(node, on=False)
        await fleet.run(60)
        assert fleet.clusters["east"].sources()[0]["metadata"]["annotations"][names.CLAIM_CLUSTER] == "west"
        fence(fleet, "west")
        await fleet.run(60)
        assert [pod["spec"]["nodeName"] for pod in fleet.clusters["east"].sources()] == ["global-dispatcher-north"]

    calmly(story)
