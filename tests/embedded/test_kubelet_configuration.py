"""A fake kubelet starts no pod that a real one (tests/real/test_kubelet_words.py) would not: what it needs is there."""

import pytest

from tests.embedded.missing_configuration import (
    CASES,
    MISNAMED,
    OPTIONAL,
    WELL_NAMED,
    WHOLE,
    Case,
    misnamed_events,
    misnamed_message,
    with_case,
)
from tests.embedded.simulated import Object, SimulatedCluster, pod


def state_of(cluster: SimulatedCluster) -> Object:
    state: Object = cluster.pod("p")["status"]["containerStatuses"][0]["state"]
    return state


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_pod_waits_for_configuration_that_is_not_there_says_so_once_and_starts_when_it_comes(case: Case) -> None:
    cluster = SimulatedCluster()
    for plural, obj in case.there.items():
        cluster.api.create(plural, obj, "default")
    cluster.api.create("pods", with_case(pod(), case), "default")
    cluster.advance(20)
    told = {key: words.format("default") for key, words in case.waiting.items()}
    assert (cluster.pod("p")["status"]["phase"], state_of(cluster)) == ("Pending", {"waiting": told})
    reason, message = case.event
    events = [(one["reason"], one["message"], one["count"]) for one in cluster.api.list("events", "default")]
    assert [one for one in events if one[0] in ("Failed", "FailedMount")] == [(reason, message.format("default"), 1)]

    for plural, obj in WHOLE.items():
        if plural in case.there:
            cluster.api.delete(plural, obj["metadata"]["name"], "default")
        cluster.api.create(plural, obj, "default")
    cluster.advance(2)
    assert cluster.pod("p")["status"]["phase"] == "Running"


def with_image(image: str) -> SimulatedCluster:
    """A cluster with a pod of one container."""
    cluster, made = SimulatedCluster(), pod()
    made["spec"]["containers"][0]["image"] = image
    cluster.api.create("pods", made, "default")
    return cluster


@pytest.mark.parametrize("image", MISNAMED)
def test_an_image_that_no_kubelet_takes_is_told_of_and_the_pod_starts_with_another(image: str) -> None:
    cluster = with_image(image)
    cluster.advance(20)
    waiting = {"reason": "InvalidImageName", "message": misnamed_message(image)}
    assert (cluster.pod("p")["status"]["phase"], state_of(cluster)) == ("Pending", {"waiting": waiting})
    told = [(one["reason"], one["message"], one["count"]) for one in cluster.api.list("events", "default")]
    assert [one[:2] for one in told if one[0] in ("InspectFailed", "Failed")] == misnamed_events(image)
    assert {one[2] for one in told} == {1}

    better = cluster.pod("p")
    better["spec"]["containers"][0]["image"] = "nginx"
    cluster.api.update("pods", better)
    cluster.advance(2)
    assert cluster.pod("p")["status"]["phase"] == "Running"


@pytest.mark.parametrize("image", WELL_NAMED)
def test_images_with_names_as_registries_have_them_are_run(image: str) -> None:
    cluster = with_image(image)
    cluster.advance(2)
    assert cluster.pod("p")["status"]["phase"] == "Running"


def test_what_is_optional_holds_no_pod_up() -> None:
    cluster = SimulatedCluster()
    cluster.api.create("pods", with_case(pod(), OPTIONAL), "default")
    cluster.advance(2)
    assert cluster.pod("p")["status"]["phase"] == "Running"


def test_a_pod_that_waits_can_be_deleted() -> None:
    cluster = SimulatedCluster()
    cluster.api.create("pods", with_case(pod(), CASES["all of a Secret"]), "default")
    cluster.advance(2)
    cluster.api.delete("pods", "p", "default")
    cluster.advance(2)
    assert cluster.pods() == []
