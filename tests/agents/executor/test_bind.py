"""Bind: the re-check against the fresher cache, the guarded write, and the truth after doubt."""

from typing import Any

import pytest

from agents.executor.context.local import Moment
from agents.executor.intents.procedures import carry_out
from shared.kube.http import Response
from shared.messages import BOUND, CLAIMED, REFUSED, STALE, UNKNOWN, Bind, Claim, PodRef
from shared.model import names
from shared.security.signatures import SignedClaim
from tests.agents.executor.world import (
    NOW,
    World,
    keys_of,
    lost_reply,
    node_object,
    pod_object,
    run,
    scripted,
    source_of,
)


def bind_to(ref: PodRef, node: str = "n1", epoch: int = 1, **more: Any) -> Bind:
    return Bind("i", ref, epoch, node, **more)


def test_a_fitting_pod_is_bound_with_uid_and_annotations() -> None:
    world = World()
    ref = world.submit()
    outcome = world.do(bind_to(ref, annotations={names.DECISION: "score 90"}))
    pod = world.api.pod("web")
    assert outcome.verdict == BOUND
    assert pod is not None
    assert pod["spec"]["nodeName"] == "n1"
    assert pod["metadata"]["annotations"] == {names.DECISION: "score 90", names.EPOCH: "1"}


def test_a_bound_pod_gets_the_event_that_kubectl_describe_shows() -> None:
    world = World()
    world.do(bind_to(world.submit()))
    (event,) = world.local.events
    assert b"Successfully assigned default/web to a/n1" in event.body
    assert event.path == "/apis/events.k8s.io/v1/namespaces/default/events"


NODE_REFUSALS = {
    "unknown node": (node_object("other"), pod_object(), "not known"),
    "not ready": (node_object(ready=False), pod_object(), "not ready"),
    "cordoned": (node_object(unschedulable=True), pod_object(), "unschedulable"),
    "tainted": (
        node_object(taints=[{"key": "k", "value": "v", "effect": "NoSchedule"}]),
        pod_object(),
        "untolerated taint(s) (k=v:NoSchedule)",
    ),
    "no cpu": (node_object(cpu="50m"), pod_object(), "Insufficient cpu"),
    "no place": (node_object(pods="0"), pod_object(), "Too many pods"),
    "selector": (node_object(), pod_object(nodeSelector={"disk": "ssd"}), "node affinity/selector"),
}


@pytest.mark.parametrize(("node", "pod", "why"), NODE_REFUSALS.values(), ids=NODE_REFUSALS.keys())
def test_a_node_that_changed_is_refused_without_a_write(node: dict[str, Any], pod: dict[str, Any], why: str) -> None:
    world = World(node)
    outcome = world.do(bind_to(world.submit(pod)))
    assert outcome.verdict == REFUSED
    assert why in outcome.message
    assert world.api.done == []


def test_a_tolerated_cordon_and_taint_are_no_obstacle() -> None:
    taint = {"key": "k", "value": "v", "effect": "NoSchedule"}
    world = World(node_object(unschedulable=True, taints=[taint]))
    ref = world.submit(pod_object(tolerations=[{"operator": "Exists"}]))
    assert world.do(bind_to(ref)).verdict == BOUND


def test_room_is_counted_with_binds_that_the_view_does_not_show_yet() -> None:
    world = World(node_object(cpu="250m"))
    refs = [world.submit(pod_object(name)) for name in ("one", "two", "three")]
    verdicts = [world.do(bind_to(ref)).verdict for ref in refs]
    assert verdicts == [BOUND, BOUND, REFUSED]


def test_a_host_port_taken_by_a_bind_under_way_is_refused() -> None:
    port: dict[str, Any] = {"containers": [{"name": "c", "ports": [{"containerPort": 80, "hostPort": 8080}]}]}
    world = World()
    first, second = world.submit(pod_object("one", **port)), world.submit(pod_object("two", **port))
    assert world.do(bind_to(first)).verdict == BOUND
    refused = world.do(bind_to(second))
    assert refused.verdict == REFUSED
    assert "free ports" in refused.message


def test_room_booked_for_a_bind_that_failed_is_given_back() -> None:
    world = World(node_object(cpu="100m"))
    first, second = world.submit(pod_object("one")), world.submit(pod_object("two"))
    refuse = scripted(Response(403, b'{"message":"no"}'), then=world.api.answer)
    assert run(carry_out(bind_to(first), 1, world.local, NOW), refuse).verdict == REFUSED
    assert world.do(bind_to(second)).verdict == BOUND


