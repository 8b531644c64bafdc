"""Durations of attempts and how many a pod needs, by kube-scheduler's labels and buckets."""

import pytest

from dispatcher.scheduling.events import Answered
from dispatcher.service.metrics import attempt_times
from dispatcher.service.metrics.counters import Metrics
from shared.messages import BOUND, CLAIMED, REFUSED, Outcome

ATTEMPT = "scheduler_scheduling_attempt_duration_seconds"
SLI = "scheduler_pod_scheduling_sli_duration_seconds"
TRIES = "scheduler_pod_scheduling_attempts"


def answered(cluster: str, verdict: str, uid: str = "u1") -> Answered:
    return Answered(cluster, (Outcome(id="1", uid=uid, epoch=1, verdict=verdict),))


def told(metrics: Metrics, name: str, **labels: str) -> float | None:
    return metrics.registry.get_sample_value(name, labels)


def test_a_round_is_one_observation_an_attempt_with_the_mean_of_the_round() -> None:
    metrics = Metrics()
    counters = {("scheduled", "a"): 2, ("unschedulable", "a"): 1, ("preemption_attempts", "nominated"): 5}
    assert metrics.tick(0.003, counters) == 3
    for result, count in (("scheduled", 2), ("unschedulable", 1)):
        labels = {"result": result, "profile": "a"}
        assert told(metrics, f"{ATTEMPT}_count", **labels) == count
        assert told(metrics, f"{ATTEMPT}_sum", **labels) == pytest.approx(0.001 * count)
        assert told(metrics, f"{ATTEMPT}_bucket", **labels, le="0.00064") == 0
        assert told(metrics, f"{ATTEMPT}_bucket", **labels, le="0.001") == count


def test_the_next_round_counts_what_it_made_alone_and_one_without_attempts_nothing() -> None:
    metrics = Metrics()
    metrics.tick(1.0, {("scheduled", "a"): 1})
    assert metrics.tick(1.0, {("scheduled", "a"): 1}) == 0
    assert metrics.tick(100.0, {("scheduled", "a"): 2}) == 1
    assert told(metrics, f"{ATTEMPT}_count", result="scheduled", profile="a") == 2
    assert told(metrics, f"{ATTEMPT}_bucket", result="scheduled", profile="a", le="16.384") == 1
    assert told(metrics, f"{ATTEMPT}_bucket", result="scheduled", profile="a", le="+Inf") == 2


@pytest.mark.parametrize(("attempts", "label"), [(1, "1"), (14, "14"), (15, "15+"), (700, "15+")])
def test_a_pods_wait_is_told_by_its_attempts(attempts: int, label: str) -> None:
    metrics = Metrics()
    metrics.decided(("east", "u1"), attempts, 100.0)
    metrics.event(answered("east", BOUND), 103.0)
    assert told(metrics, f"{SLI}_sum", attempts=label) == 3.0
    assert told(metrics, f"{TRIES}_sum") == attempts


@pytest.mark.parametrize(
    ("cluster", "verdict"),
    [("west", BOUND), ("east", CLAIMED), ("east", REFUSED)],
    ids=["its delegate is bound", "it is claimed", "refused"],
)
def test_a_pods_wait_ends_only_when_it_is_bound_in_its_own_cluster(cluster: str, verdict: str) -> None:
    metrics = Metrics()
    metrics.decided(("east", "u1"), 1, 100.0)
    metrics.event(answered(cluster, verdict), 101.0)
    assert told(metrics, f"{SLI}_count", attempts="1") is None
    metrics.event(answered("east", BOUND), 104.0)
    metrics.event(answered("east", BOUND), 105.0)  # a status or a second answer is no second wait
    assert told(metrics, f"{SLI}_count", attempts="1") == 1
    assert told(metrics, f"{SLI}_sum", attempts="1") == 4.0


def test_a_pod_that_is_decided_again_counts_once_with_its_last_attempt() -> None:
    metrics = Metrics()
    metrics.decided(("east", "u1"), 1, 100.0)
    metrics.event(answered("east", REFUSED), 101.0)
    metrics.decided(("east", "u1"), 2, 100.0)
    metrics.event(answered("east", BOUND), 107.0)
    assert told(metrics, f"{SLI}_sum", attempts="2") == 7.0
    assert told(metrics, f"{TRIES}_count") == 1


def test_pods_that_are_never_bound_are_forgotten_at_last(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attempt_times, "_MOST_BINDING", 2)
    metrics = Metrics()
    for number in range(3):
        metrics.decided(("east", f"u{number}"), 1, 100.0)
    for number in range(3):
        metrics.event(answered("east", BOUND, f"u{number}"), 101.0)
    assert told(metrics, f"{TRIES}_count") == 2
