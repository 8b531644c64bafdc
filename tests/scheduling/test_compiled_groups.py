"""The compiled forms of rows by groups and by reason say what the NumPy forms say."""

import tracemalloc
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dispatcher.scheduling.equivalence.partitions import Partition, partition_of
from dispatcher.scheduling.equivalence.static_answers import NO_NODE, StaticFilters, count_codes
from dispatcher.scheduling.equivalence.static_columns import StaticColumn
from dispatcher.scheduling.framework import kernels
from dispatcher.scheduling.framework.domain_counts import least_count
from dispatcher.scheduling.rules.spread_domains import Domains
from shared.model.topology import HOST_LEVEL
from tests.builders import fleet, node

_ROWS = 24
_codes = st.lists(st.integers(-1, 3), min_size=_ROWS, max_size=_ROWS)
_reasons = st.lists(st.sampled_from((0, 1, 63, 64, 900, NO_NODE)), min_size=12, max_size=12)


@pytest.fixture(autouse=True)
def _numpy_afterwards() -> Iterator[None]:
    yield
    kernels.use_numpy()


def _as_told(axes: list[list[int]], areas: list[int], live: list[bool]) -> list[object]:
    found = partition_of([np.asarray(axis, dtype=np.int32) for axis in axes])
    assert isinstance(found, Partition)
    within = found.is_within(np.asarray(areas, dtype=np.int32), np.asarray(live))
    return [found.size, found.group.tolist(), [one.tolist() for one in found.axis_codes], within]


@settings(max_examples=60, deadline=None)
@given(
    axes=st.lists(_codes, min_size=1, max_size=3),
    areas=st.lists(st.integers(0, 2), min_size=_ROWS, max_size=_ROWS),
    live=st.lists(st.booleans(), min_size=_ROWS, max_size=_ROWS),
    by_area=st.booleans(),
)
def test_compiled_groups_of_rows_are_those_of_numpy(
    axes: list[list[int]], areas: list[int], live: list[bool], by_area: bool
) -> None:
    pytest.importorskip("numba")
    axes = [*axes, areas] if by_area else axes
    kernels.use_numpy()
    want = _as_told(axes, areas, live)
    assert kernels.compile_all()
    assert _as_told(axes, areas, live) == want
    assert want[-1] or not by_area


@settings(max_examples=60, deadline=None)
@given(reasons=_reasons)
def test_compiled_counts_of_reasons_by_cluster_are_those_of_numpy(reasons: list[int]) -> None:
    pytest.importorskip("numba")
    nodes = [node(f"n{at}") for at in range(4)]
    state = fleet(a=nodes, b=nodes, c=nodes)
    first = np.asarray(reasons, dtype=np.uint16)
    kernels.use_numpy()
    want = count_codes(first, state)
    assert kernels.compile_all()
    assert count_codes(first, state) == want
    assert sum(want.values()) == sum(one not in (0, NO_NODE) for one in reasons)


@pytest.mark.parametrize("use", [kernels.use_numpy, kernels.compile_all], ids=["NumPy", "compiled"])
def test_counts_of_reasons_take_room_for_those_that_there_are(use: Callable[[], object]) -> None:
    state, highest = fleet(), NO_NODE - 1
    for at in range(200):
        state.put_node(f"c{at}", node("n").build())
    first = np.full(200, highest, dtype=np.uint16)
    first[:3] = 0, 7, NO_NODE
    use()
    tracemalloc.start()
    found = count_codes(first, state)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert found == {(7, 1): 1} | {(highest, at): 1 for at in range(3, 200)}
    assert most < 2**21  # all codes by all clusters would be a hundred MB


@settings(max_examples=30, deadline=None)
@given(first=_reasons, second=_reasons)
def test_the_first_of_several_filters_that_refuses_a_row_is_told_compiled_or_not(
    first: list[int], second: list[int]
) -> None:
    pytest.importorskip("numba")
    state = fleet(a=[node(f"n{at}") for at in range(12)])
    columns = [
        SimpleNamespace(version=0, open_rows=None, codes=np.asarray(codes, dtype=np.uint16))
        for codes in (first, second)
    ]
    told = []
    for use in (kernels.use_numpy, kernels.compile_all):
        use()
        filters = StaticFilters(cast(list[StaticColumn], columns))
        filters.refresh(state)
        told.append(filters.refusal_codes[:12].tolist())
    assert told == [[one or other for one, other in zip(first, second, strict=True)]] * 2


@pytest.mark.parametrize("compiled", [True, False], ids=["kernels", "NumPy"])
@pytest.mark.parametrize("count", [2, 4])
def test_counts_of_other_domains_have_no_least_one(compiled: bool, count: int) -> None:
    if compiled:
        pytest.importorskip("numba")
        assert kernels.compile_all()
    present = np.ones(3, dtype=bool)
    assert least_count(np.array([1, 2, 3]), present, 0, 3) == 1
    with pytest.raises(IndexError):
        least_count(np.arange(count), present, 0, 3)


@pytest.mark.parametrize("compiled", [True, False], ids=["kernels", "NumPy"])
@settings(max_examples=60, deadline=None)
@given(by_row=st.lists(st.tuples(st.integers(0, 3), st.booleans()), min_size=1, max_size=_ROWS), data=st.data())
def test_the_least_count_is_that_of_eligible_domains(
    compiled: bool, by_row: list[tuple[int, bool]], data: st.DataObject
) -> None:
    if compiled:
        pytest.importorskip("numba")
        assert kernels.compile_all()
    else:
        kernels.use_numpy()
    counts, present = np.array([count for count, _ in by_row]), np.array([eligible for _, eligible in by_row])
    eligible = np.flatnonzero(present)
    counted = data.draw(st.sampled_from([None, eligible]))
    hosts = Domains(HOST_LEVEL, np.arange(len(by_row), dtype=np.int32), present, counted)
    least = least_count(counts, present, *hosts.span)
    assert least == min(counts[eligible], default=np.iinfo(np.int64).max)
