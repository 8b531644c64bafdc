"""The agent's chart: its file is the defaults, its rights are a table, its admission policies say what they say."""

import base64
import contextlib
from pathlib import Path
from typing import Any

import pytest
import yaml
from cryptography import x509

from agents.executor.crossing import live
from agents.executor.objects import contents, service_content
from agents.runtime.join import settings as join
from agents.runtime.link_settings import PODS_PORT
from agents.runtime.outbound.settings import GatewaySettings
from agents.runtime.relay.settings import RelaySettings
from agents.runtime.settings import AcceptSettings, AgentSettings, KubeletSettings, MetricsSettings, OrderSettings
from dispatcher.cli.joining import install
from dispatcher.cli.joining import objects as given_by_join
from docs.generate import chart_crossing
from localfleet.controlplane import opt_in
from shared.model import names
from shared.model.copy_names import HASH
from shared.model.pod import TERMINAL
from shared.process.keyfile import load_keys
from tests.charts.rendering import (
    ADMISSION,
    CHARTS,
    KUBELET_ACCOUNT,
    NAMESPACE,
    Helm,
    HelmError,
    Object,
    containers,
    for_purpose,
    of_kind,
    only,
    write_key,
    write_mounted,
)

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
    ("scheduling.k8s.io", "priorityclasses", "", "list watch"),
    ("node.k8s.io", "runtimeclasses", "", "list watch"),
    ("", "services", "", "list watch"),
    ("", "replicationcontrollers", "", "list watch"),
    ("apps", "replicasets", "", "list watch"),
    ("apps", "statefulsets", "", "list watch"),
    ("apps", "daemonsets", "", "list watch"),
    ("scheduling.k8s.io", "podgroups", "", "list watch"),
    ("scheduling.x-k8s.io", "podgroups", "", "list watch"),
    ("scheduling.sigs.k8s.io", "podgroups", "", "list watch"),
    ("scheduling.volcano.sh", "podgroups", "", "list watch"),
    ("scheduling.run.ai", "podgroups", "", "list watch"),
    ("", "events", "", "list watch"),
    ("metrics.k8s.io", "nodes", "", "list"),
    ("metrics.k8s.io", "pods", "", "list"),
    ("", "namespaces", "kube-system", "get"),
    ("/version", "", "", "get"),
}
EXECUTOR = {
    ("", "pods", "", "get create patch delete"),
    ("", "pods/binding", "", "create"),
    ("", "pods/status", "", "patch"),
    ("", "pods/ephemeralcontainers", "", "patch"),
    ("", "pods/resize", "", "patch"),
    ("", "configmaps", "", "get list create update delete"),
    ("", "persistentvolumeclaims", "", "get patch"),
    ("events.k8s.io", "events", "", "create"),
    ("policy", "poddisruptionbudgets", "", "get create patch delete"),
    ("scheduling.k8s.io", "podgroups", "", "get"),
    ("scheduling.k8s.io", "podgroups/status", "", "patch"),
}
# As whom kubelets are asked, and who may ask for that account's tokens.
STATS = {("", "nodes/stats", "", "get")}
USAGE = {("", "nodes/metrics", "", "get")}
TOKENS = {("", "serviceaccounts/token", "agent-kubelets", "create")}
VOLUMES = {("", "persistentvolumes", "", "get patch")}
PROXY_NODES = {("", "nodes", "", "get create patch delete"), ("", "nodes/status", "", "patch")}
LEASES = {
    ("coordination.k8s.io", "leases", "", "create patch delete"),
    ("coordination.k8s.io", "leases", "global-dispatcher-agent.state", "get"),
    ("coordination.k8s.io", "leases", "global-dispatcher-agent.executor", "get update"),
}
PREFIX = "global-dispatcher-agent"
KEY_FILE = "/run/secrets/global-dispatcher/key.pem"
# What agents write on pods, and nobody else may.
RESERVED = {
    *(names.CLAIM, names.CLAIM_CLUSTER, names.CLAIM_NODE, names.EPOCH, names.DECISION, names.DELEGATE_PROOF),
    *(names.SOURCE_CLUSTER, names.SOURCE_CLUSTER_UID, names.SOURCE_NAMESPACE, names.SOURCE_NAME, names.SOURCE_UID),
    names.FOLLOWERS,
    names.CARRIES,
}
GATEWAY_FOLDER = "/run/secrets/gateway"
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
    kubelets = [one for one in found if one["metadata"]["name"] == f"{PREFIX}-kubelets"]
    assert [one["subjects"][0]["name"] for one in kubelets] == ["agent-kubelets"]
    assert all(one["subjects"] == ACCOUNT for one in found if one not in kubelets)
    return {(one["kind"], one["metadata"].get("namespace", ""), one["roleRef"]["name"]) for one in found}


def test_the_rendered_settings_are_the_agents_defaults(helm: Helm, tmp_path: Path) -> None:
    folder = write_mounted(helm.template("agent"), tmp_path)
    settings = join.read_settings(folder / "agent.yaml")
    metrics = MetricsSettings(host="0.0.0.0")  # off, as by default
    assert settings.agent == AgentSettings(
        cluster="east",
        key_file=KEY_FILE,
        metrics=metrics,
        kubelet=KubeletSettings(account=KUBELET_ACCOUNT),
        orders=OrderSettings(ca_file=f"{GATEWAY_FOLDER}/ca.crt"),
    )
    assert settings.relay == RelaySettings()
    assert settings.health == join.HealthSettings(host="0.0.0.0")