def test_room_booked_is_forgotten_when_the_view_shows_the_bind() -> None:
    world = World()
    world.do(bind_to(world.submit()))
    assert len(world.local.ledger) == 1
    world.sync()
    world.local.ledger.settle(world.cache, NOW.mono)
    assert len(world.local.ledger) == 0


def test_room_booked_for_a_pod_that_never_shows_is_forgotten_in_the_end() -> None:
    world = World(node_object(cpu="100m"))
    first, second = world.submit(pod_object("one")), world.submit(pod_object("two"))
    dead = scripted(then=lambda _: Response(0))
    assert run(carry_out(bind_to(first), 1, world.local, NOW), dead).verdict == UNKNOWN
    assert world.do(bind_to(second)).verdict == REFUSED
    later = Moment(NOW.mono + 3600, NOW.wall + 3600)
    assert world.do(bind_to(second), later).verdict == BOUND


POD_TROUBLES = {
    "bound elsewhere": ({"nodeName": "n2"}, {}, STALE),
    "gated": ({"schedulingGates": [{"name": "wait"}]}, {}, STALE),
    "ended": ({}, {"phase": "Failed"}, STALE),
}


@pytest.mark.parametrize(("spec", "status", "verdict"), POD_TROUBLES.values(), ids=POD_TROUBLES.keys())
def test_a_pod_that_changed_is_not_written(spec: dict[str, Any], status: dict[str, Any], verdict: str) -> None:
    world = World()
    obj = pod_object(**spec)
    obj["status"] |= status
    assert world.do(bind_to(world.submit(obj))).verdict == verdict
    assert world.api.done == []


def test_a_pod_made_again_under_the_same_name_is_never_bound_by_an_old_order() -> None:
    world = World()
    old = world.submit()
    world.api.put_pod(pod_object())  # the view has not seen it
    outcome = world.do(bind_to(old))
    assert outcome.verdict == STALE
    assert world.api.count("bind") == 0


def test_a_lost_reply_is_cleared_up_by_reading_the_truth() -> None:
    world = World()
    ref = world.submit()
    answer = lost_reply(world.api.answer, "POST")
    assert run(carry_out(bind_to(ref), 1, world.local, NOW), answer).verdict == BOUND
    assert world.api.count("bind") == 1


def test_a_conflict_with_another_scheduler_is_stale_and_names_the_node() -> None:
    world = World()
    ref = world.submit()
    pod = world.api.pod("web")
    assert pod is not None
    pod["spec"]["nodeName"] = "n7"
    outcome = world.do(bind_to(ref))
    assert outcome.verdict == STALE
    assert '"n7"' in outcome.message


@pytest.mark.parametrize(
    ("status", "verdict"),
    [(400, REFUSED), (403, REFUSED), (422, REFUSED), (404, STALE), (500, UNKNOWN), (429, UNKNOWN), (401, UNKNOWN)],
)
def test_what_the_server_says_is_the_verdict(status: int, verdict: str) -> None:
    world = World()
    ref = world.submit()
    reply = Response(status, b'{"message":"admission webhook denied it"}')
    outcome = run(carry_out(bind_to(ref), 1, world.local, NOW), lambda _: reply)
    assert outcome.verdict == verdict
    assert "admission webhook denied it" in outcome.message


def test_a_foreign_annotation_is_refused() -> None:
    world = World()
    outcome = world.do(bind_to(world.submit(), annotations={"kubernetes.io/x": "y"}))
    assert outcome.verdict == REFUSED
    assert "kubernetes.io/x" in outcome.message


def test_an_older_attempt_is_stale_and_a_new_dispatcher_may_start_anew() -> None:
    world = World()
    ref = world.submit(pod_object(cpu="8"))  # never fits
    assert world.do(bind_to(ref, epoch=5)).verdict == REFUSED
    assert world.do(bind_to(ref, epoch=4)).verdict == STALE
    assert world.do(bind_to(ref, epoch=1), dispatcher_epoch=2).verdict == REFUSED


def test_a_source_is_bound_to_the_proxy_node_of_a_ready_peer_only() -> None:
    world = World(peers=("b",))
    ref = world.submit()
    world.do(Claim("c", ref, 1, "b", "b1"))
    to_real = world.do(bind_to(ref, "n1", proxy=True))
    to_proxy = world.do(bind_to(ref, names.proxy_node_name("b"), proxy=True))
    assert (to_real.verdict, to_proxy.verdict) == (REFUSED, BOUND)


