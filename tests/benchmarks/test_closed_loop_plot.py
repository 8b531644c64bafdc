"""The picture of the closed loop: what it shows of runs, and which runs it refuses to show together."""

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from typer.testing import CliRunner

from benchmarks.closed_loop.plot import app, joined, picture

SVG = "{http://www.w3.org/2000/svg}"
WORLD = {"trace": "a<b", "nodes": 100, "pods": 3200, "load": 0.6, "guesses": "bad", "bursts": 1}


def report(seeds: dict[str, list[float]], **world: Any) -> dict[str, Any]:
    return {"hot_minutes_by_seed": seeds, "world": {**WORLD, **world, "seeds": 2}}


def texts(svg: str) -> list[str]:
    return [one.text or "" for one in ET.fromstring(svg).iter(f"{SVG}text")]


def test_each_policy_has_its_mean_and_a_dot_for_each_seed() -> None:
    svg = picture(*joined([report({"ours": [100.0, 300.0]}), report({"requests": [5000.0], "oracle": [0.0, 0.0]})]))
    assert [text for text in texts(svg) if text in ("ours", "requests", "oracle")] == ["requests", "ours", "oracle"]
    assert {"200", "5,000", "0"} <= set(texts(svg))
    assert len(list(ET.fromstring(svg).iter(f"{SVG}circle"))) == 5


def test_a_longer_bar_is_more_hot_minutes_and_none_leaves_the_picture() -> None:
    root = ET.fromstring(picture("title", {"few": [20.0], "none": [0.0], "many": [99_999.0]}))
    widths = [float(one.attrib["width"]) for one in root.iter(f"{SVG}rect") if "x" in one.attrib]
    assert widths[0] > widths[1] > widths[2] == 0.0
    ends = [float(one.attrib["cx"]) for one in root.iter(f"{SVG}circle")]
    assert max(ends) < float(root.attrib["width"])


def test_days_of_different_worlds_are_not_drawn_together(tmp_path: Path) -> None:
    files = [tmp_path / "one.json", tmp_path / "other.json"]
    for file, guesses in zip(files, ("bad", "good"), strict=True):
        file.write_text(json.dumps(report({"ours": [1.0]}, guesses=guesses)))
    found = CliRunner().invoke(app, [str(file) for file in files])
    assert found.exit_code == 2
    assert "different worlds" in found.stderr


@pytest.mark.parametrize("text", [None, "{}", "no JSON"], ids=["no file", "another file", "no JSON"])
def test_what_is_no_report_is_refused(tmp_path: Path, text: str | None) -> None:
    file = tmp_path / "runs.json"
    if text is not None:
        file.write_text(text)
    found = CliRunner().invoke(app, [str(file)])
    assert found.exit_code == 2
    assert "runs.json" in found.stderr