def test_own_settings_arrive(helm: Helm, tmp_path: Path) -> None:
    accept = [{"clusters": ["west"], "namespaces": ["team-*"]}]
    config = {"executor": {"accept": accept}, "rename_from": "old"}
    objects = helm.template("agent", {"config": config})
    settings = join.read_settings(write_mounted(objects, tmp_path) / "agent.yaml")
    assert settings.agent.rename_from == "old"
    assert settings.agent.executor.accept == (AcceptSettings(clusters=("west",), namespaces=("team-*",)),)


def test_notes_say_what_kubectl_needs_for_pods_that_run_elsewhere(helm: Helm) -> None:
    words = "its API server must reach port 10250 of the"
    assert f"{words} executor's pod" in helm.notes("agent", DIALS_OUT)
    assert f"{words} agent's pod" in helm.notes("agent")
    assert words not in helm.notes("agent", {"relay": {"enabled": False}})


def test_metrics_are_served_on_a_port_of_their_own_where_they_are_wanted(helm: Helm, tmp_path: Path) -> None:
    objects = helm.template("agent", {"metrics": {"enabled": True, "port": 9102}})
    settings = join.read_settings(write_mounted(objects, tmp_path) / "agent.yaml")
    assert settings.agent.metrics == MetricsSettings(enabled=True, host="0.0.0.0", port=9102)
    (one,) = containers(of_kind(objects, "Deployment"))
    assert {"name": "metrics", "containerPort": 9102} in one["ports"]
    (usual,) = containers(of_kind(helm.template("agent"), "Deployment"))
    assert [port["name"] for port in usual["ports"]] == ["health", "pods", "kubelet"]


def test_the_agent_reads_the_mounted_file_and_says_where_it_is(helm: Helm) -> None:
    (one,) = containers(of_kind(helm.template("agent"), "Deployment"))
    start = ["global-dispatcher", "agent", "--config", "/etc/global-dispatcher/agent.yaml"]
    assert one["command"] == [*start, "--node-ip", "$(POD_IP)"]
    assert [env["name"] for env in one["env"]] == ["POD_IP", "HOME"]
    assert [one[probe]["httpGet"]["path"] for probe in ("startupProbe", "livenessProbe", "readinessProbe")] == [
        "/livez",
        "/livez",
        "/readyz",
    ]


def test_the_agent_has_the_certificates_of_the_secret_that_is_named(helm: Helm, tmp_path: Path) -> None:
    objects = helm.template("agent", {"gateway": {"tlsSecret": "mine"}})
    settings = join.read_settings(write_mounted(objects, tmp_path) / "agent.yaml")
    assert settings.gateway == GatewaySettings(
        urls=("wss://gateway.example:7443",),
        ca_file=f"{GATEWAY_FOLDER}/ca.crt",
        cert_file=f"{GATEWAY_FOLDER}/tls.crt",
        key_file=f"{GATEWAY_FOLDER}/tls.key",
    )
    (deployment,) = of_kind(objects, "Deployment")
    (one,) = containers([deployment])
    assert {"name": "gateway", "mountPath": GATEWAY_FOLDER, "readOnly": True} in one["volumeMounts"]
    volumes = deployment["spec"]["template"]["spec"]["volumes"]
    assert "mine" in [volume["secret"]["secretName"] for volume in volumes if "secret" in volume]


RELAYS_NOTHING: Object = {"relay": {"enabled": False}, "config": {"executor": {"relay": "none"}}}


def test_the_roles_are_the_table_and_nothing_else(helm: Helm) -> None:
    objects = helm.template("agent", RELAYS_NOTHING)
    roles = {one["metadata"]["name"]: table(one) for one in of_kind(objects, "ClusterRole")}
    assert roles == {
        f"{PREFIX}-observer": OBSERVER,
        f"{PREFIX}-kubelets": STATS,
        f"{PREFIX}-executor": EXECUTOR,
        f"{PREFIX}-volumes": VOLUMES,
        f"{PREFIX}-proxy-nodes": PROXY_NODES,
    }
    assert {one["metadata"]["namespace"]: table(one) for one in of_kind(objects, "Role")} == {
        "kube-node-lease": LEASES,
        "global-dispatcher": TOKENS,
    }


def test_the_right_to_evict_is_given_where_pods_are_to_be_moved_alone(helm: Helm) -> None:
    objects = helm.template("agent", {**RELAYS_NOTHING, "rebalancing": {"enabled": True}})
    roles = {one["metadata"]["name"]: table(one) for one in of_kind(objects, "ClusterRole")}
    assert roles[f"{PREFIX}-executor"] == EXECUTOR | {("", "pods/eviction", "", "create")}


