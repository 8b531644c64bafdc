"""Every field of a pod, in every supported version of Kubernetes, has a decision: what becomes of it elsewhere."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest

from agents.executor.crossing.manifest import ManifestError, sanitise
from agents.executor.crossing.pod_fields import LEFT, MAPPED, NEWEST, OLDEST, REFUSED, SAME, TYPES, copied
from localfleet.controlplane import binaries
from tests.agents.executor.podschema.__main__ import VERSIONS
from tests.agents.executor.world import pod_object

SCHEMA: dict[str, dict[str, dict[str, str]]] = json.loads(
    (Path(__file__).parent / "podschema" / "fields.json").read_text(encoding="utf-8")
)


class Field(NamedTuple):
    """A field of a type of the API, and of which type what it holds is."""

    kind: str
    name: str
    of: str


def fields_to_decide() -> Iterator[Field]:
    """All fields of a Pod, as deep as they are not left behind or refused as a whole."""
    kinds = ["Pod"]
    for kind in kinds:
        for name, field in SCHEMA[kind].items():
            decision = TYPES.get(kind, {}).get(name)
            of = field["of"].removeprefix("[]")
            yield Field(kind, name, of)
            below = decision is not None and decision.how not in (LEFT, MAPPED, REFUSED)
            if below and of and of not in kinds:
                kinds.append(of)


FIELDS = list(fields_to_decide())


@pytest.mark.parametrize("field", FIELDS, ids=[f"{one.kind}.{one.name}" for one in FIELDS])
def test_every_field_of_a_pod_has_a_decision(field: Field) -> None:
    decision = TYPES.get(field.kind, {}).get(field.name)
    assert decision is not None, (
        f"say in agents/executor/crossing/pod_fields.py what becomes of {field.kind}.{field.name}"
    )
    if decision.how in (LEFT, MAPPED, REFUSED):
        assert decision.why, f"say why {field.kind}.{field.name} is {decision.how}"
    else:
        assert decision.of == field.of, f"{field.kind}.{field.name} holds {field.of or 'a plain value'}"


def test_no_decision_is_about_a_field_that_no_version_has() -> None:
    decided = {(kind, name) for kind, fields in TYPES.items() for name in fields}
    assert decided <= {(kind, name) for kind, fields in SCHEMA.items() for name in fields}


def test_the_schema_is_of_the_versions_that_are_supported() -> None:
    minors = [f"1.{version.split('.')[1]}" for version in VERSIONS]
    assert (minors[0], minors[-1]) == (OLDEST, NEWEST)
    assert {field["last"] for field in SCHEMA["PodSpec"].values()} == {NEWEST, "1.35"}  # workloadRef lived for one


def test_who_moves_to_a_newer_kubernetes_reads_its_fields() -> None:
    programs = binaries.module("kube-apiserver").version
    assert VERSIONS[-1] == programs.replace("v1.", "0.", 1), (
        "add it to VERSIONS and run python -m tests.agents.executor.podschema"
    )


REFUSED_FIELDS = [one for one in FIELDS if TYPES[one.kind][one.name].how == REFUSED]


@pytest.mark.parametrize("field", REFUSED_FIELDS, ids=[f"{one.kind}.{one.name}" for one in REFUSED_FIELDS])
def test_a_field_that_is_refused_is_named_with_the_reason_and_the_remedy(field: Field) -> None:
    with pytest.raises(ManifestError) as refused:
        copied({field.name: True}, field.kind, "spec")
    assert str(refused.value).startswith(f"spec.{field.name} {TYPES[field.kind][field.name].why}; remove it")


@pytest.mark.parametrize("unset", [None, False, [], ""])
def test_a_field_that_is_refused_and_not_used_is_no_obstacle(unset: object) -> None:
    assert copied({"hostNetwork": unset, "dnsPolicy": "Default"}, "PodSpec", "spec") == {"dnsPolicy": "Default"}


def fullest(kind: str) -> dict[str, Any]:
    """A value of this type with all that is the same elsewhere."""
    return {name: _filled(kind, name, one.of) for name, one in TYPES[kind].items() if one.how == SAME}


def _filled(kind: str, name: str, of: str) -> Any:
    if not of:
        return f"a {name}"
    return [fullest(of)] if SCHEMA[kind][name]["of"].startswith("[]") else fullest(of)


def test_whatever_is_the_same_crosses_as_it_is_and_crosses_again() -> None:
    pod = pod_object()
    pod["spec"] = fullest("PodSpec")
    once = sanitise(msgspec.json.encode(pod))
    clean = msgspec.json.decode(once)["spec"]
    assert clean.pop("schedulerName")
    assert clean.pop("automountServiceAccountToken") is False
    assert clean.pop("serviceAccountName") == "default"  # a token is asked for: the target's policy decides
    assert clean == pod["spec"]
    assert sanitise(once) == once


NEWER: dict[str, dict[str, Any]] = {
    "spec.teleport": {"teleport": True},
    "spec.containers[1].warp": {"containers": [{"name": "a"}, {"name": "b", "warp": 9}]},
    "spec.containers[0].livenessProbe.httpGet.quic": {
        "containers": [{"name": "a", "livenessProbe": {"httpGet": {"port": 1, "quic": True}}}]
    },
    "spec.volumes[0].projected.sources[0].dream": {
        "volumes": [{"name": "v", "projected": {"sources": [{"dream": {}}]}}]
    },
    "spec.volumes[0].dream": {"volumes": [{"name": "v", "dream": {}}]},
    "spec.containers[0].env[0].valueFrom.starRef": {
        "containers": [{"name": "a", "env": [{"name": "E", "valueFrom": {"starRef": {}}}]}]
    },
}


@pytest.mark.parametrize(("field", "spec"), NEWER.items(), ids=NEWER.keys())
def test_a_field_of_a_newer_kubernetes_is_refused_by_name_and_not_dropped(field: str, spec: dict[str, Any]) -> None:
    with pytest.raises(ManifestError) as refused:
        sanitise(msgspec.json.encode(pod_object(**spec)))
    assert str(refused.value).startswith(f"{field} is no field that this version knows")


@pytest.mark.parametrize("where", ["metadata", ""])
def test_a_newer_field_beside_the_spec_is_refused_too(where: str) -> None:
    pod = pod_object()
    (pod[where] if where else pod)["soul"] = 1
    with pytest.raises(ManifestError, match=r"soul is no field"):
        sanitise(msgspec.json.encode(pod))
