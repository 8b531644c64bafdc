"""What a platform team switches on: who may reach the pods, who scrapes them, drains, certificates by cert-manager."""

from typing import Any

import pytest
import yaml

from tests.charts.rendering import NAMES, Helm, HelmError, Object, of_kind, only

OPTIONAL = ("NetworkPolicy", "PodDisruptionBudget", "ServiceMonitor", "PodMonitor", "Certificate")
CERTIFICATES: dict[str, Any] = {"enabled": True, "issuerRef": {"name": "fleet", "kind": "ClusterIssuer"}}
ON: dict[str, Any] = {"networkPolicy": {"enabled": True}, "podDisruptionBudget": {"enabled": True}}
VALUES: dict[str, dict[str, Any]] = {
    "dispatcher": {
        **ON,
        "serviceMonitor": {"enabled": True, "labels": {"release": "prometheus"}},
        "config": {"clusters": [{"name": "east", "via": "gateway"}]},
        "gateway": {"certManager": {**CERTIFICATES, "dnsNames": ["gateway.example"]}},
    },
    "agent": {
        **ON,
        "metrics": {"enabled": True},
        "podMonitor": {"enabled": True, "labels": {"release": "prometheus"}},
        "gateway": {
            "urls": ["wss://gateway.example:8443/x", "wss://other.example"],
            "split": False,
            "certManager": CERTIFICATES,
        },
    },
}


@pytest.fixture(scope="module")
def charts(helm: Helm) -> dict[str, list[Object]]:
    """Each chart with all of it on."""
    return {chart: helm.template(chart, VALUES[chart]) for chart in NAMES}


def ports(rules: list[Object]) -> list[list[Any]]:
    """Of each rule; a range as a pair."""
    return [
        [(one["port"], one["endPort"]) if "endPort" in one else one["port"] for one in rule["ports"]] for rule in rules
    ]


@pytest.mark.parametrize("chart", NAMES)
def test_nothing_of_it_is_there_unless_it_is_wanted(helm: Helm, chart: str) -> None:
    objects = helm.template(chart)
    assert [kind for kind in OPTIONAL if of_kind(objects, kind)] == []


@pytest.mark.parametrize("chart", NAMES)
def test_policies_budgets_and_monitors_mean_our_pods(charts: dict[str, list[Object]], chart: str) -> None:
    objects = charts[chart]
    labels = only(objects, "Deployment")["spec"]["template"]["metadata"]["labels"]
    monitor = only(objects, "ServiceMonitor" if chart == "dispatcher" else "PodMonitor")
    assert monitor["metadata"]["labels"]["release"] == "prometheus"
    for selector in (
        only(objects, "NetworkPolicy")["spec"]["podSelector"],
        only(objects, "PodDisruptionBudget")["spec"]["selector"],
        monitor["spec"]["selector"],
    ):
        assert selector["matchLabels"]
        assert selector["matchLabels"].items() <= labels.items()


def test_the_monitor_finds_one_service_alone(charts: dict[str, list[Object]]) -> None:
    (endpoint,) = only(charts["dispatcher"], "ServiceMonitor")["spec"]["endpoints"]
    named = [
        one["metadata"]["name"]
        for one in of_kind(charts["dispatcher"], "Service")
        if endpoint["port"] in [port["name"] for port in one["spec"]["ports"]]
    ]
    assert named == ["dispatcher"]


def test_to_a_dispatcher_come_its_api_and_its_gateway_and_out_go_dns_and_the_lease(
    charts: dict[str, list[Object]],
) -> None:
    policy = only(charts["dispatcher"], "NetworkPolicy")["spec"]
    assert policy["policyTypes"] == ["Ingress", "Egress"]
    assert ports(policy["ingress"]) == [[7480], [7480], [7443]]
    assert policy["ingress"][0]["from"] == [{"podSelector": {}}]
    assert ports(policy["egress"]) == [[53, 53], [443, 6443]]


