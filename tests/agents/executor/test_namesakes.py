"""A machine that is named as proxy nodes are: our mark and not the name makes a proxy node."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from agents.executor.duties.proxy import ProxyNodes
from agents.executor.duties.proxy_pods import reconcile_tasks
from agents.executor.intents.procedures import carry_out
from shared.kube.http import Request, Response
from shared.messages import (
    BOUND,
    DONE,
    OF_CLUSTER,
    REFUSED,
    STALE,
    WAITING,
    AnyIntent,
    Bind,
    Claim,
    DeleteSource,
    Evict,
    FinishSource,
    MirrorStatus,
    Peer,
    PodRef,
    ReportUnschedulable,
    RestoreClaim,
    Unclaim,
)
from shared.model import names
from shared.security.signatures import SignedClaim
from tests.agents.executor.world import NOW, World, node_object, pod_object, proxy_object, run, source_of

NODE = names.proxy_node_name("b")
PATH = f"/api/v1/nodes/{NODE}"
MACHINE = node_object(NODE)
SHOWN = msgspec.json.encode({"phase": "Failed", "containerStatuses": []})
UNCHANGED: list[tuple[str, str, str]] = []


def pod_on(world: World, *, marked: bool = False, **metadata: Any) -> PodRef:
    pod = pod_object(nodeName=NODE, priority=5)
    pod["status"]["phase"] = "Running"
    pod["metadata"] |= metadata
    if marked:
        pod["metadata"]["finalizers"] = [names.FINALIZER]
    return world.submit(pod)


def mirror(ref: PodRef) -> AnyIntent:
    return MirrorStatus("i", ref, 1, SHOWN, True)


SAYS = (f'node "{NODE}"', 'cluster "b"', "rename", f"kubectl delete node {NODE}")


def finish(ref: PodRef) -> AnyIntent:
    return FinishSource("i", ref, 1, "b-cluster-uid")


def delete(ref: PodRef) -> AnyIntent:
    return DeleteSource("i", ref, 1, b"")


def evict(ref: PodRef) -> AnyIntent:
    return Evict("i", ref, 1, NODE, 100, "default/urgent of cluster a")


@pytest.mark.parametrize("marked", [False, True], ids=["an ordinary pod", "a pod with our finalizer"])
@pytest.mark.parametrize(("order", "says"), [(mirror, STALE), (finish, REFUSED), (delete, REFUSED)])
def test_a_pod_on_such_a_machine_is_not_shown_let_go_or_deleted_by_order(
    order: Callable[[PodRef], AnyIntent], says: str, marked: bool
) -> None:
    world = World(MACHINE)
    answer = world.do(order(pod_on(world, marked=marked)))
    assert (answer.verdict, world.api.done) == (says, UNCHANGED)
    assert "not" in answer.message
    assert says != REFUSED or f"kubectl delete node {NODE}" in answer.message


@pytest.mark.parametrize(("order", "says"), [(mirror, STALE), (finish, REFUSED), (delete, REFUSED), (evict, REFUSED)])
def test_nor_is_a_pod_whose_node_is_not_seen_and_that_does_not_bear_our_mark(
    order: Callable[[PodRef], AnyIntent], says: str
) -> None:
    world = World()
    assert (world.do(order(pod_on(world))).verdict, world.api.done) == (says, UNCHANGED)


def test_a_source_whose_proxy_node_was_deleted_is_let_go_by_our_finalizer() -> None:
    world = World()
    assert world.do(finish(pod_on(world, marked=True))).verdict == DONE
    assert world.api.pod("web") is None


def test_a_pod_on_such_a_machine_gives_way_like_any_other_and_one_on_a_proxy_node_does_not() -> None:
    machine = World(MACHINE)
    assert machine.do(evict(pod_on(machine))).verdict == DONE
    proxy = World(proxy_object("b"))
    assert proxy.do(evict(pod_on(proxy))).verdict == REFUSED


def test_a_pod_is_bound_to_such_a_machine_as_to_any_other_and_never_as_to_a_proxy_node() -> None:
    world = World(MACHINE)
    world.local.peers.update((Peer("b", ready=True),), NOW.mono)
    ref = world.submit()
    refused = world.do(Bind("i", ref, 1, NODE, proxy=True))
    assert (refused.verdict, "not a proxy node" in refused.message) == (REFUSED, True)
    assert world.do(Bind("i", ref, 1, NODE)).verdict == BOUND


@pytest.mark.parametrize("order", [evict, lambda ref: Unclaim("i", ref, 1)], ids=["evict", "unclaim"])
def test_a_source_is_kept_whole_where_its_proxy_node_has_lost_both_marks(order: Callable[[PodRef], AnyIntent]) -> None:
    world = World(MACHINE)
    assert world.do(order(pod_on(world, marked=True))).verdict in (STALE, REFUSED)
    assert world.api.done == UNCHANGED


def test_no_claim_is_put_back_onto_a_pod_on_such_a_machine() -> None:
    said = {}
    for name, node in {"machine": MACHINE, "proxy": proxy_object("b")}.items():
        world = World(node)
        ref = pod_on(world)
        signed = SignedClaim(source_of(ref, 1), "b", "b-cluster-uid", "b1", b"\0" * 32)
        claim = world.local.keys.sign_claim(signed)
        said[name] = world.do(RestoreClaim("i", ref, 1, claim)).verdict
    assert said == {"machine": STALE, "proxy": DONE}


def test_a_pod_that_goes_from_such_a_machine_is_its_kubelets() -> None:
    world = World(MACHINE)
    pod_on(world, deletionTimestamp="2026-01-01T00:00:00Z")
    assert list(reconcile_tasks(world.local, NOW)) == []


def test_what_is_told_of_a_pod_elsewhere_is_not_told_of_one_on_such_a_machine() -> None:
    told = {}
    for name, node in {"machine": MACHINE, "proxy": proxy_object("b")}.items():
        world = World(node)
        told[name] = world.do(ReportUnschedulable("i", pod_on(world), 1, "waits", WAITING)).verdict
    assert told == {"machine": STALE, "proxy": DONE}


def test_no_pod_is_claimed_for_a_cluster_whose_proxy_node_would_have_the_name_of_a_machine() -> None:
    world = World(MACHINE)
    answer = world.do(Claim("i", world.submit(), 1, "b", "b1"))
    assert (answer.verdict, answer.scope, world.api.done) == (REFUSED, OF_CLUSTER, UNCHANGED)
    assert all(
        word in answer.message for word in (f'node "{NODE}"', 'cluster "b"', "rename", f"kubectl delete node {NODE}")
    )


def tended(world: World, answer: Callable[[Request], Response] | None = None) -> list[str]:
    world.local.peers.update((Peer("b", ready=True, allocatable={"cpu": 1000}),), NOW.mono)
    proxies = ProxyNodes(world.local)
    return [problem for _, _, procedure in proxies.due(NOW) if (problem := run(procedure, answer or world.api.answer))]


def test_a_machine_of_the_name_is_told_and_left_as_it_is() -> None:
    world = World(MACHINE)
    (problem,) = tended(world)
    assert all(word in problem for word in SAYS)
    assert world.api.done == UNCHANGED


def test_a_machine_that_took_the_name_of_a_proxy_node_that_still_shows_is_not_written_over() -> None:
    world = World(proxy_object("b"))
    world.api.objects.pop(PATH)
    world.api.put_node(node_object(NODE))
    assert any("uid" in problem.lower() for problem in tended(world))
    assert world.api.objects[PATH]["status"] == MACHINE["status"]


@pytest.mark.parametrize("gone", ["label", "taint"])
def test_a_proxy_node_that_lost_one_of_its_marks_is_one_still_and_gets_it_back(gone: str) -> None:
    world = World()
    tended(world)
    world.sync()
    node = world.api.objects[PATH]
    if gone == "label":
        del node["metadata"]["labels"][names.PROXY_LABEL]
    else:
        node["spec"]["taints"] = []
    world.sync()
    assert world.local.behind(NODE) == "b"
    assert tended(world) == []
    assert node["metadata"]["labels"][names.PROXY_LABEL] == "b"
    assert [one["key"] for one in node["spec"]["taints"]] == [names.PROXY_TAINT]


def test_a_status_is_shown_on_a_source_only_as_long_as_its_node_is_a_proxy_node() -> None:
    world = World(proxy_object("b"))
    ref = pod_on(world)
    running = MirrorStatus("i", ref, 1, msgspec.json.encode({"phase": "Running"}), True)
    assert world.do(running).verdict == DONE
    world.api.objects.pop(PATH)
    world.api.put_node(node_object(NODE))
    world.sync()
    assert run(carry_out(mirror(ref), 1, world.local, NOW), world.api.answer).verdict == STALE
