"""Files of manifests: what is read, in which order, and what is said of those that cannot be."""

from pathlib import Path

import pytest

from tests.parity import __main__ as command
from tests.parity import manifests
from tests.parity.generate import SMALL, seeded_case

POD = "{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {containers: []}}"


def file_of(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "fleet.yaml"
    path.write_text(text)
    return path


def test_a_case_that_is_written_is_read_again(tmp_path: Path) -> None:
    case = seeded_case("files", "f0", SMALL)
    path = tmp_path / "f0.yaml"
    manifests.write(case, path, "a note\nof two lines")
    assert manifests.read(path) == manifests.File(case)


def test_documents_and_lists_are_sorted_into_what_comes_first(tmp_path: Path) -> None:
    text = f"""
kind: PodList
apiVersion: v1
items:
- metadata: {{name: bound, namespace: shop}}
  spec: {{nodeName: n1}}
---
{POD}
---
{{apiVersion: v1, kind: List, items: [
  {{apiVersion: v1, kind: ConfigMap, metadata: {{name: s}}}}, {{apiVersion: v1, kind: Node, metadata: {{name: n1}}}},
  {{apiVersion: v1, kind: PersistentVolume, metadata: {{name: v}}}},
  {{apiVersion: storage.k8s.io/v1, kind: StorageClass, metadata: {{name: fast}}}}]}}
"""
    file = manifests.read(file_of(tmp_path, text))
    assert [(obj["kind"], obj["metadata"]["name"]) for obj in file.case.all_objects()] == [
        ("Namespace", "shop"),  # used by a pod and not given
        ("StorageClass", "fast"),
        ("PersistentVolume", "v"),
        ("Node", "n1"),
        ("Pod", "bound"),
        ("Pod", "p"),
    ]
    assert file.left_out == ["1 x ConfigMap (v1): no object of this kind places a pod"]


def named(file: manifests.File) -> list[str]:
    return [obj["metadata"]["name"] for obj in file.case.all_objects() if obj["kind"] == "Pod"]


@pytest.mark.parametrize(
    "text",
    [
        f"\ufeff# of Windows\r\n---\r\n{POD}\r\n---\r\n",
        '{\n\t"apiVersion": "v1",\n\t"kind": "Pod",\n\t"metadata": {"name": "p"},\n\t"spec": {}\n}\n',
        '{"kind": "Pod", "metadata": {"name": "q"}, "spec": {}}{"kind": "Pod", "metadata": {"name": "p"}, "spec": {}}',
        "spec: &s {containers: []}\nkind: Pod\nmetadata: {name: p, creationTimestamp: 2026-01-01T00:00:00Z}",
        "{kind: List, items: [{kind: PodList, items: [{metadata: {name: p}, spec: {}}]}, {kind: PodList}]}",
    ],
    ids=["Windows", "tabs", "JSON after JSON", "a bare timestamp", "lists in lists"],
)
def test_files_are_read_as_kubectl_reads_them(tmp_path: Path, text: str) -> None:
    path = tmp_path / "fleet.yaml"
    path.write_bytes(text.encode())
    assert named(manifests.read(path))[-1] == "p"


def test_timestamps_stay_text(tmp_path: Path) -> None:
    text = f"{POD}\n---\n{{kind: Node, metadata: {{name: n, creationTimestamp: 2026-01-01T00:00:00Z}}}}"
    (node,) = manifests.read(file_of(tmp_path, text)).case.nodes
    assert node["metadata"]["creationTimestamp"] == "2026-01-01T00:00:00Z"


def test_pods_with_the_beginning_of_a_name_are_given_one(tmp_path: Path) -> None:
    text = "\n---\n".join(["{kind: Pod, metadata: {generateName: job-}, spec: {}}"] * 2)
    assert named(manifests.read(file_of(tmp_path, text))) == ["job-0", "job-1"]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("{apiVersion: x.io/v1, kind: Node, metadata: {name: n}}", "1 x Node (x.io/v1): no object of this kind"),
        (POD.replace("name: p", "name: q, deletionTimestamp: now"), "pod default/q: is being deleted"),
        (POD.replace("name: p", "name: q").replace("}}", "}, status: {phase: Failed}}", 1), "pod default/q: has ended"),
        (POD, "Pod default/p: is in the file more than once, the last one counts"),
    ],
    ids=["another kind of that name", "being deleted", "ended", "twice"],
)
def test_what_has_no_part_in_the_case_is_told(tmp_path: Path, text: str, told: str) -> None:
    file = manifests.read(file_of(tmp_path, f"{POD}\n---\n{text}"))
    assert told in file.left_out[0]
    assert named(file) == ["p"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{kind: Pod, metadata: {name: x}, spec: &s {containers: [*s]}}", "document 1: holds what JSON cannot"),
        ("{kind: Pod, metadata: {name: x}, spec: {a: .inf}}", "document 1: holds what JSON cannot"),
        ("{kind: PersistentVolume, metadata: {name: x}, spec: [1]}", "spec of PersistentVolume x is no mapping"),
        ("{kind: Node, metadata: {name: x, namespace: 7}}", "metadata.namespace of Node x is no text"),
        ("{", "fleet.yaml"),
        ("[1, 2]", "document 1: is no Kubernetes object"),
        (f"{POD}\n---\nkind: Node", "document 2: Node without metadata.name"),
        ("{kind: List, items: [{metadata: {name: x}}]}", "document 1, item 1: is no Kubernetes object"),
        ("{kind: Pod, metadata: {name: x}}", "Pod x without spec"),
        ("{kind: Node, metadata: {name: x}}", "no pending pod"),
    ],
    ids=[
        "a loop",
        "infinity",
        "a spec of a list",
        "a namespace of a number",
        "no YAML",
        "no object",
        "no name",
        "an item without kind",
        "no spec",
        "nothing to place",
    ],
)
def test_a_file_that_cannot_be_used_ends_the_command_with_code_2_and_says_why(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, words: str
) -> None:
    assert command.main([str(file_of(tmp_path, text))]) == 2
    assert words in capsys.readouterr().err


def test_a_file_that_is_not_there_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main([str(tmp_path / "none.yaml")]) == 2
    assert "none.yaml" in capsys.readouterr().err
