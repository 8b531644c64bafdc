"""Of pods that select few nodes, only the totals of these are kept until somebody asks for all."""

from collections.abc import Callable

import numpy as np
import pytest

from dispatcher.plugins.registry import PluginContext, build
from dispatcher.scheduling.equivalence import groups, rows, static_answers
from dispatcher.scheduling.equivalence.cache import EquivalenceCache
from dispatcher.scheduling.equivalence.equivalence_class import EquivalenceClass
from dispatcher.scheduling.fleet.fleet import FleetState
from dispatcher.scheduling.framework import PodInfo
from dispatcher.scheduling.framework.points import Plan
from dispatcher.scheduling.profile import DEFAULT_PROFILE
from tests.builders import fleet, node, pod, put

SIDE_BY_SIDE, APART, NONE = range(8, 12), (3, 20, 39), ()


def a_class(state: FleetState, pod_info: PodInfo) -> EquivalenceClass:
    plan = Plan.of(DEFAULT_PROFILE, build(DEFAULT_PROFILE, PluginContext()))
    made = EquivalenceCache(plan, state, 2**26).get(plan.class_key(pod_info))
    made.refresh(pod_info)
    return made


def totals(one: EquivalenceClass, chosen: list[int]) -> list[float]:
    found: list[float] = one.rows.totals_of(np.asarray(chosen, dtype=np.intp)).tolist()
    return found


@pytest.fixture
def all_kept(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """From now on no rows are few."""

    def never() -> None:
        for module in (static_answers, rows):
            monkeypatch.setattr(module, "FEW_OPEN", 10**6)

    return never


@pytest.mark.parametrize(
    "chosen", [SIDE_BY_SIDE, APART, NONE], ids=["rows side by side", "rows apart", "no row at all"]
)
@pytest.mark.parametrize(
    "asked", [[8, 9], [6, 9], [9, 13], [], list(range(40))], ids=["in", "before", "after", "none", "all"]
)
def test_totals_of_few_open_rows_are_those_of_rows_that_are_all_kept(
    chosen: range | tuple[int, ...], asked: list[int], all_kept: Callable[[], None]
) -> None:
    state = fleet(a=[node(f"n{at}").labels(**({"disk": "ssd"} if at in chosen else {})) for at in range(40)])
    put(state, pod("there").cpu(1), "a", "n9")
    placed = pod("one").cpu(1).node_selector({"disk": "ssd"}).placed("a")
    few = a_class(state, placed)
    assert few.rows.table is not None
    assert few.rows.table.name[0].few_open is not None
    few.rows.table.fill_all()  # the class has asked for all
    told = totals(few, asked)
    all_kept()
    kept = a_class(state, placed)
    assert told == totals(kept, asked)
    put(state, pod("more").cpu(1), "a", "n9")
    for one in (few, kept):
        one.refresh(placed)
    assert totals(few, asked) == totals(kept, asked)
    image = few.rows.total[: state.n].tolist()
    assert image == kept.rows.total[: state.n].tolist()
    assert [one > -np.inf for one in image] == [at in chosen for at in range(40)]


@pytest.mark.parametrize("chosen", [SIDE_BY_SIDE, APART], ids=["rows side by side", "rows apart"])
@pytest.mark.parametrize("asks_first", [False, True], ids=["at the end", "also before"])
def test_refusals_of_few_open_rows_are_those_of_rows_that_are_all_kept(
    chosen: range | tuple[int, ...], asks_first: bool, all_kept: Callable[[], None]
) -> None:
    state = fleet(a=[node(f"n{at}").labels(**({"disk": "ssd"} if at in chosen else {})) for at in range(40)])
    put(state, pod("there").cpu(4), "a", "n9")
    placed = pod("one").cpu(1).node_selector({"disk": "ssd"}).placed("a")
    few = a_class(state, placed)
    all_kept()
    kept = a_class(state, placed)
    assert not asks_first or few.rows.refusal_codes[: state.n].tolist() == kept.rows.refusal_codes[: state.n].tolist()
    state.put_node("a", node("n5").labels(disk="ssd").build())
    state.put_node("a", node(f"n{chosen[-1]}").build())
    put(state, pod("more").cpu(4), "a", f"n{chosen[0]}")
    for one in (few, kept):
        one.refresh(placed)
    assert few.rows.refusal_codes[: state.n].tolist() == kept.rows.refusal_codes[: state.n].tolist()
    assert few.rows.total[: state.n].tolist() == kept.rows.total[: state.n].tolist()
    assert few.rows.feasible_rows().tolist() == kept.rows.feasible_rows().tolist()
    assert (few.rows.feasible, few.rows.rejected) == (kept.rows.feasible, kept.rows.rejected)


def test_a_row_that_comes_to_be_open_beside_few_ones_is_told_of() -> None:
    state = fleet(a=[node(f"n{at}").labels(**({"disk": "ssd"} if at < 3 else {})) for at in range(40)])
    placed = pod("one").cpu(1).node_selector({"disk": "ssd"}).placed("a")
    few = a_class(state, placed)
    assert few.rows.table is not None
    before = few.rows.table.feasibility_version
    state.put_node("a", node("n5").labels(disk="ssd").build())
    few.refresh(placed)
    assert few.rows.table.feasibility_version > before


@pytest.mark.parametrize(
    "chosen", [SIDE_BY_SIDE, APART, NONE], ids=["rows side by side", "rows apart", "no row at all"]
)
def test_the_best_of_few_rows_is_the_best_of_all(
    chosen: range | tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    nodes = [node(f"n{at}").labels(zone=f"z{at % 2}", **({"disk": "ssd"} if at in chosen else {})) for at in range(40)]
    state = fleet(a=nodes)
    put(state, pod("there").labels(app="web").cpu(1), "a", "n9")
    placed = pod("one").labels(app="web").cpu(1).node_selector({"disk": "ssd"}).placed("a")
    one = a_class(state, placed)
    found = list[object]()
    for least in (0, 10**6):  # of few rows, of all
        monkeypatch.setattr(groups, "_FEW", least)
        one.refresh(placed)
        assert one.groups is not None
        found.append(one.groups.best())
    assert found[0] == found[1]
    assert (found[0] is None) == (not chosen)
