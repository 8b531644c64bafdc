"""Tenants with endless demand share by weight while pods end and come; what one leaves is lent, and comes back."""

import pytest

from benchmarks.tenant_shares import GRACE_S, WEIGHTS, Loop, Window, jain, lend, steady


@pytest.mark.parametrize(("amounts", "index"), [([2, 2, 2], 1.0), ([6, 0, 0], 1 / 3), ([1, 2, 3], 36 / 42)])
def test_jains_index_is_one_for_equal_amounts_and_falls_to_a_part_of_one(amounts: list[float], index: float) -> None:
    assert jain(amounts) == pytest.approx(index)


def test_a_window_says_how_far_the_worst_share_is_from_its_due() -> None:
    window = Window({"red": 5000, "green": 3000, "blue": 1000}, 10_000)
    assert window.furthest == pytest.approx(4 / 9), "blue has a ninth, and is due a fifth"
    assert window.busy == 0.9


def test_with_weights_5_3_2_and_endless_demand_shares_are_within_two_percent() -> None:
    (window,) = steady(Loop(1, given=False), 1, 20, 20)
    assert window.furthest <= 0.02
    assert window.jain >= 0.99
    assert window.busy >= 0.99
    assert set(window.used) == set(WEIGHTS)


def test_idle_quota_is_lent_within_a_second_and_comes_back_within_the_grace_and_some_seconds() -> None:
    """By evictions alone: 16 pods are looked at a second, and of evictions 50 go at once, then one a second."""
    found = lend(Loop(0, 24, given=True, step_s=0.1), 10)
    assert found.lent_s <= 1
    assert found.evicted > 0
    assert found.back_s <= GRACE_S + max(0, found.evicted - 50) + 10
