"""Alerts of both charts: on metrics that there are, with a runbook each."""

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.charts import metrics
from tests.charts.rendering import CHARTS, NAMES, Helm, alert_rules, of_kind
from tests.real.debian import needed

RUNBOOKS = (CHARTS.parent / "docs" / "runbooks.md").read_text()
LABELLED = {"labels": {"release": "prometheus"}}
SECTIONS = re.findall(r"^### (\w+)$", RUNBOOKS, re.MULTILINE)


@pytest.fixture(scope="module")
def rules(helm: Helm) -> dict[str, list[dict[str, Any]]]:
    """Each chart's rendered alerts."""
    return {chart: alert_rules(helm, chart, LABELLED) for chart in NAMES}


@pytest.mark.parametrize("chart", NAMES)
def test_there_are_none_unless_they_are_wanted(helm: Helm, chart: str) -> None:
    assert not of_kind(helm.template(chart), "PrometheusRule")


@pytest.mark.parametrize("chart", NAMES)
def test_alerts_name_only_metrics_that_there_are(rules: dict[str, list[dict[str, Any]]], chart: str) -> None:
    there = metrics.known()
    assert rules[chart]
    assert {rule["alert"]: found for rule in rules[chart] if (found := list(metrics.wrong(rule["expr"], there)))} == {}


@pytest.mark.parametrize("chart", NAMES)
def test_texts_name_only_labels_that_the_alert_has(rules: dict[str, list[dict[str, Any]]], chart: str) -> None:
    there = metrics.known()
    for rule in rules[chart]:
        labels = {
            label for name, of in there.items() if re.search(rf"\b{name}\b", rule["expr"]) for label in (*of, "pod")
        }
        texts = " ".join(rule["annotations"].values())
        assert set(re.findall(r"\$labels\.(\w+)", texts)) <= labels, rule["alert"]


def test_each_alert_is_explained_and_nothing_else_is(rules: dict[str, list[dict[str, Any]]]) -> None:
    alerts = [rule for chart in NAMES for rule in rules[chart]]
    assert sorted(rule["alert"] for rule in alerts) == sorted(SECTIONS)
    for rule in alerts:
        assert rule["labels"]["severity"] in ("critical", "warning", "info")
        assert rule["annotations"].keys() == {"summary", "description", "runbook_url"}
        page, _, anchor = rule["annotations"]["runbook_url"].partition("#")
        assert (page.rpartition("/runbooks/")[1], anchor) == ("/runbooks/", rule["alert"].lower())


def test_an_alert_may_be_left_out_and_the_runbooks_be_elsewhere(helm: Helm) -> None:
    rules = alert_rules(
        helm, "dispatcher", {"disabled": ["GlobalDispatcherTwoLeaders"], "runbookUrl": "https://wiki.invalid/gd"}
    )
    assert "GlobalDispatcherTwoLeaders" not in [one["alert"] for one in rules]
    urls = {one["annotations"]["runbook_url"] for one in rules}
    assert "https://wiki.invalid/gd#globaldispatcherdown" in urls


@pytest.mark.parametrize("chart", NAMES)
def test_promtool_accepts_them(rules: dict[str, list[dict[str, Any]]], chart: str, tmp_path: Path) -> None:
    program = needed("promtool")["promtool"]
    file = tmp_path / "rules.yaml"
    file.write_text(yaml.safe_dump({"groups": [{"name": chart, "rules": rules[chart]}]}))
    told = subprocess.run([*program, "check", "rules", str(file)], capture_output=True, text=True, check=False)
    assert told.returncode == 0, told.stdout + told.stderr


@pytest.mark.parametrize(
    ("expression", "problem"),
    [
        ("global_dispatcher_nonsense > 0", "no metric global_dispatcher_nonsense"),
        ('scheduler_pending_pods{kind="active"} > 0', "scheduler_pending_pods has no label kind"),
        ("sum by (cluster) (scheduler_pending_pods)", "no label cluster"),
        ("up == 0", "no metric in up == 0"),
    ],
)
def test_what_is_not_there_is_found(expression: str, problem: str) -> None:
    assert list(metrics.wrong(expression, metrics.known())) == [problem]
