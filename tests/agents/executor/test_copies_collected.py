"""Copies are deleted some time after the last pod that names them, and not before; looks at pods are bounded."""

import tracemalloc
from collections.abc import Callable
from copy import deepcopy
from typing import Any

import msgspec
import pytest

from agents.executor.context import copy_table
from agents.executor.duties import copy_upkeep
from agents.executor.duties.copy_upkeep import reconcile_tasks
from agents.executor.intents.procedures import carry_out
from agents.executor.objects import source_manifest
from agents.executor.objects.copies import bring
from agents.executor.objects.kinds import KINDS
from agents.executor.objects.pages import ListError
from agents.executor.relayed import giving
from shared.kube.http import Request, Response
from shared.messages import BOUND, CLAIMED, REFUSED, UNKNOWN
from shared.messages.relay import MOST_GIVEN, OBJECTS, PodWants, RelayAsk, WantedObject
from shared.model import names
from shared.model.copy_names import copy_name
from tests.agents.executor.test_target_needs import KEYED, NAMED, NEEDS, container, volume
from tests.agents.executor.two_clusters import BLUE, COPY, HOME, MAPS, RED, THERE, Fleet, moment
from tests.agents.executor.world import NOW, pod_object, run, source_of


def test_however_much_is_asked_for_little_of_it_is_in_memory_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_manifest, "MOST_FOLLOWING", 2**30)
    fleet = Fleet()
    many = [f"large-{at}" for at in range(40)]
    for name in many:
        fleet.put({"text": name + "x" * 900_000}, name)
    fleet.order(container(envFrom=[{"configMapRef": {"name": one}} for one in many]))
    wanted = tuple(WantedObject("ConfigMap", one) for one in many)
    asked = RelayAsk(
        source_of(fleet.ref, 1), THERE, "b-cluster-uid", b"", OBJECTS, "GET", wants=(PodWants(fleet.ref, wanted),)
    )
    tracemalloc.start()
    try:
        run(giving.answer(asked, b"", fleet.home.local), fleet.home.api.answer)
        assert tracemalloc.get_traced_memory()[1] < 5 * MOST_GIVEN
    finally:
        tracemalloc.stop()


def test_however_much_pods_name_a_turn_is_short_and_others_do_not_wait_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copy_upkeep, "_AT_ONCE", 100)
    fleet = Fleet()
    for name in ("one", "two"):
        many = [{"configMapRef": {"name": f"{name}-{at}", "optional": True}} for at in range(60)]
        fleet.create(container(envFrom=[*many, {"configMapRef": NAMED}]), name)
    local = fleet.there.local
    assert [one.name for one in reconcile_tasks(local, moment(0))] == ["copies"]
    assert local.copies.look is not None
    assert [one.name for one in reconcile_tasks(local, moment(1))] == ["copies", "copies of a-cluster-uid/default"]
    assert local.copies.look is None


def test_what_many_pods_name_alike_is_looked_through_in_few_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copy_upkeep, "_AT_ONCE", 100)
    fleet = Fleet()
    many = container(envFrom=[{"configMapRef": {"name": f"n-{at}", "optional": True}} for at in range(60)])
    for at in range(12):
        fleet.create(many, f"pod-{at}")
    for again in range(2):
        look = copy_upkeep._in_use(fleet.there.local, moment(again))
        assert sum(1 for _ in look) == 0
    assert len(fleet.there.local.copies.known) == 60


@pytest.mark.parametrize("bound", ["MOST_OF_NAMESPACE", "MOST_OF_CLUSTER"])
def test_so_many_names_have_copies_and_no_more(bound: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copy_table, bound, 3)
    fleet = Fleet()
    some = [{"configMapRef": {"name": f"n-{at}", "optional": True}} for at in range(4)]
    assert fleet.create(container(envFrom=some[:3]), "one").verdict == BOUND
    refused = fleet.create(container(envFrom=some[2:]), "two")
    assert (refused.verdict, refused.message.endswith("name more than 3 objects here")) == (REFUSED, True)
    assert fleet.create(container(envFrom=some[1:3]), "three").verdict == BOUND
    fleet.ends()
    fleet.tend_until(120)
    assert fleet.create(container(envFrom=some[2:]), "four", moment(130)).verdict == BOUND


def test_a_pod_that_very_much_would_follow_stays_and_no_more_is_read_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_manifest, "MOST_FOLLOWING", 3_500)
    fleet = Fleet()
    for at in range(6):
        fleet.put({"text": "x" * 1_000}, f"n-{at}")
    some = [{"configMapRef": {"name": f"n-{at}"}} for at in range(6)]
    assert fleet.claim(container(envFrom=some[:3]), "little").verdict == CLAIMED
    refused = fleet.claim(container(envFrom=some), "much")
    assert (refused.verdict, "MiB that would follow the pod" in refused.message) == (REFUSED, True)
    assert ("ConfigMap", "default", "n-5", "") not in dict(fleet.home.local.at_home.items())


