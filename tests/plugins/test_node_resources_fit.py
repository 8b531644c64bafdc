from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.model.reasons import Reasons, Why
from shared.model.resources import MAX_QUANTITY
from tests.builders import NodeBuilder, PodBuilder, fleet, node, pod, put
from tests.plugins.asking import codes_of, make, raw_scores, reasons, scores

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


def test_fit_refuses_no_node_where_there_is_none() -> None:
    assert reasons(make("NodeResourcesFit"), pod().cpu(1).request(GPU, 1), fleet(a=[])) == {}


# What kube-scheduler's own tests say of a node of 10m CPU, 20 bytes, 5 of resource a, 20 of storage.
A, B, OWN, HUGE = "example.com/aaa", "example.com/bbb", "kubernetes.io/something", "hugepages-2Mi"
FULL: dict[str, str | int] = {"cpu": "10m", "memory": 20, A: 5, "ephemeral-storage": 20, HUGE: 5, "pods": 32}


def requests(name: str, **amounts: str | int) -> PodBuilder:
    built = pod(name)
    for resource, amount in amounts.items():
        built = built.request({"a": A, "b": B, "own": OWN, "huge": HUGE}.get(resource, resource), amount)
    return built


def lacks(**resources: bool) -> tuple[Why, ...]:
    """resource -> whether the node could never have enough of it."""
    names = {"a": A, "b": B, "own": OWN, "huge": HUGE}
    return tuple(Why(Reasons.INSUFFICIENT, names.get(name, name), lasting) for name, lasting in resources.items())


@pytest.mark.parametrize(
    ("asking", "there", "want"),
    [
        (requests("p"), requests("t", cpu="10m", memory=20), ()),
        (requests("p", cpu="1m", memory=1), requests("t", cpu="10m", memory=20), lacks(cpu=False, memory=False)),
        (requests("p", cpu="3m", memory=1), requests("t", cpu="8m", memory=19), lacks(cpu=False)),
        (requests("p", cpu="1m", memory=3), requests("t", cpu="9m", memory=19), lacks(memory=False)),
        (requests("p", cpu="5m", memory=1), requests("t", cpu="5m", memory=19), ()),
        (requests("p", a=1), requests("t"), ()),
        (requests("p", cpu="1m", memory=1, a=10), requests("t"), lacks(a=True)),
        (requests("p", cpu="1m", memory=1, a=1), requests("t", a=5), lacks(a=False)),
        (requests("p", cpu="2m", memory=2, a=6), requests("t", a=2), lacks(a=True)),
        (requests("p", cpu="1m", memory=1, b=1), requests("t"), lacks(b=True)),
        (requests("p", cpu="1m", memory=1, own=10), requests("t"), lacks(own=True)),
        (requests("p", cpu="1m", memory=1, huge=10), requests("t"), lacks(huge=True)),
        (requests("p", cpu="1m", memory=1, a=0), requests("t", a=6), ()),
        (requests("p", cpu="11m", memory=16, b=1), requests("t", memory=5), lacks(cpu=True, memory=False, b=True)),
    ],
    ids=[
        "nothing asked always fits", "both lack", "CPU lacks", "memory lacks", "exactly", "extended", "beyond the node",
        "taken by others", "beyond the node by several containers", "no node has it", "Kubernetes' own prefix",
        "huge pages", "none of an over-used resource", "lacking for good and for now",
    ],
)  # fmt: skip
def test_fit_tells_all_that_lacks_and_whether_the_node_could_ever_have_it(
    asking: PodBuilder, there: PodBuilder, want: tuple[Why, ...]
) -> None:
    where = node("n")
    for resource, amount in FULL.items():
        where = where.resource(resource, amount)
    state = fleet(a=[where, node("other").resource(HUGE, 5)])
    put(state, there, "a", "n")
    plugin = make("NodeResourcesFit")
    code = int(codes_of(plugin, asking, state)[0])
    assert (state.reasons.whys(code) if code else ()) == want


