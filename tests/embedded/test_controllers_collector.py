"""Owner references: what goes with its owner, waits for it, or is left behind."""

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


def test_one_living_owner_of_two_is_enough() -> None:
    cluster = SimulatedCluster(0)
    make(cluster, "child", make(cluster, "first"), make(cluster, "second"))
    cluster.api.delete(CONFIGMAPS, "first", "default")
    cluster.settle()
    (owner,) = cluster.api.get(CONFIGMAPS, "child", "default")["metadata"]["ownerReferences"]
    assert owner["name"] == "second"


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
