"""A pod that asks for no scheduler that is here is not left without a word."""

import pytest

from tests.embedded.simulated import Object, SimulatedCluster, pod


def told(cluster: SimulatedCluster) -> list[tuple[str, int]]:
    events = cluster.api.list("events", "default")
    return [(one["reason"], one["count"]) for one in events if one["source"]["component"] == "default-scheduler"]


def test_a_pod_without_the_annotation_is_told_once_what_would_place_it() -> None:
    cluster = SimulatedCluster(scheduled=False)
    cluster.api.create("pods", pod(), "default")
    cluster.advance(5)
    cluster.api.patch("pods", "p", "default", {"metadata": {"labels": {"a": "b"}}}, kind="merge")
    cluster.advance(5)
    assert told(cluster) == [("FailedScheduling", 1)]
    (event,) = (one for one in cluster.api.list("events", "default") if one["reason"] == "FailedScheduling")
    assert 'annotation global-dispatcher.io/schedule: "true"' in event["message"]


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"schedulerName": "global-dispatcher"}, id="ours"),
        pytest.param({"schedulerName": "somebody-elses"}, id="of another scheduler"),
        pytest.param({"nodeName": "a-0"}, id="bound"),
    ],
)
def test_other_pods_are_told_nothing(change: Object) -> None:
    cluster = SimulatedCluster(scheduled=False)
    made = pod()
    cluster.api.create("pods", {**made, "spec": {**made["spec"], **change}}, "default")
    cluster.advance(5)
    assert told(cluster) == []
