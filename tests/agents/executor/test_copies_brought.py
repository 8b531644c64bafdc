"""Copies of the ConfigMaps that a delegate names are there before it, by names of their own."""

from typing import Any

import msgspec
import pytest

from agents.executor.intents.procedures import carry_out
from agents.executor.objects import contents, copies, followers
from agents.executor.objects.copies import PeerAsk
from agents.executor.objects.kinds import KINDS
from agents.kube.convert import pod_seen
from shared.kube.http import Request, Response
from shared.kube.times import rfc3339
from shared.messages import BOUND, REFUSED, Claim, CreateDelegate
from shared.messages.relay import CONTENT, MOST_GIVEN, MOST_OBJECT, Given, GivenObjects, encode_relay
from shared.model import names
from shared.model.copy_names import copy_name
from tests.agents.executor.test_target_needs import ITEMS, KEYED, NAMED, NEEDS, container, variable, volume
from tests.agents.executor.two_clusters import BLUE, COPY, HOME, MAPS, RED, THERE, Fleet, moment
from tests.agents.executor.world import NOW, pod_object, run, source_of


@pytest.mark.parametrize("name", ["settings", "a.b.c", "x" * 253, f"{'y' * 45}.-z", "9"])
def test_a_copy_has_a_dns_safe_name_that_begins_as_the_original_s(name: str) -> None:
    made = copy_name("uid", "default", "ConfigMap", name)
    assert followers.NAMED.fullmatch(f"ConfigMap/{made}")
    assert len(made) <= 63
    assert made.startswith(name.split(".-", maxsplit=1)[0][:45])


def test_no_two_originals_have_a_copy_of_one_name() -> None:
    of = [("u", "n", "ConfigMap", "s"), ("v", "n", "ConfigMap", "s"), ("u", "m", "ConfigMap", "s")]
    of += [("u", "n", "Secret", "s"), ("u", "n", "ConfigMap", "t")]
    assert len({copy_name(*one) for one in of}) == len(of)


@pytest.mark.parametrize(
    ("name", "said"),
    [("settings", 'configmap "settings" not found'), ('a"b', None), ("other", None)],
    ids=["by its own", "of what is no name", "of what does not follow"],
)
def test_what_is_said_of_a_copy_at_home_names_the_original(name: str, said: str | None) -> None:
    fleet = Fleet()
    fleet.create(volume(configMap=NAMED))
    copy = copy_name("a-cluster-uid", "default", "ConfigMap", name)
    words = f'configmap "{copy}" not found'
    pod = fleet.delegate()
    waiting = {"reason": "CreateContainerConfigError", "message": words}
    pod["metadata"]["annotations"][names.FOLLOWERS] = f"ConfigMap/{'settings' if name == 'other' else name}"
    pod["status"] = {"phase": "Pending", "containerStatuses": [{"name": "main", "state": {"waiting": waiting}}]}
    found = pod_seen(msgspec.json.encode(pod))
    assert found is not None
    assert found.pod is not None
    shown = msgspec.json.decode(found.pod.status)["containerStatuses"][0]["state"]["waiting"]["message"]
    assert shown == (words if said is None else said)


# --- made before the delegate
# ----------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("field", NEEDS)
def test_what_a_pod_names_is_there_before_its_delegate_and_named_by_it_wherever_it_names_it(field: str) -> None:
    fleet = Fleet()
    assert fleet.create(NEEDS[field]).verdict == BOUND
    copy = fleet.copy()
    assert copy is not None
    assert copy["data"] == RED
    made = [what for verb, what, _ in fleet.there.api.done if verb == "create"]
    assert made[0] == f"{MAPS}/{COPY}"
    spec = msgspec.json.encode(fleet.delegate()["spec"]).decode()
    assert f'"name":"{COPY}"' in spec
    assert '"name":"settings"' not in spec
    assert fleet.delegate()["metadata"]["annotations"][names.FOLLOWERS] == "ConfigMap/settings"


