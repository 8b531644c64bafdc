"""Claim and unclaim: our mark on a source pod, and the manifest that leaves its cluster."""

from typing import Any

import msgspec
import pytest

from agents.executor.crossing.fields import Object
from agents.executor.intents.procedures import carry_out
from shared.kube.http import Request, Response
from shared.messages import (
    CLAIMED,
    DONE,
    OF_CLUSTER,
    OF_POD,
    REFUSED,
    STALE,
    UNKNOWN,
    Claim,
    PodRef,
    RestoreClaim,
    Unclaim,
)
from shared.model import names
from shared.security.signatures import SignedClaim, is_claim_of, read_claim
from tests.agents.executor.world import NOW, World, keys_of, lost_reply, pod_object, proxy_object, run, source_of


def claim_for(ref: PodRef, cluster: str = "b", node: str = "b1", epoch: int = 1) -> Claim:
    return Claim("i", ref, epoch, cluster, node)


def metadata_of(world: World, name: str = "web") -> dict[str, Any]:
    pod = world.api.pod(name)
    assert pod is not None
    metadata: dict[str, Any] = pod["metadata"]
    return metadata


def test_a_claim_leaves_annotations_and_finalizer_and_answers_the_manifest() -> None:
    world = World()
    outcome = world.do(claim_for(world.submit()))
    metadata = metadata_of(world)
    assert outcome.verdict == CLAIMED
    told = {names.CLAIM_CLUSTER: "b", names.CLAIM_NODE: "b1", names.EPOCH: "1"}
    assert metadata["annotations"] == {names.CLAIM: outcome.record, **told}
    assert is_claim_of(keys_of("a").public, outcome.record)
    assert metadata["finalizers"] == [names.FINALIZER]
    assert msgspec.json.decode(outcome.manifest)["spec"]["containers"][0]["image"] == "busybox"


def test_the_owner_is_told_once_what_clusters_take_only_where_their_policy_lists_it() -> None:
    world = World()
    pod = pod_object()
    pod["metadata"]["labels"] = {"app": "web", "security.istio.io/tlsMode": "istio", "node.k8s.io/mark": "v"}
    pod["metadata"]["annotations"] = {
        "example.com/note": "v",
        "kubernetes.io/egress-bandwidth": "1M",
        "karpenter.sh/do-not-disrupt": "true",
        "plain": "v",
        "jobset.sigs.k8s.io/coordinator": "v",
        # What tools and controllers write for themselves is not worth a word.
        "kubectl.kubernetes.io/last-applied-configuration": "{}",
        "batch.kubernetes.io/job-completion-index": "3",
    }
    ref = world.submit(pod)
    answers = [world.do(claim_for(ref)) for _ in range(2)]
    (event,) = [msgspec.json.decode(one.body) for one in world.local.events]
    assert event["reason"] == "LeftBehind"
    assert [(one.verdict, one.left_behind) for one in answers] == [(CLAIMED, event["note"])] * 2
    assert event["note"] == (
        "cluster b takes these labels and annotations only if a row of its `executor.accept` lists them in "
        "`annotations`: example.com/note, security.istio.io/tlsMode; "
        "no other cluster takes these, of Kubernetes' own domains: "
        "jobset.sigs.k8s.io/coordinator, kubernetes.io/egress-bandwidth, node.k8s.io/mark"
    )


OPTIONAL = {"name": "db", "optional": True}
OPTIONAL_SECRETS: dict[str, Object] = {
    "spec.volumes[0].secret": {"volumes": [{"name": "v", "secret": {"secretName": "db", "optional": True}}]},
    "spec.volumes[0].projected.sources[1].secret": {
        "volumes": [{"name": "v", "projected": {"sources": [{"secret": {"name": "key"}}, {"secret": OPTIONAL}]}}]
    },
    "spec.containers[0].env[0].valueFrom.secretKeyRef": {
        "containers": [{"name": "c", "env": [{"name": "E", "valueFrom": {"secretKeyRef": {**OPTIONAL, "key": "k"}}}]}]
    },
    "spec.initContainers[0].envFrom[0].secretRef": {
        "initContainers": [{"name": "i", "envFrom": [{"secretRef": OPTIONAL}]}]
    },
}


