"""The Grafana dashboard: in a ConfigMap that Grafana's sidecar finds, on metrics that there are."""

import json
from typing import Any

from docs.generate import dashboard
from tests.charts import metrics
from tests.charts.rendering import Helm, of_kind

PAGE: dict[str, Any] = json.loads(dashboard.FILE.read_text())
PANELS: list[dict[str, Any]] = [one for one in PAGE["panels"] if one["type"] != "row"]


def test_the_file_is_made_of_the_table() -> None:
    assert dashboard.FILE.read_text() == dashboard.render(), "run `python -m docs.generate`"


def test_each_query_names_only_metrics_and_labels_that_there_are() -> None:
    there = metrics.known()
    queries = [target["expr"] for panel in PANELS for target in panel["targets"]]
    assert len(queries) >= len(PANELS) > 0
    assert {query: found for query in queries if (found := list(metrics.wrong(query, there)))} == {}


def test_panels_lie_beside_each_other_and_not_over_each_other() -> None:
    cells = [
        (x, y)
        for place in (one["gridPos"] for one in PAGE["panels"])
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]
    assert len(set(cells)) == len(cells)
    assert max(x for x, _ in cells) < 24
    assert len({one["id"] for one in PAGE["panels"]}) == len(PAGE["panels"])


def test_it_is_rendered_as_it_is_where_it_is_wanted(helm: Helm) -> None:
    found = of_kind(helm.template("dispatcher", {"dashboard": {"enabled": True}}), "ConfigMap")
    (made,) = [one for one in found if one["metadata"]["name"] == "dispatcher-dashboard"]
    assert made["metadata"]["labels"]["grafana_dashboard"] == "1"
    assert json.loads(made["data"]["global-dispatcher.json"]) == PAGE
    assert len(of_kind(helm.template("dispatcher"), "ConfigMap")) == 1
