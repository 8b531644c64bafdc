"""Copies of the ConfigMaps that delegates name are kept like their originals."""

import pytest

from agents.executor.context import copy_table
from agents.executor.context.foreign_bytes import ForeignBudget
from agents.executor.crossing.policy import ForeignBytes
from agents.executor.duties.copy_upkeep import reconcile_tasks
from agents.executor.objects.copy_objects import original_of
from shared.kube.http import Request, Response
from shared.messages import BOUND, PodRef
from shared.messages.relay import OBJECTS, PodWants, RelayAsk, WantedObject, encode_relay
from shared.model import names
from tests.agents.executor.test_target_needs import NAMED, container, volume
from tests.agents.executor.two_clusters import BLUE, COPY, MAPS, RED, THERE, Fleet, moment, stale
from tests.agents.executor.world import run, source_of


def test_a_change_at_home_arrives_and_what_is_unchanged_does_not_cross_again() -> None:
    fleet = Fleet()
    fleet.create(volume(configMap=NAMED))
    fleet.tend_until(60)
    assert {given for wants in fleet.asks[1:] for one in wants for given in one.objects if not given.digest} == set()
    fleet.put(BLUE)
    fleet.tend_until(100)
    assert (fleet.copy() or {})["data"] == BLUE


def test_one_that_could_not_be_read_for_a_while_is_deleted_all_the_same() -> None:
    fleet = Fleet()
    fleet.create(volume(configMap=NAMED))
    fleet.ends()
    fleet.forbidden = frozenset(("GET",))
    for at in range(0, 200, 10):
        fleet.tend(at)
    fleet.forbidden = frozenset()
    for at in range(200, 300, 10):
        fleet.tend(at)
    assert fleet.copy() is None


def test_what_its_owner_keeps_at_home_later_stays_as_it_was_for_pods_that_run_is_told_and_new_for_none() -> None:
    fleet = Fleet()
    fleet.create(volume(configMap=NAMED), "first")
    kept = {"metadata": {"name": "settings", "annotations": {names.CONSENT: "none"}}, "data": BLUE}
    fleet.home.api.put(f"{MAPS}/settings", kept)
    fleet.home.local.at_home.clear()
    for at in range(0, 300, 10):
        fleet.tend(at)
    assert (fleet.copy() or {})["data"] == RED
    (told,) = stale(fleet)
    assert told.startswith('Not as at home: the copy in cluster b stays as it was of ConfigMap "settings": ')
    assert "has the annotation global-dispatcher.io/follow: none" in told
    assert fleet.create(volume(configMap=NAMED), "second", moment(300)).message.startswith(
        'ConfigMap "default/settings" (spec.volumes[0].configMap) does not exist in cluster "b"'
    )


def test_a_copy_for_which_there_are_no_bytes_left_is_told_of_its_delegate() -> None:
    fleet = Fleet()
    fleet.create(volume(configMap=NAMED))
    local = fleet.there.local
    local.foreign_budget = ForeignBudget(ForeignBytes(namespace_mib=1), local.copies, local.services)
    fleet.put({"key": "x" * 1_100_000})
    for at in range(0, 200, 10):
        fleet.tend(at)
    (told,) = stale(fleet)
    assert "foreign_bytes.namespace_mib" in told


def test_a_copy_at_which_the_server_fails_is_told_once_it_goes_on() -> None:
    fleet = Fleet()
    fleet.create(volume(configMap=NAMED))
    fleet.put(BLUE)
    failing = True

    def answer(request: Request) -> Response:
        return Response(500) if failing and request.method == "PUT" else fleet.answer(request)

    def tend(begin: int, end: int) -> None:
        fleet.there.sync()
        for at in range(begin, end, 10):
            for task in reconcile_tasks(fleet.there.local, moment(at)):
                run(task.procedure, answer)

    tend(0, 40)
    assert stale(fleet) == []
    tend(40, 300)
    assert len(stale(fleet)) == 1
    failing = False
    tend(300, 330)
    assert (fleet.copy() or {})["data"] == BLUE


def test_an_immutable_original_that_is_made_anew_is_made_anew_there() -> None:
    fleet = Fleet()
    fleet.put(RED, immutable=True)
    fleet.create(volume(configMap=NAMED))
    before = (fleet.copy() or {})["metadata"]["uid"]
    fleet.put(BLUE, immutable=True)
    fleet.tend_until(30)
    copy = fleet.copy() or {}
    assert (copy["data"], copy["immutable"], copy["metadata"]["uid"] != before) == (BLUE, True, True)


