"""What holds for both charts, whatever the values."""

import tomllib
from typing import Any

import pytest
import yaml

from tests.charts.rendering import CHARTS, NAMES, NAMESPACE, Helm, HelmError, containers, of_kind

CLUSTER_SCOPED = {
    "ClusterRole",
    "ClusterRoleBinding",
    "MutatingAdmissionPolicy",
    "MutatingAdmissionPolicyBinding",
    "MutatingWebhookConfiguration",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
}
EVERYTHING: dict[str, Any] = {
    "fullnameOverride": "other",
    "image": {
        "repository": "registry.invalid/gd",
        "digest": f"sha256:{'0' * 64}",
        "pullSecrets": [{"name": "registry"}],
    },
    "serviceAccount": {"annotations": {"a": "b"}},
    "podAnnotations": {"a": "b"},
    "podLabels": {"team": "x"},
    "nodeSelector": {"pool": "system"},
    "tolerations": [{"key": "system", "operator": "Exists"}],
    "affinity": {"nodeAffinity": {}},
    "topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"}],
    "networkPolicy": {"enabled": True},
    "podDisruptionBudget": {"enabled": True},
    "prometheusRule": {"enabled": True},
    "priorityClassName": "system-cluster-critical",
    "extraEnv": [{"name": "TZ", "value": "UTC"}],
    "extraVolumes": [{"name": "tls", "secret": {"secretName": "ray-tls"}}],
    "extraVolumeMounts": [{"name": "tls", "mountPath": "/tls"}],
}
DIALS: dict[str, Any] = {"gateway": {"urls": ["wss://x:1"], "split": True}}
VARIANTS = [
    pytest.param({}, id="example"),
    pytest.param(EVERYTHING, id="everything set"),
    pytest.param({"serviceAccount": {"create": False, "name": "given"}, "rbac": {"create": False}}, id="given account"),
]
DIALLED: dict[str, Any] = {"config": {"clusters": [{"name": "east", "via": "gateway"}]}}
STARTED = {"name": "west", "kubeconfig": "/tmp/kubeconfig", "agent": {"key_file": "/tmp/key.pem"}}
NO_ACCOUNT: dict[str, Any] = {"serviceAccount": {"create": False}}


def served(chart: str, values: dict[str, Any]) -> dict[str, Any]:
    """With the agent's metrics, which its alerts need."""
    return {**values, "metrics": {"enabled": True}} if chart == "agent" and "prometheusRule" in values else values


both = pytest.mark.parametrize("chart", NAMES)
variants = pytest.mark.parametrize("values", VARIANTS)


@pytest.mark.parametrize("chart", NAMES)
def test_a_chart_has_the_packages_version_and_asks_for_its_image(chart: str) -> None:
    project = tomllib.loads((CHARTS.parent / "pyproject.toml").read_text())["project"]
    stated = yaml.safe_load((CHARTS / chart / "Chart.yaml").read_text())
    assert (stated["version"], stated["appVersion"]) == (project["version"], project["version"])


@both
def test_lint_finds_nothing(helm: Helm, chart: str) -> None:
    told = helm("lint", "--strict", str(CHARTS / chart), "-f", str(CHARTS / chart / "ci" / "example-values.yaml"))
    assert "0 chart(s) failed" in told


@both
@variants
def test_every_object_renders_with_name_namespace_and_labels(helm: Helm, chart: str, values: dict[str, Any]) -> None:
    objects = helm.template(chart, served(chart, values))
    names = [(one["kind"], one["metadata"].get("namespace"), one["metadata"]["name"]) for one in objects]
    assert len(set(names)) == len(names)
    for one in objects:
        scoped = one["kind"] in CLUSTER_SCOPED
        assert one["metadata"].get("namespace") in (
            (None,) if scoped else (NAMESPACE, "kube-node-lease", "kube-system")
        )
        assert one["metadata"]["labels"]["app.kubernetes.io/instance"] == chart


@both
@variants
def test_every_container_is_hardened_and_bounded(helm: Helm, chart: str, values: dict[str, Any]) -> None:
    for one in containers(helm.template(chart, served(chart, values))):
        assert one["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "runAsNonRoot": True,
            "capabilities": {"drop": ["ALL"]},
            "seccompProfile": {"type": "RuntimeDefault"},
        }
        assert set(one["resources"]["requests"]) == {"cpu", "memory"}
        assert "memory" in one["resources"]["limits"]