def test_a_source_is_not_bound_to_a_proxy_node_that_an_operator_has_fenced() -> None:
    world = World(peers=("b",))
    ref = world.submit()
    world.do(Claim("c", ref, 1, "b", "b1"))
    node = world.api.objects[f"/api/v1/nodes/{names.proxy_node_name('b')}"]
    node["metadata"]["labels"][names.FENCED] = "true"
    world.sync()
    outcome = world.do(bind_to(ref, names.proxy_node_name("b"), proxy=True))
    assert outcome.verdict == STALE  # the dispatcher looks again, and takes the claim back
    assert "fenced" in outcome.message


@pytest.mark.parametrize("shown", [True, False], ids=["which the view shows", "which the view does not show"])
def test_a_pod_without_a_claim_that_this_cluster_signed_is_not_bound_to_a_proxy_node(shown: bool) -> None:
    world = World(peers=("b",))
    signed = SignedClaim(source_of(PodRef("default", "web", "u"), 1), "b", "", "b1", b"")
    pod = pod_object()
    pod["metadata"] |= {"uid": "u", "finalizers": [names.FINALIZER]}
    pod["metadata"]["annotations"] = {
        names.CLAIM: keys_of("b").sign_claim(signed),
        names.CLAIM_CLUSTER: "b",
        names.CLAIM_NODE: "b1",
        names.EPOCH: "1",
    }
    ref = world.submit(pod)
    if shown:
        world.sync()
    outcome = world.do(bind_to(ref, names.proxy_node_name("b"), proxy=True))
    assert (outcome.verdict, world.api.count("bind")) == (STALE, 0)
    assert "no claim of this cluster" in outcome.message


def test_nothing_is_bound_to_a_proxy_node_whose_peer_is_silent() -> None:
    world = World(peers=("b",))
    ref = world.submit()
    much_later = Moment(NOW.mono + 3600, NOW.wall)
    outcome = world.do(bind_to(ref, names.proxy_node_name("b"), proxy=True), much_later)
    assert outcome.verdict == REFUSED


def test_an_ordinary_bind_never_goes_to_a_proxy_node() -> None:
    world = World(peers=("b",))
    outcome = world.do(bind_to(world.submit(), names.proxy_node_name("b")))
    assert outcome.verdict == REFUSED
    assert "proxy" in outcome.message


def test_a_pod_that_was_claimed_behind_the_views_back_is_not_bound_at_home() -> None:
    world = World()
    ref = world.submit()
    assert world.do(Claim("c", ref, 1, "b", "b1")).verdict == CLAIMED  # the watch does not show it yet
    outcome = world.do(bind_to(ref, epoch=2), dispatcher_epoch=2)
    assert outcome.verdict == STALE
    assert 'claimed for cluster "b"' in outcome.message
    world.sync()
    assert world.do(bind_to(ref, epoch=3), dispatcher_epoch=2).verdict == STALE
    assert world.api.count("bind") == 0


def test_a_pod_that_only_moved_on_is_bound_at_its_new_version() -> None:
    world = World()
    ref = world.submit()
    pod = world.api.pod("web")
    assert pod is not None
    pod["metadata"]["resourceVersion"] = str(int(pod["metadata"]["resourceVersion"]) + 7)
    assert world.do(bind_to(ref)).verdict == BOUND


def test_two_pods_of_many_host_ports_are_compared_port_by_port() -> None:
    world = World(node_object("n1", pods="10"))

    def many(name: str, first: int, count: int = 1000, **spec: Any) -> dict[str, Any]:
        pod = pod_object(name, **spec)
        pod["spec"]["containers"][0]["ports"] = [
            {"containerPort": 1, "hostPort": first + number, "protocol": "TCP"} for number in range(count)
        ]
        return pod

    world.api.put_pod(many("taken", 1, 20_000, nodeName="n1"))
    apart, over = world.submit(many("apart", 30_001)), world.submit(many("over", 20_000))
    beyond = world.submit(many("beyond", 30_001, 20_000))
    world.sync()
    assert world.do(Bind("1", over, 1, "n1")).verdict == REFUSED
    assert world.do(Bind("2", apart, 2, "n1")).verdict == BOUND
    refused = world.do(Bind("3", beyond, 3, "n1"))
    assert refused.verdict == REFUSED
    assert "ports of spec.containers" in refused.message
