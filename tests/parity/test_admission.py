"""What admission plugins would have written into manifests is written into them."""

from typing import Any

import pytest

from tests.parity.admission import admitted
from tests.parity.case import Case, Object


def pod(**spec: Any) -> Object:
    return {"kind": "Pod", "metadata": {"name": "p"}, "spec": spec}


def class_of(name: str, value: int, **rest: Any) -> Object:
    return {"kind": "PriorityClass", "metadata": {"name": name}, "value": value, **rest}


@pytest.mark.parametrize(
    ("objects", "spec", "name", "made"),
    [
        ([], {}, None, []),
        ([], {"priority": 0}, None, []),
        ([], {"priority": 7}, "priority-7", [7]),
        ([], {"priority": -7}, "priority-minus-7", [-7]),
        ([], {"priority": 7, "preemptionPolicy": "Never"}, "priority-7-never", [7]),
        ([], {"priority": 7, "priorityClassName": "high"}, "high", [7]),
        ([class_of("high", 9)], {"priority": 7, "priorityClassName": "high"}, "high", []),
        ([class_of("std", 9, globalDefault=True)], {"priority": 0}, "priority-0", [0]),
        ([], {"priority": 2000001000}, "system-node-critical", []),
    ],
    ids=["none", "zero", "a number", "below zero", "never", "a class not given", "a class", "a default", "system"],
)
def test_a_bare_priority_gets_a_class(objects: list[Object], spec: Object, name: str | None, made: list[int]) -> None:
    found = admitted(Case(objects=objects, pending=[pod(**spec)]))
    assert found.pending[0]["spec"].get("priorityClassName") == name
    assert [obj["value"] for obj in found.objects[len(objects) :]] == made


def test_a_runtime_class_brings_overhead_selector_and_tolerations() -> None:
    runtime = {
        "kind": "RuntimeClass",
        "metadata": {"name": "kata"},
        "overhead": {"podFixed": {"cpu": "1"}},
        "scheduling": {"nodeSelector": {"kata": "y"}, "tolerations": [{"key": "kata"}]},
    }
    case = admitted(Case(objects=[runtime], pending=[pod(runtimeClassName="kata", nodeSelector={"a": "b"}), pod()]))
    first, second = (one["spec"] for one in case.pending)
    assert first["overhead"] == {"cpu": "1"}
    assert first["nodeSelector"] == {"kata": "y", "a": "b"}
    assert first["tolerations"] == [{"key": "kata"}]
    assert second == {}


@pytest.mark.parametrize(
    ("spec", "want"), [({}, "std"), ({"storageClassName": ""}, ""), ({"storageClassName": "x"}, "x")]
)
def test_a_claim_that_names_no_class_gets_the_default(spec: Object, want: str) -> None:
    note = {"storageclass.kubernetes.io/is-default-class": "true"}
    default = {"kind": "StorageClass", "metadata": {"name": "std", "annotations": note}}
    claim = {"kind": "PersistentVolumeClaim", "metadata": {"name": "c"}, "spec": spec}
    assert admitted(Case(objects=[default, claim])).objects[1]["spec"]["storageClassName"] == want
