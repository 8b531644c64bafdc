"""The agent's chart: its file is the defaults, its rights are a table, its admission policies say what they say."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from agents.controlplane import opt_in
from agents.runtime import join
from agents.runtime.settings import AgentSettings, ExecutorOptions
from dispatcher.model import names
from tests.charts.rendering import Helm, Object, containers, of_kind, only, write_mounted

# Each row: API group, resource, its names if limited, verbs. What is not here is not allowed.
OBSERVER = {
    ("", "nodes", "", "list watch"),
    ("", "pods", "", "list watch"),
    ("", "namespaces", "", "list watch"),
    ("", "persistentvolumes", "", "list watch"),
    ("", "persistentvolumeclaims", "", "list watch"),
    *(("storage.k8s.io", kind, "", "list watch") for kind in ("storageclasses", "csinodes", "csidrivers")),
    *(("storage.k8s.io", kind, "", "list watch") for kind in ("csistoragecapacities", "volumeattachments")),
    ("policy", "poddisruptionbudgets", "", "list watch"),
    ("", "services", "", "list watch"),
    ("", "replicationcontrollers", "", "list watch"),
    ("apps", "replicasets", "", "list watch"),
    ("apps", "statefulsets", "", "list watch"),
    ("", "nodes/stats", "", "get"),
    ("metrics.k8s.io", "nodes", "", "list"),
    ("", "namespaces", "kube-system", "get"),
    ("/version", "", "", "get"),
}
EXECUTOR = {
    ("", "pods", "", "get create patch delete"),
    ("", "pods/binding", "", "create"),
    ("", "pods/status", "", "patch"),
    ("", "persistentvolumeclaims", "", "get patch"),
    ("events.k8s.io", "events", "", "create"),
}
VOLUMES = {("", "persistentvolumes", "", "get patch")}
PROXY_NODES = {("", "nodes", "", "create patch delete"), ("", "nodes/status", "", "patch")}
LEASES = {("coordination.k8s.io", "leases", "", "create patch delete")}
PREFIX = "global-dispatcher-agent"
ACCOUNT = [{"kind": "ServiceAccount", "name": "agent", "namespace": "global-dispatcher"}]


def table(role: Object) -> set[tuple[str, str, str, str]]:
    """The rules of a role as rows."""
    rows = set()
    for rule in role["rules"]:
        verbs, limits = " ".join(rule["verbs"]), " ".join(rule.get("resourceNames", ()))
        rows |= {(url, "", "", verbs) for url in rule.get("nonResourceURLs", ())}
        rows |= {(g, r, limits, verbs) for g in rule.get("apiGroups", ()) for r in rule.get("resources", ())}
    return rows


def bindings(objects: list[Object]) -> set[tuple[str, str, str]]:
    """(kind, namespace, role) of every binding, after a look at whom it binds."""
    found = [*of_kind(objects, "ClusterRoleBinding"), *of_kind(objects, "RoleBinding")]
    assert all(one["subjects"] == ACCOUNT for one in found)
    return {(one["kind"], one["metadata"].get("namespace", ""), one["roleRef"]["name"]) for one in found}


def test_the_rendered_settings_are_the_agents_defaults(helm: Helm, tmp_path: Path) -> None:
    folder = write_mounted(helm.template("agent"), tmp_path)
    settings = join.read_settings(folder / "agent.yaml")
    # In a chart the least right is the default: pods of other schedulers are let alone.
    assert settings.agent == AgentSettings(cluster="east", executor=ExecutorOptions(evict_foreign=False))
    assert settings.ray == join.RayNodeSettings(address="dispatcher-ray.global-dispatcher:6379", temp_dir="/tmp/ray")
    assert settings.health == join.HealthSettings(host="0.0.0.0")


def test_own_settings_arrive(helm: Helm, tmp_path: Path) -> None:
    accept = [{"clusters": ["west"], "namespaces": ["team-*"]}]
    values = {"config": {"executor": {"accept": accept}}, "ray": {"lostSeconds": 60, "ports": {"maxWorker": 10199}}}
    settings = join.read_settings(write_mounted(helm.template("agent", values), tmp_path) / "agent.yaml")
    assert settings.model_dump()["executor"]["accept"] == ({"clusters": ("west",), "namespaces": ("team-*",)},)
    assert (settings.ray.lost_s, settings.ray.ports.max_worker) == (60, 10_199)


def test_the_agent_reads_the_mounted_file_and_says_where_it_is(helm: Helm) -> None:
    (one,) = containers(of_kind(helm.template("agent"), "Deployment"))
    start = ["python", "-m", "agents.runtime.join", "--config", "/etc/global-dispatcher/agent.yaml"]
    assert one["command"] == [*start, "--node-ip", "$(POD_IP)"]
    assert {"RAY_AUTH_TOKEN", "POD_IP"} <= {env["name"] for env in one["env"]}
    assert [one[probe]["httpGet"]["path"] for probe in ("startupProbe", "livenessProbe", "readinessProbe")] == [
        "/livez",
        "/livez",
        "/readyz",
    ]


def test_the_roles_are_the_table_and_nothing_else(helm: Helm) -> None:
    objects = helm.template("agent")
    roles = {one["metadata"]["name"]: table(one) for one in of_kind(objects, "ClusterRole")}
    assert roles == {
        f"{PREFIX}-observer": OBSERVER,
        f"{PREFIX}-executor": EXECUTOR,
        f"{PREFIX}-volumes": VOLUMES,
        f"{PREFIX}-proxy-nodes": PROXY_NODES,
    }
    leases = only(objects, "Role")
    assert (leases["metadata"]["namespace"], table(leases)) == ("kube-node-lease", LEASES)


def test_without_namespaces_the_agent_serves_all(helm: Helm) -> None:
    assert bindings(helm.template("agent")) == {
        ("ClusterRoleBinding", "", f"{PREFIX}-observer"),
        ("ClusterRoleBinding", "", f"{PREFIX}-executor"),
        ("ClusterRoleBinding", "", f"{PREFIX}-proxy-nodes"),
        ("ClusterRoleBinding", "", f"{PREFIX}-volumes"),
        ("RoleBinding", "kube-node-lease", f"{PREFIX}-proxy-nodes"),
    }


def test_with_namespaces_it_may_write_to_pods_there_alone(helm: Helm) -> None:
    assert bindings(helm.template("agent", {"namespaces": ["team-a", "team-b"]})) == {
        ("ClusterRoleBinding", "", f"{PREFIX}-observer"),
        ("RoleBinding", "team-a", f"{PREFIX}-executor"),
        ("RoleBinding", "team-b", f"{PREFIX}-executor"),
        ("ClusterRoleBinding", "", f"{PREFIX}-proxy-nodes"),
        ("ClusterRoleBinding", "", f"{PREFIX}-volumes"),
        ("RoleBinding", "kube-node-lease", f"{PREFIX}-proxy-nodes"),
    }


def test_another_release_in_another_namespace_shares_no_object_without_a_namespace(helm: Helm) -> None:
    here = {one["metadata"]["name"] for one in helm.template("agent") if not one["metadata"].get("namespace")}
    assert all(name.startswith(f"{PREFIX}-") for name in here)


@pytest.mark.parametrize(
    ("apis", "values", "expected"),
    [
        pytest.param((), {}, 0, id="an older server"),
        pytest.param(("MutatingAdmissionPolicy",), {}, 1, id="a server that has it"),
        pytest.param(("MutatingAdmissionPolicy",), {"admissionPolicy": {"enabled": False}}, 0, id="not wanted"),
    ],
)
def test_the_admission_policy_is_made_where_the_server_has_it(
    helm: Helm, apis: tuple[str, ...], values: dict[str, Any], expected: int
) -> None:
    objects = helm.template("agent", values, apis=tuple(f"admissionregistration.k8s.io/v1/{kind}" for kind in apis))
    for kind in ("MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding"):
        assert len(of_kind(objects, kind)) == expected


def test_the_admission_policy_speaks_of_the_names_in_the_code(helm: Helm) -> None:
    spec = only(helm.template("agent"), "MutatingAdmissionPolicy")["spec"]
    assert f"'{names.SCHEDULE}'" in spec["matchConditions"][0]["expression"]
    assert f"'{names.SCHEDULER_NAME}'" in spec["mutations"][0]["applyConfiguration"]["expression"]
    assert spec["failurePolicy"] == "Ignore"
    assert "namespaceSelector" not in spec["matchConstraints"]


def test_planes_without_a_chart_get_the_same_admission_policy(helm: Helm) -> None:
    policy = only(list(yaml.safe_load_all(opt_in.MANIFEST.read_text())), "MutatingAdmissionPolicy")
    assert policy["spec"] == only(helm.template("agent"), "MutatingAdmissionPolicy")["spec"]


def test_the_admission_policy_keeps_to_the_namespaces(helm: Helm) -> None:
    spec = only(helm.template("agent", {"namespaces": ["team-a"]}), "MutatingAdmissionPolicy")["spec"]
    assert spec["matchConstraints"]["namespaceSelector"] == {
        "matchExpressions": [{"key": "kubernetes.io/metadata.name", "operator": "In", "values": ["team-a"]}]
    }


def test_the_guard_speaks_of_the_agents_account_and_of_the_names_in_the_code(helm: Helm) -> None:
    nodes, pods, volumes = of_kind(helm.template("agent"), "ValidatingAdmissionPolicy")
    for one in (nodes, pods, volumes):
        (who,) = one["spec"]["matchConditions"]
        assert who["expression"] == "request.userInfo.username == 'system:serviceaccount:global-dispatcher:agent'"
    assert f"startsWith('{names.PROXY_NODE_PREFIX}')" in nodes["spec"]["validations"][0]["expression"]
    first, second = (one["expression"] for one in pods["spec"]["validations"])
    assert f"'{names.SCHEDULER_NAME}'" in first
    assert f"'{names.DELEGATE_LABEL}'" in second