@pytest.mark.parametrize(("field", "spec"), OPTIONAL_SECRETS.items(), ids=OPTIONAL_SECRETS.keys())
def test_a_secret_that_another_cluster_may_lack_in_silence_is_told(field: str, spec: Object) -> None:
    world = World()
    ref = world.submit(pod_object(**spec))
    for _ in range(2):
        assert world.do(claim_for(ref)).verdict == CLAIMED
    (event,) = [msgspec.json.decode(one.body) for one in world.local.events]
    assert (event["reason"], event["type"]) == ("OptionalSecret", "Normal")
    assert event["note"] == (
        "nobody looks whether cluster b has these Secrets, which are optional: without them the pod runs there all the "
        f'same (make them there, too, or remove `optional`): "db" ({field})'
    )


def test_of_secrets_that_must_be_there_nothing_is_told() -> None:
    world = World()
    volumes = [{"name": "v", "secret": {"secretName": "db"}}, {"name": "w", "configMap": OPTIONAL}]
    assert world.do(claim_for(world.submit(pod_object(volumes=volumes)))).verdict == CLAIMED
    assert not world.local.events


TOLERATIONS = [
    ({"operator": "Exists"}, True),
    ({"operator": "Exists", "effect": "NoExecute"}, True),
    ({"operator": "Exists", "effect": "NoSchedule"}, False),
    ({"key": "node-role.kubernetes.io/control-plane", "operator": "Exists", "effect": "NoSchedule"}, False),
    ({"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute"}, False),
]


@pytest.mark.parametrize(("toleration", "told"), TOLERATIONS)
def test_a_toleration_that_keeps_a_pod_on_failed_nodes_at_home_alone_is_told(toleration: Object, told: bool) -> None:
    world = World()
    assert world.do(claim_for(world.submit(pod_object(tolerations=[toleration])))).verdict == CLAIMED
    notes = [msgspec.json.decode(one.body)["note"] for one in world.local.events]
    assert (
        notes
        == [
            'cluster b takes a toleration without a key only if a row of its `executor.accept` has "*" in '
            "`tolerations`: else the pod is evicted there when its node fails"
        ]
        * told
    )


def test_what_controllers_and_admission_write_for_use_at_home_is_not_told() -> None:
    world = World()
    pod = pod_object()
    index = "batch.kubernetes.io/job-completion-index"
    pod["metadata"]["labels"] = {"app.kubernetes.io/name": "web", index: "0", "topology.kubernetes.io/zone": "z"}
    pod["metadata"]["annotations"] = {
        index: "0",
        "kubernetes.io/limit-ranger": "LimitRanger plugin set: cpu",
        "controller.kubernetes.io/pod-deletion-cost": "5",
        "container.apparmor.security.beta.kubernetes.io/c": "runtime/default",
    }
    assert world.do(claim_for(world.submit(pod))).verdict == CLAIMED
    assert not world.local.events


def test_a_pod_that_is_too_large_to_cross_is_refused_before_anything_is_written() -> None:
    world = World()
    pod = pod_object()
    pod["spec"]["containers"][0]["env"] = [{"name": "A", "value": "x" * 1_400_000}]
    outcome = world.do(claim_for(world.submit(pod)))
    assert (outcome.verdict, outcome.scope) == (REFUSED, OF_POD)
    assert "spec.containers[0].env has 1368 KiB" in outcome.message
    assert world.api.count("patch") == 0


def test_nothing_is_claimed_for_a_cluster_that_an_operator_has_fenced() -> None:
    world = World()
    node = proxy_object("b")
    node["metadata"]["labels"][names.FENCED] = "true"
    world.api.put_node(node)
    outcome = world.do(claim_for(world.submit()))
    assert outcome.verdict == STALE
    assert "fenced" in outcome.message
    assert world.api.count("patch") == 0


@pytest.mark.parametrize(("uid", "verdict"), [("b-cluster-uid", CLAIMED), ("another", REFUSED), ("", CLAIMED)])
def test_nothing_is_claimed_for_another_cluster_under_a_known_name(uid: str, verdict: str) -> None:
    world = World()
    assert world.local.trusted.name_of("b-cluster-uid") == "b"
    ref = world.submit()
    outcome = world.do(msgspec.structs.replace(claim_for(ref), cluster_uid=uid))
    assert outcome.verdict == verdict
    assert ("another cluster under a known name" in outcome.message) == (verdict == REFUSED)
    assert outcome.scope == (OF_CLUSTER if verdict == REFUSED else outcome.scope)
    assert world.api.count("patch") == (verdict == CLAIMED)


def test_finalizers_of_others_are_kept_by_claim_and_unclaim() -> None:
    world = World()
    pod = pod_object()
    pod["metadata"]["finalizers"] = ["other/one"]
    ref = world.submit(pod)
    world.do(claim_for(ref))
    assert metadata_of(world)["finalizers"] == ["other/one", names.FINALIZER]
    world.do(Unclaim("u", ref, 1))
    assert metadata_of(world)["finalizers"] == ["other/one"]