@pytest.mark.parametrize(
    ("args", "want"),
    [
        ({}, (*lacks(b=True), *lacks(own=True))),
        ({"ignored_resources": [B]}, lacks(own=True)),
        ({"ignored_resource_groups": ["example.com"]}, lacks(own=True)),
        ({"ignored_resources": [OWN, "cpu"]}, (*lacks(b=True), *lacks(own=True))),
    ],
    ids=["none", "one", "by group", "only extended resources can be ignored"],
)
def test_fit_ignores_extended_resources_on_demand(args: dict[str, Any], want: tuple[Why, ...]) -> None:
    plugin, state = make("NodeResourcesFit", **args), fleet(a=[node("n")])
    asking = requests("p", cpu="1m", b=1, own=1)
    assert state.reasons.whys(codes_of(plugin, asking, state)[0]) == want


def test_fit_tells_of_too_many_pods_and_of_what_lacks_besides() -> None:
    state = fleet(a=[node("n1").pods(1), node("n2")])
    put(state, "t", "a", "n1")
    plugin, asking = make("NodeResourcesFit"), pod().cpu(100)
    codes = codes_of(plugin, asking, state).tolist()
    cpu = Why(Reasons.INSUFFICIENT, "cpu", lasting=True)
    assert [state.reasons.whys(code) for code in codes] == [(Why(Reasons.TOO_MANY_PODS), cpu), (cpu,)]


# Nodes, pods and scores of kube-scheduler's own tests of the strategies.
GIVEN = {"cpu": 1, "memory": 1}
HEAVY_MEMORY = {"memory": 2, "cpu": 1}
EMPTIER = [{"utilization": 0, "score": 10}, {"utilization": 100, "score": 0}]


def sized(cpu: str | int, memory: str | int, **more: int) -> NodeBuilder:
    built = node("n").cpu(cpu).memory(memory)
    for name, amount in more.items():
        built = built.resource(name.replace("__", "/").replace("_", "."), amount)
    return built


def exactly(name: str, cpu: str | int, memory: str | int) -> PodBuilder:
    """A pod all of whose containers say what they request, be it nothing."""
    built = pod(name).cpu(cpu).memory(memory)
    requests = built.build().requests
    return built.set(expected=(requests["cpu"], requests["memory"]))


NOTHING, BIG = exactly("nothing", 0, 0), exactly("big", 3000, 5000)
CPU_ONLY = exactly("cpu", 3000, 0)


