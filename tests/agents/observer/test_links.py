"""What counts as a full network where nobody wrote down the bandwidth."""

from math import inf, nan

import pytest

from agents.observer.changes import ChangeLog
from agents.observer.links import FLOOR, HALF_LIFE_S, MAX_CARRIED, WARM_S, Links
from agents.observer.loads import Loads, Measure, Sample
from agents.observer.seen import NodeTarget

A, B, OTHER = (NodeTarget(name, kind=kind) for name, kind in (("a", "m5"), ("b", "m5"), ("c", "c6")))
BUSY = 8 * FLOOR


def steady(links: Links, target: NodeTarget, rate: float, at: float = 0.0) -> None:
    """Three samples in a row."""
    for step in range(3):
        links.carries(target, rate, at + step)


def test_a_bandwidth_that_is_written_down_goes_before_all_else() -> None:
    links = Links()
    links.speed("a", 1e9)
    assert links.full(NodeTarget("a", bandwidth=7), 0.0) == 7


def test_a_link_speed_that_a_source_tells_goes_before_what_was_carried() -> None:
    links = Links()
    steady(links, A, BUSY)
    links.speed("a", 1.25e9)
    assert links.full(A, WARM_S) == 1.25e9
    assert links.full(B, WARM_S) == pytest.approx(BUSY, rel=0.01)


@pytest.mark.parametrize("speed", [0.0, -125_000.0, nan, inf, 1e15])
def test_a_link_speed_that_cannot_be_is_none(speed: float) -> None:
    links = Links()
    links.speed("a", speed)
    assert links.full(A, 0.0) == FLOOR


def test_what_a_kind_has_carried_is_full_for_each_of_it_and_for_no_other() -> None:
    links = Links()
    steady(links, A, BUSY)
    steady(links, A, FLOOR / 10, at=10.0)
    links.carries(OTHER, 1.0, 0.0)
    assert links.full(B, WARM_S) == pytest.approx(BUSY, rel=0.01)
    assert links.full(OTHER, WARM_S) == FLOOR


def test_nodes_without_an_instance_type_are_of_a_kind_by_cpu_and_memory() -> None:
    links = Links()
    steady(links, NodeTarget("a", cpu=4000, memory=8), BUSY)
    assert links.full(NodeTarget("b", cpu=4000, memory=8), WARM_S) == pytest.approx(BUSY, rel=0.01)
    larger = NodeTarget("c", cpu=8000, memory=8)
    links.carries(larger, 1.0, 0.0)
    assert links.full(larger, WARM_S) == FLOOR


def test_until_a_kind_was_watched_for_a_while_the_busiest_node_is_the_measure() -> None:
    links = Links()
    links.carries(A, 1.0, 0.0)
    links.carries(OTHER, BUSY, 0.0)
    assert links.full(A, 1.0) == BUSY
    links.carries(OTHER, 2 * FLOOR, 2.0)
    assert links.full(A, 3.0) == 2 * FLOOR
    links.forget("c")
    assert links.full(A, 3.0) == FLOOR


def test_one_wrong_counter_makes_nobody_look_idle_for_a_day() -> None:
    links = Links()
    for at, rate in enumerate((BUSY, BUSY, BUSY, 1e11, BUSY)):
        links.carries(A, rate, float(at))
    links.carries(A, MAX_CARRIED * 2, 9.0)
    assert links.full(A, WARM_S) == pytest.approx(BUSY, rel=0.01)


def test_what_was_carried_long_ago_counts_less_and_less() -> None:
    links = Links()
    steady(links, A, BUSY)
    assert links.full(A, 2.0 + HALF_LIFE_S) == BUSY / 2
    assert links.full(A, 100 * HALF_LIFE_S) == FLOOR


def test_a_busy_node_without_a_bandwidth_reads_busier_than_an_idle_one() -> None:
    loads = Loads(ChangeLog(), tau_s=0)
    for at in (0.0, 10.0):
        for target, rate in ((A, BUSY), (B, BUSY / 4)):
            measure = Measure(rate * at, at, counter=True)
            loads.add(target, Sample("kubelet", {"network_receive": measure}), at)
    shares = [reading.net for name in ("a", "b") if (reading := loads.reading(name, 10.0)) is not None]
    assert shares == [1.0, 0.25]
