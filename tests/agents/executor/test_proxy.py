"""Proxy nodes: made, kept fresh, and let go."""

from typing import Any

import msgspec
import pytest

from agents.executor.context.local import KubeletEndpoint, Moment
from agents.executor.duties.proxy import CHANGE_S, HEARTBEAT_S, LEASE_S, ProxyNodes
from agents.executor.duties.proxy_objects import METRICS_PATH
from agents.executor.trust.peers import PEER_TTL_S
from shared.kube.http import Request, Response
from shared.messages import Peer
from shared.model import names
from tests.agents.executor.world import NOW, World, node_object, pod_object, run

NAME = names.proxy_node_name("b")
NODE = f"/api/v1/nodes/{NAME}"
LEASE = f"/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/{NAME}"
B = Peer(
    "b", ready=True, allocatable={"cpu": 1500, "memory": 2**30, "pods": 7}, labels={"topology.kubernetes.io/zone": "z"}
)


def later(seconds: float) -> Moment:
    return Moment(NOW.mono + seconds, NOW.wall + seconds)


class Keeper:
    """The proxy nodes of a world, tended at chosen times."""

    def __init__(self, world: World | None = None) -> None:
        self.world = world or World()
        self.proxies = ProxyNodes(self.world.local)
        self.requests: list[Request] = []

    def tell(self, *peers: Peer, seconds: float = 0.0) -> None:
        self.world.local.peers.update(peers, later(seconds).mono)

    def tend(self, seconds: float = 0.0) -> list[str]:
        """Problems met; the requests are kept."""
        self.requests = []
        problems = [run(procedure, self._answer) for _, _, procedure in self.proxies.due(later(seconds))]
        self.world.sync()
        return [problem for problem in problems if problem]

    def _answer(self, request: Request) -> Response:
        self.requests.append(request)
        return self.world.api.answer(request)

    def node(self) -> dict[str, Any]:
        return self.world.api.objects[NODE]


def written(keeper: Keeper) -> set[str]:
    return {request.path for request in keeper.requests}


def test_a_peer_gets_a_tainted_node_with_what_it_has_free_and_a_lease() -> None:
    keeper = Keeper()
    keeper.tell(B)
    assert keeper.tend() == []
    node = keeper.node()
    assert node["spec"]["taints"] == [{"key": names.PROXY_TAINT, "value": "b", "effect": "NoSchedule"}]
    assert node["status"]["allocatable"] == {"cpu": "1500m", "memory": "1Gi", "pods": "7"}
    assert [(one["type"], one["status"]) for one in node["status"]["conditions"]] == [("Ready", "True")]
    seen = keeper.world.cache.node(NAME)
    assert seen is not None
    assert (seen.proxy_for, seen.ready, seen.labels["topology.kubernetes.io/zone"]) == ("b", True, "z")
    lease = keeper.world.api.objects[LEASE]
    assert lease["spec"]["leaseDurationSeconds"] == 40
    assert lease["metadata"]["ownerReferences"][0]["uid"] == node["metadata"]["uid"]


def test_a_proxy_node_is_of_no_cloud_and_no_node_group_so_that_no_cloud_controller_deletes_it() -> None:
    keeper = Keeper()
    keeper.tell(B)
    keeper.tend()
    assert keeper.node()["spec"]["providerID"] == "global-dispatcher://b"
    labels = keeper.node()["metadata"]["labels"]
    kept_away = {"type": "virtual-kubelet", "node.kubernetes.io/exclude-from-external-load-balancers": "true"}
    assert kept_away.items() <= labels.items()


def test_a_node_that_an_older_agent_has_made_is_told_whose_it_is() -> None:
    keeper = Keeper()
    keeper.tell(B)
    keeper.tend()
    del keeper.node()["spec"]["providerID"]
    later_agent = Keeper(keeper.world)
    later_agent.tell(B)
    assert later_agent.tend(100) == []
    assert later_agent.node()["spec"]["providerID"] == "global-dispatcher://b"


IMMUTABLE = b'{"message": "Node is invalid: spec.providerID: Forbidden: node updates may not change it"}'
REPLACED = b'{"message": "Node is invalid: metadata.uid: Invalid value: field is immutable"}'


