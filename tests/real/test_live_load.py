"""Live load end to end: stress-ng and iperf3 on two measured nodes, node_exporter, Prometheus, agent, dispatcher, and
where the pods of a real control plane go. Once readings end, requests decide within the age that the profile states.

n1 has the fewer requests, so pods go there unless it is read to be busy.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from localfleet.controlplane.nodes import NodeSpec
from localfleet.controlplane.plane import ControlPlane
from tests.controlplane.fixtures import ControlPlanes
from tests.real.debian import needed
from tests.real.fleet import RealFleet
from tests.real.measured_nodes import MEMORY, RATE, MeasuredNode, Scraping, unavailable
from tests.system.cluster_api import eventually
from tests.system.harness import HOME, System
from tests.system.ray_fleet import free_ports

FRESH_S, STALE_S = 5.0, 10.0  # of the profile
WAIT_S = 30.0
PODS = "/api/v1/namespaces/default/pods"
FRESH, STALE = "fresh", "stale, by requests"
BUSY = 0.3  # share of a node's CPU or network, above which no pod goes there
SOURCE = {"source": "prometheus"}
Record = dict[str, Any]

pytestmark = pytest.mark.skipif(bool(unavailable()), reason=unavailable())


class LiveFleet(RealFleet):
    """One plane, whose agent reads its nodes from a Prometheus and nowhere else."""

    def __init__(self, plane: ControlPlane, folder: Path, prometheus: str) -> None:
        super().__init__({HOME: plane}, folder)
        (self.metrics_port,) = free_ports(1)
        source = {"url": prometheus, "interval_s": 1, "window": "5s", "sets": ["node_exporter"]}
        self._agent = {
            "kubelet": {"smoothing_s": 0, "bandwidth": RATE},
            "telemetry": {"prometheus": [source], "order": {"default": ["prometheus"]}, "stale_s": FRESH_S},
            "metrics": {"enabled": True, "port": self.metrics_port},
        }

    def members(self) -> list[Record]:
        """With all rights: which ones the chart gives is tested elsewhere."""
        return [{"name": HOME, "context": HOME, "kubeconfig": str(self.kubeconfig), "agent": self._agent}]


class Live:
    """The nodes, what reads them, and the dispatcher that places by it."""

    def __init__(self, system: System, nodes: dict[str, MeasuredNode], scraping: Scraping, metrics_port: int) -> None:
        self.system, self.nodes, self.scraping = system, nodes, scraping
        self._metrics, self._pods = f"http://127.0.0.1:{metrics_port}/metrics", 0

    def used(self, node: str, signal: str) -> float:
        """What the dispatcher knows of a node, 0 for nothing."""
        (row,) = (one for one in self.system.get("/v1/nodes") if one["name"] == node)
        return float(row["load"][signal]["used"] or 0.0)

    def until_used(self, node: str, signal: str, holds: Callable[[float], bool]) -> None:
        eventually(lambda: holds(self.used(node, signal)), WAIT_S, lambda: f"{self.system.get('/v1/nodes')}")

    def place(self) -> Record:
        """The record of one more pod, which is deleted once it is decided."""
        self._pods += 1
        name = f"p{self._pods}"
        container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}}}
        spec = {"schedulerName": "global-dispatcher", "containers": [container]}
        answer = self.system.home.create(PODS, {"metadata": {"name": name}, "spec": spec})
        assert answer.status_code == 201, answer.text
        eventually(lambda: self._decided(name), WAIT_S, lambda: self.system.log)
        record: Record = self.system.explain(name)["decision"]
        self.system.home.delete(f"{PODS}/{name}", gracePeriodSeconds="0")
        return record

    def _decided(self, name: str) -> bool:
        return bool((self.system.explain(name)["decision"] or {}).get("outcome") == "scheduled")

    def until_pods_go_to(self, node: str, judged: str) -> Record:
        """The first record of a pod that goes there, and is judged so by all signals. What is too old never counts."""
        records: list[Record] = []

        def there() -> bool:
            records.append(self.place())
            signals = records[-1]["extras"]["ExpectedLoad"].values()
            assert all(one["judged"] == STALE for one in signals if (one["age_s"] or 0.0) >= STALE_S)
            return records[-1]["decision"]["node"] == node and {one["judged"] for one in signals} == {judged}

        eventually(there, WAIT_S, lambda: f"{records[-1]}")
        return records[-1]

    def metric(self, name: str, **labels: str) -> float:
        """Of the agent; 0 where it has none of these labels."""
        text = httpx.get(self._metrics, timeout=10, trust_env=False).text
        samples = (one for family in text_string_to_metric_families(text) for one in family.samples)
        return sum(
            one.value for one in samples if one.name == f"global_dispatcher_agent_{name}" and one.labels == labels
        )

    def until_told(self, name: str, holds: Callable[[float], bool], **labels: str) -> None:
        eventually(lambda: holds(self.metric(name, **labels)), WAIT_S, lambda: f"{name} {self.metric(name, **labels)}")


def profile(folder: Path) -> str:
    """The default one, but for how long readings count."""
    aged = {"name": "ExpectedLoad", "weight": 4, "args": {"fresh_s": FRESH_S, "stale_s": STALE_S}}
    (folder / "profile.yaml").write_text(yaml.safe_dump({"extends": "default", "plugins": [aged]}))
    return str(folder / "profile.yaml")


@pytest.fixture(scope="module")
def live(control_plane: ControlPlanes, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    programs = needed("prometheus", "prometheus-node-exporter", "stress-ng", "iperf3")
    folder = tmp_path_factory.mktemp("live")
    with ExitStack() as stack:
        nodes: dict[str, MeasuredNode] = {}
        for name in ("n1", "n2"):
            nodes[name] = MeasuredNode(name, folder / name, programs)
            stack.callback(nodes[name].close)
        scraping = Scraping(folder / "prometheus", programs["prometheus"], list(nodes.values()))
        stack.callback(scraping.close)
        shapes = [NodeSpec(name, cpu="8", memory=str(MEMORY), address=node.cable.node) for name, node in nodes.items()]
        plane = control_plane(HOME, nodes=shapes)
        there = {"cpu": "600m", "memory": "2Gi"}  # less than what teaches us what pods use of their requests
        container = {"name": "main", "image": "none", "resources": {"requests": there}}
        plane.admin.create(PODS, {"metadata": {"name": "there"}, "spec": {"nodeName": "n2", "containers": [container]}})
        fleet = LiveFleet(plane, folder, scraping.url)
        system = stack.enter_context(System(folder, fleet, {"profile": profile(folder)}))
        system.wait_ready()
        yield Live(system, nodes, scraping, fleet.metrics_port)


LOADS: dict[str, Callable[[MeasuredNode], AbstractContextManager[None]]] = {
    "cpu": MeasuredNode.computing,
    "network": MeasuredNode.sending,
}


@pytest.mark.parametrize("signal", LOADS)
def test_pods_leave_a_node_that_is_read_to_be_busy_and_come_back(live: Live, signal: str) -> None:
    live.until_pods_go_to("n1", FRESH)
    with LOADS[signal](live.nodes["n1"]):
        live.until_used("n1", signal, lambda used: used > BUSY)
        record = live.until_pods_go_to("n2", FRESH)
        assert live.used("n2", signal) < BUSY
    assert record["readings"][signal]["source"] == "prometheus"
    live.until_used("n1", signal, lambda used: used < BUSY)
    live.until_pods_go_to("n1", FRESH)


FAULTS: dict[str, Callable[[Live], AbstractContextManager[None]]] = {
    "the exporter": lambda live: live.nodes["n1"].without_exporter(),
    "the link": lambda live: live.nodes["n1"].without_link(),
    "Prometheus": lambda live: live.scraping.dead(),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_without_readings_requests_decide_and_explain_and_metrics_say_so(live: Live, fault: str) -> None:
    """n1 is busy all the time: as long as that is known pods go to n2, by requests they go to n1."""
    with live.nodes["n1"].computing():
        live.until_used("n1", "cpu", lambda used: used > BUSY)
        live.until_pods_go_to("n2", FRESH)
        errors = live.metric("source_errors_total", **SOURCE)
        with FAULTS[fault](live):
            record = live.until_pods_go_to("n1", STALE)
            assert all(one["age_s"] >= STALE_S for one in record["extras"]["ExpectedLoad"].values())
            if fault == "Prometheus":
                live.until_told("source_up", lambda up: up == 0.0, **SOURCE)
                live.until_told("source_age_seconds", lambda age: age > STALE_S, **SOURCE)
                assert live.metric("source_errors_total", **SOURCE) > errors
            else:
                live.until_told("source_silent_nodes", lambda count: count == 1.0, **SOURCE)
                assert live.metric("source_up", **SOURCE) == 1.0
            assert live.metric("unread_nodes", signal="cpu") >= 1.0
            assert live.metric("reading_age_seconds", **SOURCE, signal="cpu", quantile="1") >= STALE_S
        live.until_pods_go_to("n2", FRESH)
