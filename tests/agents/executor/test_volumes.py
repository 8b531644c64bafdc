"""BindVolume and SelectNode: written once, at the version that was read, and never over somebody else's choice."""

from typing import Any

import pytest

from agents.executor.intents.procedures import carry_out
from shared.kube.http import Response
from shared.messages import DONE, REFUSED, STALE, UNKNOWN, AnyIntent, BindVolume, PodRef, SelectNode
from tests.agents.executor.world import NOW, Object, World, lost_reply, run, scripted

POD = PodRef("shop", "web", "uid-web")
VOLUME, CLAIM = "/api/v1/persistentvolumes/pv1", "/api/v1/namespaces/shop/persistentvolumeclaims/data"
BIND = BindVolume("i", POD, 1, "pv1", "shop/data", "c1")
SELECT = SelectNode("i", POD, 1, "shop/data", "c1", "n1")
SET = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": "shop", "name": "data", "uid": "c1"}
BOUND_BY, SELECTED = "pv.kubernetes.io/bound-by-controller", "volume.kubernetes.io/selected-node"
LEAVING = {"deletionTimestamp": "2026-01-01T00:00:00Z"}


def ref(name: str = "data", uid: str = "c1") -> Object:
    return {"namespace": "shop", "name": name, "uid": uid}


def world_of(path: str, metadata: Object | None = None, **spec: Any) -> World:
    world = World()
    name = path.rpartition("/")[2]
    world.api.put(path, {"metadata": {"name": name, "uid": "c1", **(metadata or {})}, "spec": spec})
    return world


def test_a_free_volume_is_set_aside_for_the_claim() -> None:
    world = world_of(VOLUME)
    assert world.do(BIND).verdict == DONE
    volume = world.api.objects[VOLUME]
    assert volume["spec"]["claimRef"] == SET
    assert volume["metadata"]["annotations"] == {BOUND_BY: "yes"}


def test_a_volume_that_its_owner_keeps_for_the_claim_gets_its_uid_alone() -> None:
    world = world_of(VOLUME, claimRef=ref(uid=""))
    assert world.do(BIND).verdict == DONE
    volume = world.api.objects[VOLUME]
    assert volume["spec"]["claimRef"] == SET
    assert "annotations" not in volume["metadata"]


def test_a_claim_learns_its_node() -> None:
    world = world_of(CLAIM)
    assert world.do(SELECT).verdict == DONE
    assert world.api.objects[CLAIM]["metadata"]["annotations"] == {SELECTED: "n1"}


@pytest.mark.parametrize(
    ("world", "intent"),
    [
        pytest.param(world_of(VOLUME, claimRef=ref()), BIND, id="volume"),
        pytest.param(world_of(CLAIM, {"annotations": {SELECTED: "n1"}}), SELECT, id="claim"),
        pytest.param(world_of(CLAIM, volumeName="pv7"), SELECT, id="claim that has a volume"),
    ],
)
def test_what_holds_already_is_not_written_again(world: World, intent: AnyIntent) -> None:
    assert world.do(intent).verdict == DONE
    assert world.api.count("patch") == 0


@pytest.mark.parametrize(
    ("world", "intent", "says"),
    [
        pytest.param(world_of(VOLUME, claimRef=ref("other")), BIND, '"pv1" is kept for shop/other', id="taken"),
        pytest.param(world_of(VOLUME, claimRef=ref(uid="c0")), BIND, "is kept for shop/data", id="taken by one before"),
        pytest.param(world_of(VOLUME, LEAVING), BIND, "is being deleted", id="volume leaving"),
        pytest.param(World(), BIND, 'persistentvolume "pv1" not found', id="volume gone"),
        pytest.param(world_of(CLAIM, {"annotations": {SELECTED: "n2"}}), SELECT, 'on node "n2"', id="another node"),
        pytest.param(world_of(CLAIM, {"uid": "c0"}), SELECT, "was replaced or is being deleted", id="another claim"),
        pytest.param(world_of(CLAIM, LEAVING), SELECT, "was replaced or is being deleted", id="claim leaving"),
        pytest.param(World(), SELECT, 'persistentvolumeclaim "data" not found', id="claim gone"),
    ],
)
def test_a_choice_of_others_is_left_alone(world: World, intent: AnyIntent, says: str) -> None:
    outcome = world.do(intent)
    assert outcome.verdict == STALE
    assert says in outcome.message
    assert world.api.count("patch") == 0


@pytest.mark.parametrize(("path", "intent"), [(VOLUME, BIND), (CLAIM, SELECT)], ids=["volume", "claim"])
def test_a_lost_reply_is_no_second_write(path: str, intent: AnyIntent) -> None:
    world = world_of(path)
    outcome = run(carry_out(intent, 1, world.local, NOW), lost_reply(world.api.answer, "PATCH"))
    assert (outcome.verdict, world.api.count("patch")) == (DONE, 1)


@pytest.mark.parametrize(
    ("answers", "verdict"),
    [
        pytest.param([403], REFUSED, id="no right to read"),
        pytest.param([0, 0], UNKNOWN, id="no answer"),
        pytest.param([Response(200, b"[]")], UNKNOWN, id="nonsense"),
    ],
)
def test_an_answer_in_doubt_is_told_as_it_is(answers: list[Response | int], verdict: str) -> None:
    world = world_of(VOLUME)
    outcome = run(carry_out(BIND, 1, world.local, NOW), scripted(*answers, then=world.api.answer))
    assert outcome.verdict == verdict
    assert world.api.count("patch") == 0


def test_a_write_that_is_forbidden_is_refused_with_the_servers_words() -> None:
    world = world_of(VOLUME)
    forbidden = Response(403, b'{"message":"volumes are not yours"}')
    read = world.api.answer
    outcome = run(
        carry_out(BIND, 1, world.local, NOW), lambda request: forbidden if request.method == "PATCH" else read(request)
    )
    assert (outcome.verdict, outcome.message) == (REFUSED, "volumes are not yours (HTTP 403)")