def test_a_name_that_a_delegate_tells_twice_is_asked_for_once() -> None:
    fleet = Fleet()
    fleet.create(volume(configMap=NAMED))
    fleet.delegate()["metadata"]["annotations"][names.FOLLOWERS] = "ConfigMap/settings ConfigMap/settings"
    fleet.put(BLUE)
    fleet.tend_until(30)
    assert (fleet.copy() or {})["data"] == BLUE


def test_a_copy_goes_some_time_after_the_last_pod_that_names_it() -> None:
    fleet = Fleet()
    fleet.create(volume(configMap=NAMED))
    fleet.tend_until(60)
    fleet.ends()
    fleet.tend(70)
    assert fleet.copy() is not None
    fleet.tend_until(150)
    assert fleet.copy() is None
    assert len(fleet.there.local.copies.known) == 0


def test_a_copy_stays_while_its_home_is_cut_off_and_its_pods_run() -> None:
    fleet = Fleet()
    fleet.create(volume(configMap=NAMED))
    fleet.cut = "no gateway"
    for at in range(0, 400, 10):
        fleet.tend(at)
    assert fleet.copy() is not None


def test_a_copy_stays_while_the_api_server_shows_a_pod_that_names_it_whatever_its_marks() -> None:
    fleet = Fleet()
    fleet.create(volume(configMap=NAMED))
    del fleet.delegate()["metadata"]["annotations"][names.FOLLOWERS]
    fleet.tend_until(400)
    assert fleet.copy() is not None


def pages_of(pods: list[dict[str, Any]], per_page: int = 1) -> Callable[[Request], Response]:
    """A server that shows so many of them at a time."""

    def answer(request: Request) -> Response:
        at = int(request.params.get("continue", 0))
        end = at + min(per_page, int(request.params["limit"]))
        following = {"continue": str(end)} if end < len(pods) else {}
        return Response(200, msgspec.json.encode({"metadata": following, "items": pods[at:end]}))

    return answer


def test_what_pods_name_is_found_page_by_page_in_whatever_field() -> None:
    hashes = [f"{at:016x}" for at in range(len(NEEDS))]
    pods = [
        msgspec.json.decode(
            msgspec.json.encode(pod_object(**NEEDS[field])).replace(b'"settings"', b'"s-%b"' % one.encode())
        )
        for field, one in zip(NEEDS, hashes, strict=True)
    ]
    sought = {*hashes, "e" * 16, "f" * 16}
    assert run(copy_upkeep.named_in("default", sought), pages_of(pods)) == set(hashes)
    pods[0]["metadata"]["annotations"] = {"note": '"s-ffffffffffffffff" s-eeeeeeeeeeeeeeee.'}
    assert run(copy_upkeep.named_in("default", sought), pages_of(pods)) == set(hashes)


def test_of_the_names_that_pods_make_up_none_is_kept() -> None:
    pods = [pod_object(**container(args=[f"s-{page:04x}{at:012x}" for at in range(2_000)])) for page in range(50)]
    tracemalloc.start()
    try:
        assert run(copy_upkeep.named_in("default", {"f" * 16}), pages_of(pods)) == set()
        assert tracemalloc.get_traced_memory()[1] < 2**20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("body", [b"{}", b'{"items":null}', b'{"items":[', b"[]"])
def test_what_is_no_list_is_no_word_that_nothing_is_named(body: bytes) -> None:
    with pytest.raises(ListError, match="cannot be read"):
        run(copy_upkeep.named_in("default", set()), lambda request: Response(200, body))


def test_of_pods_that_are_as_large_as_may_be_a_turn_makes_no_objects_and_takes_few() -> None:
    env = [{"name": f"n{at}", "valueFrom": {"configMapKeyRef": {**KEYED, "name": f"s-{at}"}}} for at in range(13_000)]
    body = msgspec.json.encode({"metadata": {}, "items": [pod_object(**container(env=env))]})
    asked: list[int] = []

    def answer(request: Request) -> Response:
        asked.append(int(request.params["limit"]))
        return Response(200, body)

    tracemalloc.start()
    try:
        assert run(copy_upkeep.named_in("default", {"f" * 16}), answer) == set()
        assert tracemalloc.get_traced_memory()[1] < 4 * len(body)
    finally:
        tracemalloc.stop()
    assert max(asked) <= 10


@pytest.mark.parametrize("broken", ["pods", "configmaps"])
def test_a_copy_stays_while_the_api_server_does_not_say_that_nobody_names_it(broken: str) -> None:
    fleet = Fleet()
    fleet.create(volume(configMap=NAMED))
    fleet.tend(0)
    fleet.ends()

    def silent(request: Request) -> Response:
        return Response(500) if request.method == "GET" and f"/{broken}" in request.path else fleet.answer(request)

    fleet.there.sync()
    for at in range(0, 200, 10):
        for task in reconcile_tasks(fleet.there.local, moment(at)):
            run(task.procedure, silent)
    assert fleet.copy() is not None


def test_before_everything_is_listed_nothing_is_done() -> None:
    fleet = Fleet()
    fleet.create(volume(configMap=NAMED))
    fleet.there.restart(listed=False)
    fleet.there.local.follows = tuple(KINDS)
    assert list(reconcile_tasks(fleet.there.local, moment(500))) == []


