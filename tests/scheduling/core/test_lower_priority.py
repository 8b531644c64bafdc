"""A pod that is less important in another cluster than at home says so as it goes there; so does explain."""

import msgspec
import pytest

from dispatcher.scheduling.core.once_an_hour import AGAIN_S
from dispatcher.scheduling.events import Answered, ClusterChanged, Tick
from dispatcher.scheduling.views import explain
from shared.messages import CLAIMED, LOWER_PRIORITY, Changes, Claim, Outcome, ReportUnschedulable
from shared.model import pod as model
from shared.model.crossing import Opening
from shared.model.objects import PriorityClass
from shared.model.pod import Need, Needs, Pod
from tests.laws.cores import make_core
from tests.scheduling.core.test_core import NODE, intents, pod

HIGH = Needs(of_policy=(Need("max_priority", "high", "spec.priorityClassName", 'is PriorityClass "high"'),))


class Fleet:
    """East without nodes, where pods of priority 100,000 come from, and west, whose class `high` has this value."""

    def __init__(self, value: int | None, *, row: str = "") -> None:
        self.core = make_core(("east", "west"))
        self.now = 1.0
        self._revision = 0
        classes = (PriorityClass("usual", 7, default=True), *([PriorityClass("high", value)] if value else []))
        opens = (Opening(("*",), ("*",), (), (), max_priority=10**6, priority=row),)
        west = Changes("west", "west-uid", "life", 0, 1, full=True, nodes=(NODE,), opens=opens)
        self.core.handle(ClusterChanged(msgspec.structs.replace(west, priority_classes=classes)), self.now)

    def submit(self, *pods: Pod) -> list[str]:
        """What is told within a second."""
        told = Changes("east", "east-uid", "life", self._revision, self._revision + 1, full=not self._revision)
        self._revision += 1
        self.effects = list(self.core.handle(ClusterChanged(msgspec.structs.replace(told, pods=pods)), self.now))
        self.now += 1.0
        self.effects += self.core.handle(Tick(), self.now)
        found = [one for one in intents(self.effects, ReportUnschedulable) if isinstance(one, ReportUnschedulable)]
        return [one.message for one in found if one.reason == LOWER_PRIORITY]


def important(name: str, needs: Needs | None = HIGH) -> Pod:
    return pod(name, priority=100_000, needs=needs)


def test_the_first_of_its_class_that_goes_there_says_so() -> None:
    fleet = Fleet(100)
    (text,) = fleet.submit(important("one"), important("two"))
    assert text.startswith(
        'spec.priorityClassName is PriorityClass "high", of priority 100000 at home and 100 in cluster west: '
    )
    assert fleet.submit(important("three")) == []
    fleet.now += AGAIN_S
    assert len(fleet.submit(important("four"))) == 1


@pytest.mark.parametrize(
    ("value", "row", "needs", "said"),
    [
        pytest.param(99_999, "", HIGH, "99999 in cluster west", id="a little less"),
        pytest.param(100_000, "", HIGH, "", id="as much"),
        pytest.param(200_000, "", HIGH, "", id="more"),
        pytest.param(None, "none", HIGH, "7 in cluster west", id="goes without its class, at the default there"),
        pytest.param(100, "", None, "", id="no class, or its owner says that it needs none"),
    ],
)
def test_nothing_is_said_of_one_that_is_as_important(
    value: int | None, row: str, needs: Needs | None, said: str
) -> None:
    told = Fleet(value, row=row).submit(important("one", needs))
    assert len(told) == bool(said)
    assert all(said in one for one in told)


def test_explain_of_a_pod_that_runs_there_says_both_that_and_what_it_left_behind() -> None:
    fleet = Fleet(100)
    fleet.submit(important("one"))
    (claim,) = intents(fleet.effects, Claim)
    assert isinstance(claim, Claim)
    left = "cluster west takes these labels and annotations only if ...: example.com/a"
    answer = Outcome(claim.id, claim.pod.uid, claim.epoch, CLAIMED, manifest=b"{}", record="r", left_behind=left)
    fleet.core.handle(Answered("east", (answer,)), fleet.now)
    said = explain(fleet.core, "default", "one") or {}
    assert (said["left_behind"], said["lower_priority"]) == (None, None)  # it may go nowhere yet
    there = model.Claim("west", "n1", claim.epoch)
    bound = msgspec.structs.replace(important("one"), node="global-dispatcher-west", claim=there, has_finalizer=True)
    fleet.submit(bound)
    said = explain(fleet.core, "default", "one") or {}
    assert said["left_behind"] == left
    assert "100 in cluster west" in said["lower_priority"]