@pytest.mark.parametrize(("body", "asked"), [(IMMUTABLE, 1), (REPLACED, 2)], ids=["has another", "is another node"])
def test_a_node_keeps_the_provider_that_somebody_else_has_given_it(body: bytes, asked: int) -> None:
    keeper = Keeper()
    keeper.tell(B)
    keeper.tend()
    later_agent = Keeper(keeper.world)
    later_agent.tell(B)
    seen = list[Request]()

    def answer(request: Request) -> Response:
        if request.path != NODE:
            return keeper.world.api.answer(request)
        seen.append(request)
        return Response(422, body)

    for seconds in (100, 100 + HEARTBEAT_S):
        problems = [run(procedure, answer) for _, _, procedure in later_agent.proxies.due(later(seconds))]
        assert any(problems) is (asked > 1)
    assert len(seen) == asked


def test_nothing_is_written_while_nothing_is_due() -> None:
    keeper = Keeper()
    keeper.tell(B)
    keeper.tend()
    keeper.tend(1)
    assert keeper.requests == []


def test_a_node_that_the_watch_does_not_show_yet_is_not_made_twice() -> None:
    keeper = Keeper()
    keeper.tell(B)
    for _, _, procedure in keeper.proxies.due(NOW):
        run(procedure, keeper.world.api.answer)
    assert [run(procedure, keeper.world.api.answer) for _, _, procedure in keeper.proxies.due(later(1))] == [""]
    assert sum(path == NODE for verb, path, _ in keeper.world.api.done if verb == "create") == 1


@pytest.mark.parametrize(
    ("seconds", "path"), [(LEASE_S, LEASE), (HEARTBEAT_S, f"{NODE}/status")], ids=["lease", "status heartbeat"]
)
def test_heartbeats_are_renewed_in_time(seconds: float, path: str) -> None:
    keeper = Keeper()
    keeper.tell(B)
    keeper.tend()
    keeper.tend(seconds)
    assert path in written(keeper)


def test_readiness_is_written_at_once_and_amounts_with_patience() -> None:
    keeper = Keeper()
    keeper.tell(B)
    keeper.tend()
    less = Peer("b", ready=True, allocatable={"cpu": 500, "pods": 7}, labels=B.labels)
    keeper.tell(less, seconds=1)
    keeper.tend(1)
    assert keeper.requests == []
    keeper.tend(CHANGE_S)
    assert keeper.node()["status"]["allocatable"] == {"cpu": "500m", "pods": "7"}
    keeper.tell(Peer("b", ready=False, labels=B.labels), seconds=6)
    keeper.tend(6)
    (ready,) = keeper.node()["status"]["conditions"]
    assert (ready["status"], ready["reason"]) == ("False", "ClusterNotReady")


def test_the_transition_time_moves_only_when_readiness_does() -> None:
    keeper = Keeper()
    keeper.tell(B)
    keeper.tend()
    first = keeper.node()["status"]["conditions"][0]["lastTransitionTime"]
    keeper.tell(B, seconds=40)
    keeper.tend(40)
    (ready,) = keeper.node()["status"]["conditions"]
    assert ready["lastTransitionTime"] == first
    assert ready["lastHeartbeatTime"] > first


def test_a_taint_that_somebody_took_off_is_put_back_beside_those_of_others() -> None:
    keeper = Keeper()
    keeper.tell(B)
    keeper.tend()
    other = {"key": "other", "value": "", "effect": "NoSchedule"}
    node = keeper.node()
    node["spec"]["taints"] = [other]
    keeper.world.api.put_node(node)
    keeper.world.sync()
    keeper.tend(1)
    assert [taint["key"] for taint in keeper.node()["spec"]["taints"]] == ["other", names.PROXY_TAINT]


def test_a_taint_that_comes_while_ours_is_put_back_is_not_lost() -> None:
    keeper = Keeper()
    keeper.tell(B)
    keeper.tend()
    keeper.node()["spec"]["taints"] = []
    keeper.world.api.put_node(keeper.node())
    keeper.world.sync()
    other = {"key": "other", "value": "", "effect": "NoExecute", "timeAdded": "2026-01-01T00:00:00Z"}

    def meanwhile(request: Request) -> Response:
        answer = keeper.world.api.answer(request)
        if request.method == "GET":
            keeper.node()["spec"]["taints"] = [other]
            keeper.world.api.put_node(keeper.node())
        return answer

    (task,) = keeper.proxies.due(later(1))
    assert run(task.procedure, meanwhile) == ""
    assert keeper.node()["spec"]["taints"] == [other]
    keeper.world.sync()
    keeper.tend(2)
    assert keeper.node()["spec"]["taints"][0] == other
    assert len(keeper.node()["spec"]["taints"]) == 2


def test_a_silent_dispatcher_changes_nothing_about_a_proxy_node() -> None:
    keeper = Keeper()
    keeper.tell(B)
    keeper.tend()
    for seconds in range(10, 3600, 10):
        keeper.tend(seconds)
        assert LEASE in written(keeper)
        (ready,) = keeper.node()["status"]["conditions"]
        assert ready["status"] == "True"
    assert keeper.node()["status"]["allocatable"] == {"cpu": "1500m", "memory": "1Gi", "pods": "7"}


