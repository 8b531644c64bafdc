"""Pods on proxy nodes: let go, set not Ready, and kept from being replaced, by nobody's order."""

from typing import Any

import msgspec
import pytest

from agents.executor.context import failover_mode
from agents.executor.context.failover_mode import tolerations_for
from agents.executor.duties import proxy_pods
from shared.kube.http import Request, Response
from shared.messages import Peer, PodRef
from shared.model import names
from shared.model.leases import LEASE, stopped_after_s
from shared.model.pod import Toleration
from shared.security.signatures import SignedClaim
from tests.agents.executor.world import NOW, World, pod_object, proxy_object, run, source_of

PROXY = names.proxy_node_name("b")
NOT_READY, UNREACHABLE = "node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"


def toleration(key: str, seconds: int | None = None) -> dict[str, Any]:
    plain: dict[str, Any] = {"key": key, "operator": "Exists", "effect": "NoExecute"}
    return plain if seconds is None else {**plain, "tolerationSeconds": seconds}


OURS = [toleration(NOT_READY), toleration(UNREACHABLE)]
DEFAULTS = [toleration(NOT_READY, 300), toleration(UNREACHABLE, 300)]
EVERYTHING: dict[str, Any] = {"operator": "Exists"}


def model_of(one: dict[str, Any]) -> Toleration:
    return Toleration(one.get("key", ""), one["operator"], "", one.get("effect", ""), one.get("tolerationSeconds"))


class Remote:
    """A cluster with pods on the proxy node of cluster b."""

    def __init__(self) -> None:
        self.world = World(proxy_object("b"))
        self.requests: list[Request] = []

    def say(self, *, ready: bool, api_ok: bool = True, unrenewed_s: float = 0.0, lease_s: float = 0.0) -> None:
        peer = Peer("b", ready=ready, uid="b-uid", api_ok=api_ok, unrenewed_s=unrenewed_s)
        self.world.local.peers.update((peer,), NOW.mono, lease_s)

    def leased(self, *, claimed: str = LEASE, **spec: Any) -> None:
        """A pod that asks for `lease`, and what its claim says."""
        self.pod(mode=LEASE, **spec)
        source = source_of(PodRef("default", "web", self.seen()["metadata"]["uid"]), 1)
        signed = SignedClaim(source, "b", "b-uid", "n1", b"digest", claimed)
        self.seen()["metadata"]["annotations"][names.CLAIM] = self.world.local.keys.sign_claim(signed)
        self.world.sync()

    @property
    def tolerations(self) -> Any:
        return self.seen()["spec"]["tolerations"]

    def said(self) -> list[str]:
        notes = [msgspec.json.decode(one.body)["note"] for one in self.world.local.events]
        self.world.local.events.clear()
        return notes

    def pod(self, name: str = "web", mode: str = "", namespace: str = "default", **spec: Any) -> PodRef:
        pod = pod_object(name, nodeName=PROXY, **{"tolerations": [*OURS, *DEFAULTS], **spec})
        pod["metadata"]["namespace"] = namespace
        pod["metadata"]["finalizers"] = [names.FINALIZER]
        pod["metadata"]["annotations"] = {names.FAILOVER: mode} if mode else {}
        pod["status"] = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
        return self.world.submit(pod)

    def tend(self) -> list[str]:
        self.requests = []
        problems = [run(duty.procedure, self._answer) for duty in proxy_pods.reconcile_tasks(self.world.local, NOW)]
        self.world.sync()
        return [problem for problem in problems if problem]

    def _answer(self, request: Request) -> Response:
        self.requests.append(request)
        return self.world.api.answer(request)

    def seen(self, name: str = "web") -> dict[str, Any]:
        found = self.world.api.pod(name)
        assert found is not None
        return found

    def ready(self) -> str:
        return str(self.seen()["status"]["conditions"][0]["status"])


