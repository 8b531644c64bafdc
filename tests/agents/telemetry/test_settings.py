"""The telemetry section: what it refuses and in which words, and what follows from it."""

from pathlib import Path

import pytest
from pydantic import ValidationError

from agents.observer.changes import ChangeLog
from agents.observer.loads import Loads
from agents.runtime.readings import Readings
from agents.runtime.settings import AgentSettings
from shared.kube.client import KubeClient, Patience
from shared.kube.session import Access

URL = "https://prometheus.monitoring:9090"
OWN = {"signal": "queue", "query": "depth", "sampled_at": "timestamp(depth)"}


def settings(**telemetry: object) -> AgentSettings:
    return AgentSettings.model_validate({"cluster": "east", "telemetry": telemetry})


def prometheus(**more: object) -> dict[str, object]:
    return {"prometheus": [{"url": URL, **more}]}


WRONG: dict[str, tuple[dict[str, object], str]] = {
    "an unknown key": ({"promethius": []}, "telemetry.promethius"),
    "no url": ({"prometheus": [{}]}, "prometheus.0.url"),
    "another scheme": (prometheus(url="file:///etc/passwd"), "must begin with http:// or https://"),
    "no host": (prometheus(url="http://"), "name a host"),
    "credentials in the url": (prometheus(url="https://me:pw@host"), "credentials come from files"),
    "a token over http": (prometheus(url="http://host", token_file="t"), "use https, or insecure"),
    "a user without a password": (prometheus(user="me"), "user and password_file belong together"),
    "two ways to authenticate": (prometheus(user="me", password_file="p", token_file="t"), "exclude each other"),
    "a key without a certificate": (prometheus(key_file="k"), "key_file needs cert_file"),
    "a wrong network": (prometheus(allow_addresses=["169.254.0.0/99"]), "allow_addresses"),
    "an unknown set": (prometheus(sets=["node-exporter"]), "there are cadvisor, dcgm"),
    "a wrong window": (prometheus(window="2 minutes"), "window"),
    "a wrong label": (prometheus(node_labels=["no de"]), "no name of a label"),
    "an unknown placeholder": (prometheus(queries=[{**OWN, "query": "x{a=~'b$'}"}]), "write \\$\\$"),
    "a range the wrong way": (prometheus(queries=[{**OWN, "range": [1, 0]}]), "the lower first"),
    "a query without a time": (prometheus(queries=[{"signal": "a", "query": "b"}]), "sampled_at"),
    "two of one name": ({"prometheus": [{"url": URL}, {"url": URL}]}, "a name of its own"),
    "the kubelet's name": (prometheus(name="kubelet"), "a name of its own"),
    "an order of nobody": ({"order": {"cpu": []}}, "must name a source"),
    "an order of strangers": ({"order": {"cpu": ["grafana"]}}, "'grafana', which is no source: kubelet"),
    "an order of no signal": ({"order": {"cup": ["kubelet"]}}, "'cup', which is no signal: cpu, memory"),
}


@pytest.mark.parametrize("fault", WRONG)
def test_what_cannot_be_is_refused_with_the_key_and_the_fix(fault: str) -> None:
    telemetry, problem = WRONG[fault]
    with pytest.raises(ValidationError, match=problem):
        settings(**telemetry)


def test_without_a_word_kubelets_are_the_only_source() -> None:
    told = settings()
    assert told.telemetry.preference().default == ("kubelet",)
    assert [signal.name for signal in told.all_signals()] == ["cpu", "memory", "network"]


def test_sources_go_before_kubelets_as_they_are_listed() -> None:
    told = settings(**prometheus(), file=[{"path": "x"}], node_exporter=[{}], metrics_api={"enabled": True})
    names = ("prometheus", "node_exporter", "file", "kubelet", "metrics.k8s.io")
    assert told.telemetry.preference().of("cpu") == names


def test_a_query_of_ones_own_is_a_signal() -> None:
    told = settings(**prometheus(queries=[OWN]), order={"queue": ["prometheus"]})
    assert [signal.name for signal in told.all_signals()][-1] == "queue"


def test_a_query_of_ones_own_goes_before_a_set_and_an_earlier_set_before_a_later_one() -> None:
    own = {**OWN, "signal": "disk_busy"}
    (source,) = settings(**prometheus(queries=[own], sets=["kube_prometheus", "node_exporter"])).telemetry.prometheus
    found = {one.measure: one.query for one in source.all_queries("east")}
    assert found["disk_busy"] == "depth"
    assert found["cpu"].startswith("max by (node, kubernetes_node, nodename, Hostname, instance) (instance:node_cpu")
    assert "node_network_speed_bytes" in found["link_speed"]


def test_only_what_signals_are_made_of_is_asked_for() -> None:
    (source,) = settings(**prometheus()).telemetry.prometheus
    assert [one.measure for one in source.all_queries("east", frozenset({"cpu", "pressure_io"}))] == [
        "cpu",
        "pressure_io",
    ]


@pytest.mark.parametrize(
    ("telemetry", "asked"),
    [
        ({}, {"kubelet"}),
        (prometheus(), {"prometheus", "kubelet"}),
        ({**prometheus(), "order": {"default": ["prometheus"]}}, {"prometheus"}),
        ({**prometheus(), "order": {"default": ["kubelet"]}}, {"kubelet"}),
        ({"node_exporter": [{}], "order": {"network": ["node_exporter"]}}, {"node_exporter", "kubelet"}),
        ({"metrics_api": {"enabled": True}, "order": {"default": ["metrics.k8s.io"]}}, {"metrics.k8s.io"}),
    ],
)
async def test_only_sources_that_an_order_names_are_asked(
    tmp_path: Path, telemetry: dict[str, object], asked: set[str]
) -> None:
    told = settings(**telemetry)
    client = KubeClient(Access(str(tmp_path / "none"), ""), Patience(1.0, 1.0))
    loads = Loads(ChangeLog(), tau_s=0)
    readings = Readings(client, {}, loads, told)
    assert set(readings.status) == asked
    await readings.close()
    await client.close()
