"""How long a round of decisions goes on."""

import pytest

from dispatcher.service.timing import Budget, Round, Slice


@pytest.mark.parametrize(
    ("ended", "told"),
    [
        ([0.01, 0.02, 0.03], [False, False, False]),
        ([0.03], [True]),  # a second one like it would end at 0.06
        ([0.01, 0.04], [False, True]),
        ([0.03, 0.031], [True, False]),
        ([0.07], [True]),
    ],
    ids=["small classes", "one of more than half", "a larger one", "a small one after it", "one of more than all"],
)
def test_a_slice_of_50_ms_ends_before_a_class_like_the_last_would_pass_its_end(
    ended: list[float], told: list[bool]
) -> None:
    times = iter([0.0, *ended])
    enough = Slice(0.05, lambda: next(times))
    assert [enough() for _ in ended] == told


def test_rounds_that_many_small_classes_ended_leave_the_budget_as_it_is() -> None:
    budget = Budget(0.05)
    budget.learn(4, 4, 0.02, more=False)
    for _ in range(20):
        budget.learn(256, 10, 0.04, more=True)
    assert budget.pods == 256


def test_rounds_that_decide_all_that_they_may_in_half_a_slice_double_the_budget() -> None:
    budget, found = Budget(0.05), []
    for _ in range(8):
        budget.learn(budget.pods, budget.pods, 0.02, more=True)
        found.append(budget.pods)
    assert found == [512, 1024, 2048, 4096, 8192, 16384, 20000, 20000]


def test_a_budget_is_not_doubled_for_nobody_or_where_twice_as_many_would_take_too_long() -> None:
    budget = Budget(0.05)
    budget.learn(256, 256, 0.02, more=False)
    budget.learn(256, 256, 0.03, more=True)
    assert budget.pods == 256


def test_a_round_that_takes_longer_shrinks_the_budget_to_what_fits() -> None:
    budget = Budget(0.05)
    budget.learn(256, 256, 0.1, more=True)
    assert budget.pods == 128
    budget.learn(128, 128, 1.0, more=True)
    assert budget.pods == 64


def test_what_a_few_decisions_take_is_granted_beyond_the_slice() -> None:
    budget = Budget(0.05)
    budget.learn(4, 4, 0.04, more=False)
    budget.learn(256, 256, 0.09, more=True)
    assert budget.pods == 256


class Clock:
    """CPU seconds, as somebody says."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_what_comes_in_has_half_a_slice_less_what_other_tasks_took_before() -> None:
    clock = Clock()
    one = Round(0.05, clock)
    clock.now = 0.01
    enough, found = one.taking_in(), []
    for clock.now in (0.015, 0.019, 0.023):  # another like the last would end at 0.02, 0.023, 0.027
        found.append(enough())
    assert found == [False, False, True]


def test_decisions_are_due_after_an_eighth_of_a_slice_and_anew_after_they_ended() -> None:
    clock, found = Clock(), []
    one = Round(0.04, clock)
    for clock.now in (0.004, 0.006):
        found.append(one.late)
    one.begin()
    assert [*found, one.late] == [False, True, False]


@pytest.mark.parametrize(("spent", "left"), [(0.01, 0.03), (0.03, 0.02), (1.0, 0.02)])
def test_decisions_have_what_is_left_of_the_slice_and_half_of_it_at_least(spent: float, left: float) -> None:
    clock = Clock()
    one = Round(0.04, clock)
    clock.now = spent
    assert one.deciding().left == pytest.approx(left, abs=0.001)
