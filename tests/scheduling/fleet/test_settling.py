"""Means of readings, and what of placed pods they do not hold yet: always what a count from scratch says."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dispatcher.scheduling.fleet.fleet import FleetState
from dispatcher.scheduling.fleet.readings import MEAN_S, START_S, left_to_settle
from dispatcher.scheduling.rules.requests import nonzero_request
from shared.model.resources import MAX_QUANTITY
from tests.builders import fleet, node, pod, put, reading

samples = st.lists(st.tuples(st.floats(0.1, 900), st.floats(0, 1, width=32)), min_size=1, max_size=20)


@given(samples)
def test_the_mean_is_that_of_all_samples_weighted_by_time(told: list[tuple[float, float]]) -> None:
    state = fleet(a=["n1"])
    shares, since = [], 0.0
    for seconds, share in told:
        state.now += seconds
        state.put_reading("a", reading("n1", cpu=share))
        shares.append((state.now, share))
    first, want = shares[0][0], 0.0
    for at, (time, share) in enumerate(shares):
        begin = 0.0 if at == 0 else math.exp((shares[at - 1][0] - state.now) / MEAN_S)
        want += share * (math.exp((time - state.now) / MEAN_S) - begin)
        since = time - first
    assert state.signals.mean("cpu")[0] == pytest.approx(want, abs=1e-5), since
    assert min(share for _, share in shares) - 1e-6 <= state.signals.mean("cpu")[0]


def test_the_mean_of_a_signal_that_was_never_told_is_unknown() -> None:
    state = fleet(a=["n1"])
    state.put_reading("a", reading("n1", cpu=0.5))
    assert np.isnan(state.signals.mean("memory")[0])
    assert np.isnan(state.signals.mean("rumour")[0])
    assert state.signals.usual("rumour").tolist() == [1.0]


def test_an_older_sample_does_not_move_the_mean() -> None:
    state = fleet(a=["n1"])
    state.put_reading("a", reading("n1", cpu=0.5))
    state.put_reading("a", reading("n1", cpu=0.1, age=30))
    assert state.signals.mean("cpu")[0] == 0.5


@pytest.mark.parametrize(
    ("after", "left"),
    [(-math.inf, 1.0), (0.0, 1.0), (START_S, 1.0), (START_S + MEAN_S, math.exp(-1)), (START_S + 5 * MEAN_S, 0.0)],
)
def test_a_pod_settles_as_the_mean_takes_it_in(after: float, left: float) -> None:
    assert left_to_settle(100.0, 100.0 + after) == pytest.approx(left)


@given(at=st.floats(0, 5000), load=st.floats(0, 1))
def test_mean_and_what_is_left_to_settle_are_the_pod_together(at: float, load: float) -> None:
    """A pod that uses what it requests from START_S on counts exactly once at any time."""
    state = fleet(a=[node("n1").cpu(1000)])
    state.put_reading("a", reading("n1", cpu=0.0))
    request = int(load * 1_000_000)
    state.place(("a", "u"), pod().cpu(f"{request}m").placed(), "a", "n1", assumed=True)
    state.now += START_S
    state.put_reading("a", reading("n1", cpu=0.0))
    state.now += at
    state.put_reading("a", reading("n1", cpu=load))
    found = float(state.signals.mean("cpu")[0]) + state.settling[0, 0] / 1_000_000
    assert found == pytest.approx(load, abs=1e-4 + load / 32)


events = st.lists(
    st.one_of(
        st.tuples(st.just("place"), st.integers(0, 5), st.integers(0, 9), st.booleans(), st.booleans()),
        st.tuples(st.just("remove"), st.integers(0, 5)),
        st.tuples(st.just("read"), st.floats(0, 120), st.sampled_from(("cpu", "memory", "both"))),
        st.tuples(st.just("later"), st.floats(0, 400)),
        st.tuples(st.just("gone")),
        st.tuples(st.just("back")),
    ),
    max_size=40,
)


@settings(max_examples=200)
@given(events)
def test_what_settles_is_the_sum_over_pods_whatever_happens(script: list[tuple]) -> None:  # type: ignore[type-arg]
    state = fleet(a=["n1"])
    for event in script:
        apply(state, event)
        row = state.row_of("a", "n1")
        if row is None:
            continue
        want = np.zeros(2, dtype=np.int64)
        for one in state.occupants_on("a", "n1"):
            asked = nonzero_request(one.pod_info.pod)
            left = [left_to_settle(one.placed_at, at) for at in state.used_at[:2, row].tolist()]
            want += [int(amount * part) if one.settles else 0 for amount, part in zip(asked, left, strict=True)]
        assert state.settling[:, row].tolist() == want.tolist()


def apply(state: FleetState, event: tuple) -> None:  # type: ignore[type-arg]
    if event[0] == "place":
        _, number, cpu, assumed, runs = event
        one = pod(f"p{number}").cpu(cpu).memory("1Gi").on("n1", "Running" if runs else "Pending")
        state.place(("a", f"p{number}"), one.placed(), "a", "n1", assumed=assumed)
    elif event[0] == "remove":
        state.remove(("a", f"p{event[1]}"))
    elif event[0] == "read":
        shares = {"cpu": 0.5, "memory": 0.5}
        told = shares if event[2] == "both" else {event[2]: 0.5}
        state.put_reading("a", reading("n1", age=event[1], **told))
    elif event[0] == "later":
        state.now += event[1]
    elif event[0] == "gone":
        state.remove_node("a", "n1")
    else:
        state.put_node("a", node("n1").build())


def test_without_pods_nothing_settles_and_huge_requests_are_exact() -> None:
    state = fleet(a=["n1"])
    for at in range(3):
        one = pod(f"p{at}").request("memory", MAX_QUANTITY).placed()
        state.place(("a", f"p{at}"), one, "a", "n1", assumed=True)
    for at in range(3):
        state.remove(("a", f"p{at}"))
    assert state.settling[:, 0].tolist() == [0, 0]


def test_what_is_used_of_requests_is_learnt_once_a_minute_and_told_to_new_nodes() -> None:
    state = fleet(a=[node("n1").cpu(10)])
    put(state, pod("t").cpu(5).on("n1"), "a", "n1")
    state.put_reading("a", reading("n1", cpu=0.25))
    state.learn_usual()
    assert state.signals.usual("cpu").tolist() == [0.5]
    state.put_node("a", node("n2").build())
    state.put_nodes("a", [node(name).build() for name in ("n3", "n4")])
    assert state.signals.usual("cpu").tolist() == [0.5] * 4
    state.now += 30
    state.put_reading("a", reading("n1", cpu=1.0))
    position = state.loads.position
    state.learn_usual()
    assert state.signals.usual("cpu").tolist() == [0.5] * 4
    state.now += 30
    state.learn_usual()
    assert state.signals.usual("cpu")[0] > 0.5
    touched = state.loads.since(position)
    assert touched is not None
    assert touched.tolist() == [0, 1, 2, 3], "all rows are judged anew"


def test_nothing_is_learnt_of_pods_that_have_just_come() -> None:
    state = fleet(a=[node("n1").cpu(10)])
    state.put_reading("a", reading("n1", cpu=0.0))
    state.place(("a", "u"), pod().cpu(8).placed(), "a", "n1", assumed=True)
    state.learn_usual()
    assert state.signals.usual("cpu").tolist() == [1.0]


def test_nothing_is_kept_of_pods_that_have_settled_but_what_all_share() -> None:
    state = fleet(a=["n1"])
    for number in range(2):
        put(state, pod(f"p{number}").cpu(1), "a", "n1")
    state.now += 10 * MEAN_S
    state.put_reading("a", reading("n1", cpu=0.5, memory=0.5))
    seats = list(state.occupants())
    assert [one.settling for one in seats] == [(0, 0)] * 2
    assert seats[0].settling is seats[1].settling
    assert not state._awaited.by_row