def test_a_proxy_node_of_a_lost_cluster_stays_so_while_the_dispatcher_is_silent() -> None:
    keeper = Keeper()
    keeper.tell(B)
    keeper.tend()
    keeper.tell(msgspec.structs.replace(B, ready=False), seconds=1)
    keeper.tend(1)
    keeper.tend(3600)
    (ready,) = keeper.node()["status"]["conditions"]
    assert (ready["status"], LEASE in written(keeper)) == ("False", True)


def test_a_proxy_node_that_a_cloud_controller_deletes_is_made_anew_and_stays_not_ready() -> None:
    keeper = Keeper()
    lost = msgspec.structs.replace(B, ready=False)
    keeper.tell(lost)
    keeper.tend()
    first = keeper.node()["metadata"]["uid"]
    del keeper.world.api.objects[NODE]
    keeper.world.sync()
    keeper.tell(lost, seconds=CHANGE_S)
    assert keeper.tend(CHANGE_S) == []
    assert keeper.node()["metadata"]["uid"] != first
    assert [one["status"] for one in keeper.node()["status"]["conditions"]] == ["False"]


@pytest.mark.parametrize("ready", [True, False])
def test_an_agent_that_starts_while_the_dispatcher_is_away_goes_on_with_the_last_word(ready: bool) -> None:
    keeper = Keeper()
    keeper.tell(msgspec.structs.replace(B, ready=ready))
    keeper.tend()
    # While the agent was away the node controller has seen no heartbeat.
    keeper.node()["status"]["conditions"][0].update({"status": "Unknown", "reason": "NodeStatusUnknown"})
    keeper.world.peers = ()
    keeper.world.restart()
    reborn = Keeper(keeper.world)
    assert reborn.tend(100) == []
    assert written(reborn) == {LEASE, f"{NODE}/status", NODE}
    assert reborn.node()["status"]["conditions"][0]["status"] == str(ready)
    assert reborn.node()["status"]["allocatable"] == {"cpu": "1500m", "memory": "1Gi", "pods": "7"}
    assert "zone" in str(reborn.node()["metadata"]["labels"])


def test_a_proxy_node_of_an_older_agent_is_known_by_its_condition() -> None:
    keeper = Keeper()
    keeper.tell(msgspec.structs.replace(B, ready=False))
    keeper.tend()
    del keeper.node()["metadata"]["labels"][names.CLUSTER_READY]
    keeper.world.peers = ()
    keeper.world.restart()
    assert Keeper(keeper.world).tend(100) == []
    assert keeper.node()["status"]["conditions"][0]["status"] == "False"


def test_a_cluster_that_the_dispatcher_cannot_hear_of_is_lost_and_keeps_what_else_was_said() -> None:
    keeper = Keeper()
    keeper.tell(B)
    keeper.tend()
    keeper.tell(Peer("b", ready=False), seconds=5)
    keeper.tend(5)
    assert keeper.node()["status"]["conditions"][0]["status"] == "False"
    assert keeper.node()["status"]["allocatable"] == {"cpu": "1500m", "memory": "1Gi", "pods": "7"}


def test_a_cluster_that_nobody_ever_heard_of_gets_no_node() -> None:
    keeper = Keeper()
    keeper.tell(Peer("b", ready=False))
    keeper.tend()
    assert keeper.requests == []


def test_a_cordon_of_a_proxy_node_stays() -> None:
    keeper = Keeper()
    keeper.tell(B)
    keeper.tend()
    taint = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
    keeper.node()["spec"]["unschedulable"] = True
    keeper.node()["spec"]["taints"].append(taint)
    keeper.world.sync()
    keeper.tell(msgspec.structs.replace(B, labels={}), seconds=HEARTBEAT_S)
    keeper.tend(HEARTBEAT_S)
    assert keeper.node()["spec"]["unschedulable"] is True
    assert taint in keeper.node()["spec"]["taints"]


def test_a_peer_that_is_no_longer_named_takes_its_node_along_unless_pods_are_bound_to_it() -> None:
    keeper = Keeper()
    keeper.tell(B)
    keeper.tend()
    of_others = pod_object("others", nodeName=NAME, schedulerName="default-scheduler")
    keeper.world.submit(of_others)
    keeper.world.submit(pod_object(nodeName=NAME))
    keeper.tell(seconds=5)
    gone = 5 + PEER_TTL_S
    keeper.tell(seconds=gone)
    keeper.tend(gone)
    assert NODE in keeper.world.api.objects
    assert LEASE in written(keeper)
    del keeper.world.api.objects["/api/v1/namespaces/default/pods/web"]
    keeper.world.sync()
    keeper.tend(gone + 1)
    assert NODE not in keeper.world.api.objects
    keeper.tend(gone + 100)
    assert keeper.requests == []


