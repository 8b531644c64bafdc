"""Pods from the API: what is read, what is reduced, and what can never happen whatever they hold."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.kube.convert import pod_seen
from agents.kube.rules import MAX_CLAUSES, MAX_CONTAINERS
from agents.observer.record_bounds import MAX_LABELS, MAX_MEMORY, MAX_RECORD, memory_of_labels
from shared.messages import Changes, decode, encode
from shared.messages.memory import memory_of_record
from shared.model import names
from shared.model.bounds import MAX_AMOUNT
from shared.model.labels import LabelSelector, NodeSelectorTerm, Requirement
from shared.model.pod import (
    Claim,
    HostPort,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    SourceRef,
    SpreadConstraint,
    Volume,
    WeightedPodAffinityTerm,
)
from shared.model.resources import MAX_QUANTITY
from shared.model.topology import label_key, label_of
from shared.security.signatures import SignedClaim
from tests.agents.executor.world import keys_of
from tests.agents.kube.objects import needs, pod_object, raw, read_pod

REQUIRED, PREFERRED = (f"{kind}DuringSchedulingIgnoredDuringExecution" for kind in ("required", "preferred"))
CLAUSE = {"key": "a", "operator": "Exists"}
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


MIB = 2**20


@pytest.mark.parametrize(
    ("spec", "want"),
    [
        pytest.param({"containers": [{}]}, (100, 200 * MIB), id="a silent container"),
        pytest.param({"containers": [{}, {}]}, (200, 400 * MIB), id="two of them"),
        pytest.param({"containers": [needs(cpu="1"), {}]}, (1100, 400 * MIB), id="one silent beside one that asks"),
        pytest.param({"containers": [needs(cpu="0", memory="0")]}, (0, 0), id="zero is said"),
        pytest.param({"containers": [needs(memory="10Mi")]}, (100, 10 * MIB), id="one resource of two"),
        pytest.param(
            {"containers": [needs(cpu="1m", memory="1Mi")], "initContainers": [{}]}, (100, 200 * MIB), id="silent init"
        ),
        pytest.param(
            {"containers": [needs(cpu="1", memory="1Mi")], "initContainers": [{"restartPolicy": "Always"}]},
            (1100, 201 * MIB),
            id="silent sidecar",
        ),
        pytest.param(
            {"containers": [{}], "initContainers": [{"restartPolicy": "Always"}, needs(cpu="1", memory="1Gi")]},
            (1100, 1224 * MIB),
            id="init beside a silent sidecar",
        ),
        pytest.param(
            {"containers": [{}], "overhead": {"cpu": "50m", "memory": "1Mi"}}, (150, 201 * MIB), id="overhead"
        ),
        pytest.param(
            {"containers": [{}, {}], "resources": {"requests": {"cpu": "1"}}}, (1000, 400 * MIB), id="pod level cpu"
        ),
        pytest.param(
            {"containers": [needs(memory="5Mi"), {}], "resources": {"requests": {"cpu": "1"}}},
            (1000, 5 * MIB),
            id="pod level given, memory named by one",
        ),
    ],
)
def test_expected_use_is_what_kube_scheduler_reckons(spec: dict[str, Any], want: tuple[int, int]) -> None:
    assert read_pod(pod_object(**spec)).expected == want


def _term(**fields: Any) -> dict[str, Any]:
    return {"topologyKey": "topology.kubernetes.io/zone", "labelSelector": {"matchLabels": {"app": "db"}}, **fields}


DB = LabelSelector({"app": "db"})
MERGED = LabelSelector({"app": "db"}, (Requirement("rev", "In", ("7",)), Requirement("tier", "NotIn", ("web",))))


@pytest.mark.parametrize(
    ("term", "want"),
    [
        pytest.param(_term(), PodAffinityTerm("zone", DB, ("default",)), id="own namespace"),
        pytest.param(_term(namespaces=["b", "a", "b"]), PodAffinityTerm("zone", DB, ("a", "b")), id="named namespaces"),
        pytest.param(
            _term(namespaceSelector={}), PodAffinityTerm("zone", DB, (), LabelSelector()), id="every namespace"
        ),
        pytest.param(
            _term(namespaces=["x"], namespaceSelector={"matchLabels": {"team": "a"}}),
            PodAffinityTerm("zone", DB, ("x",), LabelSelector({"team": "a"})),
            id="names and a selector",
        ),
        pytest.param(
            {"topologyKey": "kubernetes.io/hostname"}, PodAffinityTerm("host", None, ("default",)), id="no selector"
        ),
        pytest.param(
            _term(matchLabelKeys=["rev", "absent"], mismatchLabelKeys=["tier"]),
            PodAffinityTerm("zone", MERGED, ("default",)),
            id="keys of the pod's own labels",
        ),
        pytest.param(
            {
                "topologyKey": "topology.kubernetes.io/zone",
                "labelSelector": {
                    "matchLabels": {"app": "db"},
                    "matchExpressions": [
                        {"key": "rev", "operator": "In", "values": ["7"]},
                        {"key": "tier", "operator": "NotIn", "values": ["web"]},
                    ],
                },
                "matchLabelKeys": ["rev"],
                "mismatchLabelKeys": ["tier"],
            },
            PodAffinityTerm("zone", MERGED, ("default",)),
            id="keys that the API server has merged",
        ),
    ],
)
@pytest.mark.parametrize("scheduler", [names.SCHEDULER_NAME, "default-scheduler"], ids=["ours", "foreign"])
def test_inter_pod_terms_are_read_of_every_pod(term: dict[str, Any], want: PodAffinityTerm, scheduler: str) -> None:
    pod = read_pod(
        pod_object(
            schedulerName=scheduler,
            nodeName="n1",
            metadata={"labels": {"rev": "7", "tier": "web"}},
            affinity={
                "podAffinity": {REQUIRED: [term], PREFERRED: [{"weight": 30, "podAffinityTerm": term}]},
                "podAntiAffinity": {REQUIRED: [term, term]},
            },
        )
    )
    assert pod.pod_affinity == PodAffinity((want,), (WeightedPodAffinityTerm(30, want),))
    assert pod.pod_anti_affinity == PodAffinity((want, want))


@pytest.mark.parametrize(
    ("volume", "want"),
    [
        pytest.param({"persistentVolumeClaim": {"claimName": "d"}}, Volume("claim", "d"), id="claim"),
        pytest.param(
            {"persistentVolumeClaim": {"claimName": "d", "readOnly": True}}, Volume("claim", "d", True), id="read only"
        ),
        pytest.param(
            {"ephemeral": {"volumeClaimTemplate": {}}}, Volume("claim", "web-1-v", ephemeral=True), id="ephemeral"
        ),
        pytest.param({"gcePersistentDisk": {"pdName": "p"}}, Volume("gcePersistentDisk", "p"), id="gce"),
        pytest.param({"awsElasticBlockStore": {"volumeID": "v"}}, Volume("awsElasticBlockStore", "v"), id="ebs"),
        pytest.param({"azureDisk": {"diskName": "x", "diskURI": "u"}}, Volume("azureDisk", "u"), id="azure"),
        pytest.param({"iscsi": {"iqn": "i", "readOnly": True}}, Volume("iscsi", "i", True), id="iscsi"),
        pytest.param(
            {"rbd": {"monitors": ["m"], "image": "i"}}, Volume("rbd", "rbd/i", monitors=("m",)), id="rbd, default pool"
        ),
    ],
)
@pytest.mark.parametrize("scheduler", [names.SCHEDULER_NAME, "default-scheduler"], ids=["ours", "foreign"])
def test_volumes_that_bind_are_read_of_every_pod(volume: dict[str, Any], want: Volume, scheduler: str) -> None:
    volumes = [{"name": "t", "emptyDir": {}}, {"name": "v", **volume}]
    pod = read_pod(pod_object(schedulerName=scheduler, nodeName="n1", volumes=volumes))
    assert (pod.volumes, pod.problems) == ((want,), ())


@pytest.mark.parametrize(("given", "read"), [(None, -1), (0, 0), (600, 600), (-3, 0), (2**40, 2**31 - 1)])
def test_the_grace_period_that_a_pod_was_deleted_with_is_read(given: int | None, read: int) -> None:
    deleted = {"deletionTimestamp": "2024-01-01T00:00:00Z", "deletionGracePeriodSeconds": given}
    pod = read_pod(pod_object(schedulerName="global-dispatcher", metadata=deleted))
    assert pod.ends_in_s == read


def test_what_preemption_ranks_by_is_read_of_every_pod() -> None:
    owner = {"kind": "ReplicaSet", "name": "web", "uid": "u", "controller": True}
    thing = pod_object(
        schedulerName="default-scheduler",
        nodeName="n1",
        priority=7,
        preemptionPolicy="Never",
        metadata={"deletionTimestamp": "2024-01-01T00:00:00Z", "ownerReferences": [owner]},
        status={"phase": "Running", "startTime": "2024-01-01T00:00:00Z"},
    )
    pod = read_pod(thing)
    assert (pod.priority, pod.preempts, pod.started, pod.terminating) == (7, False, 1704067200.0, True)
    assert pod.owner == "ReplicaSet/web/u"


@pytest.mark.parametrize(
    ("meta", "condition", "want"),
    [
        ({"deletionTimestamp": "2024-01-01T00:00:00Z"}, {"status": "True", "reason": "PreemptionByScheduler"}, True),
        ({"deletionTimestamp": "2024-01-01T00:00:00Z"}, {"status": "True", "reason": "EvictionByEvictionAPI"}, False),
        ({"deletionTimestamp": "2024-01-01T00:00:00Z"}, {"status": "False", "reason": "PreemptionByScheduler"}, False),
        ({}, {"status": "True", "reason": "PreemptionByScheduler"}, False),
    ],
    ids=["by a scheduler", "by somebody else", "not any more", "it stays"],
)
def test_a_pod_that_goes_for_another_is_known(meta: dict[str, str], condition: dict[str, str], want: bool) -> None:
    conditions = [{"type": "DisruptionTarget", **condition}]
    thing = pod_object(nodeName="n1", metadata=meta, status={"phase": "Running", "conditions": conditions})
    assert read_pod(thing).preempted is want


def resized(asks: str, has: str, allotted: str | None, *, infeasible: bool = False, **spec: Any) -> int:
    """Milli-CPU that a pod on a node takes whose container asks for, has and is allotted so much."""
    told = {"name": "c", "resources": {"requests": {"cpu": has}}}
    if allotted is not None:
        told["allocatedResources"] = {"cpu": allotted}
    pending = [{"type": "PodResizePending", "status": "True", "reason": "Infeasible"}] if infeasible else []
    containers = [{"name": "c", "resources": {"requests": {"cpu": asks}}}]
    status = {"phase": "Running", "conditions": pending, "containerStatuses": [told]}
    return read_pod(pod_object(nodeName="n1", **{"containers": containers, **spec}, status=status)).requests["cpu"]


@pytest.mark.parametrize(
    ("found", "want"),
    [
        pytest.param(resized("1", "1", "1"), 1000, id="as it asks"),
        pytest.param(resized("1", "3", None), 3000, id="not shrunk yet"),
        pytest.param(resized("3", "1", "1"), 3000, id="not grown yet"),
        pytest.param(resized("1", "1", "2"), 2000, id="allotted"),
        pytest.param(resized("3", "1", "1", infeasible=True), 1000, id="cannot grow"),
        pytest.param(resized("3", "1", "2", infeasible=True), 2000, id="cannot grow, allotted more"),
        pytest.param(resized("1", "3", "3", overhead={"cpu": "500m"}), 3500, id="with overhead"),
    ],
)
def test_a_container_resized_in_place_takes_the_most_of_what_it_asks_has_and_is_allotted(found: int, want: int) -> None:
    assert found == want


def test_init_containers_that_end_are_not_resized_sidecars_are() -> None:
    starting = [
        {"name": "i", "resources": {"requests": {"cpu": "1"}}},
        {"name": "s", "restartPolicy": "Always", "resources": {"requests": {"cpu": "1"}}},
    ]
    told = [{"name": name, "resources": {"requests": {"cpu": "4"}}} for name in ("i", "s")]
    thing = pod_object(nodeName="n1", containers=[{"name": "c"}], initContainers=starting)
    assert read_pod({**thing, "status": {"initContainerStatuses": told}}).requests == {"cpu": 4000}


def test_requests_for_the_pod_as_a_whole_are_resized() -> None:
    spec: dict[str, Any] = {"containers": [{"name": "c"}], "resources": {"requests": {"cpu": "1"}}}
    status = {"resources": {"requests": {"cpu": "3"}}, "allocatedResources": {"cpu": "2"}}
    assert read_pod(pod_object(nodeName="n1", **spec, status=status)).requests == {"cpu": 3000}


def test_a_gated_or_nominated_pod_and_one_with_devices_name_them() -> None:
    pod = read_pod(
        pod_object(
            schedulingGates=[{"name": "a.io/x"}, {"name": "y"}],
            resourceClaims=[{"name": "gpu", "resourceClaimName": "c"}],
            status={"nominatedNodeName": "n7"},
        )
    )
    assert (pod.gates, pod.resource_claims, pod.nominated_node) == (("a.io/x", "y"), ("gpu",), "n7")


def test_spread_rules_carry_their_policies() -> None:
    rule = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {}}
    said = {**rule, "nodeAffinityPolicy": "Ignore", "nodeTaintsPolicy": "Honor"}
    silent, spoken = read_pod(pod_object(topologySpreadConstraints=[rule, said])).spread
    assert (silent.honor_affinity, silent.honor_taints) == (True, False)
    assert (spoken.honor_affinity, spoken.honor_taints) == (False, True)


@pytest.mark.parametrize("name", ["rack", "zone", "region", "provider", "host", "cluster", "zones"])
def test_a_topology_key_with_the_name_of_a_level_is_that_node_label(name: str) -> None:
    rule = {"maxSkew": 1, "topologyKey": name, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {}}
    term = {"topologyKey": name, "labelSelector": {}}
    pod = read_pod(pod_object(topologySpreadConstraints=[rule], affinity={"podAffinity": {REQUIRED: [term]}}))
    assert pod.pod_affinity is not None
    assert {pod.spread[0].key, pod.pod_affinity.required[0].topology_key} == {label_key(name)}
    assert label_of(label_key(name)) == (name, False)


@pytest.mark.parametrize("name", ["rack", "zone", "region", "provider", "host", "cluster"])
def test_the_same_name_in_the_annotation_is_the_level(name: str) -> None:
    pod = read_pod(pod_object(metadata={"annotations": {names.SPREAD: f"{name}=1"}}))
    assert [one.key for one in pod.spread] == [name]


def test_a_request_of_nine_exabytes_can_be_read_and_fits_nowhere() -> None:
    pod = read_pod(pod_object(containers=[needs(memory="9E"), needs(memory="9E", cpu="9E")]))
    assert not pod.problems
    assert pod.requests == {"memory": MAX_QUANTITY, "cpu": MAX_QUANTITY}
    assert pod.expected == (MAX_QUANTITY, MAX_QUANTITY)


def test_equal_terms_of_many_pods_are_one_object() -> None:
    one, other = (
        read_pod(pod_object(name, affinity={"podAntiAffinity": {REQUIRED: [_term()]}}, containers=[{}]))
        for name in ("web-1", "web-2")
    )
    assert one.pod_anti_affinity is other.pod_anti_affinity
    assert one.expected is other.expected


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        pytest.param(
            {"containers": [needs(cpu="1e999999")]},
            "spec.containers[0].resources.requests[cpu]: quantity '1e999999' has an exponent beyond +-24",
            id="absurd exponent",
        ),
        pytest.param({"containers": [needs(memory="-1")]}, "is negative", id="negative"),
        pytest.param({"containers": [{"resources": {"requests": {"cpu": [1]}}}]}, "not a number", id="a list"),
        pytest.param({"nodeSelector": {"a": "x" * 200 * 1024}}, "characters of selectors", id="200 KiB selector"),
        pytest.param({"containers": [{}] * (MAX_CONTAINERS + 1)}, "65 containers", id="too many containers"),
        pytest.param(
            {"metadata": {"labels": {f"k{at}": "x" for at in range(150)}}},
            "metadata.labels: they take more than 16 KiB of memory (112 bytes each beside their text), remove some",
            id="labels",
        ),
        pytest.param({"containers": "none"}, "the object cannot be read", id="wrong type"),
        pytest.param({"priority": 10**30}, "the object cannot be read", id="priority beyond all integers"),
        pytest.param({"status": {"phase": 7}}, "status: ", id="status of a wrong type"),
        pytest.param(
            {"affinity": {"podAntiAffinity": {REQUIRED: [{}]}}},
            "spec.affinity.podAntiAffinity.required[0].topologyKey: empty",
            id="anti-affinity over nothing",
        ),
        pytest.param(
            {"affinity": {"podAffinity": {REQUIRED: [{"topologyKey": "zone"}] * 33}}},
            "spec.affinity.podAffinity and podAntiAffinity: 33 terms, more than 32",
            id="33 terms",
        ),
        pytest.param(
            {
                "affinity": {
                    "podAffinity": {
                        REQUIRED: [{"topologyKey": "zone", "namespaceSelector": {"matchLabels": {"a": "x" * 70_000}}}]
                    }
                }
            },
            "70001 characters of selectors, more than 65536",
            id="70 KB namespace selector",
        ),
        pytest.param(
            {"nodeSelector": {f"k{at}": "" for at in range(1 + MAX_CLAUSES)}},
            "spec.nodeSelector and affinity.nodeAffinity: 257 clauses (list values of one key in one clause",
            id="257 labels of nodes",
        ),
        *[
            pytest.param(
                {"nodeSelector": {"a": "b"}, "affinity": {"nodeAffinity": affinity}},
                "spec.nodeSelector and affinity.nodeAffinity: 257 clauses (list values of one key in one clause",
                id=f"256 {what} and one label",
            )
            for what, affinity in {
                "required terms": {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [CLAUSE]}] * 256}},
                "clauses of a term": {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [CLAUSE] * 256}]}},
                "fields": {REQUIRED: {"nodeSelectorTerms": [{"matchFields": [CLAUSE] * 256}]}},
                "preferred terms": {PREFERRED: [{"weight": 1, "preference": {"matchExpressions": [CLAUSE]}}] * 256},
                "empty terms": {REQUIRED: {"nodeSelectorTerms": [{}] * 256}},
            }.items()
        ],
        *[
            pytest.param(spec, "spec.affinity and topologySpreadConstraints: 257 clauses on pods", id=what)
            for what, spec in {
                "257 labels of pods": {
                    "topologySpreadConstraints": [
                        {"labelSelector": {"matchLabels": {f"k{at}": "" for at in range(257)}}}
                    ]
                },
                "256 labels of pods and one of namespaces": {
                    "affinity": {
                        "podAffinity": {
                            REQUIRED: [
                                {
                                    "labelSelector": {"matchExpressions": [CLAUSE] * 256},
                                    "namespaceSelector": {"matchLabels": {"a": "b"}},
                                }
                            ]
                        }
                    }
                },
            }.items()
        ],
        pytest.param(
            {"metadata": {"annotations": {names.SPREAD: "zone=0"}}}, "'zone=0' is not LEVEL=SKEW", id="spread of 0"
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
        pytest.param({"affinity": {"podAffinity": {PREFERRED: [{"weight": 1}]}}}, id="preference for nothing"),
        pytest.param({"volumes": [{"name": "t", "emptyDir": {}}]}, id="scratch volume"),
    ],
)
def test_what_may_be_left_out_is_no_problem(spec: dict[str, Any]) -> None:
    pod = read_pod(pod_object(**spec))
    assert (pod.problems, pod.pod_affinity, pod.pod_anti_affinity, pod.volumes) == ((), None, None, ())


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


def marks(uid: str, proof: str = "") -> dict[str, str]:
    signed = SignedClaim(SourceRef("a", "ua", "shop", "web", uid, 3), "b", "", "n7", b"")
    claim = keys_of("a").sign_claim(signed)
    return {names.CLAIM: claim, **({names.DELEGATE_PROOF: keys_of("b").sign_proof(proof, claim)} if proof else {})}


def test_a_claimed_source_pod_carries_its_claim() -> None:
    uid = read_pod(pod_object()).uid
    owner = {"kind": "ReplicaSet", "name": "web", "uid": "u", "controller": True}
    annotations = {**marks(uid), "other.io/x": "y"}
    pod = read_pod(
        pod_object(metadata={"annotations": annotations, "finalizers": [names.FINALIZER], "ownerReferences": [owner]})
    )
    assert (pod.claim, pod.has_finalizer, pod.owner) == (Claim("b", "n7", 3), True, "ReplicaSet/web/u")
    assert "other.io/x" not in pod.annotations


@pytest.mark.parametrize("written", [{names.CLAIM: "x"}, {names.CLAIM: "x.y"}, marks("another"), {names.CLAIM: ""}])
def test_what_is_no_claim_of_this_pod_claims_nothing(written: dict[str, str]) -> None:
    pod = read_pod(pod_object(metadata={"annotations": written, "finalizers": [names.FINALIZER]}))
    assert (pod.claim, pod.source, pod.problems) == (None, None, ())


def delegate_object(**fields: Any) -> dict[str, Any]:
    metadata = {"labels": {names.DELEGATE_LABEL: "true"}, "annotations": marks("s1", proof="d1")}
    return pod_object(**{"metadata": metadata, "schedulerName": names.DELEGATE_SCHEDULER, "nodeName": "n7", **fields})


def test_a_delegate_carries_its_source_and_its_status_as_it_came() -> None:
    status = {"phase": "Running", "podIP": "10.0.0.7", "unheardOf": [1]}
    pod = read_pod(delegate_object(status=status))
    assert pod.source == SourceRef("a", "ua", "shop", "web", "s1", 3)
    assert msgspec.json.decode(pod.status) == status


@pytest.mark.parametrize(
    ("generation", "observed", "want"),
    [(7, 7, 7), (7, 6, 0), (7, 8, 7), (7, None, 0), (None, None, 0), (-1, 5, 0), (2**63 - 1, 2**63 - 1, MAX_AMOUNT)],
)
def test_of_a_delegate_a_generation_is_told_once_its_kubelet_has_seen_it(
    generation: int | None, observed: int | None, want: int
) -> None:
    thing = delegate_object(status={"phase": "Running", "observedGeneration": observed})
    thing["metadata"]["generation"] = generation
    assert read_pod(thing).generation == want


@pytest.mark.parametrize(("node", "want"), [(names.proxy_node_name("b"), 3), ("n1", 0), ("", 0)])
def test_of_a_source_its_generation_is_told_while_it_runs_elsewhere(node: str, want: int) -> None:
    thing = pod_object(**({"nodeName": node} if node else {}))
    thing["metadata"]["generation"] = 3
    assert read_pod(thing).generation == want


@pytest.mark.parametrize(
    "change",
    [
        {"schedulerName": "default-scheduler"},
        {"metadata": {"labels": {names.DELEGATE_LABEL: "true"}}},
        {"metadata": {"annotations": marks("s1", proof="d1")}},
    ],
    ids=["another scheduler's", "the label alone", "the annotations alone"],
)
def test_a_pod_that_only_looks_like_a_delegate_is_a_pod_that_takes_room(change: dict[str, Any]) -> None:
    pod = read_pod(delegate_object(**change))
    assert (pod.source, pod.node) == (None, "n7")


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
NEEDING = ("containers", "initContainers", "overhead", "priority", "resources", "volumes", "resourceClaims")
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


def told_bytes(pod: Pod) -> int:
    return len(msgspec.msgpack.encode(pod)) - len(pod.status)


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"containers": [{"name": f"c{at}", "image": f"{at}" + "x" * 20_000} for at in range(64)]}, "image of spec.c"),
        ({"volumes": [{"name": "v", "image": {"reference": "x" * 40_000}}]}, "image of spec.volumes"),
        ({"volumes": [{"name": "v", "rbd": {"monitors": ["x" * 900] * 50}}]}, "spec.volumes"),
        ({"tolerations": [{"key": f"k{at}-" + "x" * 400, "operator": "Exists"} for at in range(100)]}, "spec.toler"),
        ({"resourceClaims": [{"name": "x" * 50_000}]}, "spec.resourceClaims"),
        ({"metadata": {"annotations": {f"{names.PREFIX}tenant": "x" * 50_000}}}, ""),
        ({"metadata": {"ownerReferences": [{"kind": "x" * 50_000, "controller": True}]}}, "metadata.ownerReferences"),
    ],
    ids=["images", "image of a volume", "volumes", "tolerations", "claims", "annotations", "owner"],
)
def test_what_is_told_of_a_pod_is_bounded_in_bytes_and_more_is_a_problem_that_names_the_field(
    spec: dict[str, Any], field: str
) -> None:
    thing = pod_object(**{"containers": [needs(cpu="3")], **spec})
    pod = read_pod(thing)
    assert told_bytes(pod) <= MAX_RECORD
    assert (pod.name, pod.uid) == (thing["metadata"]["name"], thing["metadata"]["uid"])
    if field:
        assert "what decides about this pod takes more than 32 KiB, name fewer" in pod.problems[-1]
        assert field in pod.problems[-1]


SHORT_LABELS = {"metadata": {"labels": {f"{at:x}": "" for at in range(16_000)}}}
SHORT_VALUES = {"key": "a", "operator": "In", "values": ["a"] * 10_000}
SHORT_TERMS: dict[str, Any] = {
    "affinity": {
        "podAntiAffinity": {REQUIRED: [{"topologyKey": "z", "labelSelector": {"matchExpressions": [SHORT_VALUES]}}]}
    }
}
ELSEWHERE = {"nodeName": "n1", "schedulerName": "default-scheduler"}


@pytest.mark.parametrize(
    "place", [{}, {"nodeName": "n1"}, ELSEWHERE], ids=["waiting", "on a node", "of another scheduler"]
)
@pytest.mark.parametrize(
    ("spec", "field"),
    [(SHORT_LABELS, "metadata.labels"), (SHORT_TERMS, "spec.affinity.podAntiAffinity")],
    ids=["labels", "anti-affinity"],
)
def test_short_texts_of_a_pod_take_no_more_memory_than_its_share_and_more_is_a_problem_that_names_the_field(
    spec: dict[str, Any], field: str, place: dict[str, Any]
) -> None:
    pod = read_pod(pod_object(**spec, **place))
    assert memory_of_record(pod) <= MAX_MEMORY
    assert field in pod.problems[-1]


@pytest.mark.parametrize(
    "place", [{}, {"nodeName": "n1"}, ELSEWHERE], ids=["waiting", "on a node", "of another scheduler"]
)
def test_labels_that_are_too_large_are_all_left_out_but_our_own_and_the_pod_says_so(place: dict[str, Any]) -> None:
    labels = {f"k{at:03}": "" for at in range(MAX_LABELS // 116)}
    fits, more = ({"labels": {**labels, **some}} for some in ({}, {names.BUDGET: "b", "one": "more"}))
    assert memory_of_labels(labels) <= MAX_LABELS
    whole, cut = (read_pod(pod_object(metadata=metadata, **place)) for metadata in (fits, more))
    assert (whole.labels, whole.labels_cut, whole.problems) == (labels, False, ())
    assert (cut.labels, cut.labels_cut) == ({names.BUDGET: "b"}, True)
    assert "metadata.labels: they take more than 16 KiB" in cut.problems[-1]


def test_large_anti_affinity_of_a_pod_on_a_node_is_told_as_keeping_all_pods_of_its_namespaces_away() -> None:
    pod = read_pod(pod_object(**SHORT_TERMS, **ELSEWHERE))
    everybody = PodAffinityTerm("z", LabelSelector(), namespaces=(pod.namespace,))
    assert pod.pod_anti_affinity == PodAffinity(required=(everybody,))


def test_what_a_large_pod_on_a_node_means_to_others_is_told_in_full() -> None:
    ports = [{"containerPort": 1, "hostPort": 1000 + at} for at in range(3000)]
    containers = [{"name": "c", "image": "x" * 50_000, "ports": ports}]
    labels = {"labels": {"app": "web"}}
    pod = read_pod(pod_object(nodeName="n1", metadata=labels, containers=containers))
    assert (len(pod.ports), pod.labels, pod.images) == (3000, {"app": "web"}, ())


def test_a_large_pod_of_which_little_decides_is_told_as_any_other() -> None:
    pod = read_pod(
        pod_object(containers=[{"name": "c", "image": "web", "env": [{"name": "A", "value": "x" * 900_000}]}])
    )
    assert (pod.images, pod.problems) == (("web",), ())


def test_a_large_status_of_a_delegate_is_told_as_much_as_is_shown_at_home() -> None:
    pod = read_pod(delegate_object(status={"phase": "Running", "message": "<" * 500_000}))
    assert len(pod.status) <= 32 * 1024
    assert msgspec.json.decode(pod.status)["phase"] == "Running"
