"""Objects beside pods and nodes from the API: what is kept of each kind, and what of one that cannot be read."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.kube.objects import KINDS, Kind
from agents.observer.seen import ObjectSeen
from shared.messages import Changes, decode, encode
from shared.messages.memory import memory_of_record
from shared.model import names
from shared.model.labels import LabelSelector, NodeSelectorTerm, Requirement
from shared.model.names import BUDGET, BUDGET_OF
from shared.model.objects import (
    AnyWatched,
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    DaemonSet,
    Namespace,
    PersistentVolume,
    PersistentVolumeClaim,
    PodDisruptionBudget,
    PriorityClass,
    ReplicaSet,
    ReplicationController,
    RuntimeClass,
    Service,
    StatefulSet,
    StorageClass,
    VolumeAttachment,
)
from shared.model.resources import MAX_QUANTITY
from tests.agents.kube.objects import raw
from tests.agents.kube.test_convert import JSON, json_bytes

GIB = 2**30
BY_NAME: dict[str, Kind[Any]] = {kind.name: kind for kind in KINDS}
ZONE = "topology.kubernetes.io/zone"


def seen_of(kind: str, metadata: dict[str, Any] | None = None, **fields: Any) -> ObjectSeen:
    """What the reader makes of an object named `x` in namespace `ns`."""
    meta = {"name": "x", "namespace": "ns", "uid": "u", "resourceVersion": "7", **(metadata or {})}
    seen = BY_NAME[kind].seen(raw({"metadata": meta, **fields}))
    assert seen is not None
    assert (seen.kind, seen.version) == (kind, 7)
    return seen


@pytest.mark.parametrize(
    ("kind", "thing", "want"),
    [
        pytest.param(
            "Namespace", {"metadata": {"labels": {"team": "a"}}}, Namespace("x", {"team": "a"}), id="namespace"
        ),
        pytest.param(
            "Namespace",
            {"metadata": {"annotations": {names.ACCEPT: "false"}}},
            Namespace("x", {names.ACCEPT: "false"}),
            id="namespace closed by an annotation in the label's place",
        ),
        pytest.param(
            "Namespace",
            {"metadata": {"labels": {names.ACCEPT: "true"}, "annotations": {names.ACCEPT: "true"}}},
            Namespace("x", {names.ACCEPT: "true"}),
            id="namespace opened twice",
        ),
        pytest.param(
            "Namespace",
            {"metadata": {"annotations": {names.ACCEPT: ""}}},
            Namespace("x", {names.ACCEPT: ""}),
            id="namespace closed by an annotation without a value",
        ),
        pytest.param(
            "PersistentVolume",
            {
                "metadata": {"labels": {ZONE: "z1"}},
                "spec": {
                    "capacity": {"storage": "5Gi"},
                    "accessModes": ["ReadWriteOnce"],
                    "storageClassName": "fast",
                    "claimRef": {"namespace": "ns", "name": "data", "uid": "c1"},
                    "nodeAffinity": {
                        "required": {
                            "nodeSelectorTerms": [
                                {"matchExpressions": [{"key": ZONE, "operator": "In", "values": ["z1"]}]}
                            ]
                        }
                    },
                    "csi": {"driver": "csi.example.com", "volumeHandle": "h1"},
                },
                "status": {"phase": "Bound"},
            },
            PersistentVolume(
                "x",
                5 * GIB,
                "fast",
                ("ReadWriteOnce",),
                phase="Bound",
                claim="ns/data",
                claim_uid="c1",
                labels={ZONE: "z1"},
                node_affinity=(NodeSelectorTerm((Requirement(ZONE, "In", ("z1",)),)),),
                driver="csi.example.com",
                handle="h1",
            ),
            id="volume",
        ),
        pytest.param(
            "PersistentVolume",
            {
                "metadata": {
                    "annotations": {"volume.beta.kubernetes.io/storage-class": "old"},
                    "deletionTimestamp": "2024-01-01T00:00:00Z",
                },
                "spec": {"storageClassName": "new", "volumeMode": "Block", "volumeAttributesClassName": "gold"},
            },
            PersistentVolume("x", storage_class="old", block=True, terminating=True, attributes_class="gold"),
            id="volume of an old class, leaving",
        ),
        pytest.param(
            "PersistentVolumeClaim",
            {
                "metadata": {
                    "annotations": {
                        "pv.kubernetes.io/bind-completed": "yes",
                        "volume.kubernetes.io/selected-node": "n1",
                    },
                    "ownerReferences": [{"kind": "Pod", "name": "p", "uid": "p1", "controller": True}],
                },
                "spec": {
                    "accessModes": ["ReadWriteOncePod"],
                    "storageClassName": "fast",
                    "volumeName": "pv1",
                    "resources": {"requests": {"storage": "1Gi"}},
                    "selector": {"matchLabels": {"a": "b"}},
                },
                "status": {"phase": "Bound"},
            },
            PersistentVolumeClaim(
                "ns",
                "x",
                "u",
                "pv1",
                bound=True,
                phase="Bound",
                storage_class="fast",
                access_modes=("ReadWriteOncePod",),
                request=GIB,
                selector=LabelSelector({"a": "b"}),
                selected_node="n1",
                owner_uid="p1",
            ),
            id="claim",
        ),
        pytest.param(
            "PersistentVolumeClaim",
            {"spec": {"volumeName": "pv1"}},
            PersistentVolumeClaim("ns", "x", "u", "pv1"),
            id="claim on its way to be bound, of no class",
        ),
        pytest.param(
            "StorageClass",
            {
                "metadata": {"annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
                "provisioner": "csi.example.com",
                "volumeBindingMode": "WaitForFirstConsumer",
                "allowedTopologies": [{"matchLabelExpressions": [{"key": ZONE, "values": ["z1", "z2"]}]}],
            },
            StorageClass(
                "x",
                "csi.example.com",
                waits=True,
                topologies=(NodeSelectorTerm((Requirement(ZONE, "In", ("z1", "z2")),)),),
                default=True,
            ),
            id="class",
        ),
        pytest.param(
            "CSINode",
            {
                "spec": {
                    "drivers": [
                        {"name": "a", "allocatable": {"count": 8}},
                        {"name": "b"},
                        {"name": "c", "allocatable": {}},
                    ]
                }
            },
            CSINode("x", {"a": 8}, ("a", "b", "c")),
            id="drivers of a node",
        ),
        pytest.param("CSIDriver", {"spec": {"storageCapacity": True}}, CSIDriver("x", True), id="driver"),
        pytest.param(
            "CSIDriver",
            {"spec": {"preventPodSchedulingIfMissing": True}},
            CSIDriver("x", required=True),
            id="driver that nodes have to have",
        ),
        pytest.param(
            "CSIStorageCapacity",
            {
                "storageClassName": "fast",
                "capacity": "10Gi",
                "maximumVolumeSize": "1Gi",
                "nodeTopology": {"matchLabels": {ZONE: "z1"}},
            },
            CSIStorageCapacity("ns", "x", "fast", 10 * GIB, GIB, LabelSelector({ZONE: "z1"})),
            id="capacity",
        ),
        pytest.param(
            "VolumeAttachment",
            {"spec": {"attacher": "a", "nodeName": "n1", "source": {"persistentVolumeName": "pv1"}}},
            VolumeAttachment("x", "n1", "pv1", "a"),
            id="attachment",
        ),
        pytest.param(
            "PodDisruptionBudget",
            {
                "spec": {"selector": {"matchLabels": {"app": "db"}}},
                "status": {"disruptionsAllowed": 2, "disruptedPods": {"db-1": "2024-01-01T00:00:00Z"}},
            },
            PodDisruptionBudget("ns", "x", LabelSelector({"app": "db"}), 2, ("db-1",)),
            id="budget",
        ),
        pytest.param(
            "PodDisruptionBudget",
            {
                "metadata": {"labels": {BUDGET_OF: "a"}},
                "spec": {
                    "selector": {"matchLabels": {BUDGET: "x"}},
                    "minAvailable": 3,
                    "unhealthyPodEvictionPolicy": "AlwaysAllow",
                },
                "status": {"desiredHealthy": 3},
            },
            PodDisruptionBudget("ns", "x", LabelSelector({BUDGET: "x"}), 0, (), 3, 3, always=True, shadow_of="a"),
            id="budget that is kept for another cluster",
        ),
        pytest.param(
            "PodDisruptionBudget",
            {
                "metadata": {"labels": {BUDGET_OF: "a"}},
                "spec": {"selector": {"matchLabels": {"app": "db"}}, "minAvailable": "50%"},
            },
            PodDisruptionBudget("ns", "x", LabelSelector({"app": "db"})),
            id="budget with our label that selects what it likes",
        ),
        pytest.param(
            "PriorityClass",
            {"value": 7, "globalDefault": True, "preemptionPolicy": "Never"},
            PriorityClass("x", 7, preempts=False, default=True),
            id="priority class",
        ),
        pytest.param("PriorityClass", {"value": -7}, PriorityClass("x", -7), id="usual priority class"),
        pytest.param("Service", {"spec": {"selector": {"app": "db"}}}, Service("ns", "x", {"app": "db"}), id="service"),
        pytest.param("Service", {"spec": {}}, Service("ns", "x"), id="service of nobody"),
        pytest.param(
            "ReplicaSet",
            {"spec": {"selector": {"matchLabels": {"app": "db"}}, "template": {"spec": {}}}},
            ReplicaSet("ns", "x", LabelSelector({"app": "db"})),
            id="replica set",
        ),
        pytest.param(
            "StatefulSet",
            {"spec": {"selector": {"matchExpressions": [{"key": "app", "operator": "Exists"}]}}},
            StatefulSet("ns", "x", LabelSelector({}, (Requirement("app", "Exists"),))),
            id="stateful set",
        ),
        pytest.param(
            "DaemonSet",
            {"spec": {"selector": {"matchLabels": {"app": "db"}}}},
            DaemonSet("ns", "x", LabelSelector({"app": "db"})),
            id="daemon set",
        ),
        pytest.param(
            "ReplicationController",
            {"spec": {"selector": {"app": "db"}}},
            ReplicationController("ns", "x", LabelSelector({"app": "db"})),
            id="replication controller",
        ),
    ],
)
def test_of_every_kind_what_placement_needs_is_kept(kind: str, thing: dict[str, Any], want: AnyWatched) -> None:
    seen = seen_of(kind, **thing)
    assert (seen.record, seen.problems) == (want, ())


@pytest.mark.parametrize(
    ("label", "annotation", "counts"),
    [("true", "false", "false"), ("true", "", ""), ("false", "true", "false"), ("", "true", ""), ("no", "false", "no")],
)
def test_of_a_namespace_that_says_two_things_the_one_that_closes_it_counts(
    label: str, annotation: str, counts: str
) -> None:
    said = {"labels": {names.ACCEPT: label}, "annotations": {names.ACCEPT: annotation}}
    seen = seen_of("Namespace", said)
    assert seen.record == Namespace("x", {names.ACCEPT: counts})
    assert seen.record.closed
    assert seen.problems == (
        f'label and annotation {names.ACCEPT} differ: the one that is not "true" counts; remove the other',
    )


@pytest.mark.parametrize(
    ("source", "labels", "want"),
    [
        pytest.param(
            {"awsElasticBlockStore": {"volumeID": "aws://us-east-1a/vol-1"}}, {}, ("ebs.csi.aws.com", "vol-1"), id="ebs"
        ),
        pytest.param(
            {"gcePersistentDisk": {"pdName": "d"}},
            {ZONE: "us-a"},
            ("pd.csi.storage.gke.io", "projects/UNSPECIFIED/zones/us-a/disks/d"),
            id="gce, one zone",
        ),
        pytest.param(
            {"gcePersistentDisk": {"pdName": "d"}},
            {ZONE: "us-east1-b__us-east1-c"},
            ("pd.csi.storage.gke.io", "projects/UNSPECIFIED/regions/us-east1/disks/d"),
            id="gce, two zones",
        ),
        pytest.param(
            {"gcePersistentDisk": {"pdName": "d"}},
            {},
            ("pd.csi.storage.gke.io", "projects/UNSPECIFIED/zones/UNSPECIFIED/disks/d"),
            id="gce, no zone",
        ),
        pytest.param({"azureDisk": {"diskURI": "/u"}}, {}, ("disk.csi.azure.com", "/u"), id="azure"),
        pytest.param({"cinder": {"volumeID": "v"}}, {}, ("cinder.csi.openstack.org", "v"), id="cinder"),
        pytest.param({"portworxVolume": {"volumeID": "v"}}, {}, ("pxd.portworx.com", "v"), id="portworx"),
    ],
)
def test_an_in_tree_volume_is_known_by_what_it_migrates_to(
    source: dict[str, Any], labels: dict[str, str], want: tuple[str, str]
) -> None:
    volume = seen_of("PersistentVolume", {"labels": labels}, spec=source).record
    assert isinstance(volume, PersistentVolume)
    assert (volume.driver, volume.handle, volume.in_tree) == (*want, True)


CLOSED = Namespace("x", {names.ACCEPT: "unreadable"})  # to pods of other clusters, until it can be read


@pytest.mark.parametrize(
    ("kind", "thing", "record", "says"),
    [
        pytest.param(
            "Namespace",
            {"metadata": {"labels": {"a": "x" * 70_000}}},
            CLOSED,
            "metadata.labels",
            id="70 KB label",
        ),
        pytest.param("Namespace", {"metadata": {"labels": [1]}}, CLOSED, "cannot be read", id="labels a list"),
        pytest.param(
            "PersistentVolumeClaim",
            {"spec": {"selector": {"matchLabels": {"a": "x" * 70_000}}}},
            PersistentVolumeClaim("ns", "x"),
            "(56 for each key, value and clause beside its text): 70234, more than 8192",
            id="70 KB selector",
        ),
        pytest.param(
            "PodDisruptionBudget",
            {"spec": {"selector": {"matchExpressions": [{"key": "a", "operator": "In", "values": [""] * 200}]}}},
            PodDisruptionBudget("ns", "x", LabelSelector()),
            "bytes of memory of spec.selector",
            id="a budget that may cover any pod",
        ),
        pytest.param(
            "CSINode",
            {"spec": {"drivers": [{"name": "a"}] * 300}},
            CSINode("x"),
            "spec.drivers: 300, more than 256",
            id="300 drivers",
        ),
        pytest.param(
            "PersistentVolume",
            {"spec": {"capacity": {"storage": "1e99999"}}},
            PersistentVolume("x"),
            "spec.capacity[storage]: quantity '1e99999'",
            id="absurd capacity",
        ),
        pytest.param(
            "PriorityClass", {"value": 2**31}, PriorityClass("x", 2**31 - 1), "cannot be read", id="one no row lets in"
        ),
        pytest.param(
            "CSIStorageCapacity", {"capacity": "-1"}, CSIStorageCapacity("ns", "x"), "capacity: ", id="less than none"
        ),
    ],
)
def test_an_object_that_cannot_be_read_is_kept_by_name_and_says_why(
    kind: str, thing: dict[str, Any], record: AnyWatched, says: str
) -> None:
    seen = seen_of(kind, **thing)
    assert seen.record == record
    assert says in seen.problems[0]


@pytest.mark.parametrize("kind", ["ReplicaSet", "StatefulSet", "PodDisruptionBudget", "PersistentVolumeClaim"])
@pytest.mark.parametrize("clauses", [20, 2000])
def test_5000_objects_of_one_namespace_as_large_as_they_may_be_leave_most_of_a_report_to_others(
    kind: str, clauses: int
) -> None:
    clause = {"key": "a", "operator": "NotIn", "values": ["a"] * (4000 // clauses)}
    seen = seen_of(kind, spec={"selector": {"matchExpressions": [clause] * clauses}})
    assert 5000 * memory_of_record(seen.record) < 2**31 / 16


@pytest.mark.parametrize("text", ["9223372036854775807", "8Ei", "8E"])
def test_storage_without_a_limit_has_as_much_as_is_counted(text: str) -> None:
    volume = seen_of("PersistentVolume", spec={"capacity": {"storage": text}})
    room = seen_of("CSIStorageCapacity", capacity=text, maximumVolumeSize=text)
    assert isinstance(volume.record, PersistentVolume)
    assert isinstance(room.record, CSIStorageCapacity)
    assert (volume.record.capacity, room.record.capacity, room.record.maximum) == (MAX_QUANTITY,) * 3
    assert not volume.problems + room.problems


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_an_object_without_a_name_is_nobody(kind: Kind[Any]) -> None:
    assert kind.seen(b'{"metadata":{"uid":"u"}}') is None
    assert kind.seen(b"[]") is None


PARTS = st.sampled_from(
    ("spec", "status", "metadata", "allowedTopologies", "nodeTopology", "capacity", "provisioner", "volumeBindingMode")
)


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(KINDS), st.dictionaries(PARTS, JSON, max_size=4))
def test_no_content_raises_or_breaks_the_message_that_carries_it(kind: Kind[Any], fields: dict[str, Any]) -> None:
    seen = kind.seen(json_bytes({"metadata": {"name": "x"}, **fields}))
    record = seen.record if seen is not None else None
    if isinstance(record, DaemonSet | RuntimeClass):
        return  # no message carries it
    if isinstance(record, PriorityClass):
        message = Changes("c", "u", "i", 0, 1, priority_classes=(record,))
    else:
        message = Changes("c", "u", "i", 0, 1, objects=(record,) if record is not None else ())
    assert decode(Changes, encode(message)) == message


@settings(max_examples=100, deadline=None)
@given(st.sampled_from(KINDS), st.binary(max_size=200) | JSON.map(json.dumps).map(str.encode))
def test_arbitrary_bytes_are_at_worst_nobody(kind: Kind[Any], data: bytes) -> None:
    seen = kind.seen(data)
    assert seen is None or seen.key
