"""Counters of kubelets as rates, by the rules of metrics-server."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from localfleet.embedded.metrics_server.points import Batch, Point, Points, read_page
from localfleet.embedded.usage import Usage

KEY = ("default", "web")
RESOLUTION_S = 15.0


def point(at: float, cpu_s: float, started: float = 0.0, memory: float = 4096.0) -> Point:
    return Point(started, at, cpu_s, memory)


def after(*rounds: dict[str, Point]) -> Points:
    """Points of the containers of one pod, and of a node with the same numbers as `main`."""
    points = Points(RESOLUTION_S)
    for containers in rounds:
        points.store(Batch({"n1": containers["main"]} if "main" in containers else {}, {KEY: containers}))
    return points


def test_one_look_gives_no_rate_and_two_give_the_mean_between_them() -> None:
    assert after({"main": point(1000, 10)}).pod(KEY) is None
    points = after({"main": point(1000, 10)}, {"main": point(1015, 14.5, memory=8192)})
    assert points.pod(KEY) == {"main": Usage(1015, 15, 0.3, 8192)}
    assert points.node("n1") == Usage(1015, 15, 0.3, 8192)
    assert (points.pod(("default", "other")), points.node("n2")) == (None, None)


@pytest.mark.parametrize(("age", "shown"), [(9.9, False), (10, True), (14.5, True), (15, False)])
def test_a_fresh_container_is_measured_from_its_start(age: float, shown: bool) -> None:
    found = after({"main": point(1000, 3, started=1000 - age)}).pod(KEY)
    assert found == ({"main": Usage(1000, age, 3 / age, 4096)} if shown else None)


def test_the_same_look_twice_keeps_the_earlier_one() -> None:
    one, two = {"main": point(1000, 10)}, {"main": point(1015, 13)}
    assert after(one, two, two).pod(KEY) == {"main": Usage(1015, 15, 0.2, 4096)}


def test_a_pod_is_shown_once_each_of_its_containers_is_known_twice() -> None:
    one = {"main": point(1000, 10)}
    two = {"main": point(1015, 13), "aside": point(1015, 1)}
    three = {"main": point(1030, 16), "aside": point(1030, 1.75)}
    assert after(one, two).pod(KEY) is None
    assert after(one, two, three).pod(KEY) == {"main": Usage(1030, 15, 0.2, 4096), "aside": Usage(1030, 15, 0.05, 4096)}


def test_a_container_that_was_started_again_begins_anew() -> None:
    assert after({"main": point(1000, 10)}, {"main": point(1015, 0.1, started=1008)}).pod(KEY) is None


def test_a_counter_that_goes_down_tells_nothing() -> None:
    assert after({"main": point(1000, 10)}, {"main": point(1015, 9)}).pod(KEY) == {}


def test_who_is_missing_in_a_round_is_forgotten() -> None:
    one, two = {"main": point(1000, 10)}, {"main": point(1030, 13)}
    points = after(one)
    points.store(Batch({}, {}))
    assert points.pod(KEY) is None
    points.store(Batch({}, {KEY: two}))
    assert points.pod(KEY) is None


@given(st.lists(st.tuples(st.floats(0.1, 60), st.floats(0, 100)), min_size=2, max_size=8))
def test_a_rate_times_its_window_is_what_was_used(steps: list[tuple[float, float]]) -> None:
    at, cpu_s, rounds = 1000.0, 1.0, []
    for wait, used in steps:
        at, cpu_s = at + wait, cpu_s + used
        rounds.append({"main": point(at, cpu_s)})
    (found,) = (after(*rounds).pod(KEY) or {}).values()
    assert found.cpu * found.window_s == pytest.approx(steps[-1][1], abs=1e-9)
    assert found.window_s == pytest.approx(steps[-1][0])


def page(*lines: str) -> str:
    return "\n".join(lines) + "\n"


def labels(container: str) -> str:
    return f'{{container="{container}",namespace="default",pod="web"}}'


def test_a_page_is_read_with_its_times_and_without_them() -> None:
    text = page(
        f"container_cpu_usage_seconds_total{labels('main')} 1.5 1700000000123",
        f"container_memory_working_set_bytes{labels('main')} 4096",
        f"container_start_time_seconds{labels('main')} 1600000000.25",
        'pod_cpu_usage_seconds_total{namespace="default",pod="web"} 9 1700000000123',
        "node_cpu_usage_seconds_total 7",
        "node_memory_working_set_bytes 8192",
        "resource_scrape_error 0",
    )
    found = read_page(text, "n1", 5.0)
    assert found.pods == {KEY: {"main": Point(1600000000.25, 1700000000.123, 1.5, 4096)}}
    assert found.nodes == {"n1": Point(0, 5.0, 7, 8192)}


@pytest.mark.parametrize("broken", ["no CPU", "no memory", "CPU 0"])
def test_a_pod_is_left_out_if_a_container_tells_half(broken: str) -> None:
    lines = [f"container_{kind}{labels('main')} 3" for kind in ("cpu_usage_seconds_total", "memory_working_set_bytes")]
    other = f"container_cpu_usage_seconds_total{labels('aside')} {0 if broken == 'CPU 0' else 1}"
    memory = f"container_memory_working_set_bytes{labels('aside')} 1"
    more = {"no CPU": [memory], "no memory": [other], "CPU 0": [other, memory]}[broken]
    assert read_page(page(*lines), "n1", 1.0).pods.keys() == {KEY}
    assert read_page(page(*lines, *more), "n1", 1.0).pods == {}


@pytest.mark.parametrize(
    "text", ["container_cpu_usage_seconds_total 1", "<html>", "container_cpu_usage_seconds_total{"]
)
def test_a_page_that_cannot_be_parsed_is_an_error(text: str) -> None:
    with pytest.raises((ValueError, KeyError)):
        read_page(text + "\n", "n1", 1.0)


@pytest.mark.parametrize("value", ["NaN", "+Inf", "-Inf", "-1", "1e300"])
@pytest.mark.parametrize("kind", ["cpu_usage_seconds_total", "memory_working_set_bytes"])
def test_a_sample_that_is_no_amount_counts_as_missing(kind: str, value: str) -> None:
    kinds = {"cpu_usage_seconds_total": "3", "memory_working_set_bytes": "4096"}
    sound = [f"container_{name}{labels('main')} {told}" for name, told in kinds.items()]
    node = [f"node_{name} {told}" for name, told in (kinds | {kind: value}).items()]
    assert read_page(page(*sound, *node), "n1", 1.0) == Batch({}, {KEY: {"main": Point(0, 1.0, 3, 4096)}})


@pytest.mark.parametrize("at", ["-1", "9999999999999999", "999999999999999999999"])
def test_a_sample_at_an_impossible_time_counts_as_missing(at: str) -> None:
    text = page(f"node_cpu_usage_seconds_total 3 {at}", f"node_memory_working_set_bytes 4096 {at}")
    assert read_page(text, "n1", 1.0).nodes == {}
