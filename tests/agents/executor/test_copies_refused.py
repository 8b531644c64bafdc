"""Copies that may not be made, or cannot just now: the pod is refused, or has what is there."""

from typing import Any

import msgspec
import pytest

from agents.executor.context.copy_table import BARRED_S
from agents.executor.context.foreign_bytes import ForeignBudget
from agents.executor.crossing.manifest import ManifestError
from agents.executor.crossing.policy import ForeignBytes
from agents.executor.intents.procedures import carry_out
from agents.executor.objects import followers
from shared.kube.http import Request, Response
from shared.kube.times import rfc3339
from shared.messages import BOUND, CLAIMED, OF_CLUSTER, REFUSED, Claim
from shared.model import names
from tests.agents.executor.test_target_needs import NAMED, container, volume
from tests.agents.executor.two_clusters import BLUE, COPY, MAPS, RED, THERE, Fleet, moment, status
from tests.agents.executor.world import NOW, pod_object, run

NOT_OURS: dict[str, dict[str, Any]] = {
    "no marks": {},
    "the label alone": {"labels": {names.COPY: COPY.rpartition("-")[2]}},
    "another original's marks": {
        "labels": {names.COPY: COPY.rpartition("-")[2]},
        "annotations": {names.SOURCE_CLUSTER_UID: "a-cluster-uid", names.COPY_OF: "others"},
    },
}


@pytest.mark.parametrize("marks", NOT_OURS.values(), ids=NOT_OURS)
def test_what_is_there_under_the_name_and_is_no_copy_is_left_alone_and_the_pod_refused(marks: dict[str, Any]) -> None:
    fleet = Fleet()
    fleet.there.api.put(f"{MAPS}/{COPY}", {"metadata": {"name": COPY, **marks}, "data": BLUE})
    outcome = fleet.create(volume(configMap=NAMED))
    assert (outcome.verdict, outcome.scope) == (REFUSED, OF_CLUSTER)
    assert f'ConfigMap "default/{COPY}" is there, and is not a copy of ConfigMap default/settings' in outcome.message
    assert fleet.there.api.done == []


@pytest.mark.parametrize("follows", [(), ("Other",)], ids=["an older agent", "an agent without that kind"])
def test_with_agents_of_an_older_version_there_it_must_be_there_under_its_name(follows: tuple[str, ...]) -> None:
    fleet = Fleet(follows=follows)
    assert names.FOLLOWERS.encode() not in fleet.claim(volume(configMap={**NAMED, "optional": True})).manifest
    assert b'"optional"' not in fleet.home.do(Claim("c", fleet.ref, 1, THERE, "n1", "b-cluster-uid")).manifest


def test_while_an_agent_has_not_said_whether_it_fetches_them_pods_that_name_any_stay() -> None:
    fleet = Fleet(follows=None)
    outcome = fleet.claim(volume(configMap=NAMED))
    assert outcome.verdict == REFUSED
    assert 'spec.volumes[0].configMap cluster "b" has not said yet' in outcome.message
    assert fleet.claim(container(), "plain").verdict == CLAIMED


def test_of_an_agent_of_an_older_version_at_home_it_must_be_there_under_its_name() -> None:
    fleet = Fleet(follows=())
    assert fleet.create(volume(configMap=NAMED)).message.startswith('ConfigMap "default/settings"')
    assert fleet.asks == []


def test_a_user_cannot_write_that_something_follows() -> None:
    said = {"annotations": {names.FOLLOWERS: '{"ConfigMap":{"others":""}}'}}
    assert followers.followers_of(Fleet(follows=()).claim(container(), "web", **said).manifest) == []


def test_where_no_config_map_may_be_read_the_pod_is_made_as_with_agents_of_an_older_version() -> None:
    fleet = Fleet()
    fleet.forbidden = frozenset(("GET",))
    assert fleet.create(volume(configMap=NAMED)).verdict == BOUND
    assert fleet.delegate()["spec"]["volumes"][0]["configMap"] == NAMED


