import math
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.observer.peer_links import KEPT, PeerLink, Trip
from shared.messages import LinkReading


def after(trips: Iterable[Trip], every: float = 10.0, later: float = 0.0) -> LinkReading | None:
    link, now = PeerLink(), 0.0
    for trip in trips:
        now += every
        link.took(trip, now)
    return link.reading("b", now + later)


def told(trips: Iterable[Trip], later: float = 0.0) -> LinkReading:
    found = after(trips, later=later)
    assert found is not None
    return found


def test_the_median_connect_counts_and_one_slow_one_does_not() -> None:
    found = told([Trip(0.040, 0.042), Trip(0.041, 0.043), Trip(0.300, 0.045), Trip(0.040, 0.042), Trip(0.042, 0.050)])
    assert (found.cluster, found.loss) == ("b", 0.0)
    assert found.rtt_ms == pytest.approx(41.0)


def test_what_the_kernel_measured_counts_where_it_tells() -> None:
    assert told([Trip(0.055, 0.060, 0.040)] * 3).rtt_ms == pytest.approx(40.0)


def test_something_nearer_that_accepts_connections_does_not_make_a_cluster_near() -> None:
    found = told([Trip(0.0004, 0.081), Trip(0.0005, 0.084), Trip(0.0004, 0.2)])
    assert found.rtt_ms == pytest.approx(81.0)


def test_a_busy_agent_that_echoes_late_now_and_then_is_no_further_away() -> None:
    assert told([Trip(0.020, 0.021), Trip(0.020, 0.150), Trip(0.020, 0.090)]).rtt_ms == pytest.approx(20.0)


def test_jitter_is_the_mean_difference_of_one_round_trip_and_the_next() -> None:
    found = told([Trip(0.040, 0.04), Trip(0.050, 0.05), Trip(0.045, 0.05)])
    assert found.jitter_ms == pytest.approx(7.5)


def test_packets_that_were_sent_again_are_lost_ones() -> None:
    trips = [Trip(0.040, 0.041)] * 6 + [Trip(1.041, 0.041), Trip(0.040, 0.260), Trip(None, None), Trip(0.04, None)]
    found = told(trips)
    assert found.rtt_ms == pytest.approx(40.0)
    assert found.loss == pytest.approx(4 / 19)  # of the probe that connected to nobody, nothing was to be echoed


def test_it_ages_from_the_last_probe_that_came_back() -> None:
    assert told([Trip(0.04, 0.04)], later=7.0).age_s == 7.0
    assert told([Trip(0.04, 0.04), Trip(), Trip(0.04, None)], later=1.0).age_s == 21.0


def test_without_an_echo_nothing_is_known() -> None:
    assert after([]) is None
    assert after([Trip(0.04, None)] * 3) is None
    assert after([Trip(0.04, 0.04)] + [Trip()] * KEPT) is None


seconds = st.one_of(st.none(), st.floats(1e-6, 5.0))


@given(trips=st.lists(st.builds(Trip, seconds, seconds, seconds), max_size=40))
def test_whatever_comes_back_is_a_number_that_the_dispatcher_takes(trips: list[Trip]) -> None:
    found = after(trips)
    if found is not None:
        assert 0 < found.rtt_ms <= 5000 * (1 + 1e-9)
        assert 0 <= found.loss < 1
        assert math.isfinite(found.jitter_ms)
        assert found.age_s >= 0
