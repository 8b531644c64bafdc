"""Rates and readings: from numbers and clocks that are not to be trusted."""

from math import exp, inf, nan

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.observer.changes import ChangeLog
from agents.observer.loads import Loads, Measure, NodeLoad, Sample
from agents.observer.rates import MAX_AHEAD_S, Track
from agents.observer.seen import NodeTarget

TARGET = NodeTarget("n1", cpu=4000, memory=1000, bandwidth=100)


def test_a_counter_gives_a_rate_by_the_samplers_own_clock() -> None:
    track = Track()
    assert not track.counter(100.0, 1000.0, 1.0)
    assert track.counter(150.0, 1010.0, 14.0)
    assert (track.value, track.age(15.0)) == (5.0, 1.0)


def test_the_same_sample_again_is_no_news_and_its_age_goes_on() -> None:
    track = Track()
    track.counter(100.0, 1000.0, 1.0)
    track.counter(150.0, 1010.0, 11.0)
    assert not track.counter(150.0, 1010.0, 21.0)
    assert (track.value, track.age(21.0)) == (5.0, 10.0)


def test_a_counter_that_fell_starts_anew() -> None:
    track = Track()
    for value, time in ((100.0, 0.0), (200.0, 10.0), (30.0, 20.0)):
        track.counter(value, time, time)
    assert track.value == 10.0
    assert track.counter(50.0, 30.0, 30.0)
    assert track.value == 2.0


@pytest.mark.parametrize("step", [-500.0, MAX_AHEAD_S * 100], ids=["back", "far ahead"])
def test_a_clock_that_jumps_costs_one_sample(step: float) -> None:
    track = Track()
    track.counter(0.0, 1000.0, 0.0)
    track.counter(10.0, 1010.0, 10.0)
    assert not track.counter(20.0, 1010.0 + step, 20.0)
    assert track.value == 1.0
    assert track.counter(50.0, 1020.0 + step, 30.0)
    assert track.value == 3.0


@pytest.mark.parametrize("value", [nan, inf, -1.0, 1e19, None])
def test_unbelievable_values_are_left_out(value: float | None) -> None:
    track = Track()
    track.gauge(7.0, 1.0, 1.0)
    assert not track.gauge(value, 2.0, 2.0)
    assert not track.counter(value, 3.0, 3.0)
    assert track.value == 7.0


def test_smoothing_forgets_by_time_and_not_by_count() -> None:
    coarse, fine = Track(tau_s=10), Track(tau_s=10)
    for track, step in ((coarse, 8), (fine, 1)):
        track.gauge(0.0, 0.0, 0.0)
        for at in range(step, 9, step):
            track.gauge(100.0, float(at), float(at))
    assert coarse.value == pytest.approx(100 * (1 - exp(-0.8)))
    assert fine.value == pytest.approx(coarse.value)


NUMBERS = st.floats() | st.integers(-(10**6), 10**6).map(float)


@given(st.lists(st.tuples(NUMBERS, NUMBERS, st.booleans()), max_size=30))
def test_a_track_never_shows_anything_that_is_no_share_of_reality(samples: list[tuple[float, float, bool]]) -> None:
    track = Track(tau_s=5, limit=1e6)
    for now, (value, time, is_counter) in enumerate(samples):
        (track.counter if is_counter else track.gauge)(value, time, float(now))
        assert track.value is None or 0 <= track.value <= 1e6
        assert track.age(float(now)) >= 0


@given(st.lists(st.integers(1, 1000), min_size=2, max_size=20), st.floats(0.1, 50))
def test_a_steady_counter_has_its_own_rate(steps: list[int], rate: float) -> None:
    track, time = Track(tau_s=3), 0.0
    track.counter(0.0, time, time)
    for step in steps:
        time += step
        track.counter(rate * time, time, time)
    assert track.value == pytest.approx(rate)


def sample(at: float, **values: float) -> Sample:
    """A kubelet's sample at one time of its clock."""
    return Sample("kubelet", {name: Measure(value, at) for name, value in values.items()})


