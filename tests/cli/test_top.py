"""`top nodes` and `top clusters`: what is shown, in which order."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner, Result

from dispatcher.cli.api_client import ApiClient
from dispatcher.cli.main import app
from dispatcher.cli.top import sorted_rows
from dispatcher.scheduling.views import whole
from dispatcher.service.errors import CommandError, ExitCode
from tests.service.fakes import FakeViews

UNKNOWN: dict[str, Any] = {"used": None, "age_s": None, "source": ""}


def told(used: float | None, age_s: float = 3.0, source: str = "kubelet") -> dict[str, Any]:
    return UNKNOWN if used is None else {"used": used, "age_s": age_s, "source": source}


def a_node(name: str, cpu: float | None = None, requested: float | None = 0.5, **more: Any) -> dict[str, Any]:
    use = {"requested": "2", "allocatable": "4", "share": requested}
    load = {"cpu": told(cpu), "memory": told(None), "network": told(None), **more}
    row = {"cluster": "east", "name": name, "ready": True, "unschedulable": False, "load": load}
    return {**row, "cpu": use, "memory": use, "pods": use}


@pytest.fixture
def rows(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[dict[str, Any]]]:
    """What the server answers, by kind; a test may change it."""
    answers = {"nodes": whole(FakeViews().nodes()), "usage": whole(FakeViews().usage())}
    monkeypatch.setattr(ApiClient, "rows", lambda _self, kind, **query: answers[kind])
    return answers


def top(*words: str) -> Result:
    return CliRunner().invoke(app, ["top", *words])


def lines(*words: str) -> list[str]:
    shown = top(*words)
    assert shown.exit_code == 0, shown.output
    return [" ".join(line.split()) for line in shown.stdout.splitlines()]


@pytest.mark.usefixtures("rows")
def test_nodes_show_requested_used_age_and_source() -> None:
    assert lines("nodes") == [
        "CLUSTER NAME STATUS CPU ALLOC CPU REQ CPU USED MEM ALLOC MEM REQ MEM USED NET USED PODS SAMPLE AGE SOURCE",
        "east east-1 Ready 4 12% 34% 4 12% 20% - 500m/4 3s kubelet",
        "west west-1 Ready 4 12% 34% 4 12% 20% - 500m/4 3s kubelet",
    ]


def test_hot_nodes_say_by_what_and_for_how_long(rows: dict[str, list[dict[str, Any]]]) -> None:
    def heat(signal: str, since_s: float, refuses: bool) -> dict[str, Any]:
        return {"signal": signal, "mean": 0.9, "since_s": since_s, "enter": 0.85, "leave": 0.7, "refuses": refuses}

    rows["nodes"] = [
        {**a_node("n1", 0.9), "hot": [heat("cpu", 300.0, True), heat("disk", 9.0, True)]},
        {**a_node("n2", 0.8), "hot": [heat("cpu", 60.0, False)]},
        {**a_node("n3", 0.1), "hot": []},
    ]
    assert [line.split(" 2/4 ")[-1] for line in lines("nodes")[1:]] == [
        "cpu 5m, disk 9s 3s kubelet",
        "(cpu 60s) 3s kubelet",
        "3s kubelet",
    ]


@pytest.mark.usefixtures("rows")
def test_clusters_show_the_mean_how_many_were_read_and_the_hottest() -> None:
    assert lines("clusters") == [
        "CLUSTER STATUS NODES READ CPU ALLOC CPU REQ CPU USED MEM ALLOC MEM REQ MEM USED NET USED PODS SAMPLE AGE "
        "HOTTEST SOURCE",
        "east Ready 1 1 4 12% 34% 4 12% 34% - 500m/4 3s east-1 34% kubelet",
        "west NotReady 1 0 4 12% - 4 12% - - 500m/4 - - -",
    ]


def test_a_signal_that_any_node_tells_has_a_column_and_several_sources_say_what_each_told(
    rows: dict[str, list[dict[str, Any]]],
) -> None:
    rows["nodes"] = [a_node("a", 0.2, gpu=told(0.9, 40.0, "prometheus")), a_node("b", 0.1, disk=UNKNOWN)]
    head, first, second = lines("nodes", "--sort-by", "gpu")
    assert head.endswith("NET USED GPU USED PODS SAMPLE AGE SOURCE")
    assert first == "east a Ready 4 50% 20% 4 50% - - 90% 2/4 40s kubelet (cpu), prometheus (gpu)"
    assert second == "east b Ready 4 50% 10% 4 50% - - - 2/4 3s kubelet"


def test_json_is_the_rows_in_the_order_that_is_asked_for(rows: dict[str, list[dict[str, Any]]]) -> None:
    rows["nodes"] = [a_node("a", None, 0.9), a_node("b", 0.3, None), a_node("c", 0.7, 0.1)]

    def names(*words: str) -> list[str]:
        return [row["name"] for row in json.loads(top("nodes", "-o", "json", *words).stdout)]

    assert names() == ["c", "b", "a"]
    assert names("--limit", "1") == ["c"]
    assert names("--sort-by", "cpu-requested") == ["a", "c", "b"]
    assert names("--sort-by", "name") == ["a", "b", "c"]


@pytest.mark.usefixtures("rows")
@pytest.mark.parametrize("what", ["nodes", "clusters"])
def test_a_key_that_no_row_has_is_told_with_those_that_there_are(what: str) -> None:
    shown = top(what, "--sort-by", "gpu")
    assert shown.exit_code == ExitCode.USAGE
    keys = "cpu, memory, network, cpu-requested, memory-requested, pods, age, name"
    assert shown.stderr == f"error: --sort-by gpu: choose one of {keys}\n"


@given(
    st.lists(st.tuples(st.sampled_from("abcdef"), st.none() | st.floats(0, 1)), unique_by=lambda one: one[0]),
    st.sampled_from(["cpu", "memory", "network", "cpu-requested", "age", "name"]),
)
def test_sorting_loses_nobody_and_puts_the_unknown_last(given_: list[tuple[str, float | None]], key: str) -> None:
    nodes = [a_node(name, used, used) for name, used in given_]
    found = sorted_rows(nodes, key)
    assert sorted(row["name"] for row in found) == sorted(name for name, _ in given_)
    if key in ("cpu", "cpu-requested"):
        values = [dict(given_)[row["name"]] for row in found]
        known = [value for value in values if value is not None]
        assert values == [*sorted(known, reverse=True), *[None] * (len(values) - len(known))]


def test_without_rows_any_key_will_do() -> None:
    assert sorted_rows([], "whatever") == []
    with pytest.raises(CommandError):
        sorted_rows([a_node("a")], "whatever")
