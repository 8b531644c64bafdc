"""Secrets that follow a pod: only where their owner at home and the target's policy both say so, and never in clear."""

import base64
import hashlib
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from agents.executor.crossing import restrict
from agents.executor.crossing.policy import Accept, ExecutorPolicy
from agents.executor.intents.procedures import carry_out
from agents.executor.objects import contents, followers, kinds, source_manifest, target_needs
from agents.executor.objects.copies import PeerAsk
from agents.executor.objects.copy_objects import Found
from agents.executor.objects.kinds import KINDS
from agents.executor.objects.reads import Metadata
from agents.executor.relayed import giving
from shared.kube.http import Request, Response
from shared.messages import (
    BOUND,
    DONE,
    OF_CLUSTER,
    REFUSED,
    Outcome,
    SignManifest,
    UpdateDelegate,
)
from shared.messages.relay import (
    CONTENT,
    DENIED,
    OBJECTS,
    SAME,
    WITHDRAWN,
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
from tests.agents.executor.test_target_needs import container
from tests.agents.executor.two_clusters import HOME, THERE, Fleet, stale
from tests.agents.executor.world import NOW, run, source_of

SECRETS = "/api/v1/namespaces/default/secrets"
MAPS = "/api/v1/namespaces/default/configmaps"
COPY = copy_name("a-cluster-uid", "default", "Secret", "db")
MARKER = "s3cr3t-marker"
DATA = {"password": base64.b64encode(MARKER.encode()).decode()}
OTHER = {"password": base64.b64encode(b"another").decode()}
FOLLOWS = {names.CONSENT: THERE}
ENV: dict[str, Any] = container(envFrom=[{"secretRef": {"name": "db"}}])
WAYS: dict[str, dict[str, Any]] = {
    "spec.volumes[0].secret.secretName": {
        **container(),
        "volumes": [{"name": "v", "secret": {"secretName": "db", "items": [{"key": "password", "path": "p"}]}}],
    },
    "spec.volumes[0].projected.sources[0].secret.name": {
        **container(),
        "volumes": [{"name": "v", "projected": {"sources": [{"secret": {"name": "db"}}]}}],
    },
    "spec.imagePullSecrets[0].name": {**container(), "imagePullSecrets": [{"name": "db"}]},
    "spec.containers[0].env[0].valueFrom.secretKeyRef.name": container(
        env=[{"name": "P", "valueFrom": {"secretKeyRef": {"name": "db", "key": "password"}}}]
    ),
    "spec.containers[0].envFrom[0].secretRef.name": ENV,
}


def takes(*follow: str, own: tuple[str, ...] = ()) -> ExecutorPolicy:
    return ExecutorPolicy(accept=(Accept(secrets_follow=follow, secrets=own),))


class Safe(Fleet):
    """Pods of cluster a that name Secret `db` go to b, which takes copies of it."""

    barred_kind = "secrets"

    def __init__(
        self,
        policy: ExecutorPolicy | None = None,
        *,
        annotations: dict[str, str] | None = None,
        namespace: dict[str, str] | None = None,
        follows: tuple[str, ...] | None = tuple(KINDS),
        **secret: Any,
    ) -> None:
        super().__init__(data=None, policy=policy or takes("db"), follows=follows)
        self.home.api.namespace_annotations["default"] = namespace or {}
        self.keep(FOLLOWS if annotations is None else annotations, **secret)

    def keep(self, annotations: dict[str, str], **secret: Any) -> None:
        """What the owner writes at home."""
        self.home.api.put(
            f"{SECRETS}/db", {"metadata": {"name": "db", "annotations": annotations}, "data": DATA, **secret}
        )
        self.home.local.at_home.clear()

    def secret(self) -> dict[str, Any] | None:
        return self.there.api.objects.get(f"{SECRETS}/{COPY}")

    def note(self) -> dict[str, Any] | None:
        return self.there.api.objects.get(f"{MAPS}/{COPY}")


def values(of: Any) -> Iterator[str]:
    """All texts in an object."""
    if isinstance(of, dict):
        of = [*of.keys(), *of.values()]
    if isinstance(of, list):
        for one in of:
            yield from values(one)
    elif isinstance(of, str):
        yield of


def tells(text: str) -> bool:
    """Whether it has the Secret's value, or the bytes by which it is stored."""
    return MARKER in text or DATA["password"] in text


# --- it reads as at home
# ----------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("field", WAYS)
def test_a_secret_is_there_before_the_delegate_which_names_the_copy_wherever_it_names_it(field: str) -> None:
    fleet = Safe(type="kubernetes.io/basic-auth", immutable=True)
    assert fleet.create(WAYS[field]).verdict == BOUND
    copy = fleet.secret()
    assert copy is not None
    assert (copy["data"], copy["type"], copy["immutable"]) == (DATA, "kubernetes.io/basic-auth", True)
    named = set(values(fleet.delegate()["spec"]))
    assert (COPY in named, "db" in named) == (True, False)
    assert fleet.delegate()["metadata"]["annotations"][names.FOLLOWERS] == "Secret/db"


def only(path: str) -> Any:
    """An object with this field alone, which says db."""
    step, _, rest = path.partition(".")
    below = only(rest) if rest else "db"
    return {step.removesuffix("[*]"): [below] if step.endswith("[*]") else below}


@pytest.mark.parametrize("path", restrict.SECRETS)
def test_every_field_that_the_policy_asks_about_is_one_by_which_a_secret_follows(path: str) -> None:
    assert kinds.named(only(path), kinds.SECRETS) == {"db"}


def test_it_follows_its_original_and_is_made_anew_where_that_has_another_type() -> None:
    fleet = Safe()
    fleet.create(ENV)
    fleet.keep(FOLLOWS, data=OTHER)
    assert fleet.tend(20) == []
    assert (fleet.secret() or {})["data"] == OTHER
    fleet.keep(FOLLOWS, type="kubernetes.io/basic-auth")
    assert fleet.tend(40) == []
    assert (fleet.secret() or {})["type"] == "kubernetes.io/basic-auth"


def test_unchanged_it_crosses_once_and_once_more_for_an_agent_that_began_anew() -> None:
    fleet = Safe()
    fleet.create(ENV)
    fleet.tend_until(90)
    assert fleet.crossed == 1
    fleet.there.restart()
    fleet.there.local.follows = tuple(KINDS)
    fleet.tend_until(90)
    assert fleet.crossed == 2


def test_what_is_under_its_name_already_is_nobodys_to_write_over() -> None:
    fleet = Safe()
    theirs = {"metadata": {"name": COPY}, "data": OTHER}
    fleet.there.api.put(f"{SECRETS}/{COPY}", theirs)
    outcome = fleet.create(ENV)
    assert (outcome.verdict, "delete or rename it there" in outcome.message) == (REFUSED, True)
    assert fleet.secret() is not None
    assert (fleet.secret() or {})["data"] == OTHER


# --- consent
# ----------------------------------------------------------------------------------------------------------------------

OWNERS: dict[str, tuple[dict[str, str], dict[str, str], bool]] = {
    "nobody says anything": ({}, {}, False),
    "its annotation names the cluster": ({names.CONSENT: "c, b"}, {}, True),
    "a pattern does": ({names.CONSENT: "*"}, {}, True),
    "it names another": ({names.CONSENT: "c"}, {}, False),
    "it says none": ({names.CONSENT: "none"}, {names.SECRETS_CONSENT: "*"}, False),
    "it is empty": ({names.CONSENT: ""}, {names.SECRETS_CONSENT: "*"}, False),
    "its Namespace names the cluster": ({}, {names.SECRETS_CONSENT: "b"}, True),
    "its Namespace names another": ({}, {names.SECRETS_CONSENT: "c"}, False),
    "its Namespace says what is for objects": ({}, {names.CONSENT: "b"}, False),
}
TARGETS: dict[str, tuple[ExecutorPolicy, bool]] = {
    "by name": (takes("db"), True),
    "by pattern": (takes("other", "d*"), True),
    "none": (takes(), False),
    "others": (takes("dbs"), False),
    "of others": (ExecutorPolicy(accept=(Accept(), Accept(clusters=("c",), secrets_follow=("*",)))), False),
}
TYPES = {
    "": True,
    **dict.fromkeys(contents.TYPES, True),
    "kubernetes.io/service-account-token": False,
    "bootstrap.kubernetes.io/token": False,
    "helm.sh/release.v1": False,
    "kubernetes.io/Opaque": False,
    "example.com/made-up": False,
}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("owner", OWNERS)
def test_it_follows_where_its_owner_and_the_target_both_say_so(owner: str, target: str) -> None:
    annotations, namespace, given = OWNERS[owner]
    policy, taken = TARGETS[target]
    fleet = Safe(policy, annotations=annotations, namespace=namespace)
    outcome = fleet.create(ENV)
    assert (outcome.verdict == BOUND) == (given and taken), outcome.message
    if outcome.verdict != BOUND:
        assert (outcome.verdict, outcome.scope) == (REFUSED, OF_CLUSTER)
        assert outcome.message.startswith('spec.containers[0].envFrom[0].secretRef.name is Secret "db"')
        assert (names.CONSENT in outcome.message) == taken
        assert fleet.crossed == len(fleet.asks) == 0
        assert fleet.there.api.done == []


@pytest.mark.parametrize(("kind", "follows"), sorted(TYPES.items()))
def test_only_types_that_no_controller_acts_on_follow(kind: str, follows: bool) -> None:
    fleet = Safe(type=kind)
    outcome = fleet.create(ENV)
    assert (outcome.verdict == BOUND, fleet.crossed) == (follows, int(follows))


@pytest.mark.parametrize("said", ["[" * 200_000, ",".join(["west"] * 1_000), f"{'[' * 300},{THERE}"])
def test_a_list_of_clusters_too_long_to_be_looked_at_names_none(said: str) -> None:
    fleet = Safe(annotations={names.CONSENT: said})
    outcome = fleet.create(ENV)
    assert (outcome.verdict, fleet.crossed) == (REFUSED, 0)


def test_a_copy_of_another_clusters_secret_does_not_go_on_to_a_third() -> None:
    fleet = Safe(namespace={names.SECRETS_CONSENT: "*"})
    mine = fleet.home.api.objects[f"{SECRETS}/db"]
    mine["metadata"] |= {"labels": {names.COPY: "0123456789abcdef"}, "annotations": {}}
    outcome = fleet.create(ENV)
    assert (outcome.verdict, fleet.crossed) == (REFUSED, 0)


@pytest.mark.parametrize("status", [500, 403])
def test_a_namespace_that_cannot_be_read_has_the_pod_wait(status: int) -> None:
    fleet = Safe(annotations={})

    def fails(request: Request) -> Response:
        return Response(status) if request.path == "/api/v1/namespaces" else fleet.home.api.answer(request)

    goes = source_manifest._Goes("default", 0.0, THERE)
    looking = source_manifest._at_home(kinds.SECRETS, goes, "db", "spec.x", fleet.home.local, NOW)
    with pytest.raises(source_manifest.NotKnownError, match='what Namespace "default" says is not known just now'):
        run(looking, fails)


@pytest.mark.parametrize("follows", [(), ("ConfigMap",)])
def test_an_older_target_is_told_nothing_of_it(follows: tuple[str, ...]) -> None:
    fleet = Safe(takes("db", own=("db",)), follows=follows)
    order = fleet.order(ENV)
    assert followers.followers_of(order.manifest) == []
    assert (names.FOLLOWERS.encode() in order.manifest) is False


def test_an_older_source_s_pods_have_the_target_s_own_where_its_policy_says_so() -> None:
    fleet = Safe(takes("db", own=("db",)), annotations={})
    assert fleet.create(ENV).verdict == BOUND
    assert fleet.secret() is None
    assert fleet.delegate()["spec"]["containers"][0]["envFrom"][0]["secretRef"]["name"] == "db"


def test_where_both_are_let_in_the_copy_goes_before_the_target_s_own() -> None:
    fleet = Safe(takes("db", own=("*",)))
    assert fleet.create(ENV).verdict == BOUND
    assert fleet.delegate()["spec"]["containers"][0]["envFrom"][0]["secretRef"]["name"] == COPY


def test_a_pod_cannot_name_the_copy_of_another_s_secret() -> None:
    fleet = Safe(takes(own=("*",)), annotations={})
    outcome = fleet.create(container(envFrom=[{"secretRef": {"name": COPY}}]))
    assert (
        outcome.verdict,
        outcome.message.startswith(f'spec.containers[0].envFrom[0].secretRef.name is Secret "{COPY}'),
    ) == (
        REFUSED,
        True,
    )


DEBUG: dict[str, tuple[dict[str, Any], str]] = {
    "mounts what its pod has": ({"volumeMounts": [{"name": "v", "mountPath": "/v"}]}, ""),
    "names one that follows": ({"envFrom": [{"secretRef": {"name": "db"}}]}, 'names Secret "db", and none follows'),
    "names a copy": ({"envFrom": [{"secretRef": {"name": COPY}}]}, "is named as copies are"),
}


@pytest.mark.parametrize(("more", "why"), DEBUG.values(), ids=DEBUG)
def test_a_debug_container_has_the_secrets_of_its_pod_s_volumes_and_no_others(more: dict[str, Any], why: str) -> None:
    fleet = Safe(takes("db", own=("*",)))
    fleet.create(WAYS["spec.volumes[0].secret.secretName"])
    pod = fleet.home.api.pod("web")
    assert pod is not None
    pod["spec"] |= {
        "nodeName": names.proxy_node_name(THERE),
        "ephemeralContainers": [{"name": "look", "image": "busybox", **more}],
    }
    fleet.home.sync()
    signed = fleet.home.do(SignManifest("s", fleet.ref, 1))
    source = source_of(fleet.ref, 1, HOME)
    order = UpdateDelegate("u", fleet.ref, 1, source, "n1", signed.manifest, signed.record)
    outcome = run(carry_out(order, 1, fleet.there.local, NOW), fleet.answer)
    assert (outcome.verdict, why in outcome.message) == (REFUSED if why else DONE, True)
    assert bool(fleet.delegate()["spec"].get("ephemeralContainers")) == (not why)


@pytest.mark.parametrize("restarted", [False, True], ids=["in one life", "in another life"])
def test_a_row_that_is_taken_away_takes_the_copies_with_it_though_pods_use_them(restarted: bool) -> None:
    fleet = Safe()
    fleet.create(ENV)
    fleet.tend(0)
    if restarted:
        fleet.there.restart()
        fleet.there.local.follows = ("ConfigMap",)
    fleet.there.local.policy = takes("other")
    fleet.keep(FOLLOWS, data=OTHER)
    fleet.tend_until(60)
    assert (fleet.crossed, fleet.secret(), fleet.note()) == (1, None, None)
    (told,) = stale(fleet)
    assert 'is deleted of Secret "db": no row of that cluster\'s executor.accept has it' in told
    done = len(fleet.there.api.done)
    fleet.tend_until(100)
    assert len(fleet.there.api.done) == done, "once"


def test_what_an_earlier_life_has_taken_back_is_not_told_again() -> None:
    fleet = Safe()
    fleet.create(ENV)
    fleet.tend(0)
    fleet.there.local.policy = takes("other")
    fleet.tend_until(60)
    assert len(stale(fleet)) == 1
    fleet.there.restart()
    fleet.there.local.follows = tuple(KINDS)
    fleet.there.local.policy = takes("other")
    fleet.tend_until(60)
    assert stale(fleet) == []


def test_a_copy_whose_deletion_is_not_answered_goes_all_the_same_and_is_told_of(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fleet = Safe()
    fleet.create(ENV)
    fleet.tend(0)
    fleet.there.local.policy = takes("other")
    whole = fleet.at_target

    def unanswered(request: Request) -> Response:
        answer = whole(request)
        return Response(0, b"reset") if request.method == "DELETE" else answer

    with monkeypatch.context() as lost:
        lost.setattr(fleet, "at_target", unanswered)
        assert any("did not answer" in problem for at in (30, 40, 50) for problem in fleet.tend(at))
    fleet.tend_until(120)
    assert (fleet.secret(), fleet.note(), len(stale(fleet))) == (None, None, 1)


def test_what_another_row_lets_in_stays_and_what_is_there_under_the_name_is_left_alone() -> None:
    fleet = Safe()
    fleet.create(ENV)
    fleet.there.local.policy = ExecutorPolicy(accept=(Accept(), Accept(clusters=(HOME,), secrets_follow=("d*",))))
    fleet.tend_until(60)
    assert fleet.secret()
    theirs = fleet.there.api.put(f"{SECRETS}/{COPY}", {"metadata": {"name": COPY}, "data": OTHER})
    fleet.there.local.policy = takes()
    fleet.tend_until(60)
    assert fleet.secret() == theirs


def test_an_optional_one_that_follows_is_told_of_to_nobody() -> None:
    spec = container(envFrom=[{"secretRef": {"name": "db", "optional": True}}])
    assert target_needs.optional_secrets(Safe().order(spec).manifest) == []
    assert target_needs.optional_secrets(Safe(annotations={}).order(spec).manifest) != []


@pytest.mark.parametrize("namespace", [{}, {names.SECRETS_CONSENT: "*"}], ids=["no consent", "by its Namespace"])
def test_one_that_home_lacks_is_waited_for_there_only_with_the_consent_of_its_namespace(
    namespace: dict[str, str],
) -> None:
    fleet = Safe(namespace=namespace)
    del fleet.home.api.objects[f"{SECRETS}/db"]
    assert (fleet.create(ENV).verdict == BOUND) == bool(namespace)
    assert fleet.secret() is None
    if namespace:
        fleet.keep({})
        fleet.tend_until(30)
        assert fleet.secret() is not None


def taken_back(fleet: Safe) -> None:
    fleet.keep({})


def deleted(fleet: Safe) -> None:
    del fleet.home.api.objects[f"{SECRETS}/db"]
    fleet.home.local.at_home.clear()


@pytest.mark.parametrize("change", [taken_back, deleted])
def test_a_copy_goes_when_its_owner_takes_consent_back_and_later_pods_are_refused(change: Any) -> None:
    fleet = Safe()
    fleet.create(ENV)
    change(fleet)
    problems = [problem for at in (20, 40) for problem in fleet.tend(at)]
    assert fleet.secret() is None
    assert any("does not follow pods to cluster" in one for one in problems)
    outcome = fleet.create(ENV, "later")
    assert (outcome.verdict, names.CONSENT in outcome.message) == (REFUSED, True)


def test_consent_that_is_taken_back_between_claim_and_order_holds() -> None:
    fleet = Safe()
    order = fleet.order(ENV)
    fleet.keep({})
    outcome = run(carry_out(order, 1, fleet.there.local, NOW), fleet.answer)
    assert (outcome.verdict, "does not follow pods to cluster" in outcome.message) == (REFUSED, True)
    assert fleet.secret() is None
    assert fleet.crossed == 0


# --- who asks, and who gives
# ----------------------------------------------------------------------------------------------------------------------


def asked(fleet: Safe, *, seal: bytes = b"k" * 32, digest: bytes = b"", name: str = "db") -> Given:
    """What the home cluster gives to b."""
    wants = (PodWants(fleet.ref, (WantedObject("Secret", name, digest),)),)
    ask = RelayAsk(source_of(fleet.ref, 1), THERE, "b-cluster-uid", b"", OBJECTS, "GET", wants=wants, seal=seal)
    answer = run(giving.answer(ask, b"", fleet.home.local), fleet.home.api.answer)
    (given,) = decode_given(decode_signed_given(answer).given).given
    return given


def test_who_asks_by_no_key_gets_no_secret() -> None:
    fleet = Safe()
    fleet.order(ENV)
    assert asked(fleet).state == CONTENT
    given = asked(fleet, seal=b"")
    assert (given.state, given.content, "no key" in given.text) == (DENIED, b"", True)


@pytest.mark.parametrize("owner", OWNERS)
def test_consent_is_looked_at_for_each_question_whatever_the_target_says(owner: str) -> None:
    fleet = Safe()
    fleet.order(ENV)
    annotations, namespace, follows = OWNERS[owner]
    fleet.keep(annotations)
    fleet.home.api.namespace_annotations["default"] = namespace
    given = asked(fleet)
    assert (given.state, bool(given.content)) == ((CONTENT, True) if follows else (WITHDRAWN, False))


@pytest.mark.parametrize(("kind", "follows"), sorted(TYPES.items()))
def test_the_type_is_looked_at_for_each_question(kind: str, follows: bool) -> None:
    fleet = Safe()
    fleet.order(ENV)
    fleet.keep(FOLLOWS, type=kind)
    assert (asked(fleet).state == CONTENT) == follows


def test_what_the_pod_does_not_name_is_not_given() -> None:
    fleet = Safe()
    fleet.order(ENV)
    fleet.home.api.put(f"{SECRETS}/other", {"metadata": {"name": "other", "annotations": FOLLOWS}, "data": DATA})
    assert asked(fleet, name="other").state == DENIED


def forged(fleet: Safe, **content: Any) -> Outcome:
    """A source that gives what it should not."""

    def answer(request: Request) -> Response:
        if isinstance(request, PeerAsk):
            given = Given(CONTENT, msgspec.json.encode({"data": DATA, **content}), key=b"k")
            return Response(200, encode_relay(GivenObjects((given,))))
        return fleet.answer(request)

    return run(carry_out(fleet.order(ENV), 1, fleet.there.local, NOW), answer)


@pytest.mark.parametrize(("kind", "follows"), sorted(TYPES.items()))
def test_a_forged_type_is_not_written(kind: str, follows: bool) -> None:
    fleet = Safe()
    outcome = forged(fleet, type=kind)
    assert (outcome.verdict == BOUND) == follows
    assert (fleet.secret() is not None) == follows
    if not follows:
        assert f'is of type "{kind}"' in outcome.message


def test_marks_that_a_source_would_set_are_not_on_the_copy() -> None:
    fleet = Safe()
    steering = {"labels": {"owner": "helm"}, "annotations": {"kubernetes.io/service-account.name": "admin"}}
    assert forged(fleet, metadata=steering, stringData={"x": "y"}).verdict == BOUND
    copy = fleet.secret() or {}
    assert set(copy["metadata"]["labels"]) == {names.COPY}
    assert all(key.startswith(names.PREFIX) for key in copy["metadata"]["annotations"])
    assert "stringData" not in copy


def test_a_source_that_tells_of_secrets_without_a_row_for_them_has_none_made() -> None:
    fleet = Safe()
    order = fleet.order(ENV)
    fleet.there.local.policy = takes()
    outcome = run(carry_out(order, 1, fleet.there.local, NOW), fleet.answer)
    assert (outcome.verdict, fleet.crossed, fleet.secret()) == (REFUSED, 0, None)


# --- digests
# ----------------------------------------------------------------------------------------------------------------------


def test_no_digest_that_is_told_can_be_had_by_guessing_the_content() -> None:
    fleet = Safe()
    order = fleet.order(ENV)
    (told,) = followers.followers_of(order.manifest)
    encoded = contents.read_content(msgspec.json.encode({"data": DATA}), "Secret").encoded
    guesses = {hashlib.sha256(one).digest() for one in (encoded, MARKER.encode(), DATA["password"].encode())}
    fleet.create(ENV)
    fleet.tend_until(40)
    sent = {one.digest for wants in fleet.asks for pod in wants for one in pod.objects} - {b""}
    assert sent == {told.digest}
    assert not sent & guesses


def test_a_secret_has_another_digest_for_each_cluster_namespace_and_name() -> None:
    keys = Safe().home.local.keys
    of = [("b", "default", "db"), ("c", "default", "db"), ("b", "other", "db"), ("b", "default", "db2")]
    of += [("b", "defaultdb", ""), ("bdefault", "", "db")]
    assert len({keys.digest_key(*one) for one in of}) == len(of)
    assert keys.digest_key(*of[0]) == keys.digest_key(*of[0]) != Safe().there.local.keys.digest_key(*of[0])


def test_what_is_unchanged_is_told_so_by_the_keyed_digest_alone() -> None:
    fleet = Safe()
    (told,) = followers.followers_of(fleet.order(ENV).manifest)
    assert asked(fleet, digest=told.digest) == Given(SAME)
    encoded = contents.read_content(msgspec.json.encode({"data": DATA}), "Secret").encoded
    assert asked(fleet, digest=contents.digest_of(encoded)).state == CONTENT


# --- rights, and what is left
# ----------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("verbs", [{"GET"}, {"POST"}])
def test_an_agent_without_the_right_says_so_and_config_maps_follow_all_the_same(verbs: set[str]) -> None:
    fleet = Safe()
    fleet.put({"colour": "red"})
    fleet.forbidden = frozenset(verbs)
    outcome = fleet.create(ENV)
    assert (outcome.verdict, outcome.scope) == (REFUSED, OF_CLUSTER)
    assert 'may not write secrets in namespace "default" (its role needs get, create, ' in outcome.message
    assert "by secrets.take of its chart" in outcome.message
    both = container(envFrom=[{"secretRef": {"name": "db"}}, {"configMapRef": {"name": "settings"}}])
    assert fleet.create(both, "second").verdict == REFUSED
    maps = container(envFrom=[{"configMapRef": {"name": "settings"}}])
    assert fleet.create(maps, "third").verdict == BOUND
    assert fleet.copy() is not None


def test_without_the_right_a_pod_has_the_target_s_own_where_a_row_says_so_and_copies_of_the_rest() -> None:
    fleet = Safe(takes("db", own=("db",)))
    fleet.put({"colour": "red"})
    fleet.forbidden = frozenset({"GET"})
    both = container(envFrom=[{"secretRef": {"name": "db"}}, {"configMapRef": {"name": "settings"}}])
    assert fleet.create(both).verdict == BOUND
    assert fleet.delegate()["metadata"]["annotations"][names.FOLLOWERS] == "ConfigMap/settings"
    assert fleet.copy() is not None


def test_an_agent_that_may_not_read_it_at_home_lets_it_follow_nobody() -> None:
    fleet = Safe()

    def barred(request: Request) -> Response:
        return Response(403, b"{}") if request.path.startswith(SECRETS) else fleet.home.api.answer(request)

    goes = source_manifest._Goes("default", 0.0, THERE)
    found = run(source_manifest._at_home(kinds.SECRETS, goes, "db", "spec.x", fleet.home.local, NOW), barred)
    assert found.digest is None


def test_it_goes_with_its_note_some_time_after_the_last_pod_that_names_it() -> None:
    fleet = Safe()
    fleet.create(ENV)
    fleet.tend_until(30)
    assert (fleet.secret() is not None, (fleet.note() or {}).get("data")) == (True, None)
    fleet.ends()
    fleet.tend_until(150)
    assert (fleet.secret(), fleet.note()) == (None, None)


def test_one_that_an_earlier_life_has_made_is_found_by_its_note_and_secrets_are_never_listed() -> None:
    fleet = Safe()
    fleet.create(ENV)
    fleet.ends()
    fleet.there.restart()
    fleet.there.local.follows = tuple(KINDS)
    asked_for: list[str] = []
    fleet.before = lambda request: asked_for.append(request.path)
    fleet.tend_until(150)
    assert (fleet.secret(), fleet.note()) == (None, None)
    assert not [path for path in asked_for if path.endswith("/secrets")]


def test_a_note_that_somebody_has_made_his_own_stays() -> None:
    fleet = Safe()
    fleet.create(ENV)
    (fleet.note() or {})["metadata"]["labels"]["app"] = "theirs"
    fleet.ends()
    fleet.tend_until(150)
    assert (fleet.secret(), fleet.note() is None) == (None, False)


# --- in clear nowhere
# ----------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "shown",
    [
        contents.read_content(msgspec.json.encode({"data": DATA}), "Secret"),
        Given(CONTENT, msgspec.json.encode({"data": DATA}), key=b"key"),
        GivenObjects((Given(CONTENT, msgspec.json.encode({"data": DATA})),)),
        Found(Metadata(), contents.read_content(msgspec.json.encode({"data": DATA}), "Secret")),
    ],
)
def test_no_content_is_shown_of_what_holds_it(shown: object) -> None:
    assert not tells(f"{shown!r} {shown}")


def test_nothing_that_leaves_by_the_dispatcher_has_it() -> None:
    fleet = Safe()
    order = fleet.order(ENV)
    outcome = fleet.create(ENV)
    assert not tells(f"{order} {outcome} {msgspec.msgpack.encode((order, outcome))!r}")
    assert not tells(" ".join(values(fleet.delegate())))


def test_what_a_webhook_says_of_it_is_not_told() -> None:
    fleet = Safe()

    def denies(request: Request) -> Response:
        if request.method == "POST" and request.path == SECRETS:
            text = f'admission webhook \\"w\\" denied the request: {MARKER} is too weak'
            return Response(403, f'{{"kind":"Status","message":"{text}"}}'.encode())
        return fleet.answer(request)

    outcome = run(carry_out(fleet.order(ENV), 1, fleet.there.local, NOW), denies)
    assert (outcome.verdict, 'admission webhook "w" denied the request' in outcome.message) == (REFUSED, True)
    assert not tells(outcome.message)


@pytest.mark.parametrize(
    "content", [b'{"data":{"password":"\xff' + MARKER.encode() + b'"}}', b'{"data":["' + MARKER.encode()]
)
def test_what_cannot_be_read_is_told_of_without_what_it_was(content: bytes) -> None:
    with pytest.raises(msgspec.MsgspecError) as caught:
        contents.read_content(content, "Secret")
    assert not tells(repr(caught.value))
    assert caught.value.__cause__ is None
