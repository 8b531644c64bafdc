"""Node groups as Cluster API has them and as Cluster Autoscaler tells of them."""

from typing import Any

import pytest
from hypothesis import given

from agents.kube.node_groups import KINDS, MAX_LABELS, MOST_NODES, paths, reader, status_seen
from agents.observer.seen import NodeGroupSeen
from shared.model.node import Node, Taint
from shared.model.node_group import NodeGroup
from tests.agents.kube.objects import Object, raw
from tests.agents.kube.test_convert import JSON, json_bytes

CAPACITY = "capacity.cluster-autoscaler.kubernetes.io/"
SIZES = {
    f"cluster.x-k8s.io/cluster-api-autoscaler-node-group-{end}-size": size
    for end, size in zip(("min", "max"), "09", strict=True)
}
LARGE = {**SIZES, CAPACITY + "cpu": "16", CAPACITY + "memory": "64Gi"}
USUAL = {"kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}
AMOUNTS = {"cpu": 16_000, "memory": 64 * 2**30, "pods": 110}


def made(
    annotations: dict[str, str], spec: Object | None = None, *, kind: str = "MachineDeployment", **more: Any
) -> NodeGroupSeen:
    meta = {"name": "large", "namespace": "fleet", "resourceVersion": "7", "annotations": annotations, **more}
    found = {
        "metadata": meta,
        "spec": {"clusterName": "east", "replicas": 2, **(spec or {})},
        "status": {"readyReplicas": 1},
    }
    seen = reader(kind, "east")(raw(found))
    assert isinstance(seen, NodeGroupSeen)
    return seen


def template(annotations: dict[str, str], spec: Object | None = None) -> Node:
    group = made({**LARGE, **annotations}, spec).group
    assert group is not None
    assert group.template is not None
    return group.template


def test_a_group_has_its_sizes_and_what_a_new_node_is_told_to_be_like() -> None:
    node = Node("", labels=USUAL, ready=True, allocatable=AMOUNTS)
    group = NodeGroup("MachineDeployment/fleet/large", 2, 9, node)
    assert made(LARGE) == NodeGroupSeen("MachineDeployment", group.name, 7, group, ready=1)


@pytest.mark.parametrize(
    ("annotations", "spec", "more"),
    [
        pytest.param({}, {}, {}, id="not for an autoscaler"),
        pytest.param(LARGE, {"clusterName": "west"}, {}, id="of another cluster"),
        pytest.param({**LARGE, next(reversed(SIZES)): "0"}, {}, {}, id="that has no node ever"),
        pytest.param(LARGE, {}, {"ownerReferences": [{"kind": "MachineDeployment"}]}, id="of a MachineDeployment"),
    ],
)
def test_what_is_no_group_of_this_cluster_is_none(annotations: dict[str, str], spec: Object, more: Object) -> None:
    assert made(annotations, spec, **more).group is None


@pytest.mark.parametrize(
    "annotations",
    [
        pytest.param(SIZES, id="nothing"),
        pytest.param({**SIZES, CAPACITY + "cpu": "16"}, id="CPU alone"),
        pytest.param({**LARGE, CAPACITY + "memory": "much"}, id="an amount that is none"),
        pytest.param({**LARGE, CAPACITY + "labels": "a=" + "b" * MAX_LABELS}, id="too large labels"),
    ],
)
def test_a_group_whose_nodes_are_not_told_is_one_of_unknown_size(annotations: dict[str, str]) -> None:
    assert made(annotations).group == NodeGroup("MachineDeployment/fleet/large", 2, 9)


def test_a_group_whose_sizes_cannot_be_read_is_there_and_does_not_grow() -> None:
    group = made({**LARGE, next(iter(SIZES)): "few"}).group
    assert group is not None
    assert not group.grows


def test_a_size_of_more_digits_than_python_reads_is_the_most_that_is_told() -> None:
    group = made({**LARGE, next(reversed(SIZES)): "9" * 5_000}).group
    assert group is not None
    assert group.most == MOST_NODES


def test_amounts_are_those_that_the_annotations_name() -> None:
    more = {"ephemeral-disk": "100Gi", "maxPods": "30", "gpu-type": "nvidia.com/gpu", "gpu-count": "2"}
    told = template({CAPACITY + key: value for key, value in more.items()})
    assert told.allocatable == {**AMOUNTS, "ephemeral-storage": 100 * 2**30, "pods": 30, "nvidia.com/gpu": 2}


def test_labels_are_those_that_reach_nodes_and_then_those_of_the_annotation() -> None:
    given = {"node-role.kubernetes.io/gpu": "", "team": "a", "x.node-restriction.kubernetes.io/zone": "b"}
    spec = {"template": {"metadata": {"labels": given}}}
    told = template({CAPACITY + "labels": "tier=fast,kubernetes.io/arch=arm64,odd"}, spec)
    reach = {key: value for key, value in given.items() if key != "team"}
    assert told.labels == {**USUAL, **reach, "tier": "fast", "kubernetes.io/arch": "arm64"}


def test_taints_are_those_of_the_machines_and_those_of_the_annotation_go_before() -> None:
    spec = {"template": {"spec": {"taints": [{"key": "gpu", "value": "a", "effect": "NoSchedule"}]}}}
    told = template({CAPACITY + "taints": "gpu=b:NoSchedule,own:NoExecute,odd,worse:Never"}, spec)
    assert told.taints == (Taint("gpu", "b"), Taint("own", "", "NoExecute"))


@pytest.mark.parametrize("spec", [{"paused": True}, {}])
def test_a_paused_group_makes_no_nodes(spec: Object) -> None:
    group = made({**LARGE, "cluster.x-k8s.io/paused": "true"} if not spec else LARGE, spec).group
    assert group is not None
    assert not group.grows


def test_an_object_that_cannot_be_read_is_a_group_of_which_nothing_is_known() -> None:
    assert made(LARGE, {"replicas": "two"}).group == NodeGroup("MachineDeployment/fleet/large")


@given(JSON)
def test_nothing_that_an_object_holds_raises(value: Any) -> None:
    for kind in KINDS:
        reader(kind, "east")(json_bytes({"metadata": value}))
        reader(kind, "east")(json_bytes({"metadata": {"name": "a", "annotations": LARGE}, "spec": value}))
    status_seen(json_bytes({"metadata": {"name": "a"}, "data": value}))
    status_seen(json_bytes({"metadata": {"name": "a"}, "data": {"status": str(value)}}))


def test_kinds_are_looked_for_in_one_namespace_or_in_all() -> None:
    assert paths("MachinePool", "fleet")[0] == "/apis/cluster.x-k8s.io/v1beta2/namespaces/fleet/machinepools"
    assert paths("MachinePool", "")[1] == "/apis/cluster.x-k8s.io/v1beta1/machinepools"


STATUS = """
autoscalerStatus: Running
nodeGroups:
- health: {cloudProviderTarget: 3, maxSize: 3, minSize: 2, status: Healthy}
  name: MachineDeployment/fleet/large
  scaleUp: {backoffInfo: {errorCode: QUOTA}, status: Backoff}
- name: MachineDeployment/fleet/small
  scaleUp: {status: NoActivity}
- odd
"""

BOMB = "x0: &x0 [a]\n" + "".join(f"x{n}: &x{n} [{f'*x{n - 1},' * 10}]\n" for n in range(1, 10))


@pytest.mark.parametrize(
    ("text", "backing_off"),
    [
        pytest.param(STATUS, {"MachineDeployment/fleet/large"}, id="since 1.30"),
        pytest.param("Cluster-autoscaler status at 2021-10-06:\nCluster-wide:\n", set(), id="before"),
        pytest.param("a: [", set(), id="no YAML"),
        pytest.param(STATUS + "#" * 200_000, set(), id="too large"),
        pytest.param(BOMB + "nodeGroups: [{name: *x9, scaleUp: {status: Backoff}}]", set(), id="a gigabyte of aliases"),
    ],
)
def test_the_autoscaler_tells_for_which_groups_it_makes_no_nodes(text: str, backing_off: set[str]) -> None:
    seen = status_seen(raw({"metadata": {"name": "cluster-autoscaler-status"}, "data": {"status": text}}))
    assert seen is not None
    assert seen.backing_off == backing_off
