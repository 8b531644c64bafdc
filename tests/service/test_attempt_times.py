"""Durations of attempts and how many a pod needs, by kube-scheduler's labels and buckets."""

import pytest

from dispatcher.service.metrics import Metrics

ATTEMPT = "scheduler_scheduling_attempt_duration_seconds"
SLI = "scheduler_pod_scheduling_sli_duration_seconds"
TRIES = "scheduler_pod_scheduling_attempts"


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
    metrics.decided(100.0, 103.0, attempts)
    assert told(metrics, f"{SLI}_sum", attempts=label) == 3.0
    assert told(metrics, f"{TRIES}_sum") == attempts


def test_a_pod_whose_creation_is_not_known_counts_among_the_attempts_alone() -> None:
    metrics = Metrics()
    metrics.decided(0.0, 103.0, 2)
    assert told(metrics, f"{TRIES}_count") == 1
    assert told(metrics, f"{SLI}_count", attempts="2") is None
