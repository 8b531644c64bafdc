"""A batch takes scores of rows as they are from the scan of all rows; they are kept until its pods are booked."""

import pytest

from dispatcher.plugins.node_resources_fit import NodeResourcesFit
from dispatcher.scheduling.cycle.cycle import Scheduler
from dispatcher.scheduling.fleet.fleet import FleetState
from dispatcher.scheduling.fleet.nominations import Nominee
from dispatcher.scheduling.framework import FleetView, Floats, Rows
from dispatcher.scheduling.records.decision import Decision
from tests.builders import PodBuilder, pod
from tests.compiled import compiled
from tests.scheduling.batch.test_worked_examples import replica, scheduler, two_zones

__all__ = ["compiled"]


def plain(number: int) -> PodBuilder:
    return pod(f"p{number}").cpu(1).labels(app="w")


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[bytes, Rows]]:
    """What was requested of the nodes when NodeResourcesFit was asked for scores, and of which rows."""
    found = list[tuple[bytes, Rows]]()
    score = NodeResourcesFit.score

    def noted(self: NodeResourcesFit, state: object, fleet: FleetView, rows: Rows) -> Floats:
        found.append((fleet.nodes.requested.tobytes(), rows))
        return score(self, state, fleet, rows)  # type: ignore[arg-type]

    monkeypatch.setattr(NodeResourcesFit, "score", noted)
    return found


def decide(state: FleetState, kind: object) -> bytes:
    before = state.requested.tobytes()
    items = [(("a", f"uid-p{at}"), kind(at).placed("a")) for at in range(4)]  # type: ignore[operator]
    one = scheduler(state)
    results = one.schedule_class(items)
    assert all(isinstance(result, Decision) and result.record() for result in results)
    assert left(one) == [{}]
    return before


def left(one: Scheduler) -> list[dict[int | None, Floats]]:
    """The scores that each class still has."""
    return [dict(each.rows.last_scores) for each in one._classes._classes.values()]


@pytest.mark.usefixtures("compiled")
@pytest.mark.parametrize("kind", [replica, plain], ids=["by zone", "by row"])
def test_rows_as_they_are_are_scored_once_for_a_batch(asked: list[tuple[bytes, Rows]], kind: object) -> None:
    before = decide(two_zones(), kind)
    assert [rows for requested, rows in asked if requested == before] == [slice(0, 3)]


@pytest.mark.usefixtures("compiled")
@pytest.mark.parametrize("nominated", [False, True], ids=["", "beside a nominee"])
def test_pods_decided_one_by_one_leave_no_scores_behind(*, nominated: bool) -> None:
    one = scheduler(two_zones())
    if nominated:
        one.nominations.put(Nominee(("a", "x"), pod("x").placed("a"), *one.fleet.name_of(0)))
    for at in range(4):  # with the fourth the class is cached
        assert isinstance(one.schedule(plain(at).placed("a"), ("a", f"p{at}")), Decision)
    assert left(one) == [{}]


@pytest.mark.usefixtures("compiled")
def test_pods_that_are_only_asked_about_leave_no_scores_behind() -> None:
    one = scheduler(two_zones())
    for at in range(4):
        assert one.would_choose(("a", f"p{at}"), plain(at).placed("a"))
    assert left(one) == [{}]
