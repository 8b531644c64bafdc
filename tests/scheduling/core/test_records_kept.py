"""Records of decisions hold pods, which may be large: those of pods that are gone are not kept."""

import pytest

from dispatcher.scheduling.events import Tick
from dispatcher.scheduling.records.decision import Unschedulable
from dispatcher.scheduling.views import explain
from tests.laws.cores import make_core
from tests.scheduling.core.test_core import FULL, bound, change, pod, report


@pytest.mark.parametrize("cpu", [1, 10**9])
def test_of_pods_that_came_and_are_gone_nothing_is_kept(cpu: int) -> None:
    """However they ended: bound, or refused."""
    core = make_core(("east",))
    report(core)
    for turn in range(1, 6):
        change(core, pod(f"p{turn}", requests={"cpu": cpu}, labels={"big": "x"}), now=float(turn))
        core.handle(Tick(), turn + 0.2)
        assert core.log.find(("east", f"uid-p{turn}")) is not None
        change(core, gone=(f"uid-p{turn}",), now=turn + 0.4)
        core.handle(Tick(), turn + 0.6)
    for at in range(10, 100, 10):
        core.handle(Tick(), float(at))
    assert len(core.tracked) == 0
    assert len(core.log._by_pod) == 0


def test_of_victims_a_record_keeps_what_it_shows() -> None:
    core = make_core(("east",))
    report(core, bound("low", labels={"big": "x"}, **FULL), pod("high", priority=10, **FULL))
    core.handle(Tick(), 1.0)
    kept = core.log.find(("east", "uid-high"))
    assert isinstance(kept, Unschedulable)
    assert [one.pod_info.pod.labels for one in kept.victims] == [{}]
    told = explain(core, "default", "high")
    assert told is not None
    assert told["decision"]["victims"] == [{"pod": "default/low", "cluster": "east", "node": "n1"}]
