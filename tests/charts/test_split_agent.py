"""Observer and executor as two Deployments: who reads what others write holds no key and no right to write."""

from typing import Any

import pytest
import yaml

from tests.charts.rendering import Helm, HelmError, Object, containers, of_kind, only
from tests.charts.test_agent_chart import (
    EXECUTOR,
    LEASES,
    LOGS,
    OBSERVER,
    PREFIX,
    PROXY_NODES,
    STATS,
    TOKENS,
    USAGE,
    VOLUMES,
    policies,
    table,
)

Row = tuple[str, str, str, str]
SPLIT: dict[str, Any] = {"gateway": {"urls": ["wss://gateway.example:7443"], "split": True}}
ROLES = ("observer", "executor")
READING = {"get", "list", "watch"}
STATE = ("coordination.k8s.io", "leases", "global-dispatcher-agent.state", "get")
DAEMON_SETS = ("apps", "daemonsets", "", "list watch")
VIEW = {
    *(("", kind, "", "list watch") for kind in ("nodes", "pods", "namespaces")),
    ("policy", "poddisruptionbudgets", "", "list watch"),
    ("scheduling.k8s.io", "priorityclasses", "", "list watch"),
    ("", "replicationcontrollers", "", "list watch"),
    ("apps", "replicasets", "", "list watch"),
    DAEMON_SETS,
    ("", "namespaces", "kube-system", "get"),
    ("/version", "", "", "get"),
}
RELAY = {
    ("authorization.k8s.io", "subjectaccessreviews", "", "create"),
    ("authentication.k8s.io", "tokenreviews", "", "create"),
    ("", "configmaps", "extension-apiserver-authentication", "get"),
}


@pytest.fixture(scope="module")
def objects(helm: Helm) -> list[Object]:
    return helm.template("agent", SPLIT)


def rights(objects: list[Object], account: str) -> set[Row]:
    """Everything that the bindings give to a service account, anywhere."""
    roles = {
        (one["kind"], one["metadata"].get("namespace", ""), one["metadata"]["name"]): table(one)
        for one in [*of_kind(objects, "ClusterRole"), *of_kind(objects, "Role")]
    }
    found: set[Row] = set()
    for one in [*of_kind(objects, "ClusterRoleBinding"), *of_kind(objects, "RoleBinding")]:
        ref, (subject,) = one["roleRef"], one["subjects"]
        namespace = one["metadata"].get("namespace", "") if ref["kind"] == "Role" else ""
        if subject["name"] == account:
            found |= roles[ref["kind"], namespace, ref["name"]]
    return found


def of_role(objects: list[Object], role: str) -> Object:
    """Its Deployment."""
    (found,) = [one for one in of_kind(objects, "Deployment") if one["metadata"]["name"] == f"agent-{role}"]
    return found


def mounted_secrets(deployment: Object) -> set[str]:
    volumes = deployment["spec"]["template"]["spec"]["volumes"]
    return {volume["secret"]["secretName"] for volume in volumes if "secret" in volume}


def test_the_observers_account_may_write_nothing(objects: list[Object]) -> None:
    account = of_role(objects, "observer")["spec"]["template"]["spec"]["serviceAccountName"]
    assert rights(objects, account) == (OBSERVER - {DAEMON_SETS}) | {STATE} | TOKENS
    assert {verb for row in OBSERVER | {STATE} for verb in row[3].split()} <= READING


def test_the_executors_account_has_what_it_writes_a_view_of_its_own_and_what_it_tells_of_delegates(
    objects: list[Object],
) -> None:
    account = of_role(objects, "executor")["spec"]["template"]["spec"]["serviceAccountName"]
    every = EXECUTOR | LOGS | TOKENS | VOLUMES | PROXY_NODES | LEASES | VIEW | RELAY
    assert rights(objects, account) == every
    assert not {row for row in every if row[1] in ("nodes/stats", "nodes/metrics") or row[0] == "metrics.k8s.io"}


def test_the_account_as_which_kubelets_are_asked_can_do_nothing_else(objects: list[Object]) -> None:
    assert rights(objects, "agent-kubelets") == STATS | USAGE


def test_the_clusters_key_is_mounted_where_it_signs_alone(objects: list[Object]) -> None:
    assert mounted_secrets(of_role(objects, "observer")) == {"global-dispatcher-agent-observer"}
    assert mounted_secrets(of_role(objects, "executor")) == {"global-dispatcher-agent-executor", "agent-key"}
    (observer,) = containers([of_role(objects, "observer")])
    assert "keys" not in {mount["name"] for mount in observer["volumeMounts"]}


