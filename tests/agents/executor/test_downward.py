"""What a container reads of its own pod, in its environment and in files, is the same in another cluster."""

import re
from typing import Any

import msgspec
import pytest

from agents.executor.crossing.downward import formatted
from agents.executor.crossing.manifest import MAX_BYTES, ManifestError, sanitise
from agents.executor.crossing.pod_fields import FIELD_PATHS, RESOLVED
from agents.executor.crossing.policy import Grants
from agents.executor.crossing.restrict import restrict
from shared.messages import BOUND, PodRef
from shared.model import names
from tests.agents.executor.world import World, node_object, order_for, pod_object

Object = dict[str, Any]
INDEX = "batch.kubernetes.io/job-completion-index"
LABELS = {"app": "shards", INDEX: "3", "jobset.sigs.k8s.io/job-index": "1", "odd": 'a"b'}
NOTES = {"shard.example.com/of": "4", "note": "2 lines\nof $(HOME)", names.SCHEDULE: "true"}
MARKS = {names.CLAIM: "x.y", names.CLAIM_CLUSTER: "b", names.CLAIM_NODE: "n1", names.EPOCH: "7", names.DECISION: "d"}
# What kubelet may be asked: validation of core/v1, the same from 1.31 to 1.37.
IN_ENVIRONMENT = (
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "metadata.labels['X']",
    "metadata.annotations['X']",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
)
IN_FILES = (
    "metadata.name",
    "metadata.namespace",
    "metadata.labels",
    "metadata.annotations",
    "metadata.uid",
    "metadata.labels['X']",
    "metadata.annotations['X']",
)
AT_HOME = {
    "metadata.name": "shards-3-x7k2p",
    "metadata.uid": "uid-at-home",
    "spec.serviceAccountName": "default",
    f"metadata.labels['{INDEX}']": "3",
    "metadata.labels['jobset.sigs.k8s.io/job-index']": "1",
    "metadata.labels['odd']": 'a"b',
    "metadata.labels['absent']": "",
    "metadata.annotations['shard.example.com/of']": "4",
    "metadata.annotations['note']": "2 lines\nof $(HOME)",
    "metadata.annotations['absent']": "",
    "metadata.labels": f'app="shards"\n{INDEX}="3"\njobset.sigs.k8s.io/job-index="1"\nodd="a\\"b"',
    "metadata.annotations": f'{names.SCHEDULE}="true"\nnote="2 lines\\nof $(HOME)"\nshard.example.com/of="4"',
}


def reading(*paths: str, **metadata: Any) -> Object:
    """A pod that reads these paths, each in its environment and in both kinds of files."""
    env = [{"name": f"E{n}", "valueFrom": {"fieldRef": {"fieldPath": path}}} for n, path in enumerate(paths)]
    files = [{"path": f"f{n}", "fieldRef": {"fieldPath": path}} for n, path in enumerate(paths)]
    inline = {"name": "inline", "downwardAPI": {"items": files}}
    projected = {"name": "projected", "projected": {"sources": [{"downwardAPI": {"items": files}}]}}
    volumes = [inline, projected]
    pod = pod_object(volumes=volumes, containers=[{"name": "c", "image": "i", "env": env}])
    told = {"uid": "uid-at-home", "name": "shards-3-x7k2p", "labels": LABELS, "annotations": {**NOTES, **MARKS}}
    pod["metadata"] |= told | metadata
    return pod


def crossed(pod: Object) -> Object:
    clean: Object = msgspec.json.decode(sanitise(msgspec.json.encode(pod)))
    return clean


def in_environment(pod: Object) -> str:
    """What the container has as its first variable, as kubelet makes it of a value: $$ stands for $."""
    (variable,) = pod["spec"]["containers"][0]["env"]
    return re.sub(r"\$\$", "$", variable["value"])


def in_files(pod: Object) -> set[str]:
    """What the first file of each volume shows: kubelet writes an annotation as it is."""
    inline, projected = pod["spec"]["volumes"]
    holders = (inline["downwardAPI"], projected["projected"]["sources"][0]["downwardAPI"])
    paths = [holder["items"][0]["fieldRef"]["fieldPath"] for holder in holders]
    keys = [path.removeprefix("metadata.annotations['").removesuffix("']") for path in paths]
    return {pod["metadata"]["annotations"][key] for key in keys}


@pytest.mark.parametrize("path", sorted({*IN_ENVIRONMENT, *IN_FILES}))
def test_every_reference_that_kubernetes_knows_has_a_decision(path: str) -> None:
    assert path in FIELD_PATHS


@pytest.mark.parametrize(("path", "value"), AT_HOME.items(), ids=AT_HOME.keys())
def test_what_a_container_reads_of_its_pod_is_what_it_reads_at_home(path: str, value: str) -> None:
    there = crossed(reading(path))
    assert in_environment(there) == value
    assert in_files(there) == {value}


def test_each_reference_that_is_resolved_is_tried_here() -> None:
    tried = {re.sub(r"\['.*'\]", "['X']", path) for path in AT_HOME}
    assert {path for path, decision in FIELD_PATHS.items() if decision.how == RESOLVED} == tried


@pytest.mark.parametrize("path", [one for one, decision in FIELD_PATHS.items() if decision.how != RESOLVED])
def test_what_is_the_same_or_of_the_running_side_is_asked_there(path: str) -> None:
    pod = reading(path)
    assert crossed(pod)["spec"]["containers"] == pod["spec"]["containers"]
    assert crossed(pod)["spec"]["volumes"] == pod["spec"]["volumes"]