def test_helm_test_may_ask_whoever_else_may_not(helm: Helm) -> None:
    scrapers = [{"namespaceSelector": {"matchLabels": {"team": "monitoring"}}}]
    objects = helm.template("dispatcher", {"networkPolicy": {"enabled": True, "http": scrapers}})
    rule, pod = of_kind(objects, "NetworkPolicy")[0]["spec"]["ingress"][1], only(objects, "Pod")
    assert rule["from"][0]["podSelector"]["matchLabels"].items() <= pod["metadata"]["labels"].items()


@pytest.mark.parametrize("chart", ["agent", "dispatcher"])
@pytest.mark.parametrize(
    ("amount", "good"),
    [("100m", True), ("1.5", True), ("2Gi", True), ("1e3", True), (2, True), ("lots", False), ("1 Gi", False)],
)
def test_an_amount_that_is_none_is_refused_with_its_key(helm: Helm, chart: str, amount: object, good: bool) -> None:
    values = {"resources": {"requests": {"cpu": amount}}}
    if good:
        assert helm.template(chart, values)
    else:
        with pytest.raises(HelmError, match="cpu"):
            helm.template(chart, values)


def test_to_an_agent_come_scrapes_and_its_api_server_alone_and_out_go_what_it_asks(
    charts: dict[str, list[Object]],
) -> None:
    policy = only(charts["agent"], "NetworkPolicy")["spec"]
    assert ports(policy["ingress"]) == [[7482], [10250]]
    assert ports(policy["egress"]) == [[53, 53, 443, 6443, 9100, 10250], [8443], [443]]


def test_to_an_agent_without_metrics_and_relay_nothing_comes(helm: Helm) -> None:
    values = {
        **VALUES["agent"],
        "metrics": {"enabled": False},
        "podMonitor": {"enabled": False},
        "relay": {"enabled": False},
    }
    policy = only(helm.template("agent", values), "NetworkPolicy")["spec"]
    assert (policy["policyTypes"], policy["ingress"]) == (["Ingress", "Egress"], None)


def test_an_agent_that_measures_links_is_reached_there(helm: Helm) -> None:
    links = {"listen": "0.0.0.0:7490", "address": "10.0.0.1:30000", "allow": ["10.1.0.0/16"]}
    policy = only(helm.template("agent", {**ON, "config": {"links": links}}), "NetworkPolicy")["spec"]
    assert ports(policy["ingress"]) == [[7490], [10250]]
    assert policy["egress"][2:] == [{"to": [{"ipBlock": {"cidr": "10.1.0.0/16"}}]}]


@pytest.mark.parametrize(("pod_port", "services", "opened"), [(7491, True, [[7491]]), (7491, False, []), (0, True, [])])
def test_agents_of_one_pod_network_try_each_other_where_services_follow_pods(
    helm: Helm, pod_port: int, services: bool, opened: list[list[int]]
) -> None:
    config = {"links": {"pod_port": pod_port}, "executor": {"services": services}}
    objects = helm.template("agent", {**ON, "gateway": {"urls": ["wss://x:8443"], "split": True}, "config": config})
    observer, executor = (one["spec"] for one in of_kind(objects, "NetworkPolicy"))
    assert (ports(observer["ingress"] or []), ports(executor["ingress"])) == (opened, [[10250]])
    assert ports(observer["egress"])[2:] == opened
    (settings,) = (yaml.safe_load(one["data"]["agent.yaml"]) for one in of_kind(objects, "ConfigMap"))
    assert settings["links"]["pod_port"] == (pod_port if opened else 0)
    assert ports(executor["egress"])[2:] == []


@pytest.mark.parametrize(
    ("allowed", "cidr"),
    [
        ("192.0.2.0/24:7490", "192.0.2.0/24"),
        ("192.0.2.7", "192.0.2.7/32"),
        ("fd00::/64:7490", "fd00::/64"),
        ("fd00::7", "fd00::7/128"),
    ],
)
def test_a_network_that_may_be_probed_is_a_cidr_without_its_port(helm: Helm, allowed: str, cidr: str) -> None:
    values = {**ON, "config": {"links": {"allow": [allowed]}}}
    policy = only(helm.template("agent", values), "NetworkPolicy")["spec"]
    assert policy["egress"][2] == {"to": [{"ipBlock": {"cidr": cidr}}]}


