"""Owner references: what goes with its owner, waits for it, or is left behind."""

import pytest

from localfleet.embedded.apiserver.deletion import Options
from tests.embedded.simulated import Object, SimulatedCluster, deployment

CONFIGMAPS = "configmaps"


def make(cluster: SimulatedCluster, name: str, *owners: Object) -> Object:
    references = [
        {"apiVersion": "v1", "kind": "ConfigMap", "name": o["metadata"]["name"], "uid": o["metadata"]["uid"]}
        for o in owners
    ]
    return cluster.api.create(CONFIGMAPS, {"metadata": {"name": name, "ownerReferences": references}}, "default")


def names(cluster: SimulatedCluster) -> set[str]:
    found = cluster.api.list(CONFIGMAPS, "default")
    return {one["metadata"]["name"] for one in found if one["metadata"]["name"] != "kube-root-ca.crt"}


@pytest.mark.parametrize("propagation", ["Background", "Foreground", ""])
def test_dependents_go_with_their_owner_generation_by_generation(propagation: str) -> None:
    cluster = SimulatedCluster(0)
    grandparent = make(cluster, "grandparent")
    make(cluster, "child", make(cluster, "parent", grandparent))
    cluster.settle()
    cluster.api.delete(CONFIGMAPS, "grandparent", "default", Options(propagation=propagation))
    cluster.settle()
    assert names(cluster) == set()


def test_orphans_stay_and_forget_their_owner() -> None:
    cluster = SimulatedCluster(0)
    make(cluster, "child", make(cluster, "parent"))
    cluster.settle()
    cluster.api.delete(CONFIGMAPS, "parent", "default", Options(propagation="Orphan"))
    cluster.settle()
    assert names(cluster) == {"child"}
    assert not cluster.api.get(CONFIGMAPS, "child", "default")["metadata"].get("ownerReferences")


def test_one_living_owner_of_two_is_enough() -> None:
    cluster = SimulatedCluster(0)
    make(cluster, "child", make(cluster, "first"), make(cluster, "second"))
    cluster.api.delete(CONFIGMAPS, "first", "default")
    cluster.settle()
    (owner,) = cluster.api.get(CONFIGMAPS, "child", "default")["metadata"]["ownerReferences"]
    assert owner["name"] == "second"


def test_an_owner_that_never_was_is_as_good_as_gone() -> None:
    cluster = SimulatedCluster(0)
    make(cluster, "child", {"metadata": {"name": "ghost", "uid": "never"}})
    cluster.settle()
    assert names(cluster) == set()


def test_an_owner_of_a_kind_not_served_here_is_taken_to_exist() -> None:
    cluster = SimulatedCluster(0)
    owner = {"apiVersion": "example.com/v1", "kind": "Thing", "name": "x", "uid": "u"}
    cluster.api.create(CONFIGMAPS, {"metadata": {"name": "child", "ownerReferences": [owner]}}, "default")
    cluster.settle()
    assert names(cluster) == {"child"}


def test_foreground_deletion_waits_for_the_pods() -> None:
    cluster = SimulatedCluster()
    cluster.api.create("deployments.apps", deployment(2), "default")
    cluster.advance(2)
    cluster.api.delete("deployments.apps", "web", "default", Options(propagation="Foreground"))
    cluster.settle()
    assert cluster.api.get("deployments.apps", "web", "default")["metadata"]["deletionTimestamp"]
    cluster.advance(2)
    assert cluster.api.list("deployments.apps") == []
    assert cluster.api.list("replicasets.apps") == []
    assert cluster.pods() == []


def test_deleting_a_namespace_ends_its_pods_and_then_the_namespace() -> None:
    cluster = SimulatedCluster()
    cluster.api.create("namespaces", {"metadata": {"name": "team"}})
    cluster.api.create("deployments.apps", deployment(2), "team")
    cluster.advance(2)
    cluster.api.delete("namespaces", "team")
    cluster.advance(3)
    assert "team" not in [one["metadata"]["name"] for one in cluster.api.list("namespaces")]
    assert cluster.api.list("pods") == []
