"""Answers that rest on the whole fleet: kept for one class at a time, and the same however often they are made."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dispatcher.plugins.registry import PluginContext, build
from dispatcher.scheduling.cycle.cycle import Scheduler
from dispatcher.scheduling.equivalence.cache import EquivalenceCache
from dispatcher.scheduling.equivalence.equivalence_class import EquivalenceClass
from dispatcher.scheduling.equivalence.static_columns import distinct_values
from dispatcher.scheduling.framework import PodInfo, kernels
from dispatcher.scheduling.framework.counted import add_answers
from dispatcher.scheduling.profile import DEFAULT_PROFILE
from dispatcher.scheduling.records.decision import Decision
from tests.builders import fleet, node, pod


def rows_kept(eq_class: EquivalenceClass) -> int:
    table = eq_class._fleet_scoped
    assert table is not None
    return len(table._totals)


def test_only_the_class_that_was_asked_last_keeps_answers_of_all_rows() -> None:
    state = fleet(a=[node(f"n{at}").cpu("4").labels(zone="xyz"[at % 3]) for at in range(100)])
    plan = Scheduler(DEFAULT_PROFILE, build(DEFAULT_PROFILE, PluginContext()), state).plan
    classes = EquivalenceCache(plan, state, 2**26)
    apps: list[PodInfo] = [pod("p").labels(app=app).spread("host", 1, hard=False).placed("a") for app in "uv"]
    first, other = (classes.get(plan.class_key(one)) for one in apps)

    def place(of: EquivalenceClass, one: PodInfo) -> tuple[str, float]:
        found = of.select(("a", "p"), one)
        assert isinstance(found, Decision)
        return found.node, found.score

    for of, one in zip((first, other), apps, strict=True):
        of.refresh(one)
    told = place(first, apps[0])
    assert rows_kept(first) == 100
    place(other, apps[1])
    assert (rows_kept(first), rows_kept(other)) == (0, 100)
    assert place(first, apps[0]) == told
    assert (rows_kept(first), rows_kept(other)) == (100, 0)


@pytest.mark.parametrize("compiled", [True, False], ids=["kernels", "NumPy"])
def test_a_domain_without_an_answer_is_an_error_and_no_number(compiled: bool) -> None:
    if compiled:
        pytest.importorskip("numba")
        kernels.compile_all()
    domain, answers = np.asarray([0, -1, 1, 2], dtype=np.int32), np.asarray([1.0, 2.0, 0.5])
    raw = np.zeros(3)
    add_answers(answers, domain[:3], raw)
    assert raw.tolist() == [1.0, 0.5, 2.0]
    with pytest.raises(IndexError):
        add_answers(answers[:2], domain, np.zeros(4))
    kernels.use_numpy()


@given(st.lists(st.sampled_from((0.0, 1.0, -3.0, 1e300, 0.5)), max_size=30))
def test_distinct_values_are_those_that_numpy_finds(values: list[float]) -> None:
    raw = np.asarray(values, dtype=np.float64)
    for mine, theirs in zip(distinct_values(raw), np.unique(raw, return_inverse=True), strict=True):
        assert mine.tolist() == theirs.tolist()
