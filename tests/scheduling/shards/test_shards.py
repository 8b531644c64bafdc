"""The parts of sharding: what crosses is what was meant, rows are dealt evenly, and an answer is joined exactly."""

from collections.abc import Callable, Iterator
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dispatcher.model.objects import Namespace
from dispatcher.model.reasons import Reason, ReasonTable
from dispatcher.scheduling.equivalence.best_rows import INFEASIBLE
from dispatcher.scheduling.equivalence.evaluators import GRID
from dispatcher.scheduling.equivalence.static_answers import NO_NODE
from dispatcher.scheduling.fleet.fleet import FleetState
from dispatcher.scheduling.fleet.view import Observed, ObservedView
from dispatcher.scheduling.framework import Codes, Floats, kernels
from dispatcher.scheduling.framework.derived import Derived, HotRule
from dispatcher.scheduling.shards.answers import codes_of, is_whole, join, later_refusals, numbers_of
from dispatcher.scheduling.shards.books import Books
from dispatcher.scheduling.shards.frames import REQUESTS, Body, Heights, bytes_of, pack, unpack
from dispatcher.scheduling.shards.held import HeldRows, NotHeldError
from tests.builders import fleet, node, pod, put, reading

KINDS = ("cpu", "memory", "example.com/gpu")


def shard_table() -> ReasonTable:
    """As a shard has it: its codes are not the driver's."""
    table = ReasonTable()
    for kind in reversed(KINDS):
        table.code(Reason.INSUFFICIENT, kind)
    table.joint([1, 2])
    return table


rows = st.lists(
    st.tuples(st.sampled_from((0, 0, 1, 2, 3, 4, NO_NODE)), st.integers(0, 2**34), st.booleans()), max_size=40
)


@pytest.fixture(params=[True, False], ids=["kernels", "NumPy"])
def form(request: pytest.FixtureRequest) -> Iterator[None]:
    if request.param:
        pytest.importorskip("numba")
        kernels.compile_all()
    yield
    kernels.use_numpy()


@pytest.mark.usefixtures("form")
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=rows, great=st.booleans(), points=st.lists(st.integers(0, 2**30), max_size=2))
def test_an_answer_joined_is_what_the_driver_would_have_written(
    rows: list[tuple[int, int, bool]], great: bool, points: list[int]
) -> None:
    table, driver = shard_table(), ReasonTable()
    first: Codes = np.asarray([code for code, _, _ in rows], dtype=np.uint16)
    units: Floats = np.asarray([number if great else number % 2**31 for _, number, _ in rows], dtype=np.float64)
    total: Floats = np.where(first == 0, units / GRID, INFEASIBLE)
    before: Codes = np.asarray([7 if refused else 0 for _, _, refused in rows], dtype=np.uint16)
    found = numbers_of(first, total, table)
    assert found is not None
    mine, theirs = np.empty(len(rows), dtype=np.uint16), np.empty(len(rows))
    more = [np.full(len(rows), float(one)) for one in points]
    join(found[0], codes_of(found[1], driver), before, more, mine, theirs)
    for at, code in enumerate(first.tolist()):
        if before[at]:
            assert mine[at] == 7
        elif code in (0, NO_NODE):
            assert mine[at] == code
        else:
            assert driver.whys(int(mine[at])) == table.whys(code)
    wanted = np.where(mine == 0, (units + sum(points)) / GRID, INFEASIBLE)
    assert theirs.tolist() == wanted.tolist()


def test_four_bytes_a_row_are_enough_for_usual_points_and_others_take_eight() -> None:
    first, table = np.zeros(2, dtype=np.uint16), ReasonTable()
    for points, kind in ((1600.0, np.int32), (3000.0, np.float64)):
        found = numbers_of(first, np.full(2, points), table)
        assert found is not None
        assert found[0].dtype == kind


@pytest.mark.parametrize(
    ("numbers", "whole"),
    [
        pytest.param(np.asarray([5, -2, -1], dtype=np.int32), True, id="as it should be"),
        pytest.param(np.asarray([5.0, -2.0, -1.0]), True, id="of eight bytes"),
        pytest.param(np.asarray([5, -2], dtype=np.int32), False, id="too short"),
        pytest.param(np.asarray([5, -2, -4], dtype=np.int32), False, id="an unknown reason"),
        pytest.param(np.asarray([5, 2, 1], dtype=np.int64), False, id="of another kind"),
        pytest.param(np.zeros((3, 1), dtype=np.int32), False, id="of another shape"),
    ],
)
def test_an_answer_that_cannot_be_one_is_not_used(numbers: Body, whole: bool) -> None:
    assert is_whole(numbers, 3, codes_of(((("INSUFFICIENT", "cpu", False),),), ReasonTable())) is whole