def test_a_dispatcher_that_starts_after_a_long_silence_and_does_not_name_a_peer_at_first_removes_nothing() -> None:
    keeper = Keeper()
    keeper.tell(B)
    keeper.tend()
    keeper.tell(seconds=3600)
    keeper.tend(3600)
    keeper.tell(seconds=3600 + PEER_TTL_S - 1)
    keeper.tend(3600 + PEER_TTL_S - 1)
    keeper.tell(B, seconds=3600 + PEER_TTL_S)
    keeper.tend(3600 + PEER_TTL_S)
    assert NODE in keeper.world.api.objects
    assert not [done for done in keeper.world.api.done if done[0] == "delete"]


def test_a_dispatcher_that_falls_silent_after_it_left_a_peer_out_removes_nothing() -> None:
    keeper = Keeper()
    keeper.tell(B)
    keeper.tend()
    keeper.tell(seconds=5)
    keeper.tend(3600)
    assert NODE in keeper.world.api.objects


def test_a_peer_that_is_missing_from_one_message_only_keeps_its_node() -> None:
    keeper = Keeper()
    keeper.tell(B)
    keeper.tend()
    keeper.tell(seconds=5)
    keeper.tend(5)
    assert NODE in keeper.world.api.objects


def test_a_real_node_under_the_name_is_never_touched() -> None:
    keeper = Keeper(World(node_object(NAME)))
    keeper.tell(B)
    (problem,) = keeper.tend()
    assert NAME in problem
    assert keeper.world.api.done == []


def test_ones_own_cluster_gets_no_proxy() -> None:
    keeper = Keeper()
    keeper.tell(Peer("a", ready=True))
    keeper.tend()
    assert keeper.requests == []


def test_a_status_that_cannot_be_written_does_not_stop_the_lease() -> None:
    keeper = Keeper()
    keeper.tell(B)
    keeper.tend()

    def broken_status(request: Request) -> Response:
        return Response(500) if request.path.endswith("/status") else keeper.world.api.answer(request)

    (procedure,) = (procedure for _, _, procedure in keeper.proxies.due(later(HEARTBEAT_S)))
    renewed = keeper.world.api.objects[LEASE]["spec"]["renewTime"]
    assert "status of proxy node" in run(procedure, broken_status)
    assert keeper.world.api.objects[LEASE]["spec"]["renewTime"] > renewed


def test_what_an_operator_says_on_a_proxy_node_outlives_our_repairs() -> None:
    keeper = Keeper()
    keeper.tell(B)
    keeper.tend()
    node = keeper.node()
    node["metadata"]["labels"] = {names.PROXY_LABEL: "b", names.FENCED: "true"}
    node["spec"] = {"unschedulable": True}
    keeper.world.api.put_node(node)
    keeper.world.sync()
    keeper.tell(B, seconds=1)
    assert keeper.tend(1) == []
    repaired = keeper.node()
    assert repaired["metadata"]["labels"]["topology.kubernetes.io/zone"] == "z"
    assert repaired["metadata"]["labels"][names.FENCED] == "true"
    assert repaired["spec"]["unschedulable"] is True


def test_a_node_shows_where_its_agent_serves_as_its_kubelet_and_no_more_once_it_does_not() -> None:
    keeper = Keeper()
    keeper.tell(B)
    keeper.tend()
    keeper.world.local.kubelet = KubeletEndpoint("10.0.0.7", 10250)
    keeper.tell(B, seconds=1.0)
    assert keeper.tend(1.0) == []
    status = keeper.node()["status"]
    assert status["addresses"] == [{"type": "InternalIP", "address": "10.0.0.7"}]
    assert status["daemonEndpoints"] == {"kubeletEndpoint": {"Port": 10250}}
    assert status["declaredFeatures"] == ["ExtendWebSocketsToKubelet"]
    assert keeper.node()["metadata"]["annotations"] == {METRICS_PATH: f"/metrics/resource/{NAME}"}
    keeper.world.local.kubelet = None
    keeper.tend(2.0)
    status = keeper.node()["status"]
    assert not status["addresses"]
    assert "daemonEndpoints" not in status
    assert "declaredFeatures" not in status
    assert not keeper.node()["metadata"]["annotations"]
