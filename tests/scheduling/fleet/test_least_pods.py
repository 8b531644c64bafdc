"""What the least important pods of each row come to, kept up to date as pods come, start and go."""

import msgspec
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from dispatcher.scheduling.fleet.fleet import FleetState
from dispatcher.scheduling.fleet.least_pods import LeastPods
from dispatcher.scheduling.framework import PodInfo
from tests.builders import fleet, node, pod

NODES = ("n0", "n1", "n2")
PODS = st.tuples(
    st.integers(0, 5), st.sampled_from(NODES), st.sampled_from((-5, 0, 7)), st.sampled_from((0.0, 3.0, 9.0))
)


def put(state: FleetState, number: int, where: str, priority: int, started: float) -> None:
    built = pod(f"p{number}").cpu(f"{number + 1}00m").build()
    built = msgspec.structs.replace(built, priority=priority, started=started)
    state.place(("a", built.uid), PodInfo(built, "a"), "a", where, assumed=False)


@settings(max_examples=100, deadline=None)
@given(steps=st.lists(st.lists(PODS | st.integers(0, 5), max_size=4), max_size=6))
def test_what_is_kept_is_what_is_found_anew(steps: list[list[tuple[int, str, int, float] | int]]) -> None:
    """Pods come, move, start, get another priority and go; some rows are looked at again, all agree with all anew."""
    state = fleet(a=[node(name).cpu(4) for name in NODES])
    kept = LeastPods(state)
    for step in steps:
        for one in step:
            if isinstance(one, int):
                state.remove(("a", f"uid-p{one}"))
            else:
                put(state, *one)
        kept.refresh()
        anew = LeastPods(state).refresh()
        assert np.array_equal(kept.priority, anew.priority)
        assert np.array_equal(kept.starts, anew.starts)
        assert np.array_equal(kept.second, anew.second)
        assert np.array_equal(kept.largest, anew.largest)
        assert np.array_equal(kept.total, anew.total)


def test_a_pod_that_starts_changes_no_room_and_yet_counts() -> None:
    state = fleet(a=[node("n0").cpu(4)])
    put(state, 0, "n0", 0, 0.0)
    kept = LeastPods(state).refresh()
    assert kept.starts[0, 0] == np.inf
    put(state, 0, "n0", 0, 9.0)
    assert kept.refresh().starts[0].tolist() == [9.0] + [0.0] * 7


def test_the_second_least_priority_may_be_just_above_the_least() -> None:
    state = fleet(a=[node("n0").cpu(4)])
    for number, priority in enumerate((9, 4, 3)):
        put(state, number, "n0", priority, 0.0)
    kept = LeastPods(state).refresh()
    assert (kept.priority[0], kept.second[0]) == (3, 4)


def test_nodes_that_come_later_are_known_too() -> None:
    state = fleet(a=[node("n0").cpu(4)])
    kept = LeastPods(state).refresh()
    for number in range(1, 40):
        state.put_node("a", node(f"n{number}").cpu(4).build())
        put(state, number, f"n{number}", number, 0.0)
        assert kept.refresh().priority[: state.n].tolist()[1:] == [*range(1, number + 1)]