def test_each_runs_its_role_and_is_selected_by_it_alone(objects: list[Object]) -> None:
    observer, executor = of_role(objects, "observer"), of_role(objects, "executor")
    for one, other in ((observer, executor), (executor, observer)):
        role = one["metadata"]["name"].removeprefix("agent-")
        (container,) = containers([one])
        assert container["command"][-2:] == ["--role", role]
        selector = one["spec"]["selector"]["matchLabels"].items()
        assert selector <= one["spec"]["template"]["metadata"]["labels"].items()
        assert not selector <= other["spec"]["template"]["metadata"]["labels"].items()
    accounts = {one["metadata"]["name"] for one in of_kind(objects, "ServiceAccount")}
    assert accounts == {"agent", "agent-observer", "agent-kubelets"}


def test_the_guard_and_the_reservation_speak_of_the_executors_account(objects: list[Object]) -> None:
    for one in [*policies(objects, "guard"), *policies(objects, "reserve")]:
        if one["metadata"]["name"].endswith("-gone"):
            continue  # refuses changes by anybody
        assert "serviceaccount:global-dispatcher:agent'" in str(one).replace('"', "'")
        assert "agent-observer" not in str(one["spec"])


def test_one_process_has_all_of_it_where_that_is_wanted(helm: Helm) -> None:
    objects = helm.template("agent", {**SPLIT, "gateway": {**SPLIT["gateway"], "split": False}})
    assert only(objects, "Deployment")["metadata"]["name"] == "agent"
    assert mounted_secrets(only(objects, "Deployment")) == {"global-dispatcher-agent", "agent-key"}
    assert f"{PREFIX}-executor-view" not in {one["metadata"]["name"] for one in of_kind(objects, "ClusterRole")}


def test_the_resources_of_one_process_are_refused_where_there_are_two(helm: Helm) -> None:
    wanted = {"requests": {"cpu": "1"}}
    with pytest.raises(HelmError, match=r"resources: is of an agent in one process.* say observer\.resources and exec"):
        helm.template("agent", {**SPLIT, "resources": wanted})
    objects = helm.template("agent", {**SPLIT, "observer": {"resources": wanted}})
    assert [cpu_of(of_role(objects, role)) for role in ROLES] == ["1", "100m"]
    whole = {**SPLIT, "gateway": {**SPLIT["gateway"], "split": False}, "resources": wanted}
    assert cpu_of(only(helm.template("agent", whole), "Deployment")) == "1"


def cpu_of(deployment: Object) -> str:
    """What its one container asks for."""
    (container,) = containers([deployment])
    return str(container["resources"]["requests"]["cpu"])


def test_policies_budgets_and_certificates_are_each_roles_own(helm: Helm) -> None:
    made = {"certManager": {"enabled": True, "issuerRef": {"name": "fleet"}}}
    links = {"listen": "0.0.0.0:7490", "address": "192.0.2.1:7490", "allow": ["192.0.2.0/24"]}
    wanted = {"networkPolicy": {"enabled": True}, "podDisruptionBudget": {"enabled": True}, "config": {"links": links}}
    objects = helm.template("agent", {**SPLIT, **wanted, "gateway": {**SPLIT["gateway"], **made}})
    for kind in ("NetworkPolicy", "PodDisruptionBudget"):
        assert {one["metadata"]["name"] for one in of_kind(objects, kind)} == {"agent-observer", "agent-executor"}
    ports = {
        one["metadata"]["name"]: {
            way: {port["port"] for rule in one["spec"][way] or () for port in rule.get("ports", ())}
            for way in ("ingress", "egress")
        }
        for one in of_kind(objects, "NetworkPolicy")
    }
    assert ports == {
        "agent-observer": {"ingress": {7490}, "egress": {53, 443, 6443, 7443, 9100, 10250}},
        "agent-executor": {"ingress": {10250}, "egress": {53, 443, 6443, 7443, 10250}},
    }
    certificates = {one["spec"]["secretName"]: one["spec"]["uris"] for one in of_kind(objects, "Certificate")}
    uri = "spiffe://global-dispatcher.io/cluster/east"
    assert certificates == {f"global-dispatcher-agent-{role}": [f"{uri}/{role}"] for role in ("observer", "executor")}


def test_one_monitor_finds_both(helm: Helm) -> None:
    objects = helm.template("agent", {**SPLIT, "metrics": {"enabled": True}, "podMonitor": {"enabled": True}})
    selector = only(objects, "PodMonitor")["spec"]["selector"]["matchLabels"].items()
    for role in ("observer", "executor"):
        assert selector <= of_role(objects, role)["spec"]["template"]["metadata"]["labels"].items()


def test_both_read_one_file(objects: list[Object]) -> None:
    told = yaml.safe_load(only(objects, "ConfigMap")["data"]["agent.yaml"])
    assert "role" not in told
    names = {
        volume["configMap"]["name"]
        for role in ("observer", "executor")
        for volume in of_role(objects, role)["spec"]["template"]["spec"]["volumes"]
        if volume["name"] == "config"
    }
    assert names == {only(objects, "ConfigMap")["metadata"]["name"]}
