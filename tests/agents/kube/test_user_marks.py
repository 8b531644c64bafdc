"""What the owner of a pod wrote of ours: followed, told in an event, or a reason to wait. Never without a word."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.kube import user_marks
from agents.kube.convert import MAX_NOTE, pod_seen
from agents.kube.user_marks import ADOPTED, MAX_KEYS, MISUNDERSTOOD, NO_GROUP
from agents.observer.seen import PodSeen
from docs.generate import keys
from shared.model import names
from shared.model.pod import Claim, SourceRef
from shared.security.signatures import SignedClaim
from tests.agents.executor.world import keys_of
from tests.agents.kube.objects import Object, pod_object, raw, read_pod

P = names.PREFIX


def seen_of(thing: Object) -> PodSeen:
    seen = pod_seen(raw(thing))
    assert seen is not None
    return seen


def annotated(annotations: dict[str, str], **fields: Any) -> Object:
    return pod_object(metadata={"annotations": annotations, **fields.pop("metadata", {})}, **fields)


def problems_of(thing: Object) -> tuple[str, ...]:
    return read_pod(thing).problems


def notes_of(thing: Object) -> list[str]:
    return [one.text for one in seen_of(thing).invalid_annotation]


@pytest.mark.parametrize(
    ("key", "meant"),
    [
        ("clustres", "clusters"),
        ("Clusters", "clusters"),
        ("allowed-clusters", "clusters"),
        ("sty", "stay"),
        ("spred", "spread"),
        ("spread-by", "spread"),
        ("domain_scope", "domain-scope"),
        ("domainscope", "domain-scope"),
        ("fail-over", "failover"),
        ("required-data", "require-data"),
    ],
)
def test_a_pod_whose_unknown_key_is_like_one_that_narrows_waits(key: str, meant: str) -> None:
    want = f"metadata.annotations[{P}{key}]: is not known; did you mean {P}{meant}? Rename or remove it"
    assert problems_of(annotated({P + key: "west"})) == (want,)


def test_a_domain_that_is_like_ours_is_told_apart_from_ours() -> None:
    want = f"metadata.annotations[global-dispacher.io/clusters]: is not known; did you mean {names.CLUSTERS}?"
    assert problems_of(annotated({"global-dispacher.io/clusters": "west"}))[0].startswith(want)
    strangers = {"global-accelerator.example/clusters": "a", "globalnet.submariner.io/stay": "b", "clusters": "c"}
    assert (problems_of(annotated(strangers)), notes_of(annotated(strangers))) == ((), [])


@pytest.mark.parametrize(
    ("key", "says"),
    [
        ("scheduel", f"is not known; did you mean {names.SCHEDULE}? Rename or remove it"),
        ("domain", f"is not known; did you mean {names.DOMAIN_SCOPE}? Rename or remove it"),
        ("colour", f"is not known; remove it, or begin the keys of your own plugins with {P}x-"),
        ("node", f"{names.CLAIM_NODE} is written by the agent alone and means nothing here; remove it"),
        ("decision", f"{names.DECISION} is written by the agent alone and means nothing here; remove it"),
        ("source-uid", f"{names.SOURCE_UID} is written by the agent alone and means nothing here; remove it"),
        ("bandwidth", "means nothing on a pod, it belongs to nodes; remove it"),
    ],
)
def test_another_unknown_key_is_told_and_the_pod_is_placed(key: str, says: str) -> None:
    thing = annotated({P + key: "x"})
    assert (problems_of(thing), notes_of(thing)) == ((), [f"metadata.annotations[{P}{key}]: {says}"])
    assert [one.reason for one in seen_of(thing).invalid_annotation] == [MISUNDERSTOOD]


def test_the_key_of_a_claim_is_not_taken_for_the_choice_of_a_cluster() -> None:
    (problem,) = problems_of(annotated({names.CLAIM_CLUSTER: "west"}))
    assert f"{names.CLAIM_CLUSTER} is written by the agent alone and means nothing here" in problem
    assert problem.endswith(f"; did you mean {names.CLUSTERS}?")
    assert "epoch" not in problem


@pytest.mark.parametrize(
    "claimed",
    [
        pytest.param({"metadata": {"finalizers": [names.FINALIZER]}}, id="our finalizer"),
        pytest.param({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}, id="going"),
        pytest.param({"nodeName": "n1"}, id="bound"),
    ],
)
def test_what_agents_wrote_on_a_pod_is_no_mistake_of_its_owner(claimed: dict[str, Any]) -> None:
    told = {names.CLAIM_CLUSTER: "b", names.CLAIM_NODE: "n1", names.EPOCH: "7", names.DECISION: "score 1"}
    signed = SignedClaim(SourceRef("a", "ua", "default", "web-1", "uid-web-1", 7), "b", "", "n1", b"")
    marks = {**told, names.CLAIM: keys_of("a").sign_claim(signed)}
    thing = annotated(marks, **claimed)
    assert (problems_of(thing), notes_of(thing)) == ((), [])
    assert read_pod(thing).claim == Claim("b", "n1", 7)


def test_what_a_claim_that_was_given_up_leaves_is_no_mistake_of_the_owner() -> None:
    thing = annotated({names.EPOCH: "7"})
    assert (problems_of(thing), notes_of(thing)) == ((), [])


def test_a_delegate_is_not_judged() -> None:
    marks = {P + key: "s" for key in ("source-cluster", "source-cluster-uid", "source-namespace", "source-name")}
    signed = SignedClaim(SourceRef("a", "ua", "default", "web-1", "u", 7), "b", "", "n1", b"")
    marks |= {names.SOURCE_UID: "u", names.EPOCH: "7", names.CLAIM_CLUSTER: "b", P + "clustres": "west"}
    marks |= {names.CLAIM: keys_of("a").sign_claim(signed), names.DELEGATE_PROOF: "p"}
    delegate = {"metadata": {"labels": {names.DELEGATE_LABEL: "true"}}, "schedulerName": names.DELEGATE_SCHEDULER}
    thing = annotated(marks, **delegate, nodeName="n1")
    assert (problems_of(thing), notes_of(thing)) == ((), [])


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        (names.STAY, "ture", "must be 'true' or 'false', not 'ture'; did you mean 'true'?"),
        (names.STAY, "True", "must be 'true' or 'false', not 'True'; did you mean 'true'?"),
        (names.STAY, "yes", "must be 'true' or 'false', not 'yes'"),
        (names.STAY, "", "must be 'true' or 'false', not ''"),
        (names.DOMAIN_SCOPE, "clusters", "must be 'cluster' or 'fleet', not 'clusters'; did you mean 'cluster'?"),
        (names.FAILOVER, "never", "must be 'strict', 'lease' or 'asap', not 'never'"),
        (names.FAILOVER, "strickt", "must be 'strict', 'lease' or 'asap', not 'strickt'; did you mean 'strict'?"),
        (names.FAILOVER, "leased", "must be 'strict', 'lease' or 'asap', not 'leased'; did you mean 'lease'?"),
        (names.SPREAD, "zone", "'zone' is not LEVEL=SKEW or LEVEL=SKEW:soft, such as zone=1"),
        (names.SPREAD, "zone:1", "'zone:1' is not LEVEL=SKEW or LEVEL=SKEW:soft, such as zone=1"),
        (names.SPREAD, "", "is empty; write LEVEL=SKEW such as zone=1, or remove it"),
        (names.CLUSTERS, " ", "is empty; write names of clusters as 'a,b', or remove it"),
        (names.CLUSTERS, "a,,b", "'a,,b' has an empty name between its commas; write names of clusters as 'a,b', or "),
        (names.CLUSTERS, "a b", "'a b' can be no cluster's name (a-z, 0-9, '-'); write names of clusters as 'a,b', "),
        (names.CLUSTERS, "West", "'West' can be no cluster's name"),
        (names.REQUIRE_DATA, "", "must be the name of one dataset (a-z, 0-9, '-', '_', '.'), not ''"),
        (names.REQUIRE_DATA, "a,b", "must be the name of one dataset (a-z, 0-9, '-', '_', '.'), not 'a,b'"),
        (names.CLUSTERS, ",".join("c" for _ in range(65)), "names 65 clusters, more than 64"),
    ],
)
def test_a_pod_whose_narrowing_annotation_means_nothing_waits(key: str, value: str, says: str) -> None:
    (problem,) = problems_of(annotated({key: value}))
    assert problem.startswith(f"metadata.annotations[{key}]: {says}")
    assert notes_of(annotated({key: value})) == []  # nor is anything told beside it that contradicts


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (names.SCHEDULE, "true"),
        (names.STAY, "true"),
        (names.STAY, "false"),
        (names.CLUSTERS, "west, east-2"),
        (names.SPREAD, "zone=1,example.com/pool=2:soft,host=3"),
        (names.DOMAIN_SCOPE, "fleet"),
        (names.FAILOVER, "strict"),
        (names.FAILOVER, "lease"),
        (names.NEAR, "cluster/west"),
        (names.NEAR, "service/shop/db"),
        (names.NEAR, "zone/eu-central-1a"),
        (names.NEAR, "zone/Rack_7.b"),
        (names.DATA, "genomes-2026.1"),
        (names.REQUIRE_DATA, "genomes"),
        (P + "x-power", "whatever a plugin reads"),
    ],
)
def test_what_means_something_is_followed_in_silence(key: str, value: str) -> None:
    thing = annotated({key: value})
    assert (problems_of(thing), notes_of(thing)) == ((), [])


@pytest.mark.parametrize(("text", "want"), [("strict", "strict"), ("asap", "asap"), ("never", "")])
def test_a_pod_says_when_it_may_be_replaced(text: str, want: str) -> None:
    assert read_pod(annotated({names.FAILOVER: text})).failover == want
    assert not read_pod(pod_object()).failover


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        (names.SPREAD, "zoen=1", "'zoen' is no level and so taken as a node label; did you mean 'zone'?"),
        (
            names.NEAR,
            "clusters/west",
            "must be one of cluster/NAME, service/NAMESPACE/NAME, zone/NAME, not 'clusters/west'; did you mean "
            "cluster/NAME?",
        ),
        (names.NEAR, "west", "must be one of cluster/NAME, service/NAMESPACE/NAME, zone/NAME, not 'west'"),
        (names.NEAR, "", "must be one of cluster/NAME, service/NAMESPACE/NAME, zone/NAME, not ''"),
        (names.NEAR, "service/db", "'service/db' cannot be read; write service/NAMESPACE/NAME"),
        (names.NEAR, "cluster/a/b", "'cluster/a/b' cannot be read; write cluster/NAME"),
        (names.NEAR, "cluster/West", "'cluster/West' cannot be read; write cluster/NAME"),
        (names.NEAR, "zone/", "'zone/' cannot be read; write zone/NAME"),
        (names.DATA, "two words", "must be the name of one dataset (a-z, 0-9, '-', '_', '.'), not 'two words'"),
        (P + "nearby", "cluster/west", f"is not known; did you mean {names.NEAR}? Rename or remove it"),
        (names.SCHEDULE, "True", "'True' is not \"true\", but spec.schedulerName asks for this scheduler, so "),
        (names.SCHEDULE, "false", "'false' is not \"true\", but spec.schedulerName asks for this scheduler, so "),
    ],
)
def test_a_value_that_may_not_be_meant_is_told_and_the_pod_is_placed(key: str, value: str, says: str) -> None:
    thing = annotated({key: value})
    (note,) = notes_of(thing)
    assert note.startswith(f"metadata.annotations[{key}]: {says}")
    assert problems_of(thing) == ()


def test_a_label_is_no_annotation() -> None:
    says = "is a label and means nothing; write it as an annotation"
    narrowing = pod_object(metadata={"labels": {names.CLUSTERS: "west"}})
    assert problems_of(narrowing) == (f"metadata.labels[{names.CLUSTERS}]: {says}",)
    asking = pod_object(metadata={"labels": {names.SCHEDULE: "true"}}, schedulerName="default-scheduler")
    assert notes_of(asking) == [f"metadata.labels[{names.SCHEDULE}]: {says}"]


LEFT = 'so this pod is left to scheduler "default-scheduler"'


@pytest.mark.parametrize(
    ("annotations", "says"),
    [
        ({"schedule": "True"}, f"schedule]: 'True' is not \"true\", {LEFT}; make the pod anew with"),
        ({"schedule": "yes"}, f"schedule]: 'yes' is not \"true\", {LEFT}; make the pod anew with"),
        ({"scheduel": "true"}, f"scheduel]: is not known; did you mean {names.SCHEDULE}?"),
        ({"clusters": "west"}, f'clusters]: means nothing without {names.SCHEDULE}: "true", {LEFT}'),
        ({"schedule": "true", "clustres": "west"}, None),  # told already that the pod is another scheduler's
        ({"schedule": "false", "clusters": "west"}, None),
        ({"cluster": "west", "epoch": "1"}, None),
        ({"proxy-nodes": "left-out"}, None),
    ],
    ids=["True", "yes", "typo of the key", "narrowing alone", "misplaced", "switched off", "an agent's", "admission's"],
)
def test_a_pod_of_another_scheduler_is_told_what_of_ours_means_nothing(
    annotations: dict[str, str], says: str | None
) -> None:
    ours = {P + key: value for key, value in annotations.items()}
    notes = notes_of(annotated(ours, schedulerName="default-scheduler"))
    assert len(notes) == (1 if says else 0)
    assert all(note.startswith(f"metadata.annotations[{P}{says}") for note in notes)
    assert notes_of(annotated(ours, schedulerName="default-scheduler", nodeName="n1")) == []


@pytest.mark.parametrize(
    ("metadata", "what"),
    [
        ({"annotations": {"yunikorn.apache.org/task-group-name": "g"}}, "pod group"),
        ({"labels": {"kai.scheduler/queue": "g"}}, "queue"),
        ({"labels": {"kueue.x-k8s.io/pod-group-name": "g"}}, None),
        ({"labels": {"kai.scheduler/queue": "g"}, "annotations": {"pod-group-name": "g"}}, None),
    ],
    ids=["YuniKorn", "KAI's queue", "kueue admits by its own gate", "KAI's PodGroup says all of it"],
)
def test_a_group_that_only_another_scheduler_knows_is_told_and_its_pods_are_placed_singly(
    metadata: dict[str, Any], what: str | None
) -> None:
    seen = seen_of(pod_object(metadata=metadata))
    assert [one.reason for one in seen.invalid_annotation] == ([NO_GROUP] if what else [])
    assert all(f"]: {what} 'g' is not known here" in one.text for one in seen.invalid_annotation)
    assert problems_of(pod_object(metadata=metadata)) == ()


@pytest.mark.parametrize(
    ("key", "what"),
    [("kai.scheduler/subgroup-name", "subgroup"), ("kai.scheduler/queue", "queue"), ("runai/queue", "queue")],
)
def test_a_queue_or_subgroup_of_kai_is_told_by_that_word(key: str, what: str) -> None:
    (told,) = notes_of(pod_object(metadata={"labels": {key: "team"}}))
    assert told.startswith(f"metadata.labels[{key}]: {what} 'team' is not known here, so this pod is placed by itself")


def test_more_keys_than_anybody_needs_are_a_problem_and_cost_no_time() -> None:
    many = {f"{P}clustres-{'x' * 200}-{number}": "v" * 4000 for number in range(2000)}
    problems = problems_of(annotated(many))
    assert problems[0] == f"metadata.annotations and labels: 2000 keys of {P}, more than {MAX_KEYS}"
    assert len(notes_of(annotated(many))) <= MAX_KEYS


@given(st.dictionaries(st.text(max_size=30).map(lambda text: P + text), st.text(max_size=80), max_size=6))
def test_any_annotations_are_judged_within_bounds(annotations: dict[str, str]) -> None:
    for scheduler in (names.SCHEDULER_NAME, "other"):
        seen = seen_of(annotated(annotations, schedulerName=scheduler))
        assert all(len(one.text) <= MAX_NOTE for one in seen.invalid_annotation)
        assert all(len(line) <= 300 for line in (seen.pod.problems if seen.pod is not None else ()))


def test_of_many_keys_that_look_like_ours_only_the_first_are_compared() -> None:
    before = user_marks._is_near_prefix.cache_info()
    labels = {f"global-dispatche{number:05d}/clusters": "" for number in range(10 * MAX_KEYS)}
    read_pod(pod_object(metadata={"labels": labels}))
    after = user_marks._is_near_prefix.cache_info()
    assert after.hits + after.misses - before.hits - before.misses == MAX_KEYS


def test_many_keys_that_look_like_ours_hide_none_of_ours() -> None:
    many = {f"global-dispatche{number:05d}/x": "" for number in range(10 * MAX_KEYS)}
    assert problems_of(annotated({**many, names.STAY: "maybe"}))


WRITTEN_BY_AGENTS = [
    keys.declared()[one.name]
    for one in keys.OURS
    if "annotation" in one.on and one.on.startswith(("pod", "source", "delegate"))
]


@pytest.mark.parametrize("key", WRITTEN_BY_AGENTS)
def test_an_annotation_that_agents_write_is_known_to_them_and_reserved(key: str) -> None:
    assert not [
        text for text in (*notes_of(annotated({key: "x"})), *problems_of(annotated({key: "x"}))) if "not known" in text
    ]
    policy = Path(__file__).parents[3] / "helm/agent/templates/reserve-policy.yaml"
    assert f'"{key.removeprefix(P)}"' in policy.read_text()


@pytest.mark.parametrize("controller", [True, False])
def test_a_delegate_that_a_controller_has_adopted_is_told_of(controller: bool) -> None:
    claim = keys_of("a").sign_claim(SignedClaim(SourceRef("a", "ua", "shop", "web", "s1", 3), "b", "", "n7", b""))
    owner = {"kind": "ReplicaSet", "name": "web", "uid": "u", "controller": controller}
    delegate = annotated(
        {names.CLAIM: claim, names.DELEGATE_PROOF: keys_of("b").sign_proof("d1", claim)},
        metadata={"labels": {names.DELEGATE_LABEL: "true"}, "ownerReferences": [owner]},
        schedulerName=names.DELEGATE_SCHEDULER,
        nodeName="n7",
    )
    told = [(one.reason, one.text) for one in seen_of(delegate).invalid_annotation]
    assert (
        told
        == [
            (
                ADOPTED,
                "ReplicaSet web takes this pod of another cluster for its own, counts it and may delete it: "
                "give it a spec.selector that means other pods",
            )
        ]
        * controller
    )
