"""Every query of the Grafana dashboard and every alert, asked of a real Prometheus that scrapes a fleet at work."""

import itertools
import re
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from dispatcher.service.gateway.authority import ensure
from docs.generate import dashboard
from localfleet.embedded.fleet import EmbeddedFleet
from tests.charts.rendering import NAMES, Helm, alert_rules
from tests.real.debian import needed
from tests.real.prometheus import Monitoring, Server
from tests.system.cluster_api import ClusterApi, eventually
from tests.system.dialled import CLUSTERS, Dispatcher, pod, settings
from tests.system.ray_fleet import JoinedAgent, free_ports

# As Grafana fills them in; the dashboard's variable `cluster` is "all" at first.
VARIABLES = {"$__rate_interval": "15s", "$__range": "15m", "$cluster": ".*"}
# Counters by a label that have no series before the first event.
NOTHING_IN_A_HEALTHY_FLEET = {
    "Errors of the core",
    "Questions to sources that fail",
    "Evictions that give quota back, a second",
}
TENANTS = {"tenants": [{"name": "web", "namespaces": ["default"], "nominal": {"cpu": "8", "pods": 100}}]}


class Metrics:
    """What Prometheus answers."""

    def __init__(self, server: Server) -> None:
        self._server = server

    def series(self, query: str) -> list[dict[str, Any]]:
        """Its result; a query that cannot be parsed fails with Prometheus' words."""
        answer = httpx.get(f"{self._server.url}/api/v1/query", params={"query": query}, trust_env=False, timeout=10)
        assert answer.status_code == 200, f"{query}: {answer.text}"
        result: list[dict[str, Any]] = answer.json()["data"]["result"]
        return result


@pytest.fixture
def metrics(tmp_path: Path, fleet: EmbeddedFleet) -> Iterator[Metrics]:
    """Of a dispatcher and two agents, while pods come, and one of them fits nowhere."""
    programs = needed("prometheus")
    certificates = tmp_path / "certificates"
    ensure(certificates, ["127.0.0.1"], CLUSTERS)
    (tmp_path / "tenants.yaml").write_text(yaml.safe_dump(TENANTS))
    with ExitStack() as stack:
        more = {"tenants": str(tmp_path / "tenants.yaml")}
        dispatcher = stack.enter_context(Dispatcher(tmp_path, certificates, 0, more))
        ports = [dispatcher.port, *free_ports(len(CLUSTERS))]
        for name, port in zip(CLUSTERS, ports[1:], strict=True):
            told = settings(fleet, name, certificates, dispatcher.gateway_port)
            (tmp_path / name).mkdir()
            served = {"metrics": {"enabled": True, "port": port}}
            stack.enter_context(JoinedAgent(tmp_path / name, {**told, **served}))
        monitoring = Monitoring(tmp_path, programs)
        stack.callback(monitoring.stop)
        eventually(lambda: dispatcher.ready() == [True, True], 90, dispatcher.tail)
        prometheus = monitoring.scrape([(f"127.0.0.1:{port}", {}) for port in ports])
        east = ClusterApi(fleet.kubeconfig, "east")
        stack.callback(east.close)
        nowhere = pod("nowhere", "west")
        nowhere["spec"]["nodeSelector"] = {"disk": "none-has-it"}
        _create(east, nowhere)
        seen = Metrics(prometheus)
        eventually(lambda: prometheus.answers("/-/ready"), 30, dispatcher.tail)
        names = (f"web-{number}" for number in itertools.count())

        def shown() -> bool:
            """Another pod a call: what is counted has to have grown since the first scrape."""
            _create(east, pod(next(names), "west"))
            return not without_series(seen) - NOTHING_IN_A_HEALTHY_FLEET

        eventually(shown, 60, lambda: f"panels without a line: {sorted(without_series(seen))}")
        yield seen


def test_every_panel_shows_something_and_the_one_alert_that_should_is_due(metrics: Metrics, helm: Helm) -> None:
    rules = [rule for chart in NAMES for rule in alert_rules(helm, chart)]
    firing = [rule["alert"] for rule in rules if metrics.series(rule["expr"])]
    assert firing == ["GlobalDispatcherPodsUnschedulable"], "one pod fits nowhere, and nothing else is wrong"


def without_series(metrics: Metrics) -> set[str]:
    """The panels with a query that finds nothing."""
    return {
        panel.title
        for panel in itertools.chain(*dashboard.ROWS.values())
        for query, _ in panel.queries
        if not metrics.series(filled(query))
    }


def filled(query: str) -> str:
    """The query with the dashboard's variables as Grafana fills them in."""
    for name, value in VARIABLES.items():
        query = query.replace(name, value)
    assert not re.findall(r"\$\w+", query), f"a variable that is not known: {query}"
    return query


def _create(api: ClusterApi, one: dict[str, Any]) -> None:
    assert api.create("/api/v1/namespaces/default/pods", one).status_code == 201
