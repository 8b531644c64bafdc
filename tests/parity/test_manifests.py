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


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "fleet.yaml"),
        ("[1, 2]", "document 1: is no Kubernetes object"),
        (f"{POD}\n---\nkind: Node", "document 2: Node without metadata.name"),
        ("{kind: List, items: [{metadata: {name: x}}]}", "document 1, item 1: is no Kubernetes object"),
        ("{kind: Pod, metadata: {name: x}}", "Pod x without spec"),
        ("{kind: Node, metadata: {name: x}}", "no pending pod"),
    ],
    ids=["no YAML", "no object", "no name", "an item without kind", "no spec", "nothing to place"],
)
def test_a_file_that_cannot_be_used_ends_the_command_with_code_2_and_says_why(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, words: str
) -> None:
    assert command.main([str(file_of(tmp_path, text))]) == 2
    assert words in capsys.readouterr().err


def test_a_file_that_is_not_there_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main([str(tmp_path / "none.yaml")]) == 2
    assert "none.yaml" in capsys.readouterr().err
