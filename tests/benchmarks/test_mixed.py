"""Mixed work at a size of a few seconds: the generator is what its arguments say, and every row is measured."""

import itertools
from collections import Counter
from dataclasses import replace

import pytest

from benchmarks.mixed.case import mixed_full_queue, mixed_preemption, mixed_records, mixed_refusals
from benchmarks.mixed.measures import bound_rate
from benchmarks.mixed.stage import Stage
from benchmarks.workloads.mixed import Mix

SMALL = Mix(nodes=40, pods=120, classes=6, tenants=3)


def test_the_same_arguments_are_the_same_work_and_another_seed_is_another_order() -> None:
    assert SMALL.arrivals() == replace(SMALL).arrivals()
    names = [pod.name for pod in SMALL.arrivals()]
    assert names != [pod.name for pod in replace(SMALL, seed=2).arrivals()]


def test_templates_come_in_turn_or_one_after_the_other() -> None:
    def kinds(mix: Mix) -> list[str]:
        return [pod.labels["app"] for pod in mix.arrivals()]

    mixed, sorted_ = kinds(SMALL), kinds(replace(SMALL, interleaved=False))
    assert Counter(mixed) == Counter(sorted_) == Counter({f"app-{kind}": 20 for kind in range(6)})
    assert sum(one != other for one, other in itertools.pairwise(mixed)) > 60
    assert sum(one != other for one, other in itertools.pairwise(sorted_)) == 5


def test_no_two_templates_are_of_one_class_and_tenants_own_their_namespaces() -> None:
    pods = SMALL.arrivals()
    assert len({tuple(sorted(pod.requests.items())) for pod in pods}) == 6
    owners = SMALL.owners()
    assert all(sum(owner.owns("c000", pod.namespace) for owner in owners) == 1 for pod in pods)


@pytest.mark.parametrize(
    "mix",
    [
        pytest.param(SMALL, id="classes and tenants"),
        pytest.param(replace(SMALL, readings=50, churn=20), id="readings and churn"),
        pytest.param(replace(SMALL, classes=1, tenants=0, cpu=50, memory=2**26), id="small pods"),
        pytest.param(replace(SMALL, anti_affinity=50, soft_spread=50), id="rules about other pods"),
    ],
)
def test_all_pods_of_a_mix_are_bound(mix: Mix) -> None:
    assert bound_rate(mix) > 0


def test_as_many_pods_end_where_few_are_bound_at_a_time() -> None:
    stage = Stage(replace(SMALL, churn=10))
    for pod in stage.mix.arrivals():
        stage.arrive([pod])
        stage.step()
    assert len(stage.bound) == 120 - 12


def test_every_decision_is_recorded() -> None:
    assert bound_rate(SMALL, recorded=True) > 0
    assert [row.unit for row in mixed_records(200)] == ["us"]


def test_pods_that_fit_nowhere_are_told_once() -> None:
    stage = Stage(replace(SMALL, cpu=64_000))
    stage.arrive(stage.mix.arrivals())
    for _ in range(5):
        stage.step()
    assert (stage.told, len(stage.bound)) == (120, 0)
    assert all(row.value > 0 for row in mixed_refusals(300))


def test_the_room_of_pods_that_end_is_taken_by_pods_that_wait() -> None:
    rows = mixed_full_queue(100)
    assert [row.unit for row in rows] == ["ms", "ms"]
    assert all(row.value > 0 for row in rows)


def test_a_preemptor_finds_victims_beside_budgets() -> None:
    rows = mixed_preemption(50)
    assert [row.name for row in rows] == [f"mixed_preemption_{budgets}_budgets" for budgets in (0, 20, 200)]
    assert all(row.value > 0 for row in rows)