@both
def test_pods_run_as_nobody_in_particular_without_service_variables(helm: Helm, chart: str) -> None:
    for one in of_kind(helm.template(chart), "Deployment"):
        spec = one["spec"]["template"]["spec"]
        assert spec["securityContext"]["runAsUser"] == 10001
        assert spec["enableServiceLinks"] is False
        writable = {
            mount["mountPath"] for c in containers([one]) for mount in c["volumeMounts"] if not mount.get("readOnly")
        }
        assert writable - {"/dev/shm"} == {"/tmp"}


@both
def test_selectors_match_their_own_pods_and_never_the_test_pod(helm: Helm, chart: str) -> None:
    objects = helm.template(chart)
    (deployment,) = of_kind(objects, "Deployment")
    labels = deployment["spec"]["template"]["metadata"]["labels"].items()
    selectors = [
        deployment["spec"]["selector"]["matchLabels"],
        *(s["spec"]["selector"] for s in of_kind(objects, "Service")),
    ]
    for selector in selectors:
        assert selector.items() <= labels
        assert not any(selector.items() <= pod["metadata"]["labels"].items() for pod in of_kind(objects, "Pod"))


@pytest.mark.parametrize(
    ("chart", "change"),
    [("dispatcher", {"config": {"log": {"level": "debug"}}}), ("agent", {"config": {"log_level": "debug"}})],
)
def test_a_changed_setting_makes_a_new_pod(helm: Helm, chart: str, change: dict[str, Any]) -> None:
    def sums(values: dict[str, Any]) -> list[str]:
        found = of_kind(helm.template(chart, values), "Deployment")
        return [one["spec"]["template"]["metadata"]["annotations"]["checksum/config"] for one in found]

    assert sums({}) == sums({}) != sums(change)
    if chart == "dispatcher":
        assert sums({"tenants": {"tenants": [{"name": "a", "namespaces": ["a"]}]}}) == sums({}), "they are read anew"


@both
def test_no_secret_but_the_agents_key_is_made_and_none_is_read(helm: Helm, chart: str) -> None:
    objects = helm.template(chart, served(chart, EVERYTHING))
    assert [list(one["data"]) for one in of_kind(objects, "Secret")] == ([["key.pem"]] if chart == "agent" else [])
    assert "secrets" not in yaml.safe_dump([one.get("rules") for one in objects])


