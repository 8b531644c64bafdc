"""What crosses to another cluster, what is left behind, and what is refused by name."""

import contextlib
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.executor.crossing.manifest import MAX_BYTES, ManifestError, left_behind, sanitise
from agents.kube import groups
from shared.model import names
from tests.agents.executor.world import pod_object


def crossed(pod: dict[str, Any]) -> dict[str, Any]:
    clean: dict[str, Any] = msgspec.json.decode(sanitise(msgspec.json.encode(pod)))
    return clean


def test_what_a_container_is_and_needs_crosses() -> None:
    container = {
        "name": "main",
        "image": "busybox",
        "command": ["sleep"],
        "env": [{"name": "A", "value": "1"}],
        "resources": {"requests": {"cpu": "1"}, "limits": {"memory": "1Gi"}},
        "readinessProbe": {"tcpSocket": {"port": 80}},
        "volumeMounts": [{"name": "data", "mountPath": "/data"}],
    }
    volumes = [{"name": "data", "emptyDir": {}}]
    spec = crossed(pod_object(containers=[container], volumes=volumes, restartPolicy="Never"))["spec"]
    assert spec["containers"] == [container]
    assert spec["volumes"] == volumes
    assert spec["restartPolicy"] == "Never"


IN_ZONE_A = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}
NODE_AFFINITY = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [IN_ZONE_A]}}


def test_what_means_something_else_elsewhere_is_left_behind() -> None:
    pod = pod_object(
        nodeName="n1",
        priorityClassName="high",
        priority=1000,
        serviceAccountName="default",
        serviceAccount="default",
        affinity={"podAntiAffinity": {"x": 1}, "nodeAffinity": NODE_AFFINITY},
    )
    pod["metadata"] |= {"ownerReferences": [{"kind": "ReplicaSet"}], "finalizers": ["x/y"], "uid": "u", "name": "web"}
    clean = crossed(pod)
    assert set(clean["metadata"]) == {"labels", "annotations"}
    assert clean["spec"] == {
        "containers": pod["spec"]["containers"],
        "affinity": {"nodeAffinity": NODE_AFFINITY},
        "priorityClassName": "high",
        "schedulerName": names.SCHEDULER_NAME,
        "automountServiceAccountToken": False,
    }


def test_no_mark_of_a_group_crosses_and_none_is_told_as_left_behind() -> None:
    pod = pod_object(schedulingGroup={"podGroupName": "g"})
    keys = (*groups._KEYS, *groups._NOTED_ANNOTATIONS, groups._KOORDINATOR_MIN, groups._LIGHTWEIGHT_MIN)
    marks = dict.fromkeys(keys, "g")
    pod["metadata"] |= {"labels": {"app": "web", **marks}, "annotations": {"example.com/own": "x", **marks}}
    clean = crossed(pod)
    assert clean["metadata"] == {"labels": {"app": "web"}, "annotations": {"example.com/own": "x"}}
    assert "schedulingGroup" not in clean["spec"]
    assert left_behind(msgspec.json.encode(pod)) == ["example.com/own"]