def traffic(at: float, *parts: str, **totals: float) -> Sample:
    """A kubelet's byte totals over some interfaces."""
    return Sample("kubelet", {name: Measure(total, at, counter=True, parts=parts) for name, total in totals.items()})


def test_a_reading_is_shares_of_capacity_with_ages() -> None:
    load = NodeLoad(TARGET, tau_s=0)
    for at, values, totals in ((0.0, (1.0, 250.0), (0.0, 0.0)), (10.0, (2.0, 500.0), (100.0, 300.0))):
        measures = sample(at, cpu=values[0], memory=values[1]).measures
        bytes_ = traffic(at, "eth0", network_receive=totals[0], network_transmit=totals[1]).measures
        load.add(Sample("kubelet", {**measures, **bytes_}), now=50.0 + at)
    reading = load.reading(61.0)
    assert (reading.cpu, reading.memory, reading.net) == (0.5, 0.5, 0.3)
    assert (reading.receive_bytes_s, reading.transmit_bytes_s) == (10.0, 30.0)
    assert (reading.cpu_age_s, reading.memory_age_s, reading.net_age_s, reading.source) == (1.0, 1.0, 1.0, "kubelet")


def test_cpu_comes_from_the_counter_where_there_is_no_gauge() -> None:
    load = NodeLoad(TARGET, tau_s=0)
    load.add(Sample("kubelet", {"cpu": Measure(100.0, 0.0, counter=True)}), now=0.0)
    load.add(Sample("kubelet", {"cpu": Measure(110.0, 10.0, counter=True)}), now=10.0)
    assert load.reading(10.0).cpu == 0.25


def test_without_a_rate_the_share_of_the_network_is_unknown() -> None:
    load = NodeLoad(NodeTarget("n1", cpu=1000, memory=1), tau_s=0)
    load.add(traffic(0.0, "eth0", network_receive=5e9), now=0.0)
    assert (load.reading(0.0).net, load.reading(0.0).receive_bytes_s) == (None, None)


def test_without_a_capacity_there_is_no_share() -> None:
    load = NodeLoad(NodeTarget("n1"), tau_s=0)
    load.add(sample(0.0, cpu=1.0, memory=1.0), now=0.0)
    reading = load.reading(0.0)
    assert (reading.cpu, reading.memory) == (None, None)


def test_another_interface_in_the_sum_is_no_burst_of_traffic() -> None:
    load = NodeLoad(TARGET, tau_s=0)
    load.add(traffic(0.0, "eth0", network_receive=0.0), now=0.0)
    load.add(traffic(10.0, "eth0", network_receive=10.0), now=10.0)
    more = traffic(20.0, "eth0", "eth1", network_receive=350.0)
    assert not load.add(more, now=20.0)
    assert load.reading(20.0).receive_bytes_s == 1.0


def test_a_change_of_source_compares_no_clocks() -> None:
    load = NodeLoad(TARGET, tau_s=0)
    load.add(sample(5000.0, cpu=1.0), now=0.0)
    assert load.add(Sample("metrics.k8s.io", {"cpu": Measure(3.0, 7.0)}), now=30.0)
    assert (load.reading(30.0).cpu, load.reading(30.0).source) == (0.75, "metrics.k8s.io")


def test_a_share_is_never_above_one_and_nonsense_is_dropped() -> None:
    load = NodeLoad(TARGET, tau_s=0)
    load.add(sample(0.0, cpu=4.4), now=0.0)
    assert load.reading(0.0).cpu == 1.0
    assert not load.add(sample(10.0, cpu=4000.0), now=10.0)


def test_loads_of_nodes_that_are_gone_are_forgotten() -> None:
    log = ChangeLog()
    loads = Loads(log, tau_s=0)
    loads.add(TARGET, sample(0.0, cpu=1.0), now=0.0)
    loads.keep(["other"])
    assert loads.reading("n1", 0.0) is None
    assert list(log.gone(0)) == [("readings", "n1")]
