"""The log of decisions: the latest result of the latest pods."""

import pytest

from dispatcher.scheduling.records.log import DecisionLog
from tests.builders import fleet, pod
from tests.scheduling.cycle.test_cycle import placed_by, scheduler


@pytest.mark.parametrize("together", [False, True])
def test_the_log_keeps_the_latest_result_of_the_latest_pods(*, together: bool) -> None:
    one, log = scheduler(fleet(a=["n1"])), DecisionLog(limit=2)
    results = [placed_by(one, pod(name)) for name in ("p1", "p2", "p1", "p3")]
    if together:
        log.add_all(results)
    for result in () if together else results:
        log.add(result)
    assert log.find(("a", "uid-p1")) is not None
    assert log.find(("a", "uid-p2")) is None
    assert log.find(("b", "uid-p3")) is None
    found = log.find(("a", "uid-p3"))
    assert found is not None
    assert found.record()["outcome"] == "scheduled"
    assert log.summary(("a", "uid-p3")).startswith("a/n1 score ")