def test_without_namespaces_the_agent_serves_all(helm: Helm) -> None:
    assert bindings(helm.template("agent", RELAYS_NOTHING)) == {
        ("ClusterRoleBinding", "", f"{PREFIX}-observer"),
        ("ClusterRoleBinding", "", f"{PREFIX}-kubelets"),
        ("RoleBinding", "global-dispatcher", "agent-kubelets"),
        ("ClusterRoleBinding", "", f"{PREFIX}-executor"),
        ("ClusterRoleBinding", "", f"{PREFIX}-proxy-nodes"),
        ("ClusterRoleBinding", "", f"{PREFIX}-volumes"),
        ("RoleBinding", "kube-node-lease", f"{PREFIX}-proxy-nodes"),
    }


def test_with_namespaces_it_may_write_to_pods_there_alone(helm: Helm) -> None:
    assert bindings(helm.template("agent", {**RELAYS_NOTHING, "namespaces": ["team-a", "team-b"]})) == {
        ("ClusterRoleBinding", "", f"{PREFIX}-observer"),
        ("ClusterRoleBinding", "", f"{PREFIX}-kubelets"),
        ("RoleBinding", "global-dispatcher", "agent-kubelets"),
        ("RoleBinding", "team-a", f"{PREFIX}-executor"),
        ("RoleBinding", "team-b", f"{PREFIX}-executor"),
        ("ClusterRoleBinding", "", f"{PREFIX}-proxy-nodes"),
        ("ClusterRoleBinding", "", f"{PREFIX}-volumes"),
        ("RoleBinding", "kube-node-lease", f"{PREFIX}-proxy-nodes"),
    }


def test_another_release_in_another_namespace_shares_no_object_without_a_namespace(helm: Helm) -> None:
    here = {one["metadata"]["name"] for one in helm.template("agent") if not one["metadata"].get("namespace")}
    assert all(name.startswith(f"{PREFIX}-") for name in here)


BY_V1, BY_BETA = (f"admissionregistration.k8s.io/{version}/MutatingAdmissionPolicy" for version in ("v1", "v1beta1"))


@pytest.mark.parametrize(
    ("apis", "values", "policies", "webhooks"),
    [
        pytest.param((), {}, [], 1, id="an older server"),
        pytest.param((BY_BETA,), {}, ["v1beta1"], 0, id="a server that has it in beta"),
        pytest.param((BY_V1, BY_BETA), {}, ["v1"], 0, id="a server that has it"),
        pytest.param((BY_V1,), {"enabled": False}, [], 0, id="not wanted"),
        pytest.param((), {"by": "v1"}, ["v1"], 0, id="rendered for a server that has it"),
        pytest.param((BY_V1,), {"by": "webhook"}, [], 1, id="the webhook wanted"),
    ],
)
def test_the_annotation_asks_for_us_by_what_the_server_has(
    helm: Helm, apis: tuple[str, ...], values: dict[str, Any], policies: list[str], webhooks: int
) -> None:
    objects = helm.template("agent", {"admissionPolicy": values}, apis=apis)
    for kind in ("MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding"):
        found = {one["metadata"]["name"]: one["apiVersion"] for one in of_kind(objects, kind)}
        names_of = [f"{PREFIX}-{purpose}" for purpose in ("schedule", "proxy-nodes")]
        assert found == {name: f"admissionregistration.k8s.io/{one}" for name in names_of for one in policies}
    assert len(of_kind(objects, "MutatingWebhookConfiguration")) == webhooks
    assert len(of_kind(objects, "Deployment")) == 1 + webhooks


WEBHOOK: dict[str, Any] = {"admissionPolicy": {"by": "webhook"}}


def test_the_webhooks_keep_nobody_out_and_are_asked_about_what_is_of_the_policies_alone(helm: Helm) -> None:
    configuration = only(helm.template("agent", {**WEBHOOK, "namespaces": ["team-a"]}), "MutatingWebhookConfiguration")
    policies = helm.template("agent", {"namespaces": ["team-a"]})
    for webhook, purpose in zip(configuration["webhooks"], ("schedule", "proxy-nodes"), strict=True):
        assert (webhook["failurePolicy"], webhook["timeoutSeconds"], webhook["sideEffects"]) == ("Ignore", 2, "None")
        policy = for_purpose(policies, "MutatingAdmissionPolicy", purpose)["spec"]
        assert webhook["matchConditions"] == policy["matchConditions"]
        assert webhook["rules"] == policy["matchConstraints"]["resourceRules"]
        assert webhook.get("namespaceSelector") == policy["matchConstraints"].get("namespaceSelector")


@pytest.mark.parametrize("by", ["v1", "webhook"])
def test_nothing_is_kept_off_proxy_nodes_where_that_is_not_wanted(helm: Helm, by: str) -> None:
    objects = helm.template("agent", {"admissionPolicy": {"by": by, "proxyNodes": False}})
    found = [one["metadata"]["name"] for one in of_kind(objects, "MutatingAdmissionPolicy")]
    found += [one["name"] for hook in of_kind(objects, "MutatingWebhookConfiguration") for one in hook["webhooks"]]
    assert found == ([f"{PREFIX}-schedule"] if by == "v1" else ["schedule.global-dispatcher.io"])