def test_the_account_of_a_pod_that_needs_none_is_read_all_the_same() -> None:
    pod = reading("spec.serviceAccountName", annotations={names.SERVICE_ACCOUNT: names.NONE})
    pod["spec"]["serviceAccountName"] = "app"
    assert in_environment(crossed(pod)) == "app"


@pytest.mark.parametrize("path", ["status.phase", "metadata.generation", "spec.containers['X']", "metadata.soul"])
def test_a_reference_that_is_not_known_is_refused_by_name(path: str) -> None:
    with pytest.raises(ManifestError, match=r"^spec\.containers\[0\]\.env\[0\]\.valueFrom\.fieldRef is "):
        crossed(reading(path))


@pytest.mark.parametrize("key", names.TOPOLOGY_LABELS)
def test_the_topology_that_a_container_reads_is_that_of_the_node_where_it_runs(key: str) -> None:
    node = node_object()
    node["metadata"]["labels"][key] = "there"
    target = World(node, cluster="b")
    pod = reading(f"metadata.labels['{key}']", labels={key: "at-home"})
    ref = PodRef("default", "shards-3-x7k2p", "uid-at-home")
    assert target.do(order_for(ref, 1, "n1", sanitise(msgspec.json.encode(pod)))).verdict == BOUND
    (delegate,) = target.api.pods()
    assert delegate["metadata"]["labels"][key] == "there"
    assert delegate["spec"]["containers"] == pod["spec"]["containers"]
    assert delegate["spec"]["volumes"] == pod["spec"]["volumes"]


@pytest.mark.parametrize("path", AT_HOME)
def test_what_an_older_agent_left_unresolved_is_refused_and_never_empty(path: str) -> None:
    pod = reading(path)
    manifest = {"metadata": {"labels": {"app": "shards"}, "annotations": {}}, "spec": pod["spec"]}
    with pytest.raises(ManifestError, match="upgrade that agent"):
        crossed(manifest)


def test_sanitising_twice_changes_nothing() -> None:
    once = sanitise(msgspec.json.encode(reading(*AT_HOME, "status.podIP")))
    assert sanitise(once) == once


def test_the_target_lets_in_what_files_are_read_from_whatever_its_policy() -> None:
    once = crossed(reading(*AT_HOME))
    there = restrict(once, "b", Grants(annotations=()))
    assert {key for key in there["metadata"]["annotations"] if key.startswith(names.DOWNWARD)}
    assert in_files(there) == in_files(once)


@pytest.mark.parametrize("key", [names.DOWNWARD + "0123456789", names.DOWNWARD + "claim", names.EPOCH])
def test_no_annotation_of_ours_crosses_but_those_that_a_file_reads(key: str) -> None:
    pod = reading(annotations={key: "x"})
    assert key not in crossed(pod)["metadata"]["annotations"]


def test_nobody_reads_more_bytes_of_a_pod_than_may_cross() -> None:
    long = "x" * (MAX_BYTES // 4)
    few = reading(annotations={"a.b/long": long})
    path = "metadata.annotations['a.b/long']"
    few["spec"]["containers"][0]["env"] = [
        {"name": f"E{n}", "valueFrom": {"fieldRef": {"fieldPath": path}}} for n in range(10_000)
    ]
    with pytest.raises(ManifestError, match=r"env\[4\]\.valueFrom\.fieldRef and others would read more than 256 KiB"):
        crossed(few)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain", '"plain"'),
        ('a "b" \\ c', r'"a \"b\" \\ c"'),
        ("\a\b\f\n\r\t\v", r'"\a\b\f\n\r\t\v"'),
        ("\x00\x7f", r'"\x00\x7f"'),
        ("é 漢 😀", '"é 漢 😀"'),
        ("\u00a0\u200b\U000e0001", r'"\u00a0\u200b\U000e0001"'),
    ],
)
def test_a_map_is_written_as_kubelet_writes_it(text: str, shown: str) -> None:
    assert formatted({"b": "2", "a": text}) == f'a={shown}\nb="2"'


HOSTNAMES: list[tuple[str, Object, Object]] = [
    ("web-0", {}, {"hostname": "web-0"}),
    ("web-0", {"subdomain": "web"}, {"hostname": "web-0", "subdomain": "web"}),
    ("web-0", {"hostname": "db"}, {"hostname": "db"}),
    ("web-0", {"hostnameOverride": "db.example.com"}, {"hostnameOverride": "db.example.com"}),
    ("x" * 62 + "-yz", {}, {"hostname": "x" * 62}),
    ("app-1.2-x7k2p", {}, {"hostnameOverride": "app-1.2-x7k2p"}),
]


@pytest.mark.parametrize(("name", "spec", "there"), HOSTNAMES)
def test_the_hostname_of_a_container_is_the_one_that_it_has_at_home(name: str, spec: Object, there: Object) -> None:
    target = World(node_object(), cluster="b")
    ref = PodRef("default", name, "source-uid")
    assert target.do(order_for(ref, 1, "n1", sanitise(msgspec.json.encode(pod_object(name, **spec))))).verdict == BOUND
    (delegate,) = target.api.pods()
    assert {
        key: delegate["spec"][key] for key in ("hostname", "hostnameOverride", "subdomain") if key in delegate["spec"]
    } == there


def test_a_hostname_that_cannot_be_given_elsewhere_keeps_the_pod_at_home() -> None:
    with pytest.raises(
        ManifestError, match=r'^spec\.subdomain makes a name of "app-1\.2", which no spec\.hostname can be'
    ):
        crossed(pod_object("app-1.2", subdomain="web"))
