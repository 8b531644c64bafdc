"""Which classes begin with a copy of the same buckets: those that are alike in all that buckets depend on."""

import gc
import weakref
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from dispatcher.scheduling.batch import fresh_layouts
from dispatcher.scheduling.batch.fresh_layouts import layout_of
from dispatcher.scheduling.framework.domain_counts import CountRules, MaxCount, RuleCount, Scale, ScoreTerm


class Layout:
    """As much of a layout as is asked for here; `serial` is that of the one that it is, or is a copy of."""

    def __init__(self, serial: int, *, leading: bool = False) -> None:
        self.serial, self.begun, self.copied = serial, 0, False
        self.sorting = SimpleNamespace(leading=leading)

    def normalize(self, columns: Any, *, open_alone: bool) -> None:
        pass

    def copy(self) -> "Layout":
        found = Layout(self.serial)
        found.copied = True
        return found


class Named(SimpleNamespace):
    """Something with attributes that one can hold a weak reference to."""


def numbers(*values: int) -> Any:
    return np.asarray(values, dtype=np.int32)


class Batch:
    """A class of a new app, whose one policy counts by zone, and its only normalising column."""

    def __init__(self) -> None:
        self.zones, self.counted = numbers(0, 0, 1), numbers(1, 1, 0)
        self.count = RuleCount(self.zones, np.zeros(2, dtype=np.int64), 1, by_host=False, counted=self.counted)
        self.term = ScoreTerm(self.count, -1.0, 2.0, 3.0)
        self.rules = CountRules(score_terms=[self.term], base=1.0)
        self.evaluator = SimpleNamespace(role=Named(name="Spread"))
        self.column = Named(value=numbers(0, 1, 0), values=[0.0, 1.0])
        self.rows = SimpleNamespace(feasible=3, evaluated=3, feasible_rows=lambda: numbers(0, 1, 2))
        self.kept: dict[Any, Any] = {}
        self.pods = 6

    def layout(self) -> Any:
        partitions = SimpleNamespace(memo=lambda: self.kept)
        eq_class: Any = SimpleNamespace(rows=self.rows, partitions=partitions, normalizing=[self.column], brought=())
        plugin_rules: Any = [(self.evaluator, self.rules)]
        return layout_of(eq_class, plugin_rules, self.pods)

    def open(self, *rows: int) -> None:
        self.rows.feasible, self.rows.feasible_rows = len(rows), lambda: numbers(*rows)

    def count_by(self, **more: Any) -> None:
        self.score_by(domain_count=replace(self.count, **more))

    def score_by(self, **more: Any) -> None:
        self.rules = replace(self.rules, score_terms=[replace(self.term, **more)])

    def rule_by(self, **more: Any) -> None:
        self.rules = replace(self.rules, **more)

    def ask(self, **more: Any) -> None:
        self.column = Named(**{**vars(self.column), **more})


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[Layout]:
    """The layouts that were made anew."""
    found: list[Layout] = []

    def make(eq_class: Any, plugin_rules: Any, count: int) -> Any:
        found.append(Layout(len(found)))
        return found[-1]

    monkeypatch.setattr(fresh_layouts, "bucket_layout_of", make)
    return found


OTHERS: dict[str, Callable[[Batch], Any]] = {
    "another policy": lambda batch: setattr(batch, "evaluator", SimpleNamespace(role=Named(name="Spread"))),
    "another base": lambda batch: batch.rule_by(base=7.0),
    "scores that are void": lambda batch: batch.rule_by(void=0.5),
    "factors by size": lambda batch: batch.rule_by(sized=True),
    "rows with all domains alone": lambda batch: batch.rule_by(needs_all_domains=True),
    "another scale": lambda batch: batch.rule_by(scale=Scale.COST),
    "another factor": lambda batch: batch.score_by(factor=-2.0),
    "another offset": lambda batch: batch.score_by(offset=0.0),
    "another score elsewhere": lambda batch: batch.score_by(elsewhere=0.0),
    "other domains": lambda batch: batch.count_by(domain=numbers(0, 1, 1)),
    "other rows that count": lambda batch: batch.count_by(counted=numbers(1, 1, 1)),
    "all rows count": lambda batch: batch.count_by(counted=None),
    "more domains": lambda batch: batch.count_by(counts=np.zeros(3, dtype=np.int64)),
    "pods that do not count": lambda batch: batch.count_by(more=0),
    "hosts": lambda batch: batch.count_by(by_host=True),
    "a second term": lambda batch: batch.rule_by(score_terms=[batch.term, batch.term]),
    "no policy": lambda batch: batch.rule_by(score_terms=[]),
    "another column": lambda batch: batch.ask(),
    "other values of it": lambda batch: setattr(batch.column, "values", [0.0, 2.0]),
    "other rows of it": lambda batch: setattr(batch.column, "value", numbers(1, 1, 0)),
    "more pods": lambda batch: setattr(batch, "pods", 7),
    "few nodes": lambda batch: batch.open(0, 1),
}