@pytest.mark.parametrize(
    ("strategy", "resources", "where", "there", "asking", "want"),
    [
        ("LeastAllocated", GIVEN, sized(4000, 10000), [], NOTHING, 100),
        ("LeastAllocated", GIVEN, sized(4000, 10000), [], BIG, 37),
        ("LeastAllocated", GIVEN, sized(6000, 10000), [], BIG, 50),
        ("LeastAllocated", GIVEN, sized(4000, 10000), [NOTHING], NOTHING, 100),
        ("LeastAllocated", GIVEN, sized(10000, 20000), [exactly("two", 6000, 0)], NOTHING, 70),
        ("LeastAllocated", GIVEN, sized(10000, 20000), [exactly("two", 6000, 5000)], NOTHING, 57),
        ("LeastAllocated", GIVEN, sized(10000, 20000), [CPU_ONLY], BIG, 57),
        ("LeastAllocated", GIVEN, sized(10000, 20000), [exactly("t", 3000, 5000)], BIG, 45),
        ("LeastAllocated", GIVEN, sized(10000, 50000), [exactly("t", 3000, 5000)], BIG, 60),
        ("LeastAllocated", GIVEN, sized(4000, 10000), [CPU_ONLY], exactly("more", 3000, 0), 50),
        ("LeastAllocated", GIVEN, sized(4000, 10000), [exactly("t", 3000, 5000)], CPU_ONLY, 25),
        ("LeastAllocated", GIVEN, sized(0, 0), [exactly("t", 3000, 5000)], NOTHING, 0),
        ("LeastAllocated", HEAVY_MEMORY, sized(4000, 10000), [], BIG, 41),
        ("LeastAllocated", HEAVY_MEMORY, sized(6000, 10000), [], BIG, 50),
        ("MostAllocated", GIVEN, sized(4000, 10000), [], NOTHING, 0),
        ("MostAllocated", GIVEN, sized(4000, 10000), [], BIG, 62),
        ("MostAllocated", GIVEN, sized(6000, 10000), [], BIG, 50),
        ("MostAllocated", GIVEN, sized(10000, 20000), [exactly("two", 6000, 0)], NOTHING, 30),
        ("MostAllocated", GIVEN, sized(10000, 20000), [exactly("two", 6000, 5000)], NOTHING, 42),
        ("MostAllocated", GIVEN, sized(10000, 20000), [CPU_ONLY], BIG, 42),
        ("MostAllocated", GIVEN, sized(10000, 20000), [exactly("t", 3000, 5000)], BIG, 55),
        ("MostAllocated", GIVEN, sized(5000, 10000), [], exactly("p", 5000, 9000), 95),
        ("MostAllocated", GIVEN, sized(10000, 9000), [], exactly("p", 5000, 9000), 75),
        ("MostAllocated", HEAVY_MEMORY, sized(4000, 10000), [], BIG, 58),
        ("MostAllocated", GIVEN, sized("250m", "1000Mi"), ["t1", "t2"], pod(), 80),
        ("MostAllocated", GIVEN, sized("250m", "1000Mi"), [], pod(), 30),
        ("RequestedToCapacityRatio", GIVEN, sized(4000, 10000), [NOTHING], exactly("p", 0, 0), 100),
        ("RequestedToCapacityRatio", GIVEN, sized(4000, 10000), [], BIG, 38),
        ("RequestedToCapacityRatio", GIVEN, sized(6000, 10000), [], BIG, 50),
        ("RequestedToCapacityRatio", GIVEN, sized(4000, 10000), [exactly("t", 3000, 5000)], NOTHING, 38),
        ("RequestedToCapacityRatio", GIVEN, sized(0, 0), [], BIG, 0),
    ],
    ids=[
        "least: nothing there, nothing asked", "least: small node", "least: larger node", "least: pods of no weight",
        "least: CPU taken", "least: CPU and memory taken", "least: CPU taken and asked", "least: both taken and asked",
        "least: more memory", "least: over capacity", "least: over capacity and memory taken", "least: empty node",
        "least: memory weighs double", "least: memory weighs double, larger node", "most: nothing there, nothing asked",
        "most: small node", "most: larger node", "most: CPU taken", "most: CPU and memory taken",
        "most: CPU taken and asked", "most: both taken and asked", "most: CPU at capacity", "most: memory at capacity",
        "most: memory weighs double", "most: nothing requested counts something", "most: alone",
        "ratio: nothing there, nothing asked", "ratio: small node", "ratio: larger node", "ratio: taken",
        "ratio: empty node",
    ],
)  # fmt: skip
def test_fit_scores_by_strategy(
    strategy: str,
    resources: dict[str, int],
    where: NodeBuilder,
    there: list[PodBuilder | str],
    asking: PodBuilder,
    want: int,
) -> None:
    state = fleet(a=[where])
    for one in there:
        put(state, one, "a", "n")
    plugin = make("NodeResourcesFit", strategy=strategy, resources=resources, shape=EMPTIER)
    assert scores(plugin, asking, state) == {"n": want}


FOO = "intel.com/foo"


