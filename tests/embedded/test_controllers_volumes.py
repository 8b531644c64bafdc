"""Volumes and claims: who finds whom, and who has to wait."""

from typing import Any

import pytest

from localfleet.embedded.apiserver.deletion import Options
from tests.embedded.simulated import Object, SimulatedCluster

VOLUMES, CLAIMS, CLASSES = "persistentvolumes", "persistentvolumeclaims", "storageclasses.storage.k8s.io"


def cluster_with(*objects: tuple[str, Object]) -> SimulatedCluster:
    cluster = SimulatedCluster()
    for resource, obj in objects:
        cluster.api.create(resource, obj, "default" if resource == CLAIMS else "")
    cluster.advance(2)
    return cluster


def volume(name: str, size: str = "1Gi", **spec: Any) -> tuple[str, Object]:
    fields = {"capacity": {"storage": size}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/x"}, **spec}
    return VOLUMES, {"metadata": {"name": name}, "spec": fields}


def claim(name: str = "data", size: str = "1Gi", **spec: Any) -> tuple[str, Object]:
    requests = {"requests": {"storage": size}}
    fields = {"accessModes": ["ReadWriteOnce"], "resources": requests, "storageClassName": "", **spec}
    return CLAIMS, {"metadata": {"name": name}, "spec": fields}


def storage_class(
    name: str, mode: str = "Immediate", provisioner: str = "any.io/p", **notes: str
) -> tuple[str, Object]:
    meta = {"name": name, "annotations": notes}
    return CLASSES, {"metadata": meta, "provisioner": provisioner, "volumeBindingMode": mode}


def phases(cluster: SimulatedCluster) -> dict[str, str]:
    found = [*cluster.api.list(VOLUMES), *cluster.api.list(CLAIMS)]
    return {one["metadata"]["name"]: one["status"]["phase"] for one in found}


def test_a_claim_gets_the_smallest_volume_that_suits() -> None:
    cluster = cluster_with(volume("big", "10Gi"), volume("small", "2Gi"), volume("tiny", "1Mi"), claim())
    assert phases(cluster) == {"big": "Available", "small": "Bound", "tiny": "Available", "data": "Bound"}
    found = cluster.api.get(CLAIMS, "data", "default")
    assert found["spec"]["volumeName"] == "small"
    assert found["status"]["capacity"] == {"storage": "2Gi"}


@pytest.mark.parametrize(
    "wanted",
    [
        pytest.param({"size": "2Gi"}, id="too small"),
        pytest.param({"accessModes": ["ReadWriteMany"]}, id="another mode"),
        pytest.param({"storageClassName": "x"}, id="another class"),
        pytest.param({"volumeMode": "Block"}, id="a device"),
        pytest.param({"selector": {"matchLabels": {"a": "b"}}}, id="other labels"),
    ],
)
def test_a_claim_that_nothing_suits_waits(wanted: dict[str, Any]) -> None:
    assert phases(cluster_with(volume("pv1"), claim(**wanted))) == {"pv1": "Available", "data": "Pending"}


def test_a_class_that_provides_makes_a_volume_at_once() -> None:
    cluster = cluster_with(storage_class("fast"), claim(storageClassName="fast"))
    (made,) = cluster.api.list(VOLUMES)
    assert made["spec"]["claimRef"]["name"] == "data"
    assert set(phases(cluster).values()) == {"Bound"}


def test_a_claim_that_waits_for_its_pod_gets_a_volume_once_it_names_its_node() -> None:
    cluster = cluster_with(storage_class("late", "WaitForFirstConsumer"), claim(storageClassName="late"))
    assert phases(cluster) == {"data": "Pending"}
    note = {"metadata": {"annotations": {"volume.kubernetes.io/selected-node": "n1"}}}
    cluster.api.patch(CLAIMS, "data", "default", note, kind="merge")
    cluster.advance(2)
    assert phases(cluster)["data"] == "Bound"


def test_a_volume_that_is_set_aside_is_bound_to_its_claim() -> None:
    late = storage_class("late", "WaitForFirstConsumer", "kubernetes.io/no-provisioner")
    cluster = cluster_with(late, volume("pv1", storageClassName="late"), claim(storageClassName="late"))
    assert phases(cluster) == {"pv1": "Available", "data": "Pending"}
    uid = cluster.api.get(CLAIMS, "data", "default")["metadata"]["uid"]
    kept = {"spec": {"claimRef": {"namespace": "default", "name": "data", "uid": uid}}}
    cluster.api.patch(VOLUMES, "pv1", "", kept, kind="merge")
    cluster.advance(2)
    assert phases(cluster) == {"pv1": "Bound", "data": "Bound"}


def test_a_volume_whose_claim_is_gone_is_released() -> None:
    cluster = cluster_with(volume("pv1"), claim())
    cluster.api.delete(CLAIMS, "data", "default")
    cluster.advance(2)
    assert phases(cluster) == {"pv1": "Released"}


def test_a_claim_of_no_class_is_of_the_default_one() -> None:
    default = storage_class("usual", **{"storageclass.kubernetes.io/is-default-class": "true"})
    cluster = cluster_with(default, storage_class("other"), claim(storageClassName=None))
    assert cluster.api.get(CLAIMS, "data", "default")["spec"]["storageClassName"] == "usual"


def test_an_ephemeral_volume_gets_its_claim_and_it_goes_with_the_pod() -> None:
    cluster = cluster_with(storage_class("fast"))
    template = {"spec": {**claim()[1]["spec"], "storageClassName": "fast"}}
    pod = {
        "metadata": {"name": "p"},
        "spec": {
            "containers": [{"name": "c", "image": "i"}],
            "volumes": [{"name": "v", "ephemeral": {"volumeClaimTemplate": template}}],
        },
    }
    cluster.api.create("pods", pod, "default")
    cluster.advance(2)
    owner = cluster.api.get(CLAIMS, "p-v", "default")["metadata"]["ownerReferences"][0]
    assert (owner["kind"], owner["name"], owner["controller"]) == ("Pod", "p", True)
    cluster.api.delete("pods", "p", "default", Options(grace_seconds=0))
    cluster.advance(5)
    assert "p-v" not in phases(cluster)