def test_the_webhook_serves_with_the_certificate_that_the_api_server_is_told_to_trust(helm: Helm) -> None:
    objects = helm.template("agent", WEBHOOK)
    webhook, other = only(objects, "MutatingWebhookConfiguration")["webhooks"]
    assert other["clientConfig"] == webhook["clientConfig"]
    secret = next(one for one in of_kind(objects, "Secret") if one["type"] == "kubernetes.io/tls")
    assert webhook["clientConfig"]["caBundle"] == secret["data"]["ca.crt"]
    service = webhook["clientConfig"]["service"]
    certificate, authority = (
        x509.load_pem_x509_certificate(base64.b64decode(secret["data"][key])) for key in ("tls.crt", "ca.crt")
    )
    certificate.verify_directly_issued_by(authority)
    alternatives = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert alternatives.get_values_for_type(x509.DNSName) == [f"{service['name']}.{service['namespace']}.svc"]
    assert only(objects, "Service")["metadata"]["name"] == service["name"]


def test_the_webhooks_pods_have_no_account_and_are_not_the_agents(helm: Helm) -> None:
    agent, webhook = of_kind(helm.template("agent", WEBHOOK), "Deployment")
    assert webhook["spec"]["template"]["spec"]["automountServiceAccountToken"] is False
    labels = webhook["spec"]["template"]["metadata"]["labels"]
    assert webhook["spec"]["selector"]["matchLabels"].items() <= labels.items()
    assert not agent["spec"]["selector"]["matchLabels"].items() <= labels.items()
    (container,) = webhook["spec"]["template"]["spec"]["containers"]
    files = {
        item["path"] for volume in webhook["spec"]["template"]["spec"]["volumes"] for item in volume["secret"]["items"]
    }
    named = {word.partition("=")[2] for word in container["command"] if "-file=" in word}
    assert named == {f"{container['volumeMounts'][0]['mountPath']}/{file}" for file in files}


def test_cert_manager_makes_the_webhooks_certificate_and_tells_whom_to_trust(helm: Helm) -> None:
    made = {"certManager": {"enabled": True, "issuerRef": {"name": "cluster"}}}
    objects = helm.template("agent", {"admissionPolicy": {"by": "webhook", "webhook": made}})
    certificate = only(objects, "Certificate")
    configuration = only(objects, "MutatingWebhookConfiguration")
    told = configuration["metadata"]["annotations"]["cert-manager.io/inject-ca-from"]
    assert told == f"{NAMESPACE}/{certificate['metadata']['name']}"
    assert "caBundle" not in configuration["webhooks"][0]["clientConfig"]
    assert certificate["spec"]["secretName"] not in {one["metadata"]["name"] for one in of_kind(objects, "Secret")}


def test_a_given_certificate_wants_word_of_whom_to_trust(helm: Helm) -> None:
    with pytest.raises(HelmError, match=r"admissionPolicy\.webhook\.caBundle: say whom the API server trusts"):
        helm.template("agent", {"admissionPolicy": {"by": "webhook", "webhook": {"tlsSecret": "own"}}})


PEM = base64.b64encode(b"-----BEGIN CERTIFICATE-----\n").decode()


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (
            {"caBundle": PEM},
            r"webhook\.tlsSecret: name the Secret \(tls\.crt, tls\.key\) whose certificate caBundle is for",
        ),
        ({"caBundle": "none!", "tlsSecret": "own"}, r"webhook\.caBundle: is no PEM certificate in base64"),
        ({"caBundle": "-----BEGIN CERTIFICATE-----", "tlsSecret": "own"}, r"webhook\.caBundle: is no PEM certificate"),
        (
            {"caBundle": PEM, "certManager": {"enabled": True, "issuerRef": {"name": "i"}}},
            r"webhook\.caBundle: is given, and certManager\.enabled",
        ),
    ],
)
def test_a_webhooks_certificate_that_is_half_given_is_refused(helm: Helm, given: Object, words: str) -> None:
    with pytest.raises(HelmError, match=words):
        helm.template("agent", {"admissionPolicy": {"by": "webhook", "webhook": given}})


@pytest.mark.parametrize(
    ("proxy", "taken"),
    [("", True), ("http://me:word@proxy:3128", True), ("proxy:3128", True), ("[::1]:3128", True)]
    + [(one, False) for one in ("socks5://proxy:1080", "https://proxy:3128", "http://")],
)
def test_a_proxy_that_cannot_be_asked_to_connect_is_refused(helm: Helm, proxy: str, taken: bool) -> None:
    expected = contextlib.nullcontext() if taken else pytest.raises(HelmError, match="/gateway/proxy")
    with expected:
        helm.template("agent", {"gateway": {"proxy": proxy}})


def test_a_gateway_that_is_listed_twice_is_refused(helm: Helm) -> None:
    with pytest.raises(HelmError, match="/gateway/urls"):
        helm.template("agent", {"gateway": {"urls": ["wss://gw:7443", "wss://gw:7443"]}})


def test_the_admission_policy_speaks_of_the_names_in_the_code(helm: Helm) -> None:
    spec = for_purpose(helm.template("agent"), "MutatingAdmissionPolicy", "schedule")["spec"]
    assert f"'{names.SCHEDULE}'" in spec["matchConditions"][0]["expression"]
    assert f"'{names.SCHEDULER_NAME}'" in spec["mutations"][0]["applyConfiguration"]["expression"]
    assert spec["failurePolicy"] == "Ignore"
    assert "namespaceSelector" not in spec["matchConstraints"]


