"""How important a pod is in another cluster: by the class of its name there, never more than a row lets in."""

import pytest

from shared.model.bounds import NO_PRIORITY
from shared.model.crossing import Opening, priority_abroad, unmet_class
from shared.model.objects import PriorityClass
from shared.model.pod import Need, Needs, Pod

ALL = ("*",)
HOME = 100_000  # what the class is worth at home
HIGH = Needs(of_policy=(Need("max_priority", "high", "spec.priorityClassName", 'is PriorityClass "high"'),))
SECRET = Needs(of_policy=(Need("secrets", "db", "spec.volumes[0]", 'is Secret "db"'),))
SYSTEM = PriorityClass("system-node-critical", 2_000_001_000)


def row(most: int | None = 1000, priority: str = "") -> Opening:
    return Opening(ALL, ALL, (), (), max_priority=most, priority=priority)


def there(value: int, **more: bool) -> tuple[PriorityClass, ...]:
    return SYSTEM, PriorityClass("high", value, **more)


def usual(value: int, **more: bool) -> tuple[PriorityClass, ...]:
    return SYSTEM, PriorityClass("usual", value, default=True, **more)


OLDER = row(None)
CAN = pytest.mark.parametrize(
    ("needs", "rows", "classes", "counts", "why"),
    [
        pytest.param(HIGH, (row(),), there(7), 7, "", id="the value is that of the cluster"),
        pytest.param(HIGH, (row(),), there(1000), 1000, "", id="as high as a row lets in"),
        pytest.param(HIGH, (row(),), there(1001), NO_PRIORITY, "`max_priority`", id="higher than that"),
        pytest.param(HIGH, (row(5), row(9)), there(9), 9, "", id="one of two rows lets it in"),
        pytest.param(HIGH, (row(),), (SYSTEM,), NO_PRIORITY, "does not exist", id="lacking"),
        pytest.param(HIGH, (row(),), (), NO_PRIORITY, "", id="classes that are not shown: the target tells"),
        pytest.param(HIGH, (OLDER,), (), NO_PRIORITY, "upgrade it", id="an agent that would leave it behind"),
        pytest.param(HIGH, None, (), NO_PRIORITY, "", id="one of which no policy is known"),
        pytest.param(HIGH, (row(),), there(7, preempts=False), NO_PRIORITY, "", id="a class that preempts nobody"),
        pytest.param(HIGH, (row(5, "none"),), there(7), 0, "", id="a row lets it go without"),
        pytest.param(HIGH, (row(5, "none"),), usual(-3), -3, "", id="at the default of the cluster"),
        pytest.param(HIGH, (row(9, "none"),), there(7), 7, "", id="a row that would let it, and need not"),
        pytest.param(None, (row(),), there(7), 0, "", id="no class"),
        pytest.param(SECRET, (row(),), usual(50), 50, "", id="a default class"),
        pytest.param(None, (row(),), usual(50, preempts=False), NO_PRIORITY, "", id="one that preempts nobody"),
        pytest.param(None, (row(),), (*usual(50), PriorityClass("b", 5, default=True)), 5, "", id="the lower of two"),
        pytest.param(None, (row(),), (), 0, "", id="no class where classes are not shown"),
        pytest.param(None, None, (), HOME, "", id="an older agent that tells of nothing"),
    ],
)


@CAN
def test_a_pod_counts_as_much_as_it_will_have_there(
    needs: Needs | None, rows: tuple[Opening, ...] | None, classes: tuple[PriorityClass, ...], counts: int, why: str
) -> None:
    assert priority_abroad(Pod("u", "default", "p", priority=HOME, needs=needs), rows, classes) == counts
    said = unmet_class(needs, rows, classes) if rows is not None else ""
    assert (why in said) if why else not said


def test_a_pod_without_a_class_counts_no_more_there_than_at_home() -> None:
    assert priority_abroad(Pod("u", "default", "p", priority=-5), (row(),), usual(50)) == -5