def test_token_volumes_are_left_behind_with_their_mounts() -> None:
    mount = {"name": "kube-api-access-x", "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"}
    pod = pod_object(
        containers=[{"name": "main", "volumeMounts": [mount, {"name": "cfg", "mountPath": "/cfg"}]}],
        volumes=[
            {"name": "kube-api-access-x", "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}},
            {"name": "cfg", "configMap": {"name": "cfg"}},
        ],
    )
    spec = crossed(pod)["spec"]
    assert [volume["name"] for volume in spec["volumes"]] == ["cfg"]
    assert [one["name"] for one in spec["containers"][0]["volumeMounts"]] == ["cfg"]


LABELS = {
    "app": True,
    "app.kubernetes.io/name": True,
    "example.com/team": True,
    "scheduling.x-k8s.io/pod-group": False,
    "pod-group.scheduling.sigs.k8s.io": False,
    "pod-group.scheduling.sigs.k8s.io/name": False,
    "sidecar.istio.io/inject": True,  # the target's policy says more of these
    "security.istio.io/tlsMode": True,
    "pod-template-hash": False,
    "controller-uid": False,
    "job-name": False,
    "batch.kubernetes.io/job-name": False,
    "topology.kubernetes.io/zone": False,
    "x.k8s.io/y": False,
    names.DELEGATE_LABEL: False,
}
ANNOTATIONS = {
    "example.com/note": True,
    "embedded.global-dispatcher.io/cpu": True,
    "notkubernetes.io/x": True,
    "cluster-autoscaler.kubernetes.io/safe-to-evict": True,
    "kubectl.kubernetes.io/default-container": True,
    "kubectl.kubernetes.io/last-applied-configuration": False,
    names.SCHEDULE: False,
    names.EPOCH: False,
}


@pytest.mark.parametrize(("key", "crosses"), LABELS.items(), ids=LABELS.keys())
def test_a_label_crosses_unless_somebody_there_would_act_on_it(key: str, crosses: bool) -> None:
    pod = pod_object()
    pod["metadata"]["labels"] = {key: "v"}
    assert (key in crossed(pod)["metadata"]["labels"]) is crosses


@pytest.mark.parametrize(("key", "crosses"), ANNOTATIONS.items(), ids=ANNOTATIONS.keys())
def test_an_annotation_crosses_unless_it_is_reserved(key: str, crosses: bool) -> None:
    pod = pod_object()
    pod["metadata"]["annotations"] = {key: "v"}
    assert (key in crossed(pod)["metadata"]["annotations"]) is crosses


REFUSED: dict[str, dict[str, Any]] = {
    "spec.hostNetwork": {"hostNetwork": True},
    "spec.hostPID": {"hostPID": True},
    "spec.hostIPC": {"hostIPC": True},
    "spec.containers[0].securityContext.privileged": {
        "containers": [{"name": "c", "securityContext": {"privileged": True}}]
    },
    "spec.initContainers[0].securityContext.privileged": {
        "initContainers": [{"name": "c", "securityContext": {"privileged": True}}]
    },
    "spec.securityContext.windowsOptions.hostProcess": {"securityContext": {"windowsOptions": {"hostProcess": True}}},
    "spec.volumes[1].hostPath": {"volumes": [{"name": "a"}, {"name": "b", "hostPath": {"path": "/"}}]},
    "spec.volumes[0].persistentVolumeClaim": {"volumes": [{"name": "a", "persistentVolumeClaim": {"claimName": "c"}}]},
    "spec.containers": {"containers": [{"name": f"c{i}"} for i in range(65)]},
}


@pytest.mark.parametrize(("field", "spec"), REFUSED.items(), ids=REFUSED.keys())
def test_what_reaches_into_the_node_is_refused_by_name(field: str, spec: dict[str, Any]) -> None:
    with pytest.raises(ManifestError) as refused:
        crossed(pod_object(**spec))
    assert str(refused.value).startswith(f"{field} ")
    assert names.STAY in str(refused.value)


@pytest.mark.parametrize(
    ("owner", "crosses"),
    [
        ({"kind": "DaemonSet", "controller": True}, False),
        ({"kind": "DaemonSet"}, True),
        ({"kind": "ReplicaSet", "controller": True}, True),
    ],
    ids=["of a DaemonSet", "beside one", "of a ReplicaSet"],
)
def test_a_pod_of_a_daemon_set_is_for_a_node_of_its_own_cluster(owner: dict[str, Any], crosses: bool) -> None:
    pod = pod_object()
    pod["metadata"]["ownerReferences"] = [{"kind": "Node"}, owner]
    refused = contextlib.nullcontext() if crosses else pytest.raises(ManifestError, match=r"ownerReferences\[1\] is a")
    with refused:
        crossed(pod)


SCRATCH = {"name": "scratch", "emptyDir": {}}
RAM = {"name": "ram", "emptyDir": {"medium": "Memory"}}


@pytest.mark.parametrize(
    ("kind", "annotations", "volumes", "says"),
    [
        ("ReplicaSet", {}, [], "true"),
        ("Job", {}, [], "true"),
        ("StatefulSet", {}, [RAM, {"name": "own", "configMap": {"name": "settings"}}], "true"),
        ("", {}, [], None),
        ("RayCluster", {}, [], None),
        ("ReplicaSet", {}, [RAM, SCRATCH], None),
        ("ReplicaSet", {names.SAFE_LOCAL_VOLUMES: "scratch,other"}, [SCRATCH], "true"),
        ("ReplicaSet", {names.SAFE_TO_EVICT: "false"}, [], "false"),
        ("ReplicaSet", {names.SAFE_TO_EVICT: ""}, [], ""),
        ("RayCluster", {names.SAFE_TO_EVICT: "true"}, [SCRATCH], "true"),
    ],
)
def test_an_autoscaler_may_evict_the_delegate_of_a_pod_that_it_evicts_at_home(
    kind: str, annotations: dict[str, str], volumes: list[dict[str, Any]], says: str | None
) -> None:
    """Where that runs, no controller of it is seen."""
    pod = pod_object(volumes=volumes)
    owner = {"apiVersion": "v1", "kind": kind, "name": "owner", "uid": "u", "controller": True}
    pod["metadata"] |= {"annotations": annotations, "ownerReferences": [owner] if kind else []}
    once = crossed(pod)
    assert once["metadata"]["annotations"].get(names.SAFE_TO_EVICT) == says
    assert crossed(once) == once


def test_whoever_is_beside_the_controller_does_not_replace_the_pod() -> None:
    pod = pod_object()
    pod["metadata"]["ownerReferences"] = [{"apiVersion": "v1", "kind": "Job", "name": "owner", "uid": "u"}]
    assert names.SAFE_TO_EVICT not in crossed(pod)["metadata"]["annotations"]


def test_bottomless_nesting_is_refused() -> None:
    with pytest.raises(ManifestError):
        sanitise(b'{"metadata":{},"spec":{"containers":' + b"[" * 50_000)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=10,
)
FIELDS = st.sampled_from(["containers", "initContainers", "volumes", "affinity", "securityContext", "hostNetwork"])