def test_what_tolerates_proxy_nodes_is_kept_off_by_the_names_in_the_code(helm: Helm) -> None:
    spec = for_purpose(helm.template("agent"), "MutatingAdmissionPolicy", "proxy-nodes")["spec"]
    assert f"'{names.PROXY_TAINT}'" in spec["matchConditions"][0]["expression"]
    assert f"'{names.PROXY_LABEL}'" in next(one["expression"] for one in spec["variables"] if one["name"] == "away")
    mark = f"{names.PROXY_NODES.replace('/', '~1')}', value: '{names.LEFT_OUT}'"
    assert mark in spec["mutations"][0]["jsonPatch"]["expression"]
    assert spec["failurePolicy"] == "Ignore"


def test_clusters_without_a_chart_get_the_same_admission_policies(helm: Helm) -> None:
    objects = helm.template("agent")
    installed = of_kind(install.policies("v1"), "MutatingAdmissionPolicy")
    ours = [for_purpose(objects, "MutatingAdmissionPolicy", one)["spec"] for one in ("schedule", "proxy-nodes")]
    assert [one["spec"] for one in installed] == ours
    for kind in ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"):
        (guard,) = of_kind(install.guard(), kind)
        (charts,) = (one for one in of_kind(objects, kind) if one["metadata"]["name"].endswith("-reserve-gone"))
        same = {**charts["spec"], **({"policyName": guard["metadata"]["name"]} if kind.endswith("Binding") else {})}
        assert guard["spec"] == same
    assert opt_in.MANIFEST in install.POLICIES


def test_the_admission_policy_keeps_to_the_namespaces(helm: Helm) -> None:
    objects = helm.template("agent", {"namespaces": ["team-a"]})
    spec = for_purpose(objects, "MutatingAdmissionPolicy", "schedule")["spec"]
    assert spec["matchConstraints"]["namespaceSelector"] == {
        "matchExpressions": [{"key": "kubernetes.io/metadata.name", "operator": "In", "values": ["team-a"]}]
    }


def test_the_guard_speaks_of_the_agents_account_and_of_the_names_in_the_code(helm: Helm) -> None:
    nodes, pods, volumes, budgets, copies = policies(helm.template("agent"), "guard")
    for one in (nodes, pods, volumes, budgets, copies):
        (who,) = one["spec"]["matchConditions"]
        assert who["expression"] == "request.userInfo.username == 'system:serviceaccount:global-dispatcher:agent'"
    named, marked = (one["expression"] for one in nodes["spec"]["validations"])
    assert f"startsWith('{names.PROXY_NODE_PREFIX}')" in named
    assert all(f"'{one}'" in marked for one in (names.PROXY_LABEL, names.PROXY_TAINT))
    first, second, third, node = (one["expression"] for one in pods["spec"]["validations"])
    assert all(f"'{one}'" in third for one in (*live.WORDS[1:], names.DELEGATE_LABEL, names.DELEGATE_SCHEDULER))
    assert all(
        f".?{one}.orValue(false) == false" in node for one in ("hostNetwork", "hostPID", "hostIPC", "privileged")
    )
    assert all(str(chart_crossing.allowed(kind)) in node for kind in ("Volume", "VolumeProjection"))
    assert f"'{names.SCHEDULER_NAME}'" in first
    assert f"name == '{names.DELEGATE_SCHEDULER}'" in first
    assert f"'{names.DELEGATE_LABEL}'" in second
    assert f"orValue('') == '{names.DELEGATE_SCHEDULER}'" in second
    (own,) = (one["expression"] for one in budgets["spec"]["validations"])
    assert f"startsWith('{names.BUDGET_PREFIX}')" in own
    assert f"'{names.BUDGET_OF}'" in own
    marked, typed = (one["expression"] for one in copies["spec"]["validations"])
    assert f"labels['{names.COPY}']" in marked
    assert f"'^{HASH}$'" in marked
    assert set(typed.partition(" in [")[2].rstrip("]").replace("'", "").split(", ")) == contents.TYPES


def test_the_guard_of_services_speaks_of_the_marks_in_the_code(helm: Helm) -> None:
    found = policies(helm.template("agent", {"config": {"executor": {"services": True}}}), "guard")
    (services,) = (one for one in found if one["metadata"]["name"].endswith("-services"))
    marked, own, led, _ = (one["expression"] for one in services["spec"]["validations"])
    assert f"[?'{names.COPY}'].orValue('').matches('^{HASH}$')" in marked
    assert f"[?'{service_content.MANAGED_BY}'].orValue('') == '{names.MANAGER}'" in marked
    assert all(f"'{service_content.SERVICE_NAME}'" in one for one in (own, led))


MAKES = {"create": ["team-*", "a.b?"]}


