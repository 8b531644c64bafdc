"""Disruption budgets: how many pods may be disturbed, and that eviction spends it."""

import pytest

from localfleet.embedded.controllers.budget import budget_status
from tests.embedded.simulated import START, Object

BUDGETS = "poddisruptionbudgets.policy"


def ready_pod(name: str, *, ready: bool = True) -> Object:
    return {"metadata": {"name": name}, "status": {"conditions": [{"type": "Ready", "status": str(ready)}]}}


@pytest.mark.parametrize(
    ("spec", "ready", "expected", "allowed"),
    [
        ({"minAvailable": 2}, 3, 3, 1),
        ({"minAvailable": 3}, 3, 3, 0),
        ({"minAvailable": "50%"}, 3, 3, 1),
        ({"maxUnavailable": 1}, 3, 3, 1),
        ({"maxUnavailable": 1}, 2, 3, 0),
        ({"maxUnavailable": "34%"}, 3, 3, 2),
        ({"maxUnavailable": "50%"}, 3, 3, 2),
        ({"minAvailable": 0}, 0, 0, 0),
    ],
)
def test_allowed_disruptions_follow_the_budget(spec: Object, ready: int, expected: int, allowed: int) -> None:
    pods = [ready_pod(f"r{n}") for n in range(ready)]
    pods += [ready_pod(f"u{n}", ready=False) for n in range(expected - ready)]
    status = budget_status({"metadata": {"generation": 4}, "spec": spec}, pods, expected, START)
    assert status["disruptionsAllowed"] == allowed
    assert status["currentHealthy"] == ready
    assert status["observedGeneration"] == 4


def test_an_eviction_on_its_way_is_not_healthy_until_it_is_forgotten() -> None:
    budget = {
        "metadata": {"generation": 1},
        "spec": {"minAvailable": 1},
        "status": {"disruptedPods": {"p": "2023-11-14T22:13:20Z", "gone": "2023-11-14T22:13:20Z"}},
    }
    pods = [ready_pod("p"), ready_pod("q")]
    soon = budget_status(budget, pods, 2, START + 10)
    assert (soon["disruptionsAllowed"], list(soon["disruptedPods"])) == (0, ["p"])
    assert budget_status(budget, pods, 2, START + 200)["disruptionsAllowed"] == 1