@given(spec=st.dictionaries(FIELDS, JSON) | JSON, metadata=JSON)
def test_any_json_is_either_cleaned_or_refused(spec: object, metadata: object) -> None:
    try:
        clean = sanitise(msgspec.json.encode({"metadata": metadata, "spec": spec}))
    except ManifestError:
        return
    assert sanitise(clean) == clean


def padded(size: int, field: str = "env") -> dict[str, Any]:
    """A pod with a long field of its container."""
    value = [{"name": "A", "value": "x" * size}] if field == "env" else ["x" * size]
    return pod_object(containers=[{"name": "main", "image": "busybox", field: value}])


def test_a_pod_of_the_most_bytes_crosses_and_crosses_again() -> None:
    most = padded(MAX_BYTES - len(sanitise(msgspec.json.encode(padded(0)))))
    once = sanitise(msgspec.json.encode(most))
    assert len(once) == MAX_BYTES
    assert sanitise(once) == once


def test_a_larger_pod_is_refused_with_the_sizes_of_its_fields_and_what_to_do() -> None:
    pod = padded(200 * 1024)
    pod["metadata"]["annotations"] = {"note": "x" * 100_000}
    with pytest.raises(ManifestError) as refused:
        crossed(pod)
    said = str(refused.value)
    assert "spec.containers[0].env has 201 KiB, metadata.annotations 98 KiB" in said
    assert "at most 256 KiB of a pod cross" in said
    assert "a ConfigMap can hold" in said
    assert names.STAY in said


@pytest.mark.parametrize("field", ["env", "args", "command"])
def test_whatever_field_is_too_long_is_named(field: str) -> None:
    with pytest.raises(ManifestError, match=rf"^spec\.containers\[0\]\.{field} has 1368 KiB"):
        crossed(padded(1_400_000, field))
