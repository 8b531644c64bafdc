"""What docs/scale.md asks for is what the chart asks for by default, and what its values tell of other fleets."""

import re
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
VALUES = (ROOT / "helm" / "dispatcher" / "values.yaml").read_text()
_ROW = re.compile(r"^\| (\d+) clusters, [\d,]+ nodes \| `(\{.*?\})`(?: \(the default\))? \| `(\{.*?\})`", re.MULTILINE)


def told() -> dict[int, dict[str, Any]]:
    page = (ROOT / "docs" / "scale.md").read_text()
    rows = _ROW.findall(page)
    return {
        int(count): {"requests": yaml.safe_load(asks), "limits": yaml.safe_load(most)} for count, asks, most in rows
    }


def test_the_smallest_fleet_of_the_page_is_what_the_chart_asks_for_by_default() -> None:
    rows = told()
    assert list(rows) == [10, 100, 200]
    assert rows[10] == yaml.safe_load(VALUES)["resources"]


def test_the_values_name_what_larger_fleets_need() -> None:
    (comment,) = re.findall(r"# -- (Of the dispatcher's container, for 10.*?)\nresources:", VALUES, re.DOTALL)
    words = comment.replace("\n# ", " ").replace(" GiB", "Gi").replace("1 core", "1")
    rows = told()
    for count in (100, 200):
        asks, most = rows[count]["requests"], rows[count]["limits"]
        assert re.search(rf"\b{count}\b[^;.]*\b{asks['cpu']} and {asks['memory']}, limit {most['memory']}", words)
