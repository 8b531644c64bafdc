"""Copies of the ConfigMaps that delegates name: made before these, kept like the originals, deleted after the last."""

import tracemalloc
from collections.abc import Callable
from copy import deepcopy
from typing import Any

import msgspec
import pytest

from agents.executor.context import copy_table
from agents.executor.context.copy_table import BARRED_S
from agents.executor.context.foreign_bytes import ForeignBudget
from agents.executor.context.local import Moment
from agents.executor.crossing.manifest import ManifestError
from agents.executor.crossing.policy import ExecutorPolicy, ForeignBytes
from agents.executor.intents.procedures import carry_out
from agents.executor.objects import contents, copies, copy_lists, references
from agents.executor.objects.copies import PeerAsk, bring, reconcile_tasks
from agents.executor.objects.copy_objects import original_of
from agents.executor.objects.events import STALE_COPY
from agents.executor.objects.references import KINDS
from agents.executor.relayed import giving
from agents.kube.convert import pod_seen
from shared.kube.http import Request, Response
from shared.kube.times import rfc3339
from shared.messages import (
    BOUND,
    CLAIMED,
    OF_CLUSTER,
    REFUSED,
    UNKNOWN,
    Claim,
    CreateDelegate,
    Outcome,
    Peer,
    PodRef,
)
from shared.messages.relay import (
    CONTENT,
    MOST_GIVEN,
    MOST_OBJECT,
    OBJECTS,
    Given,
    GivenObjects,
    PodWants,
    RelayAsk,
    WantedObject,
    decode_given,
    decode_signed_given,
    encode_relay,
)
from shared.model import names
from shared.model.copy_names import copy_name
from tests.agents.executor.test_references import ITEMS, KEYED, NAMED, NEEDS, container, variable, volume
from tests.agents.executor.world import NOW, World, node_object, pod_object, run, source_of

HOME, THERE = "a", "b"
MAPS = "/api/v1/namespaces/default/configmaps"
COPY = copy_name("a-cluster-uid", "default", "ConfigMap", "settings")
RED, BLUE = {"colour": "red"}, {"colour": "blue"}
NOT_OURS: dict[str, dict[str, Any]] = {
    "no marks": {},
    "the label alone": {"labels": {names.COPY: COPY.rpartition("-")[2]}},
    "another original's marks": {
        "labels": {names.COPY: COPY.rpartition("-")[2]},
        "annotations": {names.SOURCE_CLUSTER_UID: "a-cluster-uid", names.COPY_OF: "others"},
    },
}


def moment(after_s: float) -> Moment:
    return Moment(NOW.mono + after_s, NOW.wall + after_s)