def test_where_no_copy_may_be_written_it_must_be_there_under_its_name_and_the_right_is_named() -> None:
    fleet = Fleet()
    fleet.forbidden = frozenset(("POST",))
    outcome = fleet.create(volume(configMap={**NAMED, "optional": True}))
    assert outcome.verdict == REFUSED
    assert 'ConfigMap "default/settings" (spec.volumes[0].configMap) does not exist' in outcome.message
    assert "its role needs get, create, update, delete" in outcome.message
    fleet.there.api.put(f"{MAPS}/settings", {"metadata": {"name": "settings"}, "data": BLUE})
    assert fleet.create(volume(configMap=NAMED), "again").verdict == BOUND
    assert fleet.delegate()["spec"]["volumes"][0]["configMap"] == NAMED
    fleet.forbidden = frozenset()
    assert fleet.create(volume(configMap=NAMED), "later", moment(BARRED_S)).verdict == BOUND
    assert fleet.copy() is not None


def test_a_pod_whose_namespace_is_barred_while_its_copies_come_names_nothing_that_was_not_looked_for() -> None:
    fleet = Fleet()
    fleet.before = lambda request: fleet.there.local.copies.bar("ConfigMap", "default", NOW.mono, "no right")
    outcome = fleet.create(volume(configMap=NAMED))
    assert (outcome.verdict, outcome.message.endswith("; no right")) == (REFUSED, True)
    assert 'ConfigMap "default/settings"' in outcome.message


def test_a_quota_that_is_used_up_is_no_lack_of_rights() -> None:
    fleet = Fleet()

    def full(request: Request) -> Response:
        if request.method == "POST" and request.path == MAPS:
            return Response(403, b'{"message":"configmaps \\"x\\" is forbidden: exceeded quota: q"}')
        return fleet.answer(request)

    outcome = run(carry_out(fleet.order(volume(configMap=NAMED)), 1, fleet.there.local, NOW), full)
    assert outcome.verdict == REFUSED
    assert "cannot be written: configmaps" in outcome.message
    assert not fleet.there.local.copies.barred("ConfigMap", "default", NOW.mono)


@pytest.mark.parametrize(
    "denied",
    [
        'admission webhook "w" denied the request: User "x" cannot create resource "configmaps"',
        """configmaps "x" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: """
        'User "x" cannot create resource "configmaps"',
    ],
    ids=["a webhook", "a policy"],
)
def test_what_admission_denies_in_words_of_rights_is_no_lack_of_rights(denied: str) -> None:
    fleet = Fleet()
    barred = lambda request: status(403, denied) if request.method == "POST" else fleet.answer(request)  # noqa: E731
    outcome = run(carry_out(fleet.order(volume(configMap=NAMED)), 1, fleet.there.local, NOW), barred)
    assert (outcome.verdict, "cannot be written: " in outcome.message) == (REFUSED, True)
    assert "its role needs" not in outcome.message
    assert not fleet.there.local.copies.barred("ConfigMap", "default", NOW.mono)


def test_in_a_namespace_that_is_being_deleted_a_pod_is_refused_for_a_while() -> None:
    fleet = Fleet()
    ends = {
        "kind": "Status",
        "message": 'configmaps "x" is forbidden: unable to create new content in namespace default because it is '
        "being terminated",
        "details": {"causes": [{"reason": "NamespaceTerminating", "field": "metadata.namespace"}]},
    }
    going = Response(403, msgspec.json.encode(ends))
    answer = lambda request: going if request.method == "POST" else fleet.answer(request)  # noqa: E731
    for spec in (volume(configMap=NAMED), container()):
        order = fleet.order(spec, "with-copies" if "volumes" in spec else "alone")
        outcome = run(carry_out(order, 1, fleet.there.local, NOW), answer)
        assert (outcome.verdict, outcome.passing) == (REFUSED, True)
        assert "being terminated" in outcome.message


@pytest.mark.parametrize("immutable", [True, False])
def test_a_forged_copy_that_a_finalizer_holds_sends_pods_elsewhere(immutable: bool) -> None:
    fleet = Fleet()
    fleet.create(volume(configMap=NAMED), "first")
    held = fleet.copy() or {}
    held |= {"data": BLUE, "immutable": immutable}
    held["metadata"] |= {"finalizers": ["example.com/hold"], "deletionTimestamp": rfc3339(NOW.wall)}
    fleet.there.api.put(f"{MAPS}/{COPY}", held)
    outcome = fleet.create(volume(configMap=NAMED), "second", moment(60))
    assert (outcome.verdict, outcome.scope) == (REFUSED, OF_CLUSTER)
    assert f'ConfigMap "default/{COPY}" is being deleted, and held by finalizers (example.com/hold)' in outcome.message


