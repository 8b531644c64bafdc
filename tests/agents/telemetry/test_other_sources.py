"""node_exporter, load-watcher and a file: what they say, and what is made of it."""

import json
import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from agents.observer.loads import Measure
from agents.observer.seen import NodeTarget
from agents.telemetry.load_watcher import LoadWatcher, read_watcher
from agents.telemetry.node_exporter import NodeExporters, read_page
from agents.telemetry.source import SourceError
from agents.telemetry.static_file import StaticFile, read_file
from agents.telemetry.web import Pool
from tests.agents.telemetry.servers import LIMITS, NOW, answering, serving, web_at

TARGETS = {
    "n1": NodeTarget("n1", "10.0.0.1", cpu=8000, memory=1000, addresses=("10.0.0.1",)),
    "n2": NodeTarget("n2", "10.0.0.2", cpu=4000, memory=1000),
}
PAGE = b"""# HELP node_cpu_seconds_total Seconds the CPUs spent in each mode.
# TYPE node_cpu_seconds_total counter
node_cpu_seconds_total{cpu="0",mode="idle"} 1000
node_cpu_seconds_total{cpu="0",mode="iowait"} 50
node_cpu_seconds_total{cpu="0",mode="steal"} 9
node_cpu_seconds_total{cpu="0",mode="system"} 20
node_cpu_seconds_total{cpu="0",mode="user"} 30
node_cpu_seconds_total{cpu="1",mode="user"} 1.5e+02
# TYPE node_disk_io_now gauge
node_disk_io_now{device="sda"} NaN
# TYPE node_memory_MemAvailable_bytes gauge
node_memory_MemAvailable_bytes 4e+09
# TYPE node_memory_MemTotal_bytes gauge
node_memory_MemTotal_bytes 1.6e+10
# TYPE node_network_receive_bytes_total counter
node_network_receive_bytes_total{device="eth0"} 100
node_network_receive_bytes_total{device="eth1"} 200
node_network_receive_bytes_total{device="lo"} 1e+09
node_network_receive_bytes_total{device="veth12ab"} 1e+09
# TYPE node_network_speed_bytes gauge
node_network_speed_bytes{device="eth0"} 1.25e+09
node_network_speed_bytes{device="eth1"} -125000
# TYPE node_pressure_cpu_waiting_seconds_total counter
node_pressure_cpu_waiting_seconds_total 7.5
# TYPE node_time_seconds gauge
node_time_seconds 1.79999999e+09
"""


def test_a_page_of_node_exporter_gives_counters_with_the_exporters_own_time() -> None:
    at = 1_799_999_990.0
    assert read_page(PAGE, NOW).measures == {
        "cpu": Measure(200.0, at, counter=True, parts=("0", "1"), age=10.0),
        "memory": Measure(1.2e10, at, age=10.0),
        "network_receive": Measure(300.0, at, counter=True, parts=("eth0", "eth1"), age=10.0),
        "link_speed": Measure(1.25e9, at, age=10.0),
        "pressure_cpu": Measure(7.5, at, counter=True, age=10.0),
    }


def test_only_the_interfaces_that_are_chosen_count() -> None:
    assert read_page(PAGE, NOW, "eth1").measures["network_receive"].parts == ("eth1",)


def test_without_a_clock_of_its_own_the_servers_date_is_the_time() -> None:
    page = PAGE.replace(b"node_time_seconds 1", b"node_other 1")
    assert read_page(page, NOW).measures["memory"] == Measure(1.2e10, NOW)
    with pytest.raises(SourceError, match="without a time"):
        read_page(page)


@pytest.mark.parametrize("body", [b"", b"<html>", b"node_cpu_seconds_total{", b"\xff\xfe", b"node_cpu_seconds_total x"])
def test_a_page_that_is_none_is_a_source_error(body: bytes) -> None:
    with pytest.raises(SourceError):
        read_page(body, NOW)


async def test_a_node_exporter_is_asked_at_the_nodes_address_for_what_is_read() -> None:
    async with serving(answering(PAGE)) as base:
        source = NodeExporters(("http", int(base.rpartition(":")[2])), LIMITS, Pool())
        sample = await source.sample(NodeTarget("n1", "127.0.0.1"))
        for address, problem in (("", "no InternalIP"), ("169.254.169.254", "metadata address")):
            with pytest.raises(SourceError, match=problem):
                await source.sample(NodeTarget("n1", address))
        await source.close()
    assert sample.measures["memory"].value == 1.2e10