@pytest.mark.parametrize(
    ("mode", "current", "want"),
    [
        ("strict", DEFAULTS, [*OURS, *DEFAULTS]),
        ("strict", [*OURS, *DEFAULTS], [*OURS, *DEFAULTS]),
        ("strict", [], OURS),
        ("strict", [*DEFAULTS, *OURS], [*OURS, *DEFAULTS, *OURS]),
        ("strict", [toleration(UNREACHABLE), *DEFAULTS], [OURS[0], toleration(UNREACHABLE), *DEFAULTS]),
        ("strict", [EVERYTHING], [EVERYTHING]),
        ("strict", [{**EVERYTHING, "effect": "NoSchedule"}], [*OURS, {**EVERYTHING, "effect": "NoSchedule"}]),
        ("asap", DEFAULTS, DEFAULTS),
        ("asap", [*OURS, *DEFAULTS], DEFAULTS),
        ("asap", OURS, OURS),
    ],
    ids=[
        "as admitted",
        "has them",
        "none at all",
        "behind its own they do nothing",
        "one of the two",
        "tolerates everything for ever",
        "another effect",
        "asap",
        "asap takes ours off",
        "a pod's own, for which nothing would remain",
    ],
)
def test_tolerations_are_without_an_end_unless_the_pod_may_be_replaced(mode: str, current: Any, want: Any) -> None:
    assert tolerations_for(mode, current) == want
    assert tolerations_for(mode, want) == want


@pytest.mark.parametrize(("stopped", "mode"), [(False, "strict"), (True, "asap")])
def test_lease_is_strict_until_the_delegate_has_stopped(stopped: bool, mode: str) -> None:
    assert failover_mode.mode_of(LEASE, stopped=stopped) == mode


@pytest.mark.parametrize(
    ("current", "stays"),
    [(DEFAULTS, True), ([*OURS, *DEFAULTS], False), (OURS, True), ([EVERYTHING, *DEFAULTS], True), ([], True)],
)
def test_a_pod_that_may_be_replaced_is_changed_where_ours_can_be_taken_off(current: Any, stays: bool) -> None:
    assert failover_mode.stays("asap", [model_of(one) for one in current]) is stays
    assert (tolerations_for("asap", current) == current) is stays


@pytest.mark.parametrize("current", [DEFAULTS, [], [*DEFAULTS, EVERYTHING], [toleration(NOT_READY, 5), DEFAULTS[1]]])
def test_what_was_added_is_taken_off_again(current: Any) -> None:
    added = tolerations_for("strict", current)
    assert tolerations_for("asap", added) == (current or OURS)


@pytest.mark.parametrize(("text", "mode"), [(None, "strict"), ("asap", "asap"), ("Asap", "strict")])
def test_a_mode_that_means_nothing_is_strict(text: str | None, mode: str) -> None:
    assert failover_mode.mode_of(text) == mode


def test_what_stays_is_what_would_not_be_changed() -> None:
    cases: list[list[dict[str, Any]]] = [DEFAULTS, OURS, [*OURS, *DEFAULTS], [*DEFAULTS, *OURS], [EVERYTHING], []]
    for current in cases:
        unchanged = tolerations_for("strict", current) == list(current)
        assert failover_mode.stays("strict", [model_of(one) for one in current]) is unchanged


def test_pods_of_a_lost_cluster_are_set_not_ready_once_and_nothing_else_of_them_changes() -> None:
    it = Remote()
    it.pod()
    it.say(ready=True)
    assert it.tend() == []
    assert it.requests == []
    it.say(ready=False)
    before = it.seen()
    before["status"]["podIP"] = "10.0.0.1"
    it.tend()
    assert it.ready() == "False"
    assert (it.seen()["status"]["phase"], it.seen()["status"]["podIP"]) == ("Running", "10.0.0.1")
    assert "deletionTimestamp" not in it.seen()["metadata"]
    it.tend()
    assert it.requests == []