ASKED = {
    "prometheus": [{"url": "http://prometheus.monitoring:9090"}, {"url": "https://thanos.example/x"}],
    "load_watcher": [{"url": "http://10.0.0.9:2020/watcher"}],
    "node_exporter": [{"port": 9101}],
}


@pytest.mark.parametrize(
    ("way", "proxies"),
    [
        ({"proxy": "http://u:p@proxy:3128/"}, [3128]),
        ({"proxy": "proxy.example"}, [80]),
        ({"proxy": "[fd00::1]:8888"}, [8888]),
        ({}, [3129]),
    ],
    ids=["a proxy", "no port", "IPv6", "a variable"],
)
def test_what_the_values_have_an_agent_ask_is_let_out_by_its_port(
    helm: Helm, way: dict[str, str], proxies: list[int]
) -> None:
    values = {
        **VALUES["agent"],
        "gateway": {"urls": ["wss://x:8443"], "split": True, **way},
        "extraEnv": [{"name": "https_proxy", "value": "http://proxy:3129"}],
        "config": {"telemetry": ASKED},
    }
    policies = of_kind(helm.template("agent", values), "NetworkPolicy")
    observer, executor = (ports(one["spec"]["egress"]) for one in policies)
    assert observer == [
        [53, 53, 443, 6443, 9100, 10250, 9101],
        [8443],
        *([one] for one in proxies),
        [9090],
        [443],
        [2020],
    ]
    assert executor == [[53, 53, 443, 6443, 10250], [8443], *([one] for one in proxies)]


@pytest.mark.parametrize(
    ("tracing", "env", "expected"),
    [
        ({"enabled": True, "endpoint": "http://otel.tracing:4318/v1/traces"}, [], [[4318]]),
        ({"enabled": True, "endpoint": "https://otel.example/v1/traces"}, [], [[443]]),
        ({"enabled": True}, [{"name": "OTEL_EXPORTER_OTLP_ENDPOINT", "value": "http://otel:4319"}], [[4319]]),
        ({"enabled": False, "endpoint": "http://otel:4318"}, [], []),
    ],
    ids=["a port", "no port", "a variable", "off"],
)
def test_traces_are_let_out_by_the_port_of_their_collector(
    helm: Helm, tracing: Object, env: list[Object], expected: list[list[int]]
) -> None:
    clusters = [{"name": "east", "via": "gateway"}]
    values = {"networkPolicy": {"enabled": True}, "config": {"clusters": clusters, "tracing": tracing}, "extraEnv": env}
    policy = only(helm.template("dispatcher", values), "NetworkPolicy")["spec"]
    assert ports(policy["egress"]) == [[53, 53], [443, 6443], *expected]


@pytest.mark.parametrize(
    ("chart", "variable", "more", "words"),
    [
        ("agent", "HTTPS_PROXY", {"gateway": {"urls": ["wss://x:1"]}}, "as gateway.proxy"),
        (
            "dispatcher",
            "OTEL_EXPORTER_OTLP_ENDPOINT",
            {"config": {"tracing": {"enabled": True}}},
            "as config.tracing.endpoint",
        ),
    ],
)
def test_what_is_asked_at_an_unknown_port_needs_a_rule_and_is_named(
    helm: Helm, chart: str, variable: str, more: dict[str, Any], words: str
) -> None:
    secret = {"name": variable, "valueFrom": {"secretKeyRef": {"name": "proxy", "key": "url"}}}
    values = {**more, "extraEnv": [secret], "networkPolicy": {"enabled": True}}
    with pytest.raises(HelmError, match=rf"{variable} is not known here.* networkPolicy\.egress.*{words}"):
        helm.template(chart, values)
    rule = {"ports": [{"protocol": "TCP", "port": 3128}]}
    policies = of_kind(
        helm.template(chart, {**values, "networkPolicy": {"enabled": True, "egress": [rule]}}), "NetworkPolicy"
    )
    assert all(rule in one["spec"]["egress"] for one in policies)


