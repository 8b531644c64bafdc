"""A spec that was read for one pod is read for all pods alike, and for no other."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.kube import specs, wire_pods
from agents.kube.specs import read_spec
from shared.messages.pod_cache import PodCache

TOKEN = {"projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}}
SPECS: dict[str, dict[str, Any]] = {
    "small": {"containers": [{"image": "a", "resources": {"requests": {"cpu": "1"}}}]},
    "larger": {"containers": [{"image": "a", "resources": {"requests": {"cpu": "2"}}}]},
    "broken": {"containers": [{"image": "a", "resources": {"requests": {"cpu": "x"}}}], "tolerations": [{"key": "a"}]},
    "an endless number": {"containers": [{"resources": {"requests": {"cpu": 10**40}}}]},
    "ephemeral": {"volumes": [{"name": "data", "ephemeral": {}}]},
    "claim": {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "c"}}]},
    "host network": {"hostNetwork": True, "containers": [{"ports": [{"containerPort": 80}]}]},
    "too many": {"tolerations": [{"key": str(number)} for number in range(300)]},
    "affinity": {
        "affinity": {
            "podAntiAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [
                    {"topologyKey": "zone", "labelSelector": {}, "matchLabelKeys": ["app"]}
                ]
            }
        }
    },
    "spread": {
        "topologySpreadConstraints": [
            {
                "maxSkew": 1,
                "topologyKey": "zone",
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {},
                "matchLabelKeys": ["app"],
            }
        ]
    },
}


def pod(spec: str, name: str = "a", namespace: str = "x", app: str = "web", node: str = "") -> wire_pods.PodObject:
    volumes = [*SPECS[spec].get("volumes", ()), {"name": f"token-of-{name}", **TOKEN}]
    meta = {"name": name, "namespace": namespace, "uid": name, "labels": {"app": app}}
    full = {**SPECS[spec], "volumes": volumes, "nodeName": node}
    return wire_pods.read_pod(msgspec.json.encode({"metadata": meta, "spec": full}))


def fresh(one: wire_pods.PodObject) -> specs.SpecRead:
    """The reading of a pod that nothing was remembered for."""
    return specs._read(one, one.metadata.labels or {})


def remembered(one: wire_pods.PodObject) -> specs.SpecRead:
    return read_spec(one, one.metadata.labels or {})


WAYS = st.tuples(st.sampled_from(sorted(SPECS)), *(st.sampled_from("ab") for _ in range(4)))


@given(st.lists(WAYS, max_size=12))
def test_what_is_remembered_is_what_would_be_read(ways: list[tuple[str, ...]]) -> None:
    for way in ways:
        one = pod(*way)
        assert remembered(one) == fresh(one)
        assert one == pod(*way)


@pytest.mark.parametrize("spec", sorted(set(SPECS) - {"ephemeral", "too many", "an endless number"}))
def test_replicas_and_later_versions_share_one_reading(spec: str) -> None:
    assert remembered(pod(spec, "a", node="n1")) is remembered(pod(spec, "b", node="n2"))


APART = {
    "an ephemeral volume's claim is named after its pod": (("ephemeral", "a"), ("ephemeral", "b")),
    "own labels are part of an affinity term": (("affinity", "a", "x", "web"), ("affinity", "a", "x", "db")),
    "an affinity term means the pod's own namespace": (("affinity", "a", "x"), ("affinity", "a", "y")),
    "own labels are part of a spread constraint": (("spread", "a", "x", "web"), ("spread", "a", "x", "db")),
}


@pytest.mark.parametrize(("one", "other"), APART.values(), ids=APART.keys())
def test_pods_are_read_apart_where(one: tuple[str, ...], other: tuple[str, ...]) -> None:
    assert remembered(pod(*one)).placement != remembered(pod(*other)).placement


def test_no_more_than_a_bound_is_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = PodCache[tuple[bytes, bytes], specs.SpecRead](100, 8000)
    monkeypatch.setattr(specs, "_KEPT", kept)
    most = 0
    for spec in SPECS:
        remembered(pod(spec))
        most = max(most, len(kept))
        assert len(kept) == 1 or kept.nbytes <= 8000
    assert 1 < most < len(SPECS)
