"""Several replicas of the dispatcher: each has a name and an address, and one at a time may go."""

from typing import Any

import pytest

from tests.charts.rendering import Helm, HelmError, Object, containers, of_kind, only

GATEWAY = {"clusters": [{"name": "east", "via": "gateway"}, {"name": "west", "via": "gateway"}]}
THREE: dict[str, Any] = {"replicas": 3, "config": GATEWAY}


@pytest.fixture
def objects(helm: Helm) -> list[Object]:
    return helm.template("dispatcher", {**THREE, "networkPolicy": {"enabled": True}})


def service(objects: list[Object], name: str) -> Object:
    (found,) = [one["spec"] for one in of_kind(objects, "Service") if one["metadata"]["name"] == name]
    return dict(found)


def test_agents_reach_each_pod_by_a_service_of_its_own(objects: list[Object]) -> None:
    labels = only(objects, "StatefulSet")["spec"]["template"]["metadata"]["labels"]
    for name, pod in (("", "dispatcher-0"), ("-1", "dispatcher-1"), ("-2", "dispatcher-2")):
        selector = dict(service(objects, f"dispatcher-gateway{name}")["selector"])
        assert selector.pop("statefulset.kubernetes.io/pod-name") == pod
        assert selector.items() <= labels.items()
    assert len(of_kind(objects, "Service")) == 5


def test_a_standby_finds_the_leader_by_its_host_name(objects: list[Object]) -> None:
    spec = only(objects, "StatefulSet")["spec"]
    (dispatcher,) = spec["template"]["spec"]["containers"]
    env = {one["name"]: one.get("value") for one in dispatcher["env"]}
    url = "http://{host}.dispatcher-peers.global-dispatcher:7480"
    assert env["GLOBAL_DISPATCHER_LEADER_ELECTION__LEADER_URL"] == url
    peers = service(objects, spec["serviceName"])
    assert (spec["serviceName"], peers["clusterIP"], peers["publishNotReadyAddresses"]) == (
        "dispatcher-peers",
        "None",
        True,
    )


def test_all_start_at_once_and_one_at_a_time_may_go(objects: list[Object]) -> None:
    spec = only(objects, "StatefulSet")["spec"]
    assert (spec["replicas"], spec["podManagementPolicy"]) == (3, "Parallel")
    assert spec["updateStrategy"] == {"type": "RollingUpdate"}
    assert only(objects, "PodDisruptionBudget")["spec"]["maxUnavailable"] == 1


def test_they_rather_run_on_different_nodes_unless_it_is_said_how(helm: Helm, objects: list[Object]) -> None:
    own = [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}]
    other = helm.template("dispatcher", {**THREE, "topologySpreadConstraints": own})
    (usual,) = only(objects, "StatefulSet")["spec"]["template"]["spec"]["topologySpreadConstraints"]
    assert (usual["topologyKey"], usual["whenUnsatisfiable"]) == ("kubernetes.io/hostname", "ScheduleAnyway")
    assert only(other, "StatefulSet")["spec"]["template"]["spec"]["topologySpreadConstraints"] == own


def test_they_may_ask_each_other(objects: list[Object]) -> None:
    policy = only(objects, "NetworkPolicy")["spec"]
    mine = [{"podSelector": policy["podSelector"]}]
    assert any(rule.get("from") == mine and rule["ports"][0]["port"] == 7480 for rule in policy["ingress"])
    assert any(rule.get("to") == mine and rule["ports"][0]["port"] == 7480 for rule in policy["egress"])


def test_one_replica_is_a_deployment_with_one_gateway(helm: Helm) -> None:
    objects = helm.template("dispatcher", {"config": GATEWAY})
    (dispatcher,) = containers(of_kind(objects, "Deployment"))
    assert not [one for one in dispatcher["env"] if "LEADER_URL" in one["name"]]
    assert not [kind for kind in ("StatefulSet", "PodDisruptionBudget") if of_kind(objects, kind)]
    names = [one["metadata"]["name"] for one in of_kind(objects, "Service")]
    assert sorted(names) == ["dispatcher", "dispatcher-gateway"]


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"clusters": [{"name": "east", "via": "gateway"}, {"name": "west"}]}, "needs `via: gateway` for all"),
        ({**GATEWAY, "leader_election": {"enabled": False}}, "leader_election.enabled and warm"),
        ({**GATEWAY, "leader_election": {"warm": False}}, "leader_election.enabled and warm"),
        ({**GATEWAY, "quota": {"ledger": "/var/lib/quota.json"}}, "an empty config.quota.ledger"),
    ],
)
def test_several_that_could_not_take_over_are_refused(helm: Helm, config: dict[str, Any], words: str) -> None:
    with pytest.raises(HelmError, match=words):
        helm.template("dispatcher", {"replicas": 2, "config": config})


@pytest.mark.parametrize(
    ("times", "words"),
    [
        ({"lease_s": 3}, r"renew_deadline_s: must be less than lease_s \(3\), not 10"),
        ({"lease_s": 3, "renew_deadline_s": 2}, r"retry_s: must be at most half of renew_deadline_s \(2\)"),
    ],
)
def test_times_of_the_election_with_which_a_dispatcher_ends_are_refused(
    helm: Helm, times: dict[str, Any], words: str
) -> None:
    with pytest.raises(HelmError, match=words):
        helm.template("dispatcher", {"config": {**GATEWAY, "leader_election": times}})


def test_times_of_the_election_for_a_short_change_of_leaders_are_taken(helm: Helm) -> None:
    times = {"lease_s": 3, "renew_deadline_s": 2, "retry_s": 0.4}
    assert helm.template("dispatcher", {"replicas": 2, "config": {**GATEWAY, "leader_election": times}})
