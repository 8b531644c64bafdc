import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dispatcher.scheduling.cycle.cycle import Decision, Scheduler
from dispatcher.scheduling.fleet.fleet import FleetState
from dispatcher.scheduling.fleet.view import view_of
from dispatcher.scheduling.framework import CycleState, PluginUse, Profile
from shared.model.names import GPU_MILLI
from shared.model.reasons import Reasons
from tests.builders import NodeBuilder, PodBuilder, fleet, node, pod
from tests.plugins.asking import make, reasons, refused, scores

INSUFFICIENT = Reasons.INSUFFICIENT.text(GPU_MILLI)
HALF = [{"cpu": 1000, "gpu": 500, "share": 1}]


def gpus(name: str, count: int, cpu: int = 64) -> NodeBuilder:
    return node(name).cpu(cpu).resource(GPU_MILLI, 1000 * count)


def asks(milli: int, cpu: str = "1", *, name: str = "p1") -> PodBuilder:
    return pod(name).uid(name).cpu(cpu).request(GPU_MILLI, str(milli))


def book(plugin: Any, state: FleetState, asking: PodBuilder, row: int = 0) -> None:
    plugin.reserve(CycleState(), asking.placed(), row, view_of(state))


@pytest.mark.parametrize(
    ("held", "asked", "fits"),
    [
        ([], 1000, True),
        ([], 2000, True),
        ([], 3000, False),
        ([600], 500, True),
        ([600, 600], 500, False),
        ([600, 600], 400, True),
        ([300, 300], 2000, False),
        ([300], 1000, True),
        ([1000, 600], 400, True),
        ([1000, 1000], 1, False),
        ([1000, 1000], 0, True),
    ],
)
def test_a_share_needs_one_gpu_with_as_much_free_and_whole_ones_are_free_as_a_whole(
    held: list[int], asked: int, fits: bool
) -> None:
    plugin, state = make("GPUFragmentation"), fleet(a=[gpus("n1", 2)])
    for at, milli in enumerate(held):
        book(plugin, state, asks(milli, name=f"held-{at}"))
    assert reasons(plugin, asks(asked), state) == ({} if fits else {"n1": INSUFFICIENT})


@pytest.mark.parametrize("milli", [1500, 9000])
def test_more_than_one_gpu_must_be_whole_ones(milli: int) -> None:
    assert "must be up to 1000, or whole GPUs" in refused(make("GPUFragmentation"), asks(milli), fleet(a=["n1"]))


def test_a_share_goes_where_the_rest_is_of_use() -> None:
    plugin = make("GPUFragmentation", mix=HALF)
    state = fleet(a=[gpus("whole", 1), gpus("begun", 1)])
    book(plugin, state, asks(200), 1)
    # 300 more on the begun one leaves 500, just what the mix wants; on the whole one it leaves 700.
    found = scores(plugin, asks(300), state)
    assert found["begun"] == 50
    found = scores(plugin, asks(600), state)
    assert found["whole"] < 50


def test_cpu_alone_strands_gpu_where_the_mix_has_no_cpu_left() -> None:
    plugin = make("GPUFragmentation", mix=HALF)
    found = scores(plugin, pod().cpu(4), fleet(a=[gpus("narrow", 1, cpu=4), gpus("wide", 1), node("plain").cpu(8)]))
    assert found["narrow"] < found["wide"] == found["plain"] == 50


def test_giving_back_undoes_booking_and_another_node_of_the_row_begins_anew() -> None:
    plugin, state = make("GPUFragmentation"), fleet(a=[gpus("n1", 1)])
    first = asks(1000, name="first")
    book(plugin, state, first)
    assert reasons(plugin, asks(1), state) == {"n1": INSUFFICIENT}
    plugin.unreserve(first.placed(), 0, view_of(state))
    assert reasons(plugin, asks(1000), state) == {}
    book(plugin, state, first)
    state.remove_node("a", "n1")
    state.put_node("a", gpus("n2", 1).build())
    assert reasons(plugin, asks(1000), state) == {}


