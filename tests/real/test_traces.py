"""Traces of pods at a real OpenTelemetry collector: a dispatcher with embedded clusters sends them.

The program is not built for this test, as it takes a minute. Build it once:

    cd tests/real/otel_collector && go build -o ~/.cache/global-dispatcher/otel-collector-v0.165.0 .
"""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from localfleet.controlplane import binaries
from tests.system.cluster_api import deployment, eventually
from tests.system.harness import System, specs
from tests.system.ray_fleet import Process, environment, free_ports

SOURCE = Path(__file__).parent / "otel_collector"
VERSION = re.search(r"collector/otelcol (v\S+)", (SOURCE / "go.mod").read_text())
PROGRAM = binaries.cache_directory().parent / f"otel-collector-{VERSION[1] if VERSION else ''}"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
PODS = 4
PARTS = {"queue", "decide", "intent", "bound shown"}  # docs/operations.md
WAIT_S = 30.0


class Collector(Process):
    """Takes traces over HTTP and writes each span to its log."""

    def __init__(self, folder: Path) -> None:
        (port,) = free_ports(1)
        self.endpoint = f"http://127.0.0.1:{port}/v1/traces"
        settings = {
            "receivers": {"otlp": {"protocols": {"http": {"endpoint": f"127.0.0.1:{port}"}}}},
            "exporters": {"debug": {"verbosity": "detailed", "sampling_initial": 10**6}},
            "service": {
                "telemetry": {"metrics": {"level": "none"}},
                "pipelines": {"traces": {"receivers": ["otlp"], "exporters": ["debug"]}},
            },
        }
        config = folder / "collector.yaml"
        config.write_text(yaml.safe_dump(settings))
        super().__init__([str(PROGRAM), "--config", f"file:{config}"], folder / "collector.log", environment())

    def spans(self) -> list[dict[str, str]]:
        """What each span says of itself: `Name`, `Trace ID`, `Parent ID`, and its attributes by `-> name`."""
        _, *blocks = re.split(r"^Span #\d+$", self.log.read_text(), flags=re.MULTILINE)
        return [
            dict(re.findall(r"^ +(-> \w+|[A-Z][A-Za-z]+(?: ID| time)?) *: (.*)$", one, re.MULTILINE)) for one in blocks
        ]


@pytest.fixture
def collector(tmp_path: Path) -> Iterator[Collector]:
    if not PROGRAM.exists():
        pytest.skip(f"no OpenTelemetry collector: cd {SOURCE} && go build -o {PROGRAM} .")
    with Collector(tmp_path) as one:
        eventually(lambda: one.code is not None or "Everything is ready" in one.log.read_text(), WAIT_S, one.tail)
        assert one.code is None, one.tail()
        yield one


def test_a_collector_is_sent_the_whole_way_of_each_pod(collector: Collector, tmp_path: Path) -> None:
    tracing = {"enabled": True, "share": 1.0, "endpoint": collector.endpoint}
    with System(tmp_path / "fleet", specs(nodes=2), {"tracing": tracing}) as system:
        system.wait_ready()
        assert system.home.create(DEPLOYMENTS, deployment("traced", PODS, requests={"cpu": "100m"})).status_code == 201
        system.wait_running(PODS, 60)
        eventually(lambda: len(wholes(collector)) == PODS, WAIT_S, lambda: system.log + collector.tail())
        pods = {f"Str(default/{pod['metadata']['name']})" for pod in system.home.pods()}
    assert {one["-> pod"] for one in wholes(collector)} == pods
    for whole in wholes(collector):
        parts = [one for one in collector.spans() if one["Trace ID"] == whole["Trace ID"] and one is not whole]
        assert {one["Parent ID"] for one in parts if one["Name"] != "pod"} == {whole["ID"]}
        assert {one["Name"] for one in parts} - {"pod"} == PARTS
        assert whole["-> result"] == "Str(shown)"


def wholes(collector: Collector) -> list[dict[str, str]]:
    return [one for one in collector.spans() if one["Name"] == "pod"]