def test_keys_and_paths_are_named_as_at_home() -> None:
    fleet = Fleet()
    assert fleet.create({**container(env=variable(KEYED)), "volumes": [{"name": "v", "configMap": ITEMS}]}).verdict
    spec = fleet.delegate()["spec"]
    assert spec["volumes"][0]["configMap"] == {**ITEMS, "name": COPY}
    assert spec["containers"][0]["env"][0]["valueFrom"]["configMapKeyRef"] == {**KEYED, "name": COPY}


@pytest.mark.parametrize(
    "content",
    [
        {"data": {"key": "x" * 2**20}},
        {"binaryData": {"raw": "AAEC/w=="}},
        {"data": {"key": "ü\n"}, "binaryData": {"raw": "AA=="}, "immutable": True},
        {},
    ],
    ids=["a mebibyte", "binary", "immutable", "empty"],
)
def test_content_is_as_at_home(content: dict[str, Any]) -> None:
    fleet = Fleet()
    fleet.home.api.put(f"{MAPS}/settings", {"metadata": {"name": "settings"}, **content})
    assert fleet.create(volume(configMap=NAMED)).verdict == BOUND
    copy = fleet.copy()
    assert copy is not None
    assert {key: value for key, value in copy.items() if key in ("data", "binaryData", "immutable")} == content


def test_replicas_cross_once_and_a_copy_of_an_earlier_life_is_used_again() -> None:
    fleet = Fleet()
    assert {fleet.create(volume(configMap=NAMED), name).verdict for name in ("x", "y", "z")} == {BOUND}
    assert fleet.crossed == 1
    fleet.there.restart()
    fleet.there.local.follows = tuple(KINDS)
    assert fleet.create(volume(configMap=NAMED), "w").verdict == BOUND
    assert fleet.crossed == 1


def test_what_is_lacking_at_home_is_waited_for_there_and_comes_when_it_is_made() -> None:
    fleet = Fleet(data=None)
    assert fleet.create(volume(configMap=NAMED)).verdict == BOUND
    assert fleet.copy() is None
    assert fleet.delegate()["spec"]["volumes"][0]["configMap"]["name"] == COPY
    fleet.put(RED)
    fleet.tend_until(30)
    assert (fleet.copy() or {})["data"] == RED


@pytest.mark.parametrize("data", [RED, None], ids=["there at home", "lacking at home"])
def test_what_is_optional_stays_so(data: dict[str, str] | None) -> None:
    fleet = Fleet(data=data)
    assert fleet.create(volume(configMap={**NAMED, "optional": True})).verdict == BOUND
    assert fleet.delegate()["spec"]["volumes"][0]["configMap"] == {"name": COPY, "optional": True}
    assert (fleet.copy() is not None) == (data is not None)


@pytest.mark.parametrize("told", ["ConfigMap/a " * 1_000, "ConfigMap/A..", f"ConfigMap/{'a' * 300}"])
def test_what_agents_do_not_write_of_a_delegate_names_nothing(told: str) -> None:
    assert copies.named_by({names.FOLLOWERS: told}) == []


@pytest.mark.parametrize(("said", "follows"), [("b", True), ("c, b", True), ("*", True), ("c", False), ("", True)])
def test_its_owner_may_name_the_clusters_to_which_it_follows(said: str, follows: bool) -> None:
    fleet = Fleet()
    marked = {"metadata": {"name": "settings", "annotations": {names.CONSENT: said}}, "data": RED}
    fleet.home.api.put(f"{MAPS}/settings", marked)
    outcome = fleet.create(volume(configMap=NAMED))
    assert (outcome.verdict == BOUND, fleet.copy() is not None) == (follows, follows)