def test_a_copy_whose_last_pod_went_in_an_earlier_life_is_found_by_its_label() -> None:
    fleet = Fleet()
    fleet.create(volume(configMap=NAMED))
    fleet.there.api.put(f"{MAPS}/mine", {"metadata": {"name": "mine", "namespace": "default"}, "data": RED})
    fleet.ends()
    fleet.there.restart()
    fleet.there.local.follows = tuple(KINDS)
    fleet.tend_until(100)
    assert fleet.copy() is None
    assert f"{MAPS}/mine" in fleet.there.api.objects


@pytest.mark.parametrize("may", [True, False])
def test_an_agent_of_some_namespaces_finds_there_what_an_earlier_life_has_made(may: bool) -> None:
    fleet = Fleet()
    fleet.there.api.namespaces.add("team")
    fleet.create(volume(configMap=NAMED))
    fleet.ends()
    fleet.there.restart()
    fleet.there.local.follows = tuple(KINDS)

    def answer(request: Request) -> Response:
        lists = request.method == "GET" and request.path.endswith("/configmaps")
        return Response(403, b"{}") if lists and (not may or request.path != MAPS) else fleet.answer(request)

    for at in range(0, 200, 10):
        for task in list(reconcile_tasks(fleet.there.local, moment(at))):
            assert run(task.procedure, answer) == ""
    assert (fleet.copy() is None) == may


def test_a_copy_that_a_restore_brings_back_without_its_pods_is_found_and_goes() -> None:
    fleet = Fleet()
    fleet.create(volume(configMap=NAMED))
    copy = deepcopy(fleet.copy()) or {}
    fleet.ends()
    fleet.tend_until(150)
    assert fleet.copy() is None
    fleet.there.api.put(f"{MAPS}/{COPY}", copy)
    fleet.there.local.server_went_back()
    for at in range(160, 300, 10):
        assert fleet.tend(at) == []
    assert fleet.copy() is None


def test_what_anybody_marks_as_a_copy_takes_nothing_of_what_its_cluster_may_have(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(copy_table, "MOST_OF_CLUSTER", 3)
    fleet = Fleet()
    for at in range(5):
        name = copy_name("a-cluster-uid", "default", "ConfigMap", f"forged-{at}")
        marks = {names.SOURCE_CLUSTER: HOME, names.SOURCE_CLUSTER_UID: "a-cluster-uid", names.COPY_OF: f"forged-{at}"}
        metadata = {"name": name, "namespace": "default", "annotations": marks}
        metadata["labels"] = {names.COPY: name.rpartition("-")[2]}
        fleet.there.api.put(f"{MAPS}/{name}", {"metadata": metadata, "data": RED})
        fleet.there.submit(pod_object(f"holds-{at}", **volume(configMap={"name": name})))
    fleet.tend_until(120)
    assert (len(fleet.there.local.copies.known), fleet.there.local.copies.bytes_of(HOME)) == (5, 0)
    assert (
        run(carry_out(fleet.order(volume(configMap=NAMED)), 1, fleet.there.local, NOW), fleet.answer).verdict == BOUND
    )


def test_a_pod_that_comes_while_a_copy_is_being_deleted_waits_for_a_new_one() -> None:
    fleet = Fleet()
    fleet.create(volume(configMap=NAMED))
    fleet.tend(0)
    fleet.ends()
    order = fleet.order(volume(configMap=NAMED), "again")
    seen: list[str] = []

    def meanwhile(request: Request) -> None:
        if request.method == "DELETE":
            answer = run(bring(order, fleet.there.local, moment(100)), fleet.there.api.answer)
            seen.append(answer.verdict if answer is not None else "")

    fleet.before = meanwhile
    fleet.tend_until(120)
    assert seen == [UNKNOWN]


def test_a_pod_that_came_since_the_look_keeps_the_copy() -> None:
    fleet = Fleet()
    fleet.create(volume(configMap=NAMED))
    fleet.tend(0)
    fleet.ends()
    order = fleet.order(volume(configMap=NAMED), "again")

    def meanwhile(request: Request) -> None:
        if request.path.endswith("/pods") and request.method == "GET":
            fleet.before = lambda request: None
            assert run(bring(order, fleet.there.local, moment(100)), fleet.answer) is None

    fleet.before = meanwhile
    fleet.tend_until(120)
    assert fleet.copy() is not None


def test_a_copy_that_was_written_since_it_was_read_is_not_deleted_but_read_again() -> None:
    fleet = Fleet()
    fleet.create(volume(configMap=NAMED))
    fleet.tend(0)
    fleet.ends()

    def written(request: Request) -> None:
        if request.method == "DELETE":
            fleet.before = lambda request: None
            fleet.there.api._stamp(fleet.copy() or {})

    fleet.before = written
    assert "Precondition failed" in fleet.tend(100)[-1]
    assert fleet.copy() is not None
    assert fleet.tend(110) == []
    assert fleet.copy() is None
