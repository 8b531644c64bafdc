"""A section of the values that is null, which Helm takes for "without it": its name is told, or nothing is wrong."""

from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import pytest
import yaml

from tests.charts.rendering import CHARTS, NAMES, Helm, HelmError, Object

ON: Object = {"networkPolicy": {"enabled": True}, "podDisruptionBudget": {"enabled": True}}
ISSUER: Object = {"enabled": True, "issuerRef": {"name": "fleet"}}
EVERYTHING: dict[str, Object] = {
    "dispatcher": {
        **ON,
        "prometheusRule": {"enabled": True},
        "serviceMonitor": {"enabled": True},
        "config": {
            "clusters": [
                {"name": "east", "via": "gateway"},
                {"name": "west", "kubeconfig": "/tmp/kube", "agent": {"key_file": "/tmp/key"}},
            ],
            "ray": {"address": "head:6379"},
        },
        "gateway": {
            "certManager": {**ISSUER, "dnsNames": ["gateway.example"]},
            "passthrough": {"hosts": ["gateway.example"], "tlsRoute": {"enabled": True, "parentRefs": [{"name": "g"}]}},
        },
        "ray": {"tls": {"existingSecret": "ray-tls", "certManager": ISSUER}},
    },
    "agent": {
        **ON,
        "prometheusRule": {"enabled": True},
        "metrics": {"enabled": True},
        "podMonitor": {"enabled": True},
        "gateway": {"urls": ["wss://gateway.example"], "split": True, "certManager": ISSUER},
        "admissionPolicy": {"by": "webhook"},
    },
}
# What users' own maps and the dispatcher's own defaults are for.
FREE = {"config", "profiles", "requests", "limits"}


def paths(values: Object, at: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Every key at the top, and every map in a map that the chart itself reads."""
    for key, value in values.items():
        if not at or (isinstance(value, dict) and value):
            yield (*at, key)
        if isinstance(value, dict) and key not in FREE:
            yield from paths(value, (*at, key))


def with_null(values: Object, path: tuple[str, ...]) -> Object:
    copied = deepcopy(values)
    inner: Any = copied
    for key in path[:-1]:
        inner = inner.setdefault(key, {})
    inner[path[-1]] = None
    return copied


CASES = [
    pytest.param(chart, path, id=f"{chart}: {'.'.join(path)}")
    for chart in NAMES
    for path in (
        *paths(yaml.safe_load((CHARTS / chart / "values.yaml").read_text())),
        ("config", {"dispatcher": "gateway", "agent": "executor"}[chart]),
    )
]


@pytest.mark.parametrize(("chart", "path"), CASES)
def test_a_section_that_is_null_is_named_or_not_needed(helm: Helm, chart: str, path: tuple[str, ...]) -> None:
    try:
        helm.template(chart, with_null(EVERYTHING[chart], path))
    except HelmError as error:
        named = (f"at '{'/'.join(('', *path[:-1]))}': missing property '{path[-1]}'", f"): {'.'.join(path)}: ")
        assert any(words in str(error) for words in named), str(error)


@pytest.mark.parametrize("chart", NAMES)
def test_what_the_sections_are_taken_from_is_rendered(helm: Helm, chart: str) -> None:
    assert helm.template(chart, EVERYTHING[chart])


@pytest.mark.parametrize(
    ("chart", "key"),
    [(chart, key) for chart in NAMES for key in ("config", "gateway", "resources", "networkPolicy", "image")],
)
def test_sections_that_all_need_are_missing_by_name(helm: Helm, chart: str, key: str) -> None:
    with pytest.raises(HelmError, match=f"missing property '{key}'"):
        helm.template(chart, {key: None})