@pytest.mark.parametrize(
    ("capacity", "there", "asked", "want"),
    [(8, 0, 0, 0), (8, 0, 2, 2), (4, 0, 2, 5), (4, 2, 2, 10), (8, 0, 4, 5), (4, 0, 4, 10), (0, 0, 2, 0)],
    ids=["not asked", "a quarter", "half", "all with what is there", "half of more", "all", "the node has none"],
)
def test_fit_packs_an_extended_resource(capacity: int, there: int, asked: int, want: int) -> None:
    state = fleet(a=[node("n").resource(FOO, capacity)])
    put(state, pod("t").request(FOO, there), "a", "n")
    shape = [{"utilization": 0, "score": 0}, {"utilization": 100, "score": 1}]
    plugin = make("NodeResourcesFit", strategy="RequestedToCapacityRatio", resources={FOO: 1}, shape=shape)
    assert scores(plugin, pod().request(FOO, asked), state) == {"n": want}


@pytest.mark.parametrize(
    ("points", "want"),
    [
        ([(10, 1), (90, 9)], {0: 1, 9: 1, 10: 1, 15: 1.5, 19: 1.9, 20: 2, 89: 8.9, 90: 9, 99: 9, 100: 9}),
        ([(0, 2), (40, 10), (100, 0)], {0: 2, 20: 6, 30: 8, 40: 10, 70: 5, 100: 0}),
        ([(0, 2), (40, 2), (100, 2)], {0: 2, 20: 2, 40: 2, 70: 2, 100: 2}),
        ([(0, 10), (30, 0)], {1: 9.7, 7: 7.7, 29: 0.4, 30: 0, 31: 0}),
    ],
    ids=["flat outside of its points", "up and down", "flat", "falling: fractions are dropped toward the start"],
)
def test_fit_reads_a_shape_as_straight_lines(points: list[tuple[int, int]], want: dict[int, float]) -> None:
    shape = [{"utilization": utilisation, "score": score} for utilisation, score in points]
    plugin = make("NodeResourcesFit", strategy="RequestedToCapacityRatio", resources={FOO: 1}, shape=shape)
    state = fleet(a=[node("n").resource(FOO, 100)])
    found = {at: scores(plugin, pod().request(FOO, at), state)["n"] for at in want if at}
    assert found == {at: value * 10 for at, value in want.items() if at}


def test_fit_weighs_resources_and_leaves_out_what_is_not_asked_or_not_there() -> None:
    state = fleet(a=[node("gpu").resource(GPU, 4), node("plain")])
    plugin = make("NodeResourcesFit", strategy="MostAllocated", resources={"cpu": 1, GPU: 3})
    assert scores(plugin, pod().cpu(2).request(GPU, 4), state) == {"gpu": 87, "plain": 50}
    assert scores(plugin, pod().cpu(2), state) == {"gpu": 50, "plain": 50}


@given(st.integers(1, 2**62), st.integers(0, 2**62), st.sampled_from(["LeastAllocated", "MostAllocated"]))
def test_fit_divides_as_whole_numbers_do(size: int, asked: int, strategy: str) -> None:
    state = fleet(a=[node("n").resource(FOO, size)])
    plugin = make("NodeResourcesFit", strategy=strategy, resources={FOO: 1})
    used = min(asked, size)
    want = {"LeastAllocated": (size - used) * 100 // size, "MostAllocated": used * 100 // size}[strategy]
    found = scores(plugin, pod().request(FOO, asked), state)["n"] if asked else want
    assert found == want if size < 2**56 else abs(found - want) <= 1


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
        ({"shape": [{"utilization": 50.5, "score": 1}]}, "must be a whole number"),
        ({"ignored_resource_groups": ["a/b"]}, "a group is what stands before the slash"),
        ({"ignored_resources": "a/b"}, "must be a list of texts"),
        ({"strateg": "x"}, "unknown argument; did you mean strategy?"),
    ],
    ids=[
        "strategy",
        "weight",
        "shape does not rise",
        "score out of range",
        "half a percent",
        "group",
        "no list",
        "key",
    ],
)
def test_fit_refuses_bad_arguments(args: dict[str, Any], want: str) -> None:
    with pytest.raises(ValueError, match="NodeResourcesFit") as caught:
        make("NodeResourcesFit", **args)
    assert want in str(caught.value)