DAEMON_SET = {"kind": "DaemonSet", "name": "logs", "uid": "ds-uid", "controller": True}


def of_others(name: str, *owners: dict[str, Any], **spec: Any) -> dict[str, Any]:
    """A pod that kube-scheduler has put onto the proxy node."""
    tolerant = {"schedulerName": "default-scheduler", "nodeName": PROXY, "tolerations": [EVERYTHING], **spec}
    pod = pod_object(name, **tolerant)
    pod["metadata"]["ownerReferences"] = list(owners)
    return pod


def in_namespace(namespace: str, pod: dict[str, Any]) -> dict[str, Any]:
    pod["metadata"]["namespace"] = namespace
    return pod


def test_a_daemon_set_is_told_once_an_hour_of_its_pod_on_a_proxy_node_and_nothing_is_written_onto_it() -> None:
    it = Remote()
    it.world.submit(of_others("logs-1", DAEMON_SET))
    for ready in (True, False):
        it.say(ready=ready)
        assert it.tend() == []
        assert it.requests == []
    (event,) = [msgspec.json.decode(one.body) for one in it.world.local.events]
    assert event["regarding"] == {
        "apiVersion": "apps/v1", "kind": "DaemonSet", "namespace": "default", "name": "logs", "uid": "ds-uid",
    }  # fmt: skip
    assert (event["type"], event["reason"]) == ("Warning", "OnProxyNode")
    assert "set spec.template.spec.affinity.nodeAffinity.required" in event["note"]
    assert f"{{key: {names.PROXY_LABEL}, operator: DoesNotExist}}" in event["note"]
    list(proxy_pods.reconcile_tasks(it.world.local, later(3599)))
    assert len(it.world.local.events) == 1
    list(proxy_pods.reconcile_tasks(it.world.local, later(3601)))
    assert len(it.world.local.events) == 2


def test_a_pod_of_ours_that_names_a_proxy_node_itself_is_told_how_to_ask_for_the_cluster() -> None:
    it = Remote()
    it.say(ready=True)
    it.world.submit(pod_object("by-hand", nodeName=PROXY))
    it.pod("sent")
    it.tend()
    (event,) = [msgspec.json.decode(one.body) for one in it.world.local.events]
    assert (event["regarding"]["name"], event["reason"]) == ("by-hand", "OnProxyNode")
    assert f'make it anew without spec.nodeName; annotation {names.CLUSTERS}: "b"' in event["note"]


@pytest.mark.parametrize("mark", ["claim", "finalizer", "running"])
def test_a_pod_that_was_sent_away_is_never_told_that(mark: str) -> None:
    it = Remote()
    it.say(ready=True)
    ref = it.world.submit(pod_object("sent", nodeName=PROXY))
    source = SignedClaim(source_of(ref, 1), "b", "b-uid", "n1", b"digest", "")
    if mark == "claim":
        it.seen("sent")["metadata"]["annotations"] = {names.CLAIM: it.world.local.keys.sign_claim(source)}
    elif mark == "finalizer":
        it.seen("sent")["metadata"]["finalizers"] = [names.FINALIZER]
    else:
        it.seen("sent")["status"] = {"phase": "Running"}
    it.world.sync()
    it.tend()
    assert it.said() == []


def test_pods_that_others_put_on_a_proxy_node_are_told_a_few_at_a_time() -> None:
    it = Remote()
    it.say(ready=True)
    for at in range(proxy_pods.TOLD_AT_ONCE + 1):
        it.world.submit(of_others(f"tool-{at}"))
    told: set[str] = set()
    for left in (1, 0):
        it.tend()
        told |= {msgspec.json.decode(one.body)["regarding"]["name"] for one in it.world.local.events}
        assert len(told) == proxy_pods.TOLD_AT_ONCE + 1 - left
    assert all("delete it, and set spec.affinity.nodeAffinity" in note for note in it.said())


