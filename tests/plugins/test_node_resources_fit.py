from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dispatcher.model.resources import MAX_QUANTITY
from tests.builders import NodeBuilder, PodBuilder, fleet, node, pod, put
from tests.plugins.asking import make, raw_scores, reasons, scores

GPU = "nvidia.com/gpu"


@pytest.mark.parametrize(
    ("there", "asked", "want"),
    [
        (pod("t").cpu(3), pod().cpu(1), ""),
        (pod("t").cpu(3), pod().cpu("1001m"), "Insufficient cpu"),
        (pod("t").memory("7Gi"), pod().memory("2Gi"), "Insufficient memory"),
        (pod("t"), pod().request(GPU, 1), f"Insufficient {GPU}"),
        (pod("t"), pod().request(GPU, 0), ""),
        (pod("t"), pod().request("ephemeral-storage", "1Gi"), "Insufficient ephemeral-storage"),
        (pod("t").cpu(4), pod(), ""),
        (pod("t"), pod().request("cpu", MAX_QUANTITY // 1000), "Insufficient cpu"),
    ],
    ids=[
        "exactly fits", "a little too much CPU", "too much memory", "resource no node has", "none of it is asked",
        "no storage told", "nothing asked fits a full node", "absurdly much",
    ],
)  # fmt: skip
def test_fit_names_what_is_insufficient(there: PodBuilder, asked: PodBuilder, want: str) -> None:
    state = fleet(a=[node("n1")])
    put(state, there, "a", "n1")
    assert reasons(make("NodeResourcesFit"), asked, state) == ({"n1": want} if want else {})


def test_fit_counts_pods_before_anything_else() -> None:
    state = fleet(a=[node("n1").pods(1), node("n2")])
    put(state, "t", "a", "n1")
    assert reasons(make("NodeResourcesFit"), pod().cpu(100), state) == {
        "n1": "Too many pods",
        "n2": "Insufficient cpu",
    }


# Nodes and pods of kube-scheduler's own tests of the strategies.
IDLE = node("n").cpu(4).memory(10_000)
RICH = node("n").cpu(6).memory(10_000)
HALF = pod("t").cpu(3).memory(5000)
OVER = pod("t").cpu(9).memory(9000)


@pytest.mark.parametrize(
    ("strategy", "where", "there", "want"),
    [
        ("LeastAllocated", IDLE, [], (25 + 50) / 2),
        ("LeastAllocated", RICH, [], (50 + 50) / 2),
        ("LeastAllocated", RICH, [HALF], 0),
        ("LeastAllocated", IDLE, [OVER], 0),
        ("MostAllocated", IDLE, [], (75 + 50) / 2),
        ("MostAllocated", RICH, [], (50 + 50) / 2),
        ("MostAllocated", RICH, [HALF], 100),
        ("MostAllocated", IDLE, [OVER], 100),
    ],
    ids=[
        "least, idle", "least, richer", "least, full", "least, over-full",
        "most, idle", "most, richer", "most, full", "most, over-full",
    ],
)  # fmt: skip
def test_fit_scores_by_strategy(strategy: str, where: NodeBuilder, there: list[PodBuilder], want: float) -> None:
    state = fleet(a=[where])
    for one in there:
        put(state, one, "a", "n")
    plugin = make("NodeResourcesFit", strategy=strategy)
    assert scores(plugin, pod().cpu(3).memory(5000), state) == {"n": want}


@pytest.mark.parametrize(
    ("there", "want"),
    [([], 70.0), ([pod("t").request(GPU, 1)], 35.0), ([pod("t").request(GPU, 2)], 0.0)],
    ids=["2 of 8", "3 of 8", "4 of 8"],
)
def test_fit_reads_the_shape_of_requested_to_capacity_ratio(there: list[PodBuilder], want: float) -> None:
    shape = [{"utilization": 0, "score": 10}, {"utilization": 25, "score": 7}, {"utilization": 50, "score": 0}]
    state = fleet(a=[node("n").resource(GPU, 8)])
    for one in there:
        put(state, one, "a", "n")
    plugin = make("NodeResourcesFit", strategy="RequestedToCapacityRatio", resources={GPU: 3}, shape=shape)
    assert scores(plugin, pod().request(GPU, 2), state) == {"n": want}


def test_fit_weighs_resources_and_leaves_out_what_is_not_asked_or_not_there() -> None:
    state = fleet(a=[node("gpu").resource(GPU, 4), node("plain")])
    plugin = make("NodeResourcesFit", strategy="MostAllocated", resources={"cpu": 1, GPU: 3})
    assert scores(plugin, pod().cpu(2).request(GPU, 4), state) == {"gpu": (50 + 3 * 100) / 4, "plain": 50}
    assert scores(plugin, pod().cpu(2), state) == {"gpu": 50, "plain": 50}


def test_fit_counts_something_for_pods_without_requests() -> None:
    state = fleet(a=[node("n").cpu(1).memory("2000Mi")])
    put(state, "t", "a", "n")
    assert scores(make("NodeResourcesFit"), pod(), state) == {"n": (80 + 80) / 2}


def test_fit_class_is_the_requests_that_are_not_zero() -> None:
    plugin = make("NodeResourcesFit")
    assert plugin.class_key(pod().cpu(1).request(GPU, 0).placed()) == plugin.class_key(pod("b").cpu("1000m").placed())
    assert plugin.class_key(pod().cpu(1).placed()) != plugin.class_key(pod().memory(1000).placed())


quantity = st.integers(0, 2**62 // 1000)


@given(st.lists(quantity, max_size=4), quantity, quantity)
def test_fit_admits_exactly_what_there_is_room_for(there: list[int], asked: int, size: int) -> None:
    state = fleet(a=[node("n").cpu(size)])
    for at, cpu in enumerate(there):
        put(state, pod(f"t{at}").cpu(cpu), "a", "n")
    fits = asked == 0 or asked + sum(there) <= size
    assert (reasons(make("NodeResourcesFit"), pod().cpu(asked), state) == {}) is fits
    raw_scores(make("NodeResourcesFit"), pod().cpu(asked), state)


@pytest.mark.parametrize(
    ("args", "want"),
    [
        ({"strategy": "Least"}, "strategy: must be one of LeastAllocated, MostAllocated, RequestedToCapacityRatio"),
        ({"resources": {"cpu": 0}}, "weight of cpu must be from 1 to 100"),
        ({"shape": [{"utilization": 50, "score": 1}, {"utilization": 50, "score": 2}]}, "utilization must rise"),
        ({"shape": [{"utilization": 50, "score": 11}]}, "must be from 0 to 10"),
        ({"strateg": "x"}, "unknown argument; did you mean strategy?"),
    ],
    ids=["strategy", "weight", "shape does not rise", "score out of range", "key"],
)
def test_fit_refuses_bad_arguments(args: dict[str, Any], want: str) -> None:
    with pytest.raises(ValueError, match="NodeResourcesFit") as caught:
        make("NodeResourcesFit", **args)
    assert want in str(caught.value)