def test_what_its_owner_lets_follow_nobody_and_what_each_cluster_has_are_that_cluster_s_own() -> None:
    fleet = Fleet()
    kept = {"metadata": {"name": "settings", "annotations": {names.CONSENT: "none"}}, "data": RED}
    fleet.home.api.put(f"{MAPS}/settings", kept)
    spec = {**container(), "volumes": [{"name": "v", "configMap": NAMED}, root := {"name": "r", "configMap": {}}]}
    root["configMap"] = {"name": "kube-root-ca.crt"}
    outcome = fleet.create(spec)
    assert (outcome.verdict, outcome.message.split(" (")[0]) == (REFUSED, 'ConfigMap "default/settings"')
    for name in ("settings", "kube-root-ca.crt"):
        fleet.there.api.put(f"{MAPS}/{name}", {"metadata": {"name": name}, "data": BLUE})
    assert fleet.create(spec, "again").verdict == BOUND
    assert [one["configMap"]["name"] for one in fleet.delegate()["spec"]["volumes"]] == ["settings", "kube-root-ca.crt"]
    assert fleet.asks == []


@pytest.mark.parametrize(("created_s", "read"), [(4, BLUE), (0.5, BLUE), (-5, RED)])
def test_a_pod_that_was_made_after_a_change_names_content_as_new(created_s: float, read: dict[str, str]) -> None:
    fleet = Fleet()
    fleet.create(volume(configMap=NAMED), "first")
    fleet.home.api.put(f"{MAPS}/settings", {"metadata": {"name": "settings"}, "data": BLUE})
    pod = pod_object("second", **volume(configMap=NAMED))
    pod["metadata"]["creationTimestamp"] = rfc3339(NOW.wall + created_s)
    fleet.ref = fleet.home.submit(pod)
    claim = Claim("c", fleet.ref, 1, THERE, "n1", "b-cluster-uid")
    claimed = run(carry_out(claim, 1, fleet.home.local, moment(5)), fleet.home.api.answer)
    source = source_of(fleet.ref, 1, HOME)
    order = CreateDelegate("i", fleet.ref, 1, source, "n1", claimed.manifest, record=claimed.record)
    assert run(carry_out(order, 1, fleet.there.local, moment(5)), fleet.answer).verdict == BOUND
    assert (fleet.copy() or {})["data"] == read  # of an older pod what was found a moment ago does


def test_what_has_so_many_keys_that_reading_it_holds_up_all_else_does_not_follow() -> None:
    many = {f"k{at}": "" for at in range(contents.MOST_KEYS + 1)}
    fleet = Fleet(data=many)
    refused = fleet.claim(volume(configMap=NAMED))
    assert (refused.verdict, "more than 8192 keys" in refused.message) == (REFUSED, True)
    fleet.put(RED)
    assert fleet.create(volume(configMap=NAMED)).verdict == BOUND
    fleet.put(many)
    assert all("more than 8192 keys" in said for at in range(0, 31, 10) for said in fleet.tend(at))
    assert (fleet.copy() or {})["data"] == RED
    fleet.put(text := {"json": msgspec.json.encode(many).decode()})  # what a text holds is no key
    fleet.tend(60)
    assert (fleet.copy() or {})["data"] == text


@pytest.mark.parametrize("size", [MOST_OBJECT, MOST_GIVEN])
def test_what_a_hostile_source_gives_is_not_read_where_it_is_too_large(size: int) -> None:
    fleet = Fleet()
    order = fleet.order(volume(configMap=NAMED))
    content = msgspec.json.encode({"data": {"k": "x" * size}})

    def answer(request: Request) -> Response:
        if isinstance(request, PeerAsk):
            return Response(200, encode_relay(GivenObjects((Given(CONTENT, content),))))
        return fleet.answer(request)

    done = run(carry_out(order, 1, fleet.there.local, NOW), answer)
    assert (done.verdict, f"more than {MOST_OBJECT} bytes" in done.message) == (REFUSED, True)
    assert fleet.copy() is None