def test_however_many_pods_one_namespace_puts_there_another_is_told_at_once() -> None:
    it = Remote()
    it.say(ready=True)
    for at in range(proxy_pods.TOLD_AT_ONCE + 1):
        it.world.submit(of_others(f"tool-{at}"))
    it.world.submit(in_namespace("team", of_others("innocent")))
    it.tend()
    told = [msgspec.json.decode(one.body)["regarding"]["name"] for one in it.world.local.events]
    assert "innocent" in told
    assert len(told) == proxy_pods.TOLD_AT_ONCE


def test_a_pod_that_names_the_daemon_set_of_another_namespace_keeps_nothing_from_being_told() -> None:
    it = Remote()
    it.say(ready=True)
    it.world.submit(of_others("forged", DAEMON_SET))
    it.tend()
    it.world.submit(in_namespace("team", of_others("logs-1", DAEMON_SET)))
    it.tend()
    assert len(it.said()) == 2


def test_a_pod_of_a_daemon_set_that_is_deleted_on_a_proxy_node_is_let_go() -> None:
    it = Remote()
    ref = it.world.submit(of_others("logs-1", DAEMON_SET))
    assert it.world.api.answer(Request("DELETE", f"/api/v1/namespaces/default/pods/{ref.name}")).ok
    it.world.sync()
    it.tend()
    assert it.world.api.pod(ref.name) is None
    assert it.said() == []


def test_a_silent_dispatcher_leaves_the_pods_ready() -> None:
    it = Remote()
    it.pod()
    it.say(ready=True)
    for duty in proxy_pods.reconcile_tasks(it.world.local, later(3600)):
        run(duty.procedure, it.world.api.answer)
    assert it.ready() == "True"


def later(seconds: float) -> Any:
    return NOW._replace(mono=NOW.mono + seconds)


def test_what_was_mirrored_meanwhile_is_not_overwritten_by_a_view_that_lags() -> None:
    it = Remote()
    it.pod()
    it.say(ready=False)
    it.seen()["metadata"]["resourceVersion"] = "999"
    it.tend()
    assert it.ready() == "True"
    it.tend()
    assert it.ready() == "False"


def test_a_claimed_pod_without_them_gets_tolerations_before_it_matters() -> None:
    it = Remote()
    it.pod(tolerations=DEFAULTS)
    it.say(ready=True)
    assert it.tend() == []
    assert it.seen()["spec"]["tolerations"] == [*OURS, *DEFAULTS]
    it.tend()
    assert it.requests == []