@pytest.mark.parametrize("deleted", [True, False], ids=["deleted", "edited"])
def test_a_copy_that_somebody_has_changed_there_is_mended(deleted: bool) -> None:
    fleet = Fleet()
    fleet.create(volume(configMap=NAMED))
    if deleted:
        del fleet.there.api.objects[f"{MAPS}/{COPY}"]
    else:
        (fleet.copy() or {})["data"] = BLUE
    fleet.tend_until(60)
    assert (fleet.copy() or {})["data"] == RED


@pytest.mark.parametrize("data", [RED, None], ids=["there at home", "lacking at home"])
def test_an_optional_one_that_somebody_deletes_there_is_made_again_and_told(data: dict[str, str] | None) -> None:
    fleet = Fleet(data=data)
    fleet.create(volume(configMap={**NAMED, "optional": True}))
    fleet.tend(0)
    fleet.there.api.objects.pop(f"{MAPS}/{COPY}", None)
    fleet.tend_until(60)
    assert (fleet.copy() is not None) == (data is not None)
    told = [one for one in stale(fleet) if 'was deleted there, and is made again, of ConfigMap "settings"' in one]
    assert len(told) == (data is not None)


def test_what_is_deleted_at_home_and_there_is_told_of_to_nobody() -> None:
    fleet = Fleet()
    fleet.create(volume(configMap=NAMED))
    del fleet.home.api.objects[f"{MAPS}/settings"], fleet.there.api.objects[f"{MAPS}/{COPY}"]
    assert fleet.tend(60) == []
    assert stale(fleet) == []


def test_all_pods_of_one_cluster_are_asked_about_at_once_and_by_few_of_them() -> None:
    fleet = Fleet()
    fleet.put(BLUE, "more")
    both = {**container(), "volumes": [{"name": "v", "configMap": NAMED}, {"name": "w", "configMap": {"name": "more"}}]}
    for name in ("x", "y", "z"):
        assert fleet.create(both, name).verdict == BOUND
    fleet.asks.clear()
    assert fleet.tend(0) == []
    ((wants,),) = fleet.asks
    assert [one.name for one in wants.objects] == ["settings", "more"]


@pytest.mark.parametrize("orphans", [1, 3])
def test_pods_that_are_not_known_at_home_any_more_keep_no_others_from_what_follows(orphans: int) -> None:
    fleet = Fleet()
    naming = {**container(), "volumes": [{"name": "v", "configMap": NAMED}]}
    for name in (*(f"orphan{number}" for number in range(orphans)), "web"):
        assert fleet.create(naming, name).verdict == BOUND
    for number in range(orphans):
        fleet.home.api.objects.pop(f"/api/v1/namespaces/default/pods/orphan{number}")
    fleet.put(BLUE)
    for at in range(0, 61, 5):
        fleet.tend(at)
    assert (fleet.copy() or {})["data"] == BLUE
    fleet.put(RED)
    fleet.asks.clear()
    for at in range(65, 90, 5):
        fleet.tend(at)
    assert (fleet.copy() or {})["data"] == RED
    assert {wants.pod.name for ask in fleet.asks for wants in ask} == {"web"}


def test_very_many_are_asked_for_in_questions_of_a_size_that_can_be_asked() -> None:
    ref = PodRef("default", "web", "u")
    many = [original_of(source_of(ref, 1), "ConfigMap", f"settings-{'x' * 200}-{at}") for at in range(200)]
    asks = list(copy_table.questions([(ref, many)]))
    assert [one for ask in asks for _, of in ask for one in of] == many
    for ask in asks:
        wants = tuple(
            PodWants(pod, tuple(WantedObject(one.kind, one.name, b"d" * 32) for one in of)) for pod, of in ask
        )
        asked = RelayAsk(source_of(ref, 1), THERE, "b-cluster-uid", b"c" * 16, OBJECTS, "GET", wants=wants)
        assert len(encode_relay(asked)) < 14 * 1024


def test_what_is_deleted_at_home_is_deleted_there() -> None:
    fleet = Fleet()
    fleet.create(volume(configMap=NAMED))
    del fleet.home.api.objects[f"{MAPS}/settings"]
    fleet.tend_until(30)
    assert fleet.copy() is None