@pytest.mark.parametrize(
    ("namespaces", "more"),
    [
        ({}, set()),
        (MAKES, {("", "namespaces", "", "create get")}),
        (
            {**MAKES, "remove_after_s": 600},
            {("", "namespaces", "", "create get"), ("", "namespaces", "", "delete"), ("*", "*", "", "list")},
        ),
        ({"remove_after_s": 600}, set()),
    ],
    ids=["by default", "made", "and removed", "nothing is made"],
)
def test_rights_to_namespaces_are_given_where_the_values_have_them_made(
    helm: Helm, namespaces: Object, more: set[tuple[str, str, str, str]]
) -> None:
    objects = helm.template("agent", {"config": {"executor": {"namespaces": namespaces}}})
    roles = {one["metadata"]["name"]: table(one) for one in of_kind(objects, "ClusterRole")}
    assert roles.get(f"{PREFIX}-executor-namespaces", set()) == more
    guards = [one for one in policies(objects, "guard") if one["metadata"]["name"].endswith("-namespaces")]
    assert len(guards) == bool(more)
    for one in guards:
        (rule,) = (rule["expression"] for rule in one["spec"]["validations"])
        assert f"'{names.MADE_FOR}'" in rule
        assert "matches('^(team-.*|a[.]b.)$')" in rule


def test_delegates_have_the_token_of_the_accounts_alone_that_a_row_lists(helm: Helm) -> None:
    def guard(*rows: Object) -> str:
        objects = helm.template("agent", {"config": {"executor": {"accept": list(rows)}}})
        (pods,) = (one for one in policies(objects, "guard") if one["metadata"]["name"].endswith("-pods"))
        rule: str = pods["spec"]["validations"][1]["expression"]
        return rule

    assert "serviceAccountName.orValue('default').matches" not in guard({})
    rule = guard({"local_accounts": ["app"]}, {}, {"local_accounts": ["edge-*"]})
    assert "serviceAccountName.orValue('default').matches('^(app|edge-.*)$')" in rule


def policies(objects: list[Object], kind: str) -> list[Object]:
    """Those that guard us, or that reserve what is ours, each with its binding in force."""
    every = of_kind(objects, "ValidatingAdmissionPolicy")
    bound = {one["spec"]["policyName"]: one["spec"] for one in of_kind(objects, "ValidatingAdmissionPolicyBinding")}
    assert bound == {
        name: {"policyName": name, "validationActions": ["Deny"]} for name in (one["metadata"]["name"] for one in every)
    }
    return [one for one in every if f"{one['metadata']['name']}-".startswith(f"{PREFIX}-{kind}-")]


def test_the_key_is_a_file_of_the_pod_and_of_no_other_form(helm: Helm, tmp_path: Path) -> None:
    objects = helm.template("agent")
    assert len(load_keys(str(write_key(objects, tmp_path)), "east").public) == 1
    assert only(objects, "Secret")["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep"}
    (agent,) = containers(of_kind(objects, "Deployment"))
    assert only(objects, "Secret")["metadata"]["name"] not in str(agent["env"])


def test_a_key_of_the_operator_is_mounted_and_none_is_made(helm: Helm) -> None:
    objects = helm.template("agent", {"keySecret": "mine"})
    assert not of_kind(objects, "Secret")
    volumes = only(objects, "Deployment")["spec"]["template"]["spec"]["volumes"]
    assert [one["secret"]["secretName"] for one in volumes if one["name"] == "keys"] == ["mine"]


def test_every_rendering_without_a_server_makes_a_key_of_its_own(helm: Helm) -> None:
    one, other = (only(helm.template("agent"), "Secret")["data"]["key.pem"] for _ in range(2))
    assert one != other  # what is never to happen by accident: values.yaml says what to do where nobody asks a server


@pytest.mark.parametrize("by", ["v1", "v1beta1", "webhook"])
def test_what_join_writes_for_git_is_rendered_alike_each_time_and_leaves_no_secret_to_the_chart(
    helm: Helm, by: str
) -> None:
    hook = given_by_join.webhook_secret(NAMESPACE) if by == "webhook" else None
    values = given_by_join.values("east", ["wss://gd.example:7443"], by, own_key=True, webhook=hook)
    words = ("template", "any-name", str(CHARTS / "agent"), "-n", NAMESPACE, "-f", helm.values_file(values))
    text = helm(*words)
    assert text == helm(*words)
    rendered = [one for one in yaml.safe_load_all(text) if one]
    assert not of_kind(rendered, "Secret")
    pods = [one["spec"]["template"]["spec"] for one in of_kind(rendered, "Deployment")]
    mounted = {one["secret"]["secretName"] for pod in pods for one in pod["volumes"] if "secret" in one}
    roles = {f"{given_by_join.TLS_SECRET}-{role}" for role in ("observer", "executor")}
    assert mounted == roles | {given_by_join.KEY_SECRET} | ({given_by_join.WEBHOOK_SECRET} if hook else set())


