"""The reference pages are what the code says."""

import json

import pytest
import yaml
from jsonschema import Draft7Validator  # type: ignore[import-untyped]

from agents.runtime.join.settings import JoinSettings
from agents.runtime.telemetry_settings import TelemetrySettings
from dispatcher.plugins.registry import REGISTRY, canonical
from dispatcher.scheduling.delegation.in_flight import TRANSITIONS
from dispatcher.scheduling.framework.plugin_args import check_args
from docs.generate import chart, chart_crossing, chart_readme, configuration, keys, plugins, transitions
from docs.generate.__main__ import FOLDER, PAGES
from shared.messages import REFUSED, STALE


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_as_the_code_has_it(name: str) -> None:
    assert (FOLDER / name).read_text() == PAGES[name](), "run `python -m docs.generate`"


def test_the_protocols_page_has_the_states_of_intents_as_the_code_has_them() -> None:
    text = transitions.FILE.read_text()
    assert text == transitions.with_states(text), "run `python -m docs.generate`"
    rows = [line.split(" | ") for line in transitions.render().splitlines() if line.count(" | ") == 3]
    for kind, verdict in TRANSITIONS:
        column = {STALE: 2, REFUSED: 3}.get(verdict, 1)
        (row,) = (row for row in rows if f"`{kind.value}`" in row[0])
        assert transitions.cell(kind, verdict) in row[column].removesuffix(" |")


@pytest.mark.parametrize("name", chart_readme.NAMES)
def test_a_charts_page_is_as_its_values_have_it(name: str) -> None:
    text = (chart_readme.CHARTS / name / "README.md").read_text()
    assert text == chart_readme.render(name), "run `python -m docs.generate`"
    for key in yaml.safe_load((chart_readme.CHARTS / name / "values.yaml").read_text()):
        assert f"| `{key}" in text


def test_every_key_of_ours_is_explained() -> None:
    explained = [one.name for one in (*keys.USERS, *keys.ADMINS, *keys.OURS)]
    assert sorted(explained) == sorted(keys.declared())


def test_the_charts_schema_takes_the_arguments_that_plugins_declare() -> None:
    text = chart.SCHEMA.read_text()
    assert text == chart.with_arguments(text), "run `python -m docs.generate`"
    assert json.loads(text)


def test_the_agents_chart_lets_those_volumes_be_made_that_cross() -> None:
    assert chart_crossing.FILE.read_text() == chart_crossing.render(), "run `python -m docs.generate`"
    assert {"csi", "hostPath", "nfs", "persistentVolumeClaim"}.isdisjoint(chart_crossing.allowed("Volume"))


@pytest.mark.parametrize(
    ("name", "args", "right"),
    [
        ("LiveCPU", {"fresh_s": 30}, True),
        ("LiveCPU", {"fresh_s": -1}, False),
        ("LiveCPU", {"fresh": 30}, False),
        ("LiveHeadroom", {"signals": ["disk"]}, True),
        ("LiveHeadroom", {"signals": ["No Name"]}, False),
        ("NodeResourcesFit", {"strategy": "MostAllocated", "resources": {"cpu": 2}}, True),
        ("NodeResourcesFit", {"resources": {"cpu": 0}}, False),
        ("PodTopologySpread", {"defaults": [{"key": "zone", "hard": "yes"}]}, False),
        ("FaultDomainSpread", {"defaults": [{"key": "zone", "max_skew": 2, "hard": True}]}, True),
        ("NodeAffinity", {"added_affinity": [{"key": "pool", "operator": "Exists"}]}, True),
        ("SomebodyElses", {"whatever": 1}, True),
    ],
)
def test_the_schema_and_the_dispatcher_agree_on_arguments(name: str, args: dict[str, object], right: bool) -> None:
    is_valid = all(
        Draft7Validator(one["then"]).is_valid({"name": name, "args": args})
        for one in chart.conditions()
        if one["if"]["properties"]["name"]["const"] == name
    )
    spec = REGISTRY.get(canonical(name, REGISTRY))
    assert is_valid == right
    assert spec is None or (check_args(spec.arguments, args)[1] == []) == right


@pytest.mark.parametrize("name", [name for name, spec in REGISTRY.items() if spec.arguments])
def test_a_profile_takes_defaults_of_plugins_as_they_are_printed(name: str) -> None:
    arguments = REGISTRY[name].arguments
    values, problems = check_args(
        arguments, {key: yaml.safe_load(plugins.default(arg)) for key, arg in arguments.items()}
    )
    assert problems == []
    assert values == {key: arg.default for key, arg in arguments.items()}


def test_every_list_of_telemetry_sources_is_in_the_reference_and_in_the_charts_schema() -> None:
    schema = json.loads((FOLDER.parents[1] / "helm/agent/values.schema.json").read_text())
    telemetry = schema["properties"]["config"]["properties"]["telemetry"]["properties"]
    lists = [name for name, one in TelemetrySettings.model_fields.items() if str(one.annotation).startswith("tuple[")]
    assert sorted(telemetry) == sorted(TelemetrySettings.model_fields)
    assert set(lists) <= set(configuration.SOURCES)


def test_sections_that_may_be_left_out_are_told_key_by_key() -> None:
    keys_told = [row[0] for row in configuration.rows(JoinSettings)]
    assert {"`gateway.urls`", "`gateway.cert_file`", "`relay.port`"} <= set(keys_told)
    assert not {"`gateway`", "`relay`"} & set(keys_told)