class Fleet:
    """Pods of cluster a that name ConfigMap `settings` go to b. `asks`: of what b has asked a, with what it had.
    `forbidden`: verbs that b's agent may not do to `barred_kind`.
    """

    barred_kind = "configmaps"

    def __init__(
        self,
        *,
        data: dict[str, str] | None = RED,
        follows: tuple[str, ...] | None = tuple(KINDS),
        policy: ExecutorPolicy | None = None,
    ) -> None:
        self.home = World(cluster=HOME, peers=(THERE,))
        self.home.peers = (Peer(THERE, ready=True, follows=follows),)
        self.home.restart()
        self.there = World(node_object(cpu="100", pods="100"), cluster=THERE, policy=policy)
        self.there.local.follows = tuple(KINDS)
        self.asks: list[tuple[PodWants, ...]] = []
        self.crossed = 0
        self.cut = ""
        self.forbidden: frozenset[str] = frozenset()
        self.seal = b"k" * 32  # an agent of an older version gives none
        self.before: Callable[[Request], None] = lambda request: None
        if data is not None:
            self.put(data)

    def put(self, data: dict[str, str], name: str = "settings", **more: Any) -> None:
        """What the owner writes at home."""
        self.home.api.put(f"{MAPS}/{name}", {"metadata": {"name": name}, "data": data, **more})
        self.home.local.at_home.clear()

    def claim(self, spec: dict[str, Any], name: str = "web", **metadata: dict[str, str]) -> Outcome:
        pod = pod_object(name, **spec)
        pod["metadata"] |= metadata
        self.ref = self.home.submit(pod)
        return self.home.do(Claim("c", self.ref, 1, THERE, "n1", "b-cluster-uid"))

    def order(self, spec: dict[str, Any], name: str = "web", **metadata: Any) -> CreateDelegate:
        claimed = self.claim(spec, name, **metadata)
        assert claimed.verdict == CLAIMED, claimed.message
        source = source_of(self.ref, 1, HOME)
        return CreateDelegate("i", self.ref, 1, source, "n1", claimed.manifest, record=claimed.record)

    def create(self, spec: dict[str, Any], name: str = "web", now: Moment = NOW) -> Outcome:
        outcome = run(carry_out(self.order(spec, name), 1, self.there.local, now), self.answer)
        self.there.sync()
        return outcome

    def answer(self, request: Request) -> Response:
        """Of b's API server, or of the agent of a."""
        self.before(request)
        if isinstance(request, PeerAsk):
            return self._given(request)
        plural = self.barred_kind
        if f"/{plural}" in request.path and request.method in self.forbidden:
            text = f'{plural} is forbidden: User "agent" cannot {request.method} resource "{plural}" in API group ""'
            return Response(403, msgspec.json.encode({"kind": "Status", "message": text}))
        return self.there.api.answer(request)

    def _given(self, ask: PeerAsk) -> Response:
        self.asks.append(ask.wants)
        if self.cut:
            return Response(0, self.cut.encode())
        about = (source_of(self.ref, 1), THERE, "b-cluster-uid", b"", OBJECTS, "GET")
        asked = RelayAsk(*about, wants=ask.wants, seal=self.seal)
        answer = run(giving.answer(asked, b"", self.home.local), self.home.api.answer)
        given = decode_signed_given(answer).given
        self.crossed += sum(one.state == CONTENT for one in decode_given(given).given)
        return Response(200, given)

    def copy(self) -> dict[str, Any] | None:
        return self.there.api.objects.get(f"{MAPS}/{COPY}")

    def delegate(self) -> dict[str, Any]:
        (pod,) = self.there.api.pods()
        return pod

    def tend(self, after_s: float) -> list[str]:
        """What is due of copies so long afterwards, done; what went wrong."""
        self.there.sync()
        tasks = list(reconcile_tasks(self.there.local, moment(after_s)))
        return [problem for task in tasks if (problem := run(task.procedure, self.answer))]

    def tend_until(self, after_s: float) -> None:
        """All that is due until then, each ten seconds."""
        for at in range(0, int(after_s) + 1, 10):
            assert self.tend(at) == []

    def ends(self) -> None:
        """The last delegate goes."""
        for path in [path for path in self.there.api.objects if "/pods/" in path]:
            del self.there.api.objects[path]


# --- names
# ----------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["settings", "a.b.c", "x" * 253, f"{'y' * 45}.-z", "9"])
def test_a_copy_has_a_dns_safe_name_that_begins_as_the_original_s(name: str) -> None:
    made = copy_name("uid", "default", "ConfigMap", name)
    assert references._NAME.fullmatch(f"ConfigMap/{made}")
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
    pod["metadata"]["annotations"][names.FOLLOWS] = f"ConfigMap/{'settings' if name == 'other' else name}"
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
    assert fleet.delegate()["metadata"]["annotations"][names.FOLLOWS] == "ConfigMap/settings"


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
    assert copies.named_by({names.FOLLOWS: told}) == []


@pytest.mark.parametrize(("said", "follows"), [("b", True), ("c, b", True), ("*", True), ("c", False), ("", True)])
def test_its_owner_may_name_the_clusters_to_which_it_follows(said: str, follows: bool) -> None:
    fleet = Fleet()
    marked = {"metadata": {"name": "settings", "annotations": {names.FOLLOW: said}}, "data": RED}
    fleet.home.api.put(f"{MAPS}/settings", marked)
    outcome = fleet.create(volume(configMap=NAMED))
    assert (outcome.verdict == BOUND, fleet.copy() is not None) == (follows, follows)


