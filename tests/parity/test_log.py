"""kube-scheduler's log lines become verdicts."""

from pathlib import Path

import pytest

from tests.parity.case import Verdict
from tests.parity.compare import differences
from tests.parity.log import SchedulerLog

HEAD = "I1121 06:38:50.123456   12345"


def lines(*texts: str) -> str:
    return "".join(f"{HEAD} {text}\n" for text in texts)


def log_of(tmp_path: Path, *texts: str) -> SchedulerLog:
    path = tmp_path / "log"
    path.write_text("W1121 noise\n" + lines(*texts))
    log = SchedulerLog(path)
    log.follow(lambda: bool(log.verdicts), "any verdict")
    return log


def test_scores_of_a_bound_pod_are_those_of_the_log(tmp_path: Path) -> None:
    log = log_of(
        tmp_path,
        'eventhandlers.go:63] "Add event for node" node="n1"',
        'schedule_one.go:123] "Attempting to schedule pod" pod="a/p"',
        'schedule_one.go:981] "Plugin scored node for pod" pod="a/p" plugin="TaintToleration" node="n1" score=300',
        'schedule_one.go:981] "Plugin scored node for pod" pod="a/p" plugin="TaintToleration" node="n2" score=0',
        """schedule_one.go:1040] "Calculated node's final score for pod" pod="a/p" node="n1" score=300""",
        """schedule_one.go:1040] "Calculated node's final score for pod" pod="a/p" node="n2" score=0""",
        'schedule_one.go:503] "Successfully bound pod to node" pod="a/p" node="n1" evaluatedNodes=2 feasibleNodes=2',
    )
    assert log.nodes == {"n1"}
    assert log.take("a/p") == Verdict(
        "a/p", "n1", frozenset(("n1", "n2")), {"TaintToleration": {"n1": 300, "n2": 0}}, {"n1": 300, "n2": 0}
    )


def test_a_single_feasible_node_is_taken_without_scores(tmp_path: Path) -> None:
    text = '"Successfully bound pod to node" pod="a/p" node="n1" evaluatedNodes=2 feasibleNodes=1'
    log = log_of(tmp_path, f"schedule_one.go:503] {text}")
    assert log.take("a/p") == Verdict("a/p", "n1", frozenset(("n1",)), None, None)


def test_a_refusal_carries_its_message(tmp_path: Path) -> None:
    text = '"Unable to schedule pod; no fit; waiting" pod="a/p" err="0/1 nodes are available: 1 \\"odd\\" one."'
    log = log_of(tmp_path, f"schedule_one.go:503] {text}")
    assert log.take("a/p") == Verdict("a/p", feasible=frozenset(), message='0/1 nodes are available: 1 "odd" one.')


def test_attempts_that_began_too_early_are_passed_over(tmp_path: Path) -> None:
    log = log_of(
        tmp_path,
        'schedule_one.go:123] "Attempting to schedule pod" pod="a/p"',
        'schedule_one.go:503] "Unable to schedule pod; no fit; waiting" pod="a/p" err="full"',
        'schedule_one.go:123] "Attempting to schedule pod" pod="a/p"',
        'eventhandlers.go:443] "Delete event for scheduled pod" pod="a/victim"',
        'schedule_one.go:503] "Unable to schedule pod; no fit; waiting" pod="a/p" err="waits"',
        'schedule_one.go:123] "Attempting to schedule pod" pod="a/p"',
        'schedule_one.go:503] "Unable to schedule pod; no fit; waiting" pod="a/p" err="still full"',
    )
    first, last = log.take("a/p"), log.take("a/p", {"a/victim"})
    assert first is not None
    assert last is not None
    assert (first.message, last.message, log.take("a/p")) == ("full", "still full", None)


def test_a_line_that_is_half_written_is_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "log"
    whole = lines('eventhandlers.go:63] "Add event for node" node="n1"')
    path.write_text(whole[:40])
    log = SchedulerLog(path)

    def grown() -> bool:
        path.write_text(whole)
        return bool(log.nodes)

    log.follow(grown, "the node")
    assert log.nodes == {"n1"}


def test_an_answer_that_does_not_come_is_named(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.touch()
    with pytest.raises(TimeoutError, match="about pod a/p"):
        SchedulerLog(path).follow(lambda: False, "an answer about pod a/p", timeout_s=0)


@pytest.mark.parametrize(
    ("ours", "what"),
    [
        (Verdict("p", "n2", frozenset(("n1", "n2")), {"A": {"n1": 5, "n2": 5}}, {"n1": 5, "n2": 5}), []),
        (Verdict("p", "n1", frozenset(("n1",)), {"A": {"n1": 5}}, {"n1": 5}), ["feasible"]),
        (Verdict("p", "n1", frozenset(("n1", "n2")), {"A": {"n1": 5, "n2": 4}}, {"n1": 5, "n2": 4}), ["A", "total"]),
        (Verdict("p", "n1", frozenset(("n1", "n2")), {}, {"n1": 5, "n2": 5}), ["A", "A"]),
        (
            Verdict("p", "n1", frozenset(("n1", "n2")), {"A": {"n1": 5, "n2": 5}, "B": {"n1": 0}}, {"n1": 5, "n2": 5}),
            [],
        ),
    ],
    ids=["a tie falls otherwise", "a node less", "a score", "a plugin that is silent", "a plugin that says nothing"],
)
def test_two_verdicts_differ_in_what_is_not_a_tie(ours: Verdict, what: list[str]) -> None:
    both = frozenset(("n1", "n2"))
    theirs = Verdict("p", "n1", both, {"A": {"n1": 5, "n2": 5}}, {"n1": 5, "n2": 5})
    assert [found.what for found in differences(theirs, ours)] == what


def test_messages_of_refused_pods_are_compared() -> None:
    one, other = (Verdict("p", feasible=frozenset(), message=text) for text in ("1 a", "2 a"))
    assert [(found.what, found.theirs, found.ours) for found in differences(one, other)] == [("message", "1 a", "2 a")]