def test_points_below_nothing_are_not_told() -> None:
    assert numbers_of(np.zeros(2, dtype=np.uint16), np.asarray([1.0, -1.0]), ReasonTable()) is None


def test_filters_after_the_shards_refuse_what_is_left() -> None:
    first, total = np.asarray([0, 3, 0], dtype=np.uint16), np.asarray([1.0, INFEASIBLE, 2.0])
    later_refusals([np.asarray([0, 5, 5], dtype=np.uint16)], first, total)
    assert (first.tolist(), total.tolist()) == ([0, 3, 5], [1.0, INFEASIBLE, INFEASIBLE])


def a_fleet(count: int) -> FleetState:
    state = fleet(a=[node(f"n{at}").cpu(at + 1).resource("example.com/gpu", at) for at in range(count)], now=50.0)
    for at in range(0, count, 2):
        state.put_reading("a", reading(f"n{at}", cpu=at / 10, memory=0.5, net=0.25, age=3.0))
        put(state, pod(f"p{at}").cpu("500m"), "a", f"n{at}")
    return state


def test_packed_rows_arrive_bit_for_bit() -> None:
    state, held = a_fleet(5), HeldRows()
    state.derive(Derived(deviations=True, hot=(HotRule("cpu", 0.3, 0.2, 100.0, 1.0),)))
    state.put_reading("a", reading("n2", cpu=0.9))
    chosen = np.asarray([1, 2, 4], dtype=np.intp)
    body = pack(state, chosen, 1)
    assert len(body) == bytes_of(3, Heights(len(state.allocatable), len(state.used), len(state.used_variance)))
    held.reserve(4, tuple(state.axis.names), tuple(state.signal_axis.names), state.signals.derived)
    unpack(body, 3, held)
    for name in ("allocatable", "requested", "nonzero", "recent", "used", "used_at", "used_variance", "hot", "live"):
        got, wanted = getattr(held, name)[..., [0, 1, 3]], getattr(state, name)[..., chosen]
        assert got.tobytes() == wanted.tobytes(), name
    assert held.live.tolist() == [True, True, False, True]
    assert held.hot.any()
    assert np.isfinite(held.used_variance).any()


@pytest.mark.parametrize(
    ("asked", "lacks"),
    [
        (lambda fleet: fleet.nodes.label("disk"), "label"),
        (lambda fleet: fleet.nodes.cluster, "cluster"),
        (lambda fleet: fleet.nodes.ports_taken(0), "ports_taken"),
        (lambda fleet: fleet.nodes.name_of(0), "name_of"),
        (lambda fleet: fleet.clusters, "clusters"),
        (lambda fleet: fleet.topology.domain("zone"), "domain"),
        (lambda fleet: fleet.affinity.count_of(None), "terms"),
        (lambda fleet: fleet.objects.of("a", Namespace), "kept"),
        (lambda fleet: fleet.volumes.on(0), "volumes"),
        (lambda fleet: fleet.images.sizes("nginx"), "image_sizes"),
    ],
)
def test_what_shards_do_not_hold_is_an_error_there(asked: Callable[[Any], object], lacks: str) -> None:
    view = ObservedView(cast(FleetState, HeldRows()), Observed())
    with pytest.raises(NotHeldError, match=f"do not hold '{lacks}'"):
        asked(view)


def test_rows_are_dealt_evenly_and_anew_when_the_last_shard_has_grown_too_much() -> None:
    state = a_fleet(9)
    books = Books(state, 3)
    books.look()
    assert [(page.start, page.stop) for page in books.pages] == [(0, 3), (3, 6), (6, 9)]
    for page in books.pages:
        books.order(page, books.due(page, 100))
    state.put_node("a", node("n9").build())
    books.look()
    assert [(page.start, page.stop) for page in books.pages] == [(0, 3), (3, 6), (6, 10)]
    assert [books.due(page, 100).tolist() for page in books.pages] == [[], [], [9]]
    for at in range(10, 13):
        state.put_node("a", node(f"n{at}").build())
    books.look()
    assert [(page.start, page.stop) for page in books.pages] == [(0, 4), (4, 8), (8, 13)]
    assert all(page.blank and len(books.due(page, 100)) >= 4 for page in books.pages)


def test_orders_tell_of_what_changed_since_the_one_before() -> None:
    state = a_fleet(6)
    books = Books(state, 2)
    books.look()
    page = books.pages[1]
    first = REQUESTS.decode(books.order(page, books.due(page, 100)).head)
    assert (first.number, first.blank, first.length, first.touched) == (1, True, 3, 3)
    put(state, pod("new"), "a", "n4")
    books.look()
    second = REQUESTS.decode(books.order(page, books.due(page, 100)).head)
    assert (second.number, second.after, second.blank, second.touched) == (2, 1, False, 1)