def test_what_its_owner_lets_follow_nobody_and_what_each_cluster_has_are_that_cluster_s_own() -> None:
    fleet = Fleet()
    kept = {"metadata": {"name": "settings", "annotations": {names.FOLLOW: "none"}}, "data": RED}
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


# --- who may not, and what stands in the way
# ----------------------------------------------------------------------------------------------------------------------


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
    assert names.FOLLOWS.encode() not in fleet.claim(volume(configMap={**NAMED, "optional": True})).manifest
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
    said = {"annotations": {names.FOLLOWS: '{"ConfigMap":{"others":""}}'}}
    assert references.followed(Fleet(follows=()).claim(container(), "web", **said).manifest) == []


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


def status(code: int, message: str) -> Response:
    return Response(code, msgspec.json.encode({"kind": "Status", "message": message}))


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
    manifest = msgspec.json.encode({"metadata": {"annotations": {names.FOLLOWS: told}}, "spec": {}})
    with pytest.raises(ManifestError):
        references.followed(manifest)


# --- kept like the original
# ----------------------------------------------------------------------------------------------------------------------


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


def stale(fleet: Fleet) -> list[str]:
    """What delegates are told of copies that are not as at home."""
    told = [msgspec.json.decode(one.body) for one in fleet.there.local.events]
    assert {one["regarding"]["uid"] for one in told} <= {one["metadata"]["uid"] for one in fleet.there.api.pods()}
    return [one["note"] for one in told if one["reason"] == STALE_COPY]


def test_what_its_owner_keeps_at_home_later_stays_as_it_was_for_pods_that_run_is_told_and_new_for_none() -> None:
    fleet = Fleet()
    fleet.create(volume(configMap=NAMED), "first")
    kept = {"metadata": {"name": "settings", "annotations": {names.FOLLOW: "none"}}, "data": BLUE}
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


# --- deleted after the last pod
# ----------------------------------------------------------------------------------------------------------------------


def test_however_much_is_asked_for_little_of_it_is_in_memory_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(references, "MOST_FOLLOWING", 2**30)
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
    monkeypatch.setattr(copies, "_AT_ONCE", 100)
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
    monkeypatch.setattr(copies, "_AT_ONCE", 100)
    fleet = Fleet()
    many = container(envFrom=[{"configMapRef": {"name": f"n-{at}", "optional": True}} for at in range(60)])
    for at in range(12):
        fleet.create(many, f"pod-{at}")
    for again in range(2):
        look = copies._in_use(fleet.there.local, moment(again))
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
    monkeypatch.setattr(references, "MOST_FOLLOWING", 3_500)
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
    fleet.delegate()["metadata"]["annotations"][names.FOLLOWS] = "ConfigMap/settings ConfigMap/settings"
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
    del fleet.delegate()["metadata"]["annotations"][names.FOLLOWS]
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
    assert run(copy_lists.named_in("default"), pages_of(pods)) == set(hashes)
    pods[0]["metadata"]["annotations"] = {"note": '"s-ffffffffffffffff" s-eeeeeeeeeeeeeeee.'}
    assert run(copy_lists.named_in("default"), pages_of(pods)) == set(hashes)


@pytest.mark.parametrize("body", [b"{}", b'{"items":null}', b'{"items":[', b"[]"])
def test_what_is_no_list_is_no_word_that_nothing_is_named(body: bytes) -> None:
    assert "cannot be read" in str(run(copy_lists.named_in("default"), lambda request: Response(200, body)))


def test_of_pods_that_are_as_large_as_may_be_a_turn_makes_no_objects_and_takes_few() -> None:
    env = [{"name": f"n{at}", "valueFrom": {"configMapKeyRef": {**KEYED, "name": f"s-{at}"}}} for at in range(13_000)]
    body = msgspec.json.encode({"metadata": {}, "items": [pod_object(**container(env=env))]})
    asked: list[int] = []

    def answer(request: Request) -> Response:
        asked.append(int(request.params["limit"]))
        return Response(200, body)

    tracemalloc.start()
    try:
        assert run(copy_lists.named_in("default"), answer) == set()
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
