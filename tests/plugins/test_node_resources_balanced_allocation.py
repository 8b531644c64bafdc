import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders import NodeBuilder, PodBuilder, fleet, node, pod, put
from tests.plugins.asking import make, raw_scores, scores

GPU = "nvidia.com/gpu"
PLAIN, WITH_GPU = ["cpu", "memory"], ["cpu", "memory", GPU]


def sized(cpu: str, memory: int) -> NodeBuilder:
    return node("n").cpu(cpu).memory(memory)


def asks(cpu: str, memory: int) -> PodBuilder:
    return pod().cpu(cpu).memory(memory)


# Nodes, pods and scores of kube-scheduler's own tests.
@pytest.mark.parametrize(
    ("where", "there", "asking", "resources", "want"),
    [
        (sized("4", 10_000), pod("t"), asks("3", 5000), PLAIN, 68),
        (sized("6", 10_000), pod("t"), asks("3", 5000), PLAIN, 75),
        (sized("10", 20_000), pod("t").cpu(3), asks("3", 5000), PLAIN, 73),
        (sized("10", 20_000), pod("t").cpu(3).memory(5000), asks("3", 5000), PLAIN, 74),
        (sized("10", 50_000), pod("t").cpu(3).memory(5000), asks("3", 5000), PLAIN, 70),
        (sized("3", 5_000), pod("t").cpu(3), pod().memory(5000), PLAIN, 100),
        (sized("3", 5_000), pod("t"), pod().memory(5000), PLAIN, 50),
        (sized("6", 10_000), pod("t").cpu(3), pod().cpu(3), PLAIN, 62),
        (sized("6", 10_000), pod("t").cpu(3).memory(5000), pod().cpu(3), PLAIN, 62),
        (sized("3500m", 40_000).resource(GPU, 8), pod("t").cpu(3).memory(5000).request(GPU, 3), pod().request(GPU, 1),
         WITH_GPU, 75),
        (sized("3500m", 40_000).resource(GPU, 8), pod("t").cpu(3).memory(5000), pod().request(GPU, 1), WITH_GPU, 76),
        (sized("3500m", 40_000).resource(GPU, 8), pod("t"), asks("3", 5000), WITH_GPU, 56),
        (sized("3500m", 40_000), pod("t"), asks("3", 5000), WITH_GPU, 56),
        (sized("3500m", 40_000), pod("t"), asks("3", 5000).request(GPU, 1), WITH_GPU, 56),
        (sized("4", 0), pod("t"), asks("3", 5000), PLAIN, 75),
        (sized("4", 10_000), pod("t").cpu(9).memory(9000), asks("3", 5000), PLAIN, 77),
    ],
    ids=[
        "less even than before", "even", "CPU taken", "both taken", "both taken, more memory", "evened out",
        "as uneven as can be", "at capacity", "at capacity, memory taken", "GPU asked and taken", "GPU asked",
        "GPU not asked", "the node has no GPU", "the node has no GPU that is asked", "one resource is always even",
        "over-full counts as full",
    ],
)  # fmt: skip
def test_balanced_allocation_scores_by_the_change_of_the_standard_deviation(
    where: NodeBuilder, there: PodBuilder, asking: PodBuilder, resources: list[str], want: int
) -> None:
    state = fleet(a=[where, node("other").resource(GPU, 1)])
    put(state, there, "a", "n")
    assert scores(make("NodeResourcesBalancedAllocation", resources=resources), asking, state)["n"] == want


def test_balanced_allocation_takes_pods_without_requests_for_nothing() -> None:
    state = fleet(a=[sized("4", 10_000)])
    put(state, "nothing", "a", "n")
    assert scores(make("NodeResourcesBalancedAllocation"), asks("1", 2500), state) == {"n": 75}


def test_balanced_allocation_does_not_judge_pods_that_request_nothing() -> None:
    assert scores(make("NodeResourcesBalancedAllocation"), pod(), fleet(a=["n1"])) == {}


amounts = st.integers(0, 2**62)


@given(amounts, amounts, amounts, st.lists(st.tuples(amounts, amounts), max_size=2))
def test_balanced_allocation_stays_in_bounds_whatever_is_asked(
    cpu: int, memory: int, gpus: int, there: list[tuple[int, int]]
) -> None:
    state = fleet(a=[node("n").cpu(f"{cpu}m").memory(memory).resource(GPU, gpus), node("m")])
    for at, (some, more) in enumerate(there):
        put(state, pod(f"t{at}").cpu(f"{some}m").memory(more), "a", "n")
    plugin = make("NodeResourcesBalancedAllocation", resources=WITH_GPU)
    found = raw_scores(plugin, pod().cpu(f"{memory}m").memory(1).request(GPU, cpu), state).values()
    assert all(50 <= value <= 100 and value == int(value) for value in found)
