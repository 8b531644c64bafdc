import math

import pytest

from tests.builders import fleet, node, pod, put
from tests.plugins.asking import make, scores

GPU = "nvidia.com/gpu"


@pytest.mark.parametrize(
    ("cpu", "memory", "want"),
    [("2", 5000, 100.0), ("3", 5000, 87.5), ("4", 0, 50.0), ("8", 5000, 75.0)],
    ids=["even", "a quarter apart", "one full, one idle", "over-full counts as full"],
)
def test_balanced_allocation_scores_by_the_standard_deviation(cpu: str, memory: int, want: float) -> None:
    state = fleet(a=[node("n").cpu(4).memory(10_000)])
    assert scores(make("NodeResourcesBalancedAllocation"), pod().cpu(cpu).memory(memory), state) == {"n": want}


def test_balanced_allocation_takes_in_what_is_there_and_nothing_for_pods_without_requests() -> None:
    state = fleet(a=[node("n").cpu(4).memory(10_000)])
    put(state, pod("t").cpu(1), "a", "n")
    put(state, "nothing", "a", "n")
    assert scores(make("NodeResourcesBalancedAllocation"), pod().memory(2500), state) == {"n": 100}


def test_balanced_allocation_of_three_resources() -> None:
    state = fleet(a=[node("gpu").cpu(4).memory(8000).resource(GPU, 2), node("plain").cpu(4).memory(8000)])
    plugin = make("NodeResourcesBalancedAllocation", resources=["cpu", "memory", GPU])
    shares = (0.25, 0.5, 1.0)
    mean = sum(shares) / 3
    want = 100 * (1 - math.sqrt(sum((share - mean) ** 2 for share in shares) / 3))
    found = scores(plugin, pod().cpu(1).memory(4000).request(GPU, 2), state)
    assert found == {"gpu": pytest.approx(want, abs=1e-3), "plain": 87.5}


def test_balanced_allocation_does_not_judge_pods_that_request_nothing() -> None:
    assert scores(make("NodeResourcesBalancedAllocation"), pod(), fleet(a=["n1"])) == {}