def test_claiming_again_with_the_same_attempt_answers_the_same_without_a_write() -> None:
    world = World()
    ref = world.submit()
    first, second = world.do(claim_for(ref)), world.do(claim_for(ref))
    assert (second.verdict, second.manifest) == (CLAIMED, first.manifest)
    assert world.api.count("patch") == 1


def test_a_newer_attempt_for_the_same_place_takes_the_claim_over() -> None:
    world = World()
    ref = world.submit()
    world.do(claim_for(ref, epoch=1))
    assert world.do(claim_for(ref, epoch=2)).verdict == CLAIMED
    assert metadata_of(world)["annotations"][names.EPOCH] == "2"


def test_a_claim_for_another_place_is_stale_while_one_is_present() -> None:
    world = World()
    ref = world.submit()
    world.do(claim_for(ref, cluster="b"))
    assert world.do(claim_for(ref, cluster="c", epoch=2)).verdict == STALE


def test_annotations_that_a_user_wrote_are_not_a_claim() -> None:
    world = World()
    pod = pod_object()
    pod["metadata"]["annotations"] = {names.CLAIM_CLUSTER: "evil", names.CLAIM_NODE: "x", names.EPOCH: "999"}
    assert world.do(claim_for(world.submit(pod))).verdict == CLAIMED
    assert metadata_of(world)["annotations"][names.CLAIM_CLUSTER] == "b"


def test_of_two_writers_at_once_one_has_to_look_again() -> None:
    world = World()
    ref = world.submit()
    raced: list[Request] = []

    def race(request: Request) -> Response:
        if request.method == "PATCH" and not raced:
            raced.append(request)
            world.do(claim_for(ref, cluster="c", epoch=1), dispatcher_epoch=1)
        return world.api.answer(request)

    assert run(carry_out(claim_for(ref), 1, world.local, NOW), race).verdict == STALE
    assert metadata_of(world)["annotations"][names.CLAIM_CLUSTER] == "c"


def test_a_lost_reply_to_a_claim_ends_claimed() -> None:
    world = World()
    ref = world.submit()
    answer = lost_reply(world.api.answer, "PATCH")
    assert run(carry_out(claim_for(ref), 1, world.local, NOW), answer).verdict == CLAIMED
    assert world.api.count("patch") == 1


def test_a_server_that_is_away_makes_the_claim_unknown() -> None:
    world = World()
    outcome = run(carry_out(claim_for(world.submit()), 1, world.local, NOW), lambda _: Response(0, b"refused"))
    assert outcome.verdict == UNKNOWN


@pytest.mark.parametrize(
    ("change", "verdict"),
    [
        ({"spec": {"nodeName": "n1"}}, STALE),
        ({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}, STALE),
        ({"metadata": {"uid": "another"}}, STALE),
        ({"status": {"phase": "Failed"}}, STALE),
        ({"spec": {"schedulerName": "default-scheduler"}}, REFUSED),
    ],
    ids=["bound", "terminating", "other uid", "ended", "not ours"],
)
def test_a_pod_that_changed_is_not_claimed(change: dict[str, dict[str, Any]], verdict: str) -> None:
    world = World()
    ref = world.submit()
    pod = world.api.pod("web")
    assert pod is not None
    for part, fields in change.items():
        pod[part] |= fields
    assert world.do(claim_for(ref)).verdict == verdict
    assert world.api.done == []


def test_a_pod_that_cannot_cross_is_refused_before_anything_is_written() -> None:
    world = World()
    outcome = world.do(claim_for(world.submit(pod_object(hostNetwork=True))))
    assert outcome.verdict == REFUSED
    assert "spec.hostNetwork" in outcome.message
    assert world.api.done == []


def test_unclaim_takes_the_mark_off_and_closes_the_attempt() -> None:
    world = World()
    ref = world.submit()
    world.do(claim_for(ref))
    assert world.do(Unclaim("u", ref, 1)).verdict == DONE
    assert names.CLAIM_CLUSTER not in metadata_of(world)["annotations"]
    late_copy = world.do(claim_for(ref))
    assert late_copy.verdict == STALE
    assert world.do(claim_for(ref, epoch=2)).verdict == CLAIMED


def test_unclaim_of_a_pod_without_a_claim_or_of_none_is_done() -> None:
    world = World()
    ref = world.submit()
    assert world.do(Unclaim("u", ref, 1)).verdict == DONE
    assert world.do(Unclaim("u", PodRef("default", "web", "gone"), 1)).verdict == DONE
    assert world.api.done == []