def test_all_that_agents_write_on_pods_is_reserved_for_them_by_the_names_in_the_code(helm: Helm) -> None:
    pods, _, nodes, bindings = policies(helm.template("agent"), "reserve")
    keys, files, label, finalizer, scheduler, job, node = (one["expression"] for one in pods["spec"]["validations"])
    bound, bound_files = (one["expression"] for one in bindings["spec"]["validations"])
    assert all({word for word in text.split("'") if names.PREFIX in word} == RESERVED for text in (keys, bound))
    assert all(
        {word for word in text.split("'") if names.PREFIX in word} == {names.DOWNWARD} for text in (files, bound_files)
    )
    assert f"'{names.DELEGATE_LABEL}'" in label
    assert f"'{names.FINALIZER}'" in finalizer
    assert f"'{names.DELEGATE_SCHEDULER}'" in scheduler
    assert f"'{names.DELEGATE_LABEL}'" in job
    assert f"'{names.PROXY_NODE_PREFIX}'" in node
    label, taint = (one["expression"] for one in nodes["spec"]["validations"])
    assert all(f"'{one}'" in label for one in (names.PROXY_LABEL, names.CLUSTER_READY))
    assert taint.count(f"'{names.PROXY_TAINT}'") == 2


def test_nobody_changes_the_containers_of_a_pod_that_went_to_another_cluster(helm: Helm) -> None:
    (spec,) = (one["spec"] for one in policies(helm.template("agent"), "reserve-gone"))
    who, home, ending, stays = (one["expression"] for one in spec["matchConditions"])
    assert all(f"'{key}'" in who for key in (names.CLAIM, names.DELEGATE_LABEL))
    assert "nodeName" in home
    assert f"startsWith('{names.PROXY_NODE_PREFIX}')" in home
    assert "deletionTimestamp" in ending
    assert all(f"'{phase}'" in ending for phase in TERMINAL)
    assert f"'{names.CARRIES}'" in stays
    fields = {one["expression"].partition(" ")[0].removeprefix("object.spec.?") for one in spec["validations"]}
    assert fields == {"containers", "initContainers", "ephemeralContainers", "resources", "activeDeadlineSeconds"}
    assert all(one["message"].startswith("the pod runs in another cluster") for one in spec["validations"])


def test_no_key_of_users_is_reserved() -> None:
    users = {names.SCHEDULE, names.CLUSTERS, names.STAY, names.SPREAD, names.DOMAIN_SCOPE, names.FAILOVER}
    assert not users & RESERVED


def test_deleting_is_nothing_that_the_reservation_looks_at(helm: Helm) -> None:
    for one in policies(helm.template("agent"), "reserve"):
        rules = one["spec"]["matchConstraints"]["resourceRules"]
        assert {verb for rule in rules for verb in rule["operations"]} <= {"CREATE", "UPDATE"}


def test_who_may_write_our_marks_is_said_in_the_values(helm: Helm) -> None:
    who = {"reserveKeys": {"groups": ["admins", "o'brien's"], "users": ["velero"]}}
    pods, _, *others = policies(helm.template("agent", who), "reserve")
    for one in (pods, *others):
        user, group = (condition["expression"] for condition in one["spec"]["matchConditions"])
        assert user.endswith('["system:serviceaccount:global-dispatcher:agent","velero"])')
        assert group.endswith('["admins","o\'brien\'s"])')


@pytest.mark.parametrize(
    ("apis", "values"),
    [
        pytest.param((), {}, id="an older server"),
        pytest.param(ADMISSION, {"reserveKeys": {"enabled": False}}, id="not wanted"),
    ],
)
def test_nothing_is_reserved_where_it_cannot_be_or_is_not_wanted(
    helm: Helm, apis: tuple[str, ...], values: dict[str, Any]
) -> None:
    assert not policies(helm.template("agent", values, apis=apis), "reserve")


DIALS_OUT: Object = {"gateway": {"split": True}}
LOGS = {("", "pods/log", "", "get")}
EXEC = {("", f"pods/{what}", "", "get create") for what in ("exec", "attach", "portforward")}


@pytest.mark.parametrize(("relay", "more"), [("none", set()), ("logs", LOGS), ("all", LOGS | EXEC)])
def test_what_other_clusters_may_ask_is_what_the_agent_has_the_right_to(
    helm: Helm, relay: str, more: set[tuple[str, str, str, str]]
) -> None:
    objects = helm.template("agent", {**DIALS_OUT, "config": {"executor": {"relay": relay}}})
    roles = {one["metadata"]["name"]: table(one) for one in of_kind(objects, "ClusterRole")}
    assert roles[f"{PREFIX}-executor"] == EXECUTOR | more
    assert roles[f"{PREFIX}-kubelets"] == STATS | (USAGE if relay != "none" else set())
    guarded = [one for one in policies(objects, "guard") if one["metadata"]["name"].endswith("-connections")]
    assert len(guarded) == (relay == "all")


def test_who_serves_as_the_kubelet_of_proxy_nodes_may_review_its_callers(helm: Helm, tmp_path: Path) -> None:
    objects = helm.template("agent", {**DIALS_OUT, "relay": {"tlsSecret": "mine"}})
    roles = {
        one["metadata"]["name"]: table(one) for one in [*of_kind(objects, "ClusterRole"), *of_kind(objects, "Role")]
    }
    assert roles[f"{PREFIX}-relay"] == {("", "configmaps", "extension-apiserver-authentication", "get")}
    reviews = [one for one in of_kind(objects, "ClusterRole") if one["metadata"]["name"] == f"{PREFIX}-relay"]
    asked = {
        ("authorization.k8s.io", "subjectaccessreviews", "", "create"),
        ("authentication.k8s.io", "tokenreviews", "", "create"),
    }
    assert [table(one) for one in reviews] == [asked]
    settings = join.read_settings(write_mounted(objects, tmp_path) / "agent.yaml")
    files = {"cert_file": "/run/secrets/relay/tls.crt", "key_file": "/run/secrets/relay/tls.key"}
    assert settings.relay == RelaySettings(**files)  # type: ignore[arg-type]
    for one in containers(of_kind(objects, "Deployment")):
        serves = one["command"][-1] == "executor"
        assert ({"name": "kubelet", "containerPort": 10250} in one["ports"]) == serves
        assert ({"name": "relay", "mountPath": "/run/secrets/relay", "readOnly": True} in one["volumeMounts"]) == serves


