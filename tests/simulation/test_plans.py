"""The enumerated plans: how many there are, and that each workload comes to its end where nothing goes wrong."""

import pytest

from tests.simulation.plans import FAULTS, Effect, Plan, Ran, compare, enumerated, run
from tests.simulation.workloads import WORKLOADS

pytestmark = pytest.mark.patient

KINDS = {"claim", "create", "bind", "bind-proxy", "mirror", "report", "delete", "let-go"}


@pytest.fixture(scope="module")
def reference() -> dict[str, Ran]:
    return enumerated()[1]


def test_there_are_more_than_1200_plans_with_every_kind_of_write(reference: dict[str, Ran]) -> None:
    effects = [effect for ran in reference.values() for effect in ran.effects]
    assert {effect.kind for effect in effects} == KINDS
    assert len(effects) * len(FAULTS) > 1200


@pytest.mark.parametrize("workload", WORKLOADS)
def test_a_workload_comes_to_its_end_where_nothing_goes_wrong(workload: str, reference: dict[str, Ran]) -> None:
    assert not reference[workload].violations
    assert not [end for end in reference[workload].end.values() if "Running x1" not in end and "Succeeded" not in end]


@pytest.mark.parametrize("fault", FAULTS)
def test_a_pod_is_bound_to_its_proxy_once_whatever_goes_wrong(fault: str, reference: dict[str, Ran]) -> None:
    ran = run(Plan("away", Effect("north", "bind-proxy", 1), fault))
    assert not compare(ran, reference["away"])


def test_a_plan_that_comes_to_another_end_is_told_of(reference: dict[str, Ran]) -> None:
    other = reference["deleted"]
    assert [found.judge for found in compare(other, reference["away"])] == ["SameEnd", "SameEffects"]