@pytest.mark.parametrize(
    ("chart", "values", "words"),
    [
        pytest.param("dispatcher", {"replica": 2}, "'replica' not allowed", id="dispatcher: unknown"),
        pytest.param("dispatcher", {"config": {"timing": {"tick": 1}}}, "'tick' not allowed", id="unknown timing"),
        pytest.param("dispatcher", {"config": {"timing": {"tick_s": 0}}}, "/config/timing/tick_s", id="zero seconds"),
        pytest.param("dispatcher", {"config": {"clusters": [{"name": "East"}]}}, "/config/clusters/0/name", id="name"),
        pytest.param("dispatcher", {"config": {"ray": {"driver": "x"}}}, "'driver' not allowed", id="unknown of Ray"),
        pytest.param("dispatcher", {"image": {"digest": "abc"}}, "/image/digest", id="digest"),
        pytest.param("dispatcher", {"config": {"clusters": []}}, "config.clusters: name the member", id="no clusters"),
        pytest.param(
            "dispatcher", {"config": {"profile": "profiles/x.yaml"}}, "is none of: profiles/d", id="no profile"
        ),
        pytest.param("agent", {"clusters": "east"}, "'clusters' not allowed", id="agent: unknown"),
        pytest.param("agent", {"config": {"kubeconfig": "x"}}, "'kubeconfig' not allowed", id="kubeconfig"),
        pytest.param("agent", {"cluster": ""}, "cluster: name this cluster", id="no name"),
        pytest.param("agent", {"gateway": {"urls": []}}, "gateway.urls: say where", id="no way to the dispatcher"),
        pytest.param("agent", {"gateway": {"urls": ["https://x"]}}, "/gateway/urls/0", id="no wss"),
        pytest.param("dispatcher", {"config": {"clusters": [{"name": "a", "via": "b"}]}}, "/via", id="no such way"),
        pytest.param("agent", {"keySecret": "My Key"}, "/keySecret", id="no name of a Secret"),
        pytest.param("agent", {"config": {"key_file": "/x"}}, "'key_file' not allowed", id="the chart's own key file"),
        pytest.param("agent", {"reserveKeys": {"groups": "admins"}}, "/reserveKeys/groups", id="groups are a list"),
        pytest.param("agent", {"namespaces": ["Team A"]}, "/namespaces/0", id="bad namespace"),
        pytest.param(
            "agent",
            {**DIALS, "relay": {"port": 7481}},
            "relay.port: 7481 is health.port, too",
            id="a proxy node's and the probes'",
        ),
        pytest.param(
            "agent",
            {**DIALS, "relay": {"port": 7482}, "metrics": {"enabled": True}},
            "relay.port: 7482 is metrics.port, too",
            id="a proxy node's and the scrapes'",
        ),
        pytest.param(
            "dispatcher",
            {**DIALLED, "signing": {"tlsSecret": "global-dispatcher-gateway"}},
            "signing.tlsSecret: global-dispatcher-gateway is gateway.tlsSecret, too",
            id="the signing key where the gateway's is",
        ),
        pytest.param(
            "dispatcher",
            {
                "config": {"clusters": [DIALLED["config"]["clusters"][0], STARTED], "ray": {"address": "head:6379"}},
                "ray": {"tls": {"existingSecret": "same"}},
                "signing": {"tlsSecret": "same"},
            },
            "signing.tlsSecret: same is ray.tls.existingSecret, too",
            id="the signing key where Ray has it",
        ),
        pytest.param(
            "dispatcher",
            {"config": {**DIALLED["config"], "gateway": {"host": "127.0.0.1"}}},
            "config.gateway.host: 127.0.0.1 is loopback",
            id="a gateway without probes",
        ),
        pytest.param(
            "dispatcher",
            {"prometheusRule": {"enabled": True, "disabled": ["GlobalDispatcherDwon"]}},
            "prometheusRule.disabled: GlobalDispatcherDwon is none of the alerts: GlobalDispatcher",
            id="dispatcher: no such alert",
        ),
        pytest.param(
            "agent",
            {"metrics": {"enabled": True}, "prometheusRule": {"enabled": True, "disabled": ["GlobalDispatcherDown"]}},
            "prometheusRule.disabled: GlobalDispatcherDown is none of the alerts: GlobalDispatcherAgent",
            id="agent: no such alert",
        ),
        pytest.param(
            "agent",
            {"namespaces": ["team-a"], "config": {"executor": {"namespaces": {"create": ["team-*"]}}}},
            "config.executor.namespaces.create: has namespaces made in which the agent may do nothing",
            id="namespaces that are made and not served",
        ),
        pytest.param(
            "agent", {"config": {"executor": {"namespaces": {"remove_after_s": 5}}}}, "remove_after_s", id="too soon"
        ),
        pytest.param(
            "agent", {"config": {"executor": {"accept": [{"local_accounts": ["a'b"]}]}}}, "local_accounts/0", id="quote"
        ),
        pytest.param("agent", {"prometheusRule": {"enabled": True}}, "Rule.enabled: needs metrics.enabled", id="unmet"),
        pytest.param("dispatcher", NO_ACCOUNT, "that exists, as dispatcher if it is called so", id="no account"),
        pytest.param("agent", NO_ACCOUNT, "that exists; for agent there must be agent", id="agent: no account"),
        pytest.param(
            "agent", {**DIALS, **NO_ACCOUNT}, "there must be agent-observer and agent", id="agent: no two accounts"
        ),
        pytest.param(
            "agent", {"config": {"orders": {"authority": "fleet/ca.crt"}}}, "orders.authority: is no PEM", id="a path"
        ),
    ],
)
def test_wrong_values_are_refused_by_name(helm: Helm, chart: str, values: dict[str, Any], words: str) -> None:
    with pytest.raises(HelmError) as refused:
        helm.template(chart, values)
    assert words in str(refused.value)
