"""Pods from the API: what is read, what is reduced, and what can never happen whatever they hold."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.kube.convert import pod_seen
from agents.kube.rules import MAX_CONTAINERS
from dispatcher.model import names
from dispatcher.model.labels import NodeSelectorTerm, Requirement
from dispatcher.model.messages import Changes, decode, encode
from dispatcher.model.pod import Claim, HostPort, SourceRef, SpreadConstraint
from tests.agents.kube_objects import needs, pod_object, raw, read_pod

SIDECAR = {**needs(cpu="300m"), "restartPolicy": "Always"}


@pytest.mark.parametrize(
    ("spec", "cpu"),
    [
        pytest.param({"containers": [needs(cpu="1"), needs(cpu="500m")]}, 1500, id="containers add up"),
        pytest.param({"containers": [needs(cpu="1")], "initContainers": [needs(cpu="3")]}, 3000, id="the larger wins"),
        pytest.param({"containers": [needs(cpu="1")], "initContainers": [SIDECAR]}, 1300, id="a sidecar stays"),
        pytest.param(
            {"containers": [needs(cpu="1")], "initContainers": [SIDECAR, needs(cpu="2")]},
            2300,
            id="init beside an earlier sidecar",
        ),
        pytest.param(
            {"containers": [needs(cpu="1")], "initContainers": [needs(cpu="2"), SIDECAR]},
            2000,
            id="init before the sidecar runs alone",
        ),
        pytest.param({"containers": [needs(cpu="1")], "overhead": {"cpu": "50m"}}, 1050, id="overhead is added"),
        pytest.param(
            {"containers": [needs(cpu="1")], "resources": {"requests": {"cpu": "2"}}}, 2000, id="pod level replaces"
        ),
        pytest.param(
            {"containers": [needs(cpu="1")], "resources": {"limits": {"cpu": "2"}}}, 1000, id="pod level limit does not"
        ),
        pytest.param({"containers": [{"resources": {"limits": {"cpu": "2"}}}]}, 2000, id="a limit alone is a request"),
        pytest.param({"containers": [needs(cpu="0.0001")]}, 1, id="rounded up"),
    ],
)
def test_effective_request_is_what_the_kubelet_reckons(spec: dict[str, Any], cpu: int) -> None:
    assert read_pod(pod_object(**spec)).requests == {"cpu": cpu}


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        pytest.param(
            {"containers": [needs(cpu="1e999999")]},
            "spec.containers[0].resources.requests[cpu]: quantity '1e999999' has an exponent beyond +-24",
            id="absurd exponent",
        ),
        pytest.param({"containers": [needs(memory="-1")]}, "is negative", id="negative"),
        pytest.param({"containers": [needs(memory="9" * 40)]}, "larger than any node", id="40 digits"),
        pytest.param({"containers": [{"resources": {"requests": {"cpu": [1]}}}]}, "not a number", id="a list"),
        pytest.param({"nodeSelector": {"a": "x" * 200 * 1024}}, "characters of selectors", id="200 KiB selector"),
        pytest.param({"containers": [{}] * (MAX_CONTAINERS + 1)}, "65 containers", id="too many containers"),
        pytest.param({"metadata": {"labels": {"a": "x" * 70_000}}}, "metadata.labels: more than 64 KiB", id="labels"),
        pytest.param({"containers": "none"}, "the object cannot be read", id="wrong type"),
        pytest.param({"priority": 10**30}, "the object cannot be read", id="priority beyond all integers"),
        pytest.param({"status": {"phase": 7}}, "status: ", id="status of a wrong type"),
        pytest.param(
            {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{}]}}},
            "spec.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution: not supported",
            id="hard anti-affinity",
        ),
        pytest.param(
            {"volumes": [{"name": "x"}, {"persistentVolumeClaim": {"claimName": "d"}}]},
            "spec.volumes[1].persistentVolumeClaim: not supported",
            id="volume claim",
        ),
        pytest.param({"resourceClaims": [{"name": "gpu"}]}, "spec.resourceClaims: not supported", id="resource claim"),
        pytest.param(
            {"metadata": {"annotations": {names.SPREAD: "zone=0"}}}, "'zone=0' is not LEVEL=SKEW", id="spread of 0"
        ),
        pytest.param(
            {"metadata": {"annotations": {names.CLAIM_CLUSTER: "b", names.EPOCH: "x"}}},
            f"metadata.annotations[{names.EPOCH}]: 'x' is not a whole number",
            id="claim without epoch",
        ),
        pytest.param(
            {"metadata": {"labels": {names.DELEGATE_LABEL: "true"}}}, names.SOURCE_CLUSTER, id="delegate of nobody"
        ),
    ],
)
def test_a_pod_that_cannot_be_placed_says_which_field(spec: dict[str, Any], says: str) -> None:
    pod = read_pod(pod_object(**spec))
    assert pod.name == "web-1"
    assert any(says in problem for problem in pod.problems), pod.problems


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({"nodeSelector": None, "containers": None, "tolerations": None}, id="nulls"),
        pytest.param(
            {"affinity": {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1}]}}},
            id="soft inter-pod affinity",
        ),
        pytest.param({"volumes": [{"name": "t", "emptyDir": {}}]}, id="scratch volume"),
    ],
)
def test_what_may_be_left_out_is_no_problem(spec: dict[str, Any]) -> None:
    assert read_pod(pod_object(**spec)).problems == ()


def test_placement_rules_are_read() -> None:
    term = {"matchExpressions": [{"key": "gpu", "operator": "In", "values": ["a100"]}]}
    pod = read_pod(
        pod_object(
            affinity={
                "nodeAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]},
                    "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 7, "preference": term}],
                }
            },
            tolerations=[{"key": "k", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 30}],
            containers=[{"ports": [{"containerPort": 80, "hostPort": 8080, "protocol": "UDP"}]}],
            topologySpreadConstraints=[
                {
                    "maxSkew": 2,
                    "topologyKey": names.ZONE,
                    "whenUnsatisfiable": "ScheduleAnyway",
                    "labelSelector": {"matchLabels": {"app": "web"}},
                    "matchLabelKeys": ["rev"],
                }
            ],
            metadata={"labels": {"rev": "7"}, "annotations": {names.SPREAD: "zone=1, cluster=2:soft"}},
            schedulingGates=[{"name": "wait"}],
        )
    )
    wanted = NodeSelectorTerm((Requirement("gpu", "In", ("a100",)),))
    assert pod.affinity is not None
    assert pod.affinity.required == (wanted,)
    assert [(one.weight, one.term) for one in pod.affinity.preferred] == [(7, wanted)]
    assert (pod.tolerations[0].operator, pod.tolerations[0].seconds) == ("Exists", 30)
    assert pod.ports == (HostPort(8080, "UDP"),)
    assert pod.gated
    by_field, *by_annotation = pod.spread
    assert (by_field.key, by_field.max_skew, by_field.hard) == ("zone", 2, False)
    assert by_field.selector is not None
    assert by_field.selector.matches({"app": "web", "rev": "7"})
    assert not by_field.selector.matches({"app": "web", "rev": "6"})
    assert by_annotation == [SpreadConstraint("zone", 1, True), SpreadConstraint("cluster", 2, False)]


def test_host_network_makes_every_container_port_a_host_port() -> None:
    pod = read_pod(pod_object(hostNetwork=True, containers=[{"ports": [{"containerPort": 80}]}]))
    assert pod.ports == (HostPort(80),)


def test_a_claimed_source_pod_carries_its_claim() -> None:
    marks = {names.CLAIM_CLUSTER: "b", names.CLAIM_NODE: "n7", names.EPOCH: "3", "other.io/x": "y"}
    owner = {"kind": "ReplicaSet", "name": "web", "uid": "u", "controller": True}
    pod = read_pod(
        pod_object(metadata={"annotations": marks, "finalizers": [names.FINALIZER], "ownerReferences": [owner]})
    )
    assert (pod.claim, pod.has_finalizer, pod.owner) == (Claim("b", "n7", 3), True, "ReplicaSet/web/u")
    assert "other.io/x" not in pod.annotations


def test_a_delegate_carries_its_source_and_its_status_as_it_came() -> None:
    marks = {
        names.SOURCE_CLUSTER: "a",
        names.SOURCE_CLUSTER_UID: "ua",
        names.SOURCE_NAMESPACE: "shop",
        names.SOURCE_NAME: "web",
        names.SOURCE_UID: "s1",
        names.EPOCH: "2",
    }
    status = {"phase": "Running", "podIP": "10.0.0.7", "unheardOf": [1]}
    pod = read_pod(pod_object(metadata={"labels": {names.DELEGATE_LABEL: "true"}, "annotations": marks}, status=status))
    assert pod.source == SourceRef("a", "ua", "shop", "web", "s1", 2)
    assert msgspec.json.decode(pod.status) == status


@pytest.mark.parametrize(
    ("spec", "kept"),
    [
        pytest.param({"nodeName": "n1", "status": {"phase": "Running"}}, True, id="bound"),
        pytest.param({"nodeName": "n1", "status": {"phase": "Succeeded"}}, False, id="ended"),
        pytest.param({}, False, id="unbound"),
    ],
)
def test_a_foreign_pod_is_kept_only_for_the_room_it_holds(spec: dict[str, Any], kept: bool) -> None:
    thing = pod_object(schedulerName="default-scheduler", containers=[needs(cpu="1")], **spec)
    seen = pod_seen(raw(thing))
    assert seen is not None
    assert (seen.pod is not None) == kept
    if seen.pod is not None:
        assert (seen.pod.requests, seen.pod.scheduler_name, seen.pod.problems) == ({"cpu": 1000}, "", ())


def test_our_annotation_with_another_scheduler_is_noticed() -> None:
    seen = pod_seen(raw(pod_object(schedulerName="other", metadata={"annotations": {names.SCHEDULE: "true"}})))
    assert seen is not None
    assert seen.misplaced is not None
    assert (seen.pod, seen.misplaced.scheduler_name) == (None, "other")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
PLACING = ("affinity", "tolerations", "nodeSelector", "topologySpreadConstraints", "schedulingGates", "nodeName")
NEEDING = ("containers", "initContainers", "overhead", "priority", "resources", "volumes")
KEYS = st.sampled_from((*PLACING, *NEEDING, "metadata", "status", "schedulerName"))


@settings(max_examples=150, deadline=None)
@given(st.dictionaries(KEYS, JSON, max_size=5))
def test_no_content_of_a_pod_raises_or_breaks_the_message_that_carries_it(fields: dict[str, Any]) -> None:
    spec = {"schedulerName": names.SCHEDULER_NAME, **fields}
    thing = {"metadata": {"uid": "u", "name": "p"}, "spec": spec, "status": fields.get("status", {})}
    seen = pod_seen(json_bytes(thing))
    pods = (seen.pod,) if seen is not None and seen.pod is not None else ()
    message = Changes("c", "u", "i", 0, 1, pods=pods)
    assert decode(Changes, encode(message)) == message


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=200) | JSON.map(json.dumps).map(str.encode))
def test_arbitrary_bytes_are_at_worst_nobody(data: bytes) -> None:
    seen = pod_seen(data)
    assert seen is None or seen.uid


def json_bytes(thing: object) -> bytes:
    """JSON with integers of any size, which msgspec's encoder would refuse."""
    return json.dumps(thing).encode()