def test_a_bound_pod_and_a_newer_claim_keep_their_mark() -> None:
    world = World()
    ref = world.submit()
    world.do(claim_for(ref, epoch=3))
    assert world.do(Unclaim("u", ref, 2)).verdict == STALE
    pod = world.api.pod("web")
    assert pod is not None
    pod["spec"]["nodeName"] = names.proxy_node_name("b")
    assert world.do(Unclaim("u", ref, 3)).verdict == STALE
    assert metadata_of(world)["finalizers"] == [names.FINALIZER]


def test_nothing_is_claimed_for_a_cluster_whose_proxy_node_is_cordoned() -> None:
    world = World(peers=("b",))
    node = proxy_object("b")
    node["spec"]["unschedulable"] = True
    world.api.put_node(node)
    outcome = world.do(claim_for(world.submit()))
    assert (outcome.verdict, outcome.scope, world.api.done) == (REFUSED, OF_CLUSTER, [])
    assert "is cordoned" in outcome.message


def stripped(world: World) -> tuple[PodRef, str]:
    """A pod that runs in another cluster, and whose owner took claim and finalizer off; and the claim that it had."""
    ref = world.submit()
    mark = world.do(claim_for(ref)).record
    pod = world.api.pod("web")
    assert pod is not None
    pod["spec"]["nodeName"] = names.proxy_node_name("b")
    for key in (names.CLAIM, names.CLAIM_CLUSTER, names.CLAIM_NODE):
        del pod["metadata"]["annotations"][key]
    pod["metadata"]["finalizers"] = []
    return ref, mark


def test_a_claim_that_was_taken_off_is_written_again_as_its_delegate_has_kept_it() -> None:
    world = World(peers=("b",))
    ref, mark = stripped(world)
    assert world.do(RestoreClaim("r", ref, 2, mark)).verdict == DONE
    metadata = metadata_of(world)
    assert metadata["annotations"][names.CLAIM] == mark
    assert metadata["annotations"][names.CLAIM_CLUSTER] == "b"
    assert metadata["finalizers"] == [names.FINALIZER]
    writes = world.api.count("patch")
    assert world.do(RestoreClaim("r", ref, 3, mark)).verdict == DONE
    assert world.api.count("patch") == writes


def test_a_claim_that_this_cluster_has_not_signed_or_of_another_pod_is_not_restored() -> None:
    world = World(peers=("b",))
    ref, mark = stripped(world)
    forged = keys_of("b").sign_claim(read(mark))
    of_another = msgspec.structs.replace(read(mark), source=source_of(PodRef("default", "x", "x"), 1))
    other = keys_of("a").sign_claim(of_another)
    assert [world.do(RestoreClaim("r", ref, 2, one)).verdict for one in (forged, other, "")] == [REFUSED] * 3
    assert names.CLAIM not in metadata_of(world)["annotations"]


def read(mark: str) -> SignedClaim:
    signed = read_claim(mark)
    assert signed is not None
    return signed


@pytest.mark.parametrize("where", ["n1", names.proxy_node_name("c")])
def test_a_claim_of_a_pod_that_went_elsewhere_is_not_restored(where: str) -> None:
    world = World(peers=("b",))
    ref, mark = stripped(world)
    pod = world.api.pod("web")
    assert pod is not None
    pod["spec"]["nodeName"] = where
    assert world.do(RestoreClaim("r", ref, 2, mark)).verdict == STALE


@pytest.mark.parametrize(
    ("node", "verdict", "cluster"),
    [("", STALE, "c"), (names.proxy_node_name("b"), DONE, "b")],
    ids=["unbound: the newer claim holds", "bound: the node that it is bound to says where it belongs"],
)
def test_a_newer_claim_for_another_cluster_counts_until_the_pod_is_bound(node: str, verdict: str, cluster: str) -> None:
    world = World(peers=("b", "c"))
    ref, mark = stripped(world)
    newer = msgspec.structs.replace(read(mark), target="c", source=source_of(ref, 7))
    pod = world.api.pod("web")
    assert pod is not None
    pod["spec"]["nodeName"] = node
    pod["metadata"]["finalizers"] = [names.FINALIZER]
    pod["metadata"]["annotations"][names.CLAIM] = keys_of("a").sign_claim(newer)
    assert world.do(RestoreClaim("r", ref, 2, mark)).verdict == verdict
    assert read(metadata_of(world)["annotations"][names.CLAIM]).target == cluster