@pytest.mark.parametrize("other", OTHERS)
def test_what_differs_in_anything_that_buckets_depend_on_has_buckets_of_its_own(other: str, made: list[Layout]) -> None:
    batch = Batch()
    assert (batch.layout().serial, batch.layout().serial) == (0, 0)
    OTHERS[other](batch)
    assert (batch.layout().serial, batch.layout().serial) == (1, 1)
    assert len(made) == 2


def test_few_nodes_have_buckets_of_their_own(made: list[Layout]) -> None:
    batch = Batch()
    found = list[int]()
    for rows in ((0, 1), (1, 2), (0, 1)):
        batch.open(*rows)
        found.append(batch.layout().serial)
    assert found == [0, 1, 0]


def test_each_batch_has_a_copy_and_the_kept_one_is_nobodys(made: list[Layout]) -> None:
    batch = Batch()
    first, second = batch.layout(), batch.layout()
    assert first.copied
    assert second.copied
    assert first is not second
    assert made[0] not in (first, second)


def test_terms_that_are_made_anew_alike_are_the_same_shape(made: list[Layout]) -> None:
    batch = Batch()
    batch.layout()
    batch.count_by(counts=np.zeros(2, dtype=np.int64))
    assert batch.layout().serial == 0


def test_what_a_shape_names_lives_as_long_as_it_is_kept(made: list[Layout]) -> None:
    """A shape goes by ids: another object that came to have one of them would be taken for what it is not."""
    batch = Batch()
    batch.layout()
    kept = batch.kept
    named = [
        weakref.ref(one) for one in (batch.evaluator.role, batch.zones, batch.counted, batch.column, batch.column.value)
    ]
    batch.column.value = numbers(0, 0, 0)  # a column may get another array while no node changes
    del batch
    gc.collect()
    assert [one() is None for one in named] == [False] * 5
    kept.clear()
    gc.collect()
    assert [one() is None for one in named] == [True] * 5


@pytest.mark.parametrize(
    "not_fresh",
    [
        lambda batch: vars(batch.rows).update(feasible=2000, evaluated=2001),
        lambda batch: batch.rule_by(refusals=[MaxCount(batch.count, 1, 5)]),
        lambda batch: batch.count_by(counts=np.asarray([0, 1], dtype=np.int64)),
    ],
    ids=["one of many nodes is not feasible", "counts may refuse", "a pod counts"],
)
def test_what_is_not_as_at_the_beginning_has_buckets_of_its_own(
    not_fresh: Callable[[Batch], Any], made: list[Layout]
) -> None:
    batch = Batch()
    batch.layout()
    not_fresh(batch)
    assert (batch.layout().serial, batch.layout().serial) == (1, 2)
    assert len(batch.kept) == 1


def test_rows_that_lead_by_the_scores_of_one_class_are_kept_for_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    batch = Batch()
    monkeypatch.setattr(fresh_layouts, "bucket_layout_of", lambda *_: Layout(0, leading=True))
    assert not batch.layout().copied
    assert not batch.kept


def test_only_so_many_shapes_are_kept(made: list[Layout]) -> None:
    batch = Batch()
    for batch.pods in range(100):
        batch.layout()
        assert len(batch.kept) <= fresh_layouts._MOST_KEPT
