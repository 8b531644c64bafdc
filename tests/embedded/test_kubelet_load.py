"""The load model: smooth, capped, additive, and its counters are its integral."""

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from localfleet.embedded.kubelet.behaviour import Behaviour, read_behaviour
from localfleet.embedded.kubelet.load import Background, Capacity, NodeLoad
from tests.embedded.simulated import START, Object, behaviour, pod

CAPACITY = Capacity(cpu=8.0, memory=32e9, bandwidth=1.25e9)
moments = st.lists(st.floats(0, 5000), min_size=2, max_size=12).map(sorted)
loads = st.builds(
    Behaviour,
    millicpu=st.integers(0, 20_000),
    memory=st.integers(0, 10**11),
    rx=st.integers(0, 10**10),
    tx=st.integers(0, 10**10),
)


def node(**shares: float) -> NodeLoad:
    return NodeLoad(CAPACITY, Background(seed=3, **shares), START)


@given(st.lists(loads, max_size=4), moments)
def test_usage_never_exceeds_capacity_and_counters_never_go_back(pods: list[Behaviour], times: list[float]) -> None:
    load = node()
    for number, one in enumerate(pods):
        load.start(str(number), one, START)
    seen = []
    for moment in times:
        load.advance(START + moment)
        rates, _ = load.rates(START + moment)
        assert rates.cpu <= CAPACITY.cpu * 1.000001
        assert rates.memory <= CAPACITY.memory * 1.000001
        assert max(rates.rx, rates.tx) <= CAPACITY.bandwidth * 1.000001
        seen.append((load.used.cpu_s, load.used.rx, load.used.tx))
    assert all(before <= after for first, second in pairwise(seen) for before, after in zip(first, second, strict=True))


@given(st.lists(loads, max_size=4), st.floats(0, 5000))
def test_a_nodes_usage_is_its_background_and_its_pods(pods: list[Behaviour], moment: float) -> None:
    load = node(cpu=0.0, memory=0.0, net=0.0)
    for number, one in enumerate(pods):
        load.start(str(number), one, START)
    total, parts = load.rates(START + moment)
    assert total.cpu == pytest.approx(sum(part.cpu for part in parts.values()))
    assert total.rx == pytest.approx(sum(part.rx for part in parts.values()))


def test_the_cpu_counter_grows_by_rate_times_time() -> None:
    load = node(cpu=0.5)
    load.advance(START + 100)
    assert load.used.cpu_s == pytest.approx(0.5 * CAPACITY.cpu * 100)


def test_background_moves_within_its_band_and_differs_between_nodes() -> None:
    first, second = Background(seed=1), Background(seed=2)
    shares = [first.at(START + t, CAPACITY).cpu / CAPACITY.cpu for t in range(0, 3600, 10)]
    assert 0.02 <= min(shares) < max(shares) <= 0.15
    assert max(shares) - min(shares) > 0.03
    assert first.at(START, CAPACITY) != second.at(START, CAPACITY)
    assert first.at(START, CAPACITY) == Background(seed=1).at(START, CAPACITY)


def test_a_hot_background_leaves_pods_their_share_of_what_is_there() -> None:
    load = node(cpu=1.0)
    load.start("greedy", Behaviour(millicpu=8000), START)
    total, parts = load.rates(START + 1)
    assert total.cpu == pytest.approx(CAPACITY.cpu)
    assert 0.4 * CAPACITY.cpu < parts["greedy"].cpu < 0.6 * CAPACITY.cpu


def test_a_stopped_pod_uses_nothing_and_its_past_stays_counted() -> None:
    load = node(cpu=0.0, memory=0.0, net=0.0)
    load.start("p", Behaviour(millicpu=1000), START)
    load.stop("p", START + 50)
    load.advance(START + 500)
    assert load.rates(START + 500)[0].cpu == 0.0
    assert load.used.cpu_s == pytest.approx(50, rel=0.15)


def annotated(key: str, text: str) -> Object:
    return {"metadata": {"annotations": behaviour(**{key: text})}}


def test_without_annotations_a_pod_uses_a_share_of_its_request() -> None:
    found = read_behaviour(pod(), {"cpu": 1000, "memory": 1_000_000})
    assert (found.millicpu, found.memory) == (600, 800_000)


@pytest.mark.parametrize(
    ("key", "text", "field", "value"),
    [
        ("cpu", "250m", "millicpu", 250),
        ("memory", "128Mi", "memory", 128 * 2**20),
        ("net_rx", "5M", "rx", 5_000_000),
        ("net_tx", "1Ki", "tx", 1024),
        ("run_seconds", "0.5", "run_s", 0.5),
        ("start_seconds", "7", "start_s", 7.0),
        ("stop_seconds", "0", "stop_s", 0.0),
        ("exit_code", "137", "exit_code", 137),
    ],
)
def test_each_annotation_sets_its_behaviour(key: str, text: str, field: str, value: float) -> None:
    found = read_behaviour(annotated(key, text), {})
    assert getattr(found, field) == value
    assert found.problems == ()


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("cpu", "-1"),
        ("cpu", "1e999999"),
        ("memory", "lots"),
        ("net_rx", ""),
        ("run_seconds", "nan"),
        ("run_seconds", "inf"),
        ("start_seconds", "-1"),
        ("exit_code", "256"),
        ("exit_code", "²"),
        ("exit_code", "1.5"),
    ],
)
def test_a_bad_annotation_is_a_named_problem_and_changes_nothing(key: str, text: str) -> None:
    found = read_behaviour(annotated(key, text), {})
    (problem,) = found.problems
    assert key.replace("_", "-") in problem
    assert replace(found, problems=()) == read_behaviour(pod(), {})
