"""Rows are told apart by the number of pods on each, also where only those are looked at that have any."""

from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dispatcher.scheduling.equivalence.partitions import Partitions
from dispatcher.scheduling.equivalence.static_answers import StaticFilters
from dispatcher.scheduling.fleet.fleet import FleetState
from dispatcher.scheduling.framework import Ints
from dispatcher.scheduling.framework.memory import untouched
from dispatcher.scheduling.pruning import fitting_rows
from dispatcher.scheduling.pruning.fitting_rows import FittingRows
from dispatcher.scheduling.pruning.rows_by_number import RowsByNumber, SplitRows
from tests.builders import fleet, node
from tests.compiled import compiled  # noqa: F401 - a fixture

ROWS = 600
uses_compiled = pytest.mark.usefixtures("compiled")
numbers = st.dictionaries(st.integers(0, ROWS - 1), st.integers(1, 3), max_size=25)
asks = st.lists(st.tuples(st.integers(0, 2), numbers, st.booleans()), min_size=2, max_size=8)


class World:
    """A fleet with one zone a third of its nodes; filters that refuse some of them; three apps with pods on hosts."""

    def __init__(self, refused: set[int]) -> None:
        self.fleet: FleetState = fleet(a=[node(f"n{at}").labels(zone="xyz"[at % 3]) for at in range(ROWS)])
        self.partitions = Partitions(self.fleet)
        self.filters: Any = StaticFilters(())
        self.filters.refresh(self.fleet)
        self.filters.refusal_codes[list(refused)] = 7
        self.filters.refused = len(refused)
        self.counts = [untouched(ROWS, np.int64) for _ in range(3)]
        self.rows = RowsByNumber(FittingRows(self.fleet, self.partitions))
        self.widths: dict[int, int] = {}

    def put(self, app: int, on: dict[int, int]) -> None:
        """The app has so many pods on these rows, and no others."""
        counts = self.counts[app]
        for row in np.flatnonzero(counts).tolist() + list(on):
            self.fleet.loads.append(row)
        counts[:] = 0
        for row, number in on.items():
            counts[row] = number

    def split(self, app: int, by: int = 0) -> SplitRows | None:
        """As of now."""
        levels = ("zone", "cluster")[by]
        base = self.partitions.of([self.fleet.domain(levels)])
        assert base is not None
        whose = app * 2 + by
        found = self.rows.split(whose, (base, self.counts[app]), self.widths.get(whose, 0), self.filters)
        self.widths[whose] = found.width if found else 0
        assert found is None or self.says(found, base.group, base.size, self.counts[app])
        return found

    def says(self, found: SplitRows, group: Any, size: int, counts: Ints) -> bool:
        """Whether it is what a look at all rows says."""
        fits = np.flatnonzero(self.filters.refusal_codes[:ROWS] == 0)
        wanted = group + size * counts
        names = np.bincount(wanted[fits], minlength=len(found.members))
        return bool((found.group[fits] == wanted[fits]).all() and (found.members == names).all())


@uses_compiled
@settings(max_examples=40, deadline=None)
@example(refused=set(), script=[(0, {1: 1}, False), (0, {0: 1, 1: 2}, False)])
@given(refused=st.sets(st.integers(0, ROWS - 1), max_size=50), script=asks)
def test_rows_are_told_apart_for_one_app_after_the_other(
    refused: set[int], script: list[tuple[int, dict[int, int], bool]]
) -> None:
    world = World(refused)
    for app, on, by_cluster in script:
        world.put(app, on)
        assert world.split(app, int(by_cluster)) is not None


@uses_compiled
@settings(max_examples=20, deadline=None)
@given(steps=st.lists(numbers, min_size=2, max_size=6))
def test_rows_of_one_app_are_followed(steps: list[dict[int, int]]) -> None:
    world = World({5, 6})
    for on in steps:
        world.put(0, {**on, 9: 3})
        before, found = world.rows._last, world.split(0)
        assert found is not None
        assert found is before or before is None
    world.put(1, {})
    assert world.split(1) is not None


@uses_compiled
@settings(max_examples=20, deadline=None)
@given(open_=st.sets(st.integers(0, ROWS - 1), min_size=1, max_size=50), on=numbers)
def test_of_few_open_rows_only_these_are_told_apart(open_: set[int], on: dict[int, int]) -> None:
    world = World(set(range(ROWS)) - open_)
    world.put(1, on)
    found = world.split(1)
    assert found is not None
    assert not found.whole


@uses_compiled
def test_pods_on_every_host_tell_all_rows_apart() -> None:
    world = World(set())
    world.put(0, {row: 1 + row % 4 for row in range(ROWS)})
    found = world.split(0)
    assert found is not None
    assert found.width == 5


@uses_compiled
@pytest.mark.parametrize("number", [-1, fitting_rows.WIDEST, 2**62])
def test_numbers_that_are_no_counts_or_too_many_are_left_to_others(number: int) -> None:
    world = World(set())
    world.put(0, {300: number})
    assert world.split(0) is None
