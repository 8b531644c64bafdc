"""Hot nodes: hysteresis by the mean, never for longer than readings are believed, never most of a cluster."""

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dispatcher.scheduling.fleet.fleet import FleetState
from dispatcher.scheduling.framework.derived import Derived, HotRule
from tests.builders import fleet, node, reading

RULE = HotRule("cpu", 0.8, 0.6, 100.0, 0.5)
LONG_S = 30_000.0  # after which a mean is the last reading


def watched(*rules: HotRule, **nodes: Sequence[object]) -> FleetState:
    state = fleet(**(nodes or {"a": ["n1", "n2", "n3", "n4"]}))  # type: ignore[arg-type]
    state.derive(Derived(hot=rules or (RULE,)))
    return state


def read(state: FleetState, name: str, cpu: float, after: float = LONG_S, cluster: str = "a") -> bool:
    """Whether any node is hot no more."""
    state.now += after
    state.put_reading(cluster, reading(name, cpu=cpu))
    return state.update_hot()


def hot(state: FleetState, rule: HotRule = RULE) -> set[str]:
    return {state.name_of(row)[1] for row in np.flatnonzero(state.signals.hot(rule)).tolist()}


def test_between_the_two_shares_a_node_stays_what_it_was() -> None:
    state, seen = watched(), []
    for cpu in (0.79, 0.8, 0.7, 0.61, 0.6, 0.7, 0.79, 0.9):
        cooled = read(state, "n1", cpu)
        seen.append((cpu, bool(hot(state)), cooled))
    assert seen == [
        (0.79, False, False),
        (0.8, True, False),
        (0.7, True, False),
        (0.61, True, False),
        (0.6, False, True),
        (0.7, False, False),
        (0.79, False, False),
        (0.9, True, False),
    ]


def test_a_short_peak_makes_no_node_hot_and_a_short_pause_cools_none() -> None:
    state = watched()
    read(state, "n1", 0.3)
    read(state, "n1", 1.0, after=15.0)
    assert hot(state) == set()
    read(state, "n1", 0.9)
    read(state, "n1", 0.2, after=15.0)
    assert hot(state) == {"n1"}


def test_a_reading_that_has_fallen_makes_no_node_hot_though_the_mean_is_high() -> None:
    state = watched()
    read(state, "n1", 0.9)
    state.derive(Derived(), only=True)
    read(state, "n1", 0.5, after=15.0)
    state.derive(Derived(hot=(RULE,)))
    assert (hot(state), state.signals.mean("cpu")[0] > 0.8) == (set(), True)


def test_what_is_stale_is_not_hot() -> None:
    state = watched()
    read(state, "n1", 0.9)
    state.now += 99.0
    assert (state.update_hot(), hot(state)) == (False, {"n1"})
    state.now += 1.0
    assert (state.update_hot(), hot(state)) == (True, set())
    assert read(state, "n1", 0.7) is False
    assert hot(state) == set()  # nor is it again by what it was


def test_while_most_nodes_of_a_cluster_are_hot_none_of_them_is_shown_so() -> None:
    state = watched(a=["n1", "n2", "n3", "n4"], b=["m1"])
    for name in ("n1", "n2"):
        read(state, name, 0.9, after=0.0)
    assert hot(state) == {"n1", "n2"}
    assert read(state, "n3", 0.9, after=0.0) is True
    assert hot(state) == set()
    assert read(state, "n3", 0.0) is False
    for name in ("n1", "n2"):
        read(state, name, 0.9, after=0.0)
    read(state, "m1", 0.9, after=0.0, cluster="b")  # its only node
    assert hot(state) == {"n1", "n2"}


def test_nodes_that_take_no_pods_do_not_count_among_a_cluster_s() -> None:
    state = watched(a=["n1", "n2", node("n3").cordoned(), node("n4").ready(False)])
    for name in ("n3", "n4", "n1"):
        read(state, name, 0.9, after=0.0)
    assert hot(state) == {"n1", "n3", "n4"}
    read(state, "n2", 0.9, after=0.0)
    assert hot(state) == set()


def test_rules_that_stay_keep_what_they_found_when_others_come_or_go() -> None:
    other = HotRule("memory", 0.8, 0.6, 100.0, 0.5)
    state = watched()
    read(state, "n1", 0.9)
    read(state, "n1", 0.7)
    state.derive(Derived(hot=(other,)))
    state.derive(Derived(hot=(other, RULE)), only=True)
    assert (hot(state), hot(state, other)) == ({"n1"}, set())
    state.derive(Derived(), only=True)
    assert (hot(state), len(state.hot_since)) == (set(), 0)


def test_rows_are_told_anew_only_where_a_node_turned_hot_or_cool() -> None:
    state = watched()
    read(state, "n1", 0.9)
    position = state.loads.position
    state.update_hot()
    assert state.loads.position == position
    state.now += 100.0
    state.update_hot()
    assert state.loads.since(position).tolist() == [0]  # type: ignore[union-attr]


def test_a_node_that_comes_back_is_not_hot() -> None:
    state = watched()
    read(state, "n1", 0.9)
    built = state.node(0)
    assert built is not None
    state.remove_node("a", "n1")
    state.put_node("a", built)
    assert hot(state) == set()
    state.update_hot()
    assert hot(state) == set()


@given(
    st.lists(
        st.tuples(st.floats(0, 1, width=32), st.floats(0, 400), st.booleans()),
        max_size=30,
    )
)
def test_what_is_hot_is_what_one_node_looked_at_alone_would_be(steps: list[tuple[float, float, bool]]) -> None:
    state, is_hot, sampled_at = watched(), False, -np.inf
    for share, seconds, told in steps:
        state.now += seconds
        if told:
            state.put_reading("a", reading("n1", cpu=share))
            sampled_at = state.now
        state.update_hot()
        mean, used = state.signals.mean("cpu")[0], state.signals.used("cpu")[0]
        if state.now - sampled_at >= RULE.stale_s:
            is_hot = False
        elif mean >= RULE.enter and used >= RULE.enter:
            is_hot = True
        elif mean <= RULE.leave:
            is_hot = False
        assert hot(state) == ({"n1"} if is_hot else set())


@pytest.mark.parametrize("count", [31, 40])
def test_more_rules_than_a_mask_has_bits_are_left_out(count: int) -> None:
    rules = [HotRule("cpu", 0.8, at / 100, 100.0, 0.5) for at in range(count)]
    state = watched(*rules)
    read(state, "n1", 0.9)
    assert [bool(hot(state, rule)) for rule in rules] == [at < 31 for at in range(count)]