def test_while_its_home_cannot_be_asked_a_pod_is_refused_for_a_while() -> None:
    fleet = Fleet()
    fleet.cut = "no gateway"
    outcome = fleet.create(volume(configMap=NAMED))
    assert (outcome.verdict, outcome.passing) == (REFUSED, True)
    assert 'cluster "a" cannot be asked for ConfigMap "default/settings" (no gateway)' in outcome.message


def test_while_home_cannot_be_read_nothing_is_claimed_that_names_a_config_map() -> None:
    fleet = Fleet()
    ref = fleet.home.submit(pod_object(**volume(configMap=NAMED)))

    def broken(request: Request) -> Response:
        return Response(500) if "/configmaps/" in request.path else fleet.home.api.answer(request)

    order = Claim("c", ref, 1, THERE, "n1", "b-cluster-uid")
    outcome = run(carry_out(order, 1, fleet.home.local, NOW), broken)
    assert outcome.verdict == REFUSED
    assert 'is ConfigMap "settings", of which its own cluster does not tell now' in outcome.message


@pytest.mark.parametrize("data", [BLUE, None], ids=["replaced at home", "deleted at home"])
@pytest.mark.parametrize(
    "why", ['User "agent" cannot delete resource "configmaps"', 'admission webhook "w" denied the request: no']
)
def test_an_immutable_one_that_may_not_be_made_anew_is_said_to_be_so(why: str, data: dict[str, str] | None) -> None:
    fleet = Fleet()
    fleet.put(RED, immutable=True)
    fleet.create(volume(configMap=NAMED), "first")
    if data is None:
        del fleet.home.api.objects[f"{MAPS}/settings"]
        fleet.home.local.at_home.clear()
    else:
        fleet.put(data, immutable=True)
    order = fleet.order(volume(configMap=NAMED), "second")
    barred = lambda request: status(403, why) if request.method == "DELETE" else fleet.answer(request)  # noqa: E731
    outcome = run(carry_out(order, 1, fleet.there.local, NOW), barred)
    assert outcome.verdict == REFUSED
    assert why in outcome.message


@pytest.mark.parametrize(("method", "code"), [("POST", 401), ("POST", 408), ("POST", 500), ("PUT", 404), ("PUT", 409)])
def test_what_another_try_mends_refuses_no_pod(method: str, code: int) -> None:
    fleet = Fleet()
    if method == "PUT":
        fleet.create(volume(configMap=NAMED), "first")
        fleet.put(BLUE)
    once = iter((code,))

    def failing(request: Request) -> Response:
        ours = request.method == method and request.path.startswith(MAPS)
        failed = next(once, 0) if ours else 0
        return status(failed, "x") if failed else fleet.answer(request)

    order = fleet.order(volume(configMap=NAMED), "second")
    assert run(carry_out(order, 1, fleet.there.local, NOW), failing).verdict == BOUND


def test_copies_count_with_the_bytes_of_pods() -> None:
    fleet = Fleet(data={"key": "x" * 700_000})
    local = fleet.there.local
    local.foreign_budget = ForeignBudget(ForeignBytes(namespace_mib=1), local.copies, local.services)
    assert fleet.create(volume(configMap=NAMED)).verdict == BOUND
    fleet.put({"key": "y" * 700_000}, "more")
    outcome = fleet.create(volume(configMap={"name": "more"}), "second")
    assert (outcome.verdict, outcome.scope) == (REFUSED, OF_CLUSTER)
    assert "foreign_bytes.namespace_mib" in outcome.message
    assert len([path for path in fleet.there.api.objects if path.startswith(MAPS)]) == 1
    fleet.ends()
    fleet.tend_until(100)
    assert fleet.create(volume(configMap={"name": "more"}), "third", moment(110)).verdict == BOUND


@pytest.mark.parametrize(
    "told",
    ['{"ConfigMap":{"%s":""}}' % ("x" * 4000), '{"ConfigMap":{"../secrets/x":""}}', '{"ConfigMap":{"a":"zz"}}', "[]"],
    ids=["too long", "no name", "no digest", "no map"],
)
def test_what_a_hostile_source_says_of_what_follows_is_bounded(told: str) -> None:
    manifest = msgspec.json.encode({"metadata": {"annotations": {names.FOLLOWERS: told}}, "spec": {}})
    with pytest.raises(ManifestError):
        followers.followers_of(manifest)