# As load-watcher's own documentation shows an answer, with an operator more.
WATCHER = {
    "timestamp": int(NOW) - 30,
    "window": {"duration": "15m", "start": int(NOW) - 930, "end": int(NOW) - 30},
    "source": "Prometheus",
    "data": {
        "NodeMetricsMap": {
            "n1": {
                "metrics": [
                    {"name": "host.cpu.utilisation", "type": "CPU", "operator": "Std", "value": 3},
                    {
                        "name": "host.cpu.utilisation",
                        "type": "CPU",
                        "operator": "Average",
                        "rollup": "15m",
                        "value": 50,
                    },
                    {"name": "host.memory.utilisation", "type": "Memory", "operator": "Average", "value": 20},
                    {"name": "net", "type": "Bandwidth", "operator": "Average", "value": 1e12},
                ],
                "tags": {},
                "metadata": {"dataCenter": "data-center-1"},
            },
            "10.0.0.2": {"metrics": [{"type": "CPU", "operator": "Average", "value": 120}]},
            "stranger": {"metrics": []},
        }
    },
}


def test_load_watcher_tells_cpu_and_memory_in_percent() -> None:
    answer = read_watcher(json.dumps(WATCHER).encode(), NOW, TARGETS)
    assert {node: sample.measures for node, sample in answer.samples.items()} == {
        "n1": {"cpu": Measure(4.0, NOW - 30, age=30.0), "memory": Measure(200.0, NOW - 30, age=30.0)}
    }
    assert (answer.matching.unmatched_names, answer.rejected["out of range"]) == (["name=stranger"], 1)


async def test_load_watcher_is_asked_for_all_nodes() -> None:
    async with serving(answering(json.dumps(WATCHER).encode())) as base:
        source = LoadWatcher("load-watcher", web_at(base))
        assert list((await source.sample_all(TARGETS)).samples) == ["n1"]
        await source.close()


def test_two_names_of_one_node_are_ambiguous_to_load_watcher_and_in_a_file() -> None:
    cpu = {"metrics": [{"type": "CPU", "operator": "Average", "value": 1}]}
    told = {**WATCHER, "data": {"NodeMetricsMap": {"n1": cpu, "10.0.0.1": cpu}}}
    file = {"nodes": {"n1": {"cpu": 0}, "10.0.0.1": {"cpu": 0}}}
    for answer in (
        read_watcher(json.dumps(told).encode(), NOW, TARGETS),
        read_file(json.dumps(file).encode(), NOW, NOW, TARGETS),
    ):
        assert (answer.samples, answer.matching.ambiguous_names) == ({}, ["n1 twice"])


YAML = b"""
sampled_at: 2027-01-15T08:00:00Z
nodes:
  n1: {cpu: 0.5, memory: 0.25, disk_busy: 0.1, network_receive: 1.5e+6, gpu: -1, Wrong: 1, yes: true}
  stranger: {cpu: 0}
"""


def test_a_file_tells_shares_and_bytes() -> None:
    at = datetime(2027, 1, 15, 8, tzinfo=UTC).timestamp()
    assert at == NOW
    answer = read_file(YAML, 0.0, NOW + 5, TARGETS)
    values = {"cpu": 4.0, "memory": 250.0, "disk_busy": 0.1, "network_receive": 1.5e6}
    assert answer.samples["n1"].measures == {name: Measure(value, at, age=5.0) for name, value in values.items()}
    assert answer.matching.unmatched_names == ["name=stranger"]
    assert dict(answer.rejected) == {"negative": 1, "no number": 2}


@pytest.mark.parametrize("told", ['"2027-01-15T08:00:00+00:00"', "2027-01-15 08:00:00", "1800000000", "1.8e+9"])
def test_a_file_tells_its_time_in_any_usual_form(told: str) -> None:
    answer = read_file(f"sampled_at: {told}\nnodes: {{n1: {{cpu: 0}}}}".encode(), 0.0, NOW, TARGETS)
    assert answer.samples["n1"].measures["cpu"] == Measure(0.0, NOW)


async def test_a_file_is_as_old_as_it_was_written_unless_it_is_constant(tmp_path: Path) -> None:
    file = tmp_path / "load.json"
    file.write_text('{"nodes": {"n1": {"cpu": 0.5}}}')
    os.utime(file, (1e9, 1e9))
    ages = []
    for constant in (False, True):
        answer = await StaticFile("file", str(file), constant=constant).sample_all(TARGETS)
        ages.append(answer.samples["n1"].measures["cpu"].age)
    assert ages[0] > 1e7
    assert ages[1] == 0.0


async def test_a_file_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    (tmp_path / "large").write_bytes(b" " * (2**20 + 1) + b"{")
    for name, problem in (("none", "cannot be read"), ("large", "write it as JSON")):
        with pytest.raises(SourceError, match=rf"{name}.*{problem}"):
            await StaticFile("file", str(tmp_path / name)).sample_all(TARGETS)