def of_webhook(objects: list[Object], kind: str) -> list[Object]:
    return [one["spec"] for one in of_kind(objects, kind) if one["metadata"]["name"] == "agent-webhook"]


def test_to_the_webhook_come_api_servers_alone_and_nothing_goes_out(helm: Helm) -> None:
    values = {"admissionPolicy": {"by": "webhook"}, "networkPolicy": {"enabled": True}}
    objects = helm.template("agent", values)
    (deployment,), (policy,) = of_webhook(objects, "Deployment"), of_webhook(objects, "NetworkPolicy")
    assert policy["podSelector"]["matchLabels"] == deployment["template"]["metadata"]["labels"]
    (container,) = deployment["template"]["spec"]["containers"]
    assert ports(policy["ingress"]) == [[container["ports"][0]["containerPort"]]]
    assert (policy["policyTypes"], policy["egress"]) == (["Ingress", "Egress"], [])
    assert not of_webhook(helm.template("agent", {"networkPolicy": {"enabled": True}}), "NetworkPolicy")


@pytest.mark.parametrize(("replicas", "budgets"), [(2, [1]), (1, [])])
def test_of_several_pods_of_the_webhook_one_at_a_time_may_go_and_a_single_one_holds_up_no_drain(
    helm: Helm, replicas: int, budgets: list[int]
) -> None:
    objects = helm.template("agent", {"admissionPolicy": {"by": "webhook", "webhook": {"replicas": replicas}}})
    (deployment,), found = of_webhook(objects, "Deployment"), of_webhook(objects, "PodDisruptionBudget")
    assert [one["maxUnavailable"] for one in found] == budgets
    assert all(one["selector"] == deployment["selector"] for one in found)


@pytest.mark.parametrize(
    ("chart", "volume", "names"),
    [
        ("dispatcher", "gateway", {"dnsNames": ["gateway.example"]}),
        ("dispatcher", "signing", {"uris": ["spiffe://global-dispatcher.io/dispatcher"]}),
        ("agent", "gateway", {"uris": ["spiffe://global-dispatcher.io/cluster/east"]}),
    ],
)
def test_cert_manager_fills_the_secret_that_the_pod_mounts(
    charts: dict[str, list[Object]], chart: str, volume: str, names: dict[str, list[str]]
) -> None:
    volumes = only(charts[chart], "Deployment")["spec"]["template"]["spec"]["volumes"]
    (secret,) = [one["secret"]["secretName"] for one in volumes if one["name"] == volume]
    (made,) = [one["spec"] for one in of_kind(charts[chart], "Certificate") if one["spec"]["secretName"] == secret]
    assert made["issuerRef"] == {"name": "fleet", "kind": "ClusterIssuer", "group": "cert-manager.io"}
    assert {key: made.get(key) for key in ("dnsNames", "uris") if key in made} == names


@pytest.mark.parametrize(
    ("chart", "values", "words"),
    [
        ("agent", {"podMonitor": {"enabled": True}}, "needs metrics.enabled"),
        ("dispatcher", {"networkPolicy": {"http": []}}, "/networkPolicy/http"),
        ("dispatcher", {"podDisruptionBudget": {"maxUnavailable": 2}}, "/podDisruptionBudget/maxUnavailable"),
        ("dispatcher", {**VALUES["dispatcher"], "gateway": {"certManager": CERTIFICATES}}, "certManager.dnsNames"),
        (
            "agent",
            {**VALUES["agent"], "gateway": {"urls": ["wss://x"], "certManager": {"enabled": True}}},
            "issuerRef.name",
        ),
    ],
)
def test_what_cannot_work_is_refused(helm: Helm, chart: str, values: dict[str, Any], words: str) -> None:
    with pytest.raises(HelmError) as refused:
        helm.template(chart, values)
    assert words in str(refused.value)