@pytest.mark.parametrize("why", ["asap", "not ours", "ended", "going"])
def test_other_pods_keep_their_tolerations(why: str) -> None:
    it = Remote()
    ref = it.pod(tolerations=DEFAULTS, mode="asap" if why == "asap" else "")
    if why == "not ours":
        it.seen()["metadata"]["finalizers"] = []
    elif why == "ended":
        it.seen()["status"]["phase"] = "Succeeded"
    elif why == "going":
        it.seen()["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    it.world.sync()
    assert ref.uid
    assert it.tend() == []
    assert it.requests == []


def test_a_server_that_forbids_it_is_told_of() -> None:
    it = Remote()
    it.pod(tolerations=DEFAULTS)
    (duty,) = proxy_pods.reconcile_tasks(it.world.local, NOW)

    def forbids(request: Request) -> Response:
        return it.world.api.answer(request) if request.method == "GET" else Response(403, b'{"message":"no"}')

    assert "would be replaced" in run(duty.procedure, forbids)
    assert duty.lane == "default"


def test_a_pod_that_goes_and_is_not_held_is_let_go() -> None:
    it = Remote()
    it.pod()
    it.seen()["metadata"]["finalizers"] = []
    it.seen()["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    it.world.sync()
    assert it.tend() == []
    assert it.world.api.pod("web") is None


def test_the_merge_patch_of_tolerations_names_the_version_that_it_was_made_from() -> None:
    it = Remote()
    it.pod(tolerations=DEFAULTS)
    it.tend()
    metadata = msgspec.json.decode(it.requests[-1].body)["metadata"]
    assert set(metadata) == {"uid", "resourceVersion"}


LEASE_S = 120.0
STOPPED_S = stopped_after_s(LEASE_S, 30)


@pytest.mark.parametrize(
    ("unrenewed_s", "api_ok", "grace_s", "evictable"),
    [
        (STOPPED_S, True, 30, True),
        (STOPPED_S - 0.1, True, 30, False),
        (0.0, True, 30, False),
        (STOPPED_S, True, 31, False),
        (STOPPED_S + 3600, True, 3600, False),
        (STOPPED_S + 3600 * 1.05, True, 3600, True),
        (10 * STOPPED_S, False, 30, False),
    ],
    ids=["just", "not yet", "unknown", "longer grace", "much longer grace", "and its time", "API server was not well"],
)
def test_a_pod_of_mode_lease_may_be_evicted_once_its_delegate_has_stopped(
    unrenewed_s: float, api_ok: bool, grace_s: int, evictable: bool
) -> None:
    it = Remote()
    it.leased(terminationGracePeriodSeconds=grace_s)
    it.say(ready=False, api_ok=api_ok, unrenewed_s=unrenewed_s, lease_s=LEASE_S)
    it.tend()  # not Ready first
    it.tend()
    assert it.tolerations == (DEFAULTS if evictable else [*OURS, *DEFAULTS])
    it.tend()
    assert it.requests == []


@pytest.mark.parametrize("mode", ["strict", "", "Lease"])
def test_pods_of_other_modes_wait_whatever_has_lapsed(mode: str) -> None:
    it = Remote()
    it.pod(mode=mode)
    it.say(ready=False, unrenewed_s=10 * STOPPED_S, lease_s=LEASE_S)
    it.tend()
    it.tend()
    assert it.tolerations == [*OURS, *DEFAULTS]


def test_a_pod_whose_delegate_does_not_know_that_it_is_leased_waits() -> None:
    it = Remote()
    it.leased(claimed="")
    it.say(ready=False, unrenewed_s=10 * STOPPED_S, lease_s=LEASE_S)
    it.tend()
    it.tend()
    assert it.tolerations == [*OURS, *DEFAULTS]


def test_a_view_that_lags_evicts_nothing_whose_owner_has_changed_the_mode() -> None:
    it = Remote()
    it.leased()
    it.say(ready=False, unrenewed_s=STOPPED_S, lease_s=LEASE_S)
    it.tend()
    it.seen()["metadata"]["annotations"][names.FAILOVER] = "strict"
    it.tend()
    assert it.tolerations == [*OURS, *DEFAULTS]


def test_a_cluster_that_is_back_before_the_eviction_keeps_its_pods() -> None:
    it = Remote()
    it.leased()
    it.say(ready=False, unrenewed_s=STOPPED_S, lease_s=LEASE_S)
    it.tend()
    it.tend()
    it.say(ready=True, lease_s=LEASE_S)
    it.tend()
    assert it.tolerations == [*OURS, *DEFAULTS]


def test_no_pod_may_be_replaced_while_half_of_the_other_clusters_look_lost() -> None:
    fleet = Remote()
    fleet.pod(mode="asap", tolerations=DEFAULTS)
    away = [Peer(name, ready=False, uid=f"{name}-uid") for name in "bc"]
    fleet.world.local.peers.update((*away, Peer("d", ready=True), Peer("e", ready=True)), NOW.mono)
    fleet.tend()  # not Ready
    fleet.tend()
    assert fleet.tolerations == [*OURS, *DEFAULTS]
    fleet.world.local.peers.update((away[0], *(Peer(name, ready=True) for name in "cde")), NOW.mono)
    fleet.tend()
    assert fleet.tolerations == DEFAULTS


def test_only_so_many_pods_at_a_time_are_allowed_to_be_replaced() -> None:
    fleet = Remote()
    for number in range(proxy_pods.FREED_AT_ONCE + 5):
        fleet.pod(f"web-{number}", mode="asap")
    fleet.say(ready=False)
    due = list(proxy_pods.reconcile_tasks(fleet.world.local, NOW))
    assert len(due) >= proxy_pods.FREED_AT_ONCE
    fleet.tend()  # not Ready, all of them
    fleet.tend()
    freed = [
        at for at in range(proxy_pods.FREED_AT_ONCE + 5) if fleet.seen(f"web-{at}")["spec"]["tolerations"] == DEFAULTS
    ]
    assert len(freed) == proxy_pods.FREED_AT_ONCE


def test_pods_whose_tolerations_cannot_be_written_keep_none_of_another_namespace_from_being_replaced() -> None:
    fleet = Remote()
    for number in range(proxy_pods.FREED_AT_ONCE + 5):
        fleet.pod(f"web-{number}", mode="asap")
    innocent = fleet.pod("innocent", mode="asap", namespace="team")
    fleet.say(ready=False)
    fleet.tend()  # not Ready, all of them
    due = [task.name for task in proxy_pods.reconcile_tasks(fleet.world.local, NOW)]
    assert innocent.uid in due
    assert len(due) == proxy_pods.FREED_AT_ONCE


def test_of_two_leases_that_dispatchers_have_said_the_longer_is_waited_for() -> None:
    it = Remote()
    it.leased()
    it.say(ready=True, lease_s=10 * LEASE_S)
    it.say(ready=False, unrenewed_s=STOPPED_S, lease_s=LEASE_S)
    it.tend()
    it.tend()
    assert it.tolerations == [*OURS, *DEFAULTS]


@pytest.mark.parametrize(("was_well", "evictable"), [(True, True), (False, False)])
def test_a_dispatcher_that_never_heard_of_the_cluster_does_not_make_its_api_server_well(
    was_well: bool, evictable: bool
) -> None:
    it = Remote()
    it.leased()
    it.say(ready=False, api_ok=was_well, lease_s=LEASE_S)
    it.world.local.peers.update((Peer("b", ready=False, unrenewed_s=STOPPED_S),), NOW.mono, LEASE_S)
    it.tend()
    it.tend()
    assert it.tolerations == (DEFAULTS if evictable else [*OURS, *DEFAULTS])


def test_an_agent_that_starts_does_not_know_that_the_api_server_was_well() -> None:
    it = Remote()
    it.leased()
    it.world.restart()
    it.world.local.peers.recall(tuple(it.world.cache.nodes()), NOW.mono)
    it.world.local.peers.update((Peer("b", ready=False, unrenewed_s=STOPPED_S),), NOW.mono, LEASE_S)
    it.tend()
    it.tend()
    assert it.tolerations == [*OURS, *DEFAULTS]


def test_the_pod_is_told_how_long_it_waits_and_when_that_is_over() -> None:
    it = Remote()
    it.leased()
    it.say(ready=False, unrenewed_s=30.0, lease_s=LEASE_S)
    it.tend()
    assert it.said() == [
        f'cluster "b" is lost: failover waits {STOPPED_S - 30:.0f} s more, until its agent has certainly stopped the '
        "pod there"
    ]
    it.say(ready=False, unrenewed_s=STOPPED_S, lease_s=LEASE_S)
    it.tend()
    it.tend()
    assert it.said() == [
        'cluster "b" is lost, and its agent has certainly stopped the pod there: failover lets it be evicted and '
        "replaced"
    ]


def test_the_pod_is_told_why_it_waits_as_strict_does() -> None:
    it = Remote()
    it.leased()
    it.say(ready=False, api_ok=False, unrenewed_s=STOPPED_S, lease_s=LEASE_S)
    it.tend()
    (note,) = it.said()
    assert "failover waits as strict" in note