def test_what_is_explained_of_a_row_by_another_number_gives_no_gpu_free() -> None:
    """Records of a batch are made later, of a table of their own rows."""
    plugin, state = make("GPUFragmentation"), fleet(a=[gpus("n1", 1), gpus("n2", 1)])
    one = asks(1000, name="one")
    book(plugin, state, one)
    assert reasons(plugin, asks(1), state) == {"n1": INSUFFICIENT}
    assert plugin.explain((0, 0), one.placed(), view_of(fleet(a=[gpus("n2", 1)])), 0) == {}
    assert reasons(plugin, asks(1), state) == {"n1": INSUFFICIENT}


@pytest.mark.parametrize(
    ("mix", "want"),
    [
        ([{"cpu": 1, "gpu": 1500, "share": 1}], "gpu must be up to 1000, or whole GPUs"),
        ([{"cpu": 1, "gpu": 1}], "each must hold cpu"),
        ("half", "must be a list"),
        ([{"cpu": 1, "gpu": 9000, "share": 1}], "must be from 0 to 8000"),
    ],
)
def test_a_wrong_mix_is_named(mix: object, want: str) -> None:
    with pytest.raises(ValueError, match=want):
        make("GPUFragmentation", mix=mix)


def test_batches_see_what_was_booked_before_them() -> None:
    profile = Profile("p", (PluginUse("PrioritySort"), PluginUse("NodeResourcesFit"), PluginUse("GPUFragmentation")))
    state = fleet(a=[gpus("n1", 2)])
    plugins = [make(use.name) for use in profile.plugins]
    items = [(("a", f"u{at}"), asks(600, name=f"u{at}").placed("a")) for at in range(6)]
    results = Scheduler(profile, plugins, state).schedule_class(items)
    assert [isinstance(result, Decision) for result in results] == [True, True, False, False, False, False]


# --- an oracle in plain Python ---------------------------------------------------------------------------------------


def cost(free: list[int], room: int, mix: list[dict[str, int]]) -> float:
    total = 0.0
    for task in mix:
        part, count = min(task["gpu"], 1000), max(task["gpu"] // 1000, 1)
        fits = [one for one in free if one >= part]
        runs = room >= task["cpu"] and len(fits) >= count
        total += task["share"] * (sum(one for one in free if one < part) if runs else sum(free))
    return total / sum(task["share"] for task in mix)


def best(free: list[int], room: int, cpu: int, gpu: int, mix: list[dict[str, int]]) -> float:
    before, choices = cost(free, room, mix), []
    if 0 < gpu < 1000:
        for at, one in enumerate(free):
            if one >= gpu:
                choices.append(cost([*free[:at], one - gpu, *free[at + 1 :]], room - cpu, mix))
    else:
        rest = sorted(free)
        for _ in range(gpu // 1000):
            rest.remove(1000)
        choices.append(cost(rest, room - cpu, mix))
    return math.floor(100 / (1 + math.exp((min(choices) - before) / 1000)))


AMOUNTS = st.sampled_from([0, 100, 250, 300, 500, 700, 1000, 2000])
MIX = st.lists(
    st.fixed_dictionaries(
        {"cpu": st.integers(0, 9000), "gpu": AMOUNTS.filter(bool), "share": st.sampled_from([1, 2, 4])}
    ),
    min_size=1,
    max_size=4,
)


@given(mix=MIX, held=st.lists(st.sampled_from([100, 300, 500, 1000]), max_size=5), gpu=AMOUNTS, count=st.integers(2, 4))
def test_scores_are_those_of_the_formula(mix: list[dict[str, int]], held: list[int], gpu: int, count: int) -> None:
    plugin, state = make("GPUFragmentation", mix=mix), fleet(a=[gpus("n1", count, cpu=16)])
    for at, milli in enumerate(held):
        asking = asks(milli, "0", name=f"h{at}")
        if not reasons(plugin, asking, state):
            book(plugin, state, asking)
    free = plugin._known(view_of(state), slice(0, 1))[:count, 0].tolist()
    if reasons(plugin, asks(gpu), state):
        return
    assert scores(plugin, asks(gpu, "1"), state)["n1"] == best(free, 16000, 1000, gpu, mix)
