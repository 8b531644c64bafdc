"""pods/eviction and PodDisruptionBudgets."""

from typing import Any

import pytest

from tests.contract.client import Answer, Api, Body, pod


def eviction(name: str = "web-0", **options: Any) -> Body:
    meta: Body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
    return meta | ({"deleteOptions": options} if options else {})


async def evict(api: Api, body: Body, name: str = "web-0", **query: str) -> Answer:
    return await api.post(api.at("pods", name, "eviction"), body, **query)


async def ready(api: Api, count: int) -> None:
    """Ready pods web-0, web-1, ... on a node that nobody plays."""
    for number in range(count):
        name = f"web-{number}"
        await api.add("pods", pod(name, labels={"app": "web"}))
        await api.bound(name)
        conditions = [{"type": "Ready", "status": "True"}]
        await api.change("pods", f"{name}/status", {"status": {"phase": "Running", "conditions": conditions}})


async def budget(api: Api, allowed: int, name: str = "guard", **bound: Any) -> None:
    """A budget that has been counted by its controller."""
    spec = {"selector": {"matchLabels": {"app": "web"}}, **bound}
    await api.add("poddisruptionbudgets", {"metadata": {"name": name}, "spec": spec})
    await api.until("poddisruptionbudgets", name, lambda found: _counted(found, allowed))


def _counted(found: Body, allowed: int) -> bool:
    status = found.get("status", {})
    return bool(status.get("observedGeneration") == 1 and status.get("disruptionsAllowed") == allowed)


async def test_a_pod_that_runs_nowhere_is_evicted_at_once(api: Api) -> None:
    await api.add("pods", pod("web-0"))
    assert (await evict(api, eviction())).status == 201
    assert (await api.get(api.at("pods", "web-0"))).status == 404


async def test_an_eviction_marks_the_pod_and_spends_the_budget(api: Api) -> None:
    await ready(api, 2)
    await budget(api, 1, minAvailable=1)
    answer = await evict(api, eviction(gracePeriodSeconds=7))
    assert (answer.status, answer.body["status"]) == (201, "Success")
    going = await api.read("pods", "web-0")
    assert going["metadata"]["deletionGracePeriodSeconds"] == 7
    (condition,) = [item for item in going["status"]["conditions"] if item["type"] == "DisruptionTarget"]
    assert (condition["status"], condition["reason"], condition["message"]) == (
        "True",
        "EvictionByEvictionAPI",
        "Eviction API: evicting",
    )
    assert (await api.read("poddisruptionbudgets", "guard"))["status"]["disruptionsAllowed"] == 0


async def test_an_eviction_beyond_the_budget_is_a_429(api: Api) -> None:
    await ready(api, 1)
    await budget(api, 0, minAvailable=1)
    # Its controller may have counted it before it saw the pod Ready: none may go then, either.
    await api.until("poddisruptionbudgets", "guard", lambda found: found["status"]["currentHealthy"] == 1)
    answer = await evict(api, eviction())
    assert (answer.status, answer.reason) == (429, "TooManyRequests")
    assert answer.message == "Cannot evict pod as it would violate the pod's disruption budget."
    cause = "The disruption budget guard needs 1 healthy pods and has 1 currently"
    assert answer.body["details"]["causes"] == [{"reason": "DisruptionBudget", "message": cause}]
    assert "deletionTimestamp" not in (await api.read("pods", "web-0"))["metadata"]


async def test_a_lower_number_in_a_budget_lets_the_next_pod_go(api: Api) -> None:
    await ready(api, 2)
    await budget(api, 0, minAvailable=2)
    assert (await evict(api, eviction())).status == 429
    await api.change("poddisruptionbudgets", "guard", {"spec": {"minAvailable": 1}})
    await api.until("poddisruptionbudgets", "guard", lambda found: found["status"]["disruptionsAllowed"] == 1)
    assert (await evict(api, eviction())).status == 201


async def test_of_two_evictions_under_a_budget_of_one_the_second_waits(api: Api) -> None:
    await ready(api, 3)
    await budget(api, 1, minAvailable=2)
    assert (await evict(api, eviction())).status == 201
    assert (await evict(api, eviction("web-1"), "web-1")).status == 429


async def test_a_pod_of_two_budgets_is_not_evicted(api: Api) -> None:
    await ready(api, 2)
    await budget(api, 1, minAvailable=1)
    await budget(api, 1, "other", minAvailable=1)
    answer = await evict(api, eviction())
    assert (answer.status, answer.reason) == (500, "")
    assert answer.message == (
        "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
    )


@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        (eviction("other"), 400, "name in URL does not match name in Eviction object"),
        ({}, 400, "name in URL does not match name in Eviction object"),
        (
            eviction(preconditions={"uid": "z"}),
            409,
            'Operation cannot be fulfilled on Pod "web-0": the UID in the precondition (z) does not match the UID',
        ),
    ],
    ids=["name", "nothing", "uid"],
)
async def test_an_eviction_that_cannot_be_done_changes_nothing(api: Api, body: Body, status: int, message: str) -> None:
    before = await api.add("pods", pod("web-0"))
    answer = await evict(api, body)
    assert answer.status == status
    assert message in answer.message
    assert await api.read("pods", "web-0") == before


@pytest.mark.parametrize(
    ("body", "query"), [(eviction(dryRun=["All"]), {}), (eviction(), {"dryRun": "All"})], ids=["body", "query"]
)
async def test_a_dry_eviction_evicts_nothing(api: Api, body: Body, query: dict[str, str]) -> None:
    before = await api.add("pods", pod("web-0"))
    assert (await evict(api, body, **query)).status == 201
    assert await api.read("pods", "web-0") == before


@pytest.mark.parametrize(
    ("bound", "allowed", "desired"),
    [
        ({"minAvailable": 1}, 2, 1),
        ({"minAvailable": 9}, 0, 9),
        ({"minAvailable": 0}, 3, 0),
    ],
    ids=str,
)
async def test_a_budget_is_counted(api: Api, bound: Body, allowed: int, desired: int) -> None:
    await ready(api, 3)
    await budget(api, allowed, **bound)  # none allowed may also be what was counted before the pods were seen
    await api.until("poddisruptionbudgets", "guard", lambda found: found["status"]["currentHealthy"] == 3)
    status = (await api.read("poddisruptionbudgets", "guard"))["status"]
    assert (status["currentHealthy"], status["desiredHealthy"], status["expectedPods"]) == (3, desired, 3)