def test_who_asks_for_its_serving_certificate_has_the_right_to_that_and_cannot_ask_for_another(
    helm: Helm, tmp_path: Path
) -> None:
    objects = helm.template("agent", {**DIALS_OUT, "relay": {"certificate": "csr", "signer": "acme.example/kubelets"}})
    (role,) = (one for one in of_kind(objects, "ClusterRole") if one["metadata"]["name"] == f"{PREFIX}-relay")
    assert ("certificates.k8s.io", "certificatesigningrequests", "", "create get") in table(role)
    (guard,) = (one for one in policies(objects, "guard") if one["metadata"]["name"].endswith("-certificates"))
    assert "'acme.example/kubelets'" in guard["spec"]["validations"][0]["expression"]
    settings = join.read_settings(write_mounted(objects, tmp_path) / "agent.yaml")
    told = {"certificate": "csr", "signer": "acme.example/kubelets", "folder": "/tmp/kubelet-serving"}
    assert settings.relay == RelaySettings(**told)  # type: ignore[arg-type]
    with pytest.raises(HelmError, match=r"relay\.tlsSecret: is given, and relay\.certificate is csr"):
        helm.template("agent", {**DIALS_OUT, "relay": {"certificate": "csr", "tlsSecret": "mine"}})


def test_without_it_nothing_of_that_is_there(helm: Helm) -> None:
    objects = helm.template("agent", {**DIALS_OUT, "relay": {"enabled": False}})
    assert not [one for one in objects if one["metadata"]["name"] == f"{PREFIX}-relay"]
    for one in containers(of_kind(objects, "Deployment")):
        assert [port["name"] for port in one["ports"]] in (["health"], ["health", "pods"])


@pytest.mark.parametrize("split", [True, False])
def test_the_test_pod_asks_the_sources_of_load_with_the_file_and_the_account_of_the_agent(
    helm: Helm, split: bool
) -> None:
    token = [{"name": "PROMETHEUS_TOKEN", "value": "/tokens/prometheus"}]
    objects = helm.template("agent", {"gateway": {"split": split}, "extraEnv": token})
    spec = only(objects, "Pod")["spec"]
    (one,) = spec["containers"]
    assert one["command"] == ["global-dispatcher", "signals", "check", "--config", "/etc/global-dispatcher/agent.yaml"]
    assert token[0] in one["env"]
    assert (spec["serviceAccountName"], spec["automountServiceAccountToken"]) == (
        "agent-observer" if split else "agent",
        True,
    )
    assert {"name": "config", "configMap": {"name": "agent"}} in spec["volumes"]
    assert "keys" not in [volume["name"] for volume in spec["volumes"]]


@pytest.mark.parametrize("by", ["v1", "v1beta1"])
def test_the_notes_call_a_policy_that_a_feature_gate_can_turn_off_by_no_more_than_that(helm: Helm, by: str) -> None:
    notes = helm.notes("agent", {"admissionPolicy": {"by": by}})
    assert f"by MutatingAdmissionPolicy {by}" in notes
    uncertain = (
        "if the API server's feature gate MutatingAdmissionPolicy is on",
        "doctor --cluster east --config FILE",
    )
    assert [words in notes for words in uncertain] == [by == "v1beta1"] * 2


@pytest.mark.parametrize(
    ("key", "values"),
    [
        ("health.port", {"config": {"links": {"pod_port": 7481}}}),
        ("metrics.port", {"metrics": {"enabled": True, "port": 7491}}),
        ("relay.port", {"relay": {"port": 7491}}),
    ],
)
def test_the_port_of_pods_is_that_of_nothing_else(helm: Helm, key: str, values: Object) -> None:
    with pytest.raises(HelmError, match=rf"{key}: \d+ is config\.links\.pod_port, too: give each a port of its own"):
        helm.template("agent", values)


@pytest.mark.parametrize("links", [None, {"pod_port": None}, {}], ids=["no links", "no port", "as it is"])
def test_values_of_an_older_chart_open_the_port_at_which_agents_answer_by_default(helm: Helm, links: Object) -> None:
    values: Object = {"networkPolicy": {"enabled": True}, "config": {"executor": {"services": True}, "links": links}}
    objects = helm.template("agent", values)
    (policy,) = of_kind(objects, "NetworkPolicy")
    for way in ("ingress", "egress"):
        opened = [port for rule in policy["spec"][way] for port in rule["ports"]]
        assert {"protocol": "TCP", "port": PODS_PORT} in opened
    ports = [one["containerPort"] for held in containers(objects) for one in held.get("ports", ())]
    assert PODS_PORT in ports
