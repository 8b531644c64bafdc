"""A delegate that never started is deleted, as it was read: one that has run since is spared."""

import msgspec
import pytest

from agents.executor.intents.procedures import carry_out
from shared.kube.http import Request, Response
from shared.messages import BOUND, DONE, NO_PRIORITY, STALE, UNKNOWN, Evict, PodRef
from tests.agents.executor.world import NOW, World, order_for, pod_object, run

STUCK: dict[str, object] = {"state": {"waiting": {"reason": "ErrImagePull"}}}
RUNNING: dict[str, object] = {"state": {"running": {}}}


def _world(container: dict[str, object], *conditions: dict[str, str]) -> tuple[World, Evict]:
    world = World(cluster="b")
    order = order_for(PodRef("default", "web", "u"), 1, "n1", msgspec.json.encode(pod_object()))
    assert world.do(order).verdict == BOUND
    (pod,) = world.api.pods()
    pod["status"] = {"phase": "Pending", "containerStatuses": [container], "conditions": [*conditions]}
    world.sync()
    ref = PodRef("default", pod["metadata"]["name"], pod["metadata"]["uid"])
    return world, Evict("e", ref, 2, "n1", NO_PRIORITY, "", "not started for 300 s: ErrImagePull", unstarted=True)


def _deleted(world: World) -> bool:
    return any(verb == "delete" for verb, *_ in world.api.done)


@pytest.mark.parametrize(("container", "verdict"), [(STUCK, DONE), (RUNNING, STALE), ({}, STALE)])
def test_only_what_never_started_is_deleted(container: dict[str, object], verdict: str) -> None:
    world, order = _world(container)
    assert world.do(order).verdict == verdict
    assert _deleted(world) == (verdict == DONE)
    assert any(b"NotStarted" in event.body for event in world.local.events) == (verdict == DONE)


@pytest.mark.parametrize(("ready", "verdict"), [("False", DONE), ("True", STALE)])
def test_one_whose_images_are_pulled_meanwhile_is_spared(ready: str, verdict: str) -> None:
    creating: dict[str, object] = {"state": {"waiting": {"reason": "ContainerCreating"}}}
    world, order = _world(creating, {"type": "PodReadyToStartContainers", "status": ready})
    assert world.do(order).verdict == verdict
    assert _deleted(world) == (verdict == DONE)


def test_what_starts_between_the_look_and_the_delete_is_spared() -> None:
    world, order = _world(STUCK)

    def answer(request: Request) -> Response:
        if request.method == "DELETE":
            (pod,) = world.api.pods()
            path = f"/api/v1/namespaces/default/pods/{pod['metadata']['name']}"
            world.api.put(path, {**pod, "status": {"phase": "Running", "containerStatuses": [RUNNING]}})
        return world.api.answer(request)

    assert run(carry_out(order, 1, world.local, NOW), answer).verdict == UNKNOWN
    assert not _deleted(world)
    assert world.do(order).verdict == STALE
