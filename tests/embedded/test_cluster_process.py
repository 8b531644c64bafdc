"""One cluster as a process: it answers, survives a kill on the same address, and goes when told to."""

import asyncio
import base64
import json
import os
import signal
import ssl
import stat
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from itertools import product
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import pytest_asyncio
import yaml
from typer.testing import CliRunner

from localfleet.embedded import kubeconfig
from localfleet.embedded.__main__ import app
from localfleet.embedded.fleet import ClusterSpec, EmbeddedFleet
from localfleet.embedded.metrics_server.points import read_page
from tests.contract.client import Api
from tests.contract.foreign_nodes import running_at
from tests.contract.stream_kubelet import WEBSOCKET, kubelet, switched
from tests.embedded.simulated import Object, pod

TIMERS = ("--heartbeat-s", "1", "--node-monitor-grace-s", "5")
PATIENCE_S = 120.0


class Remote:
    """What a client of one cluster knows: its kubeconfig."""

    def __init__(self, path: Path, session: aiohttp.ClientSession) -> None:
        config = kubeconfig.read(path)
        entry = config["clusters"][0]["cluster"]
        self.server: str = entry["server"]
        self.token: str = config["users"][0]["user"]["token"]
        self.authority: str = entry["certificate-authority-data"]
        self.trust = ssl.create_default_context(cadata=base64.b64decode(self.authority).decode())
        self.session = session

    async def ask(self, path: str, method: str = "GET", body: object = None, token: str | None = None) -> Any:
        """One call, of a path of the API or of a whole URL; raises for an error status."""
        url = path if path.startswith("https") else self.server + path
        headers = {"Authorization": f"Bearer {self.token if token is None else token}"}
        async with self.session.request(method, url, json=body, headers=headers, ssl=self.trust) as answer:
            answer.raise_for_status()
            return await (answer.json() if answer.content_type == "application/json" else answer.text())

    async def annotate_node(self, name: str, notes: dict[str, str | None]) -> None:
        """Set and remove (None) annotations."""
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/merge-patch+json"}
        body = json.dumps({"metadata": {"annotations": notes}})
        url = f"{self.server}/api/v1/nodes/{name}"
        async with self.session.patch(url, data=body, headers=headers, ssl=self.trust) as answer:
            answer.raise_for_status()

    async def run_pod(self, body: Object) -> Object:
        """Create a pod and wait until it runs."""
        whole = {"apiVersion": "v1", "kind": "Pod", **body}
        await self.ask("/api/v1/namespaces/default/pods", "POST", whole)
        return await self.until_phase(body["metadata"]["name"], "Running")

    async def until_phase(self, name: str, phase: str) -> Object:
        """Wait for a pod's phase."""
        end = time.monotonic() + PATIENCE_S
        while time.monotonic() < end:
            found: Object = await self.ask(f"/api/v1/namespaces/default/pods/{name}")
            if found["status"]["phase"] == phase:
                return found
            await asyncio.sleep(0.02)
        raise AssertionError(f"pod {name} is not {phase}")


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedFleet]:
    """One cluster of three nodes, shared by the tests of this file."""
    specs = [ClusterSpec("east", nodes=3, options=TIMERS)]
    with EmbeddedFleet.start(specs, tmp_path_factory.mktemp("fleet")) as found:
        yield found


@pytest_asyncio.fixture
async def east(fleet: EmbeddedFleet) -> AsyncIterator[Remote]:
    """A client of it."""
    async with aiohttp.ClientSession() as session:
        yield Remote(fleet.kubeconfig, session)


async def kubelet_url(remote: Remote, node: str) -> str:
    """The base URL of a node's kubelet, as a client finds it."""
    status = (await remote.ask(f"/api/v1/nodes/{node}"))["status"]
    address = next(entry["address"] for entry in status["addresses"] if entry["type"] == "InternalIP")
    return f"https://{address}:{status['daemonEndpoints']['kubeletEndpoint']['Port']}"


async def test_its_nodes_are_ready_and_free_of_taints_when_it_says_it_is(east: Remote) -> None:
    nodes = (await east.ask("/api/v1/nodes"))["items"]
    assert len(nodes) == 3
    assert not any(node["spec"].get("taints") for node in nodes)
    assert {node["metadata"]["labels"]["topology.kubernetes.io/zone"] for node in nodes} == {"a", "b", "c"}
    assert all(node["metadata"]["annotations"]["global-dispatcher.io/bandwidth"] == "1250M" for node in nodes)


async def test_each_node_answers_for_itself_on_its_own_address(east: Remote) -> None:
    await east.run_pod(pod("busy", cpu="1", node="east-node-001", net_rx="5M"))
    urls = {await kubelet_url(east, f"east-node-{number:03d}") for number in range(3)}
    assert len(urls) == 3
    first = await east.ask(await kubelet_url(east, "east-node-001") + "/stats/summary")
    second = await east.ask(await kubelet_url(east, "east-node-001") + "/stats/summary")
    other = await east.ask(await kubelet_url(east, "east-node-002") + "/stats/summary")
    assert (first["node"]["nodeName"], other["node"]["nodeName"]) == ("east-node-001", "east-node-002")
    assert [entry["podRef"]["name"] for entry in first["pods"]] == ["busy"]
    assert other["pods"] == []
    assert second["node"]["cpu"]["usageCoreNanoSeconds"] > first["node"]["cpu"]["usageCoreNanoSeconds"]
    assert second["node"]["network"]["rxBytes"] > first["node"]["network"]["rxBytes"]
    memory = first["node"]["memory"]
    assert memory["workingSetBytes"] + memory["availableBytes"] == pytest.approx(32 * 2**30, abs=2)
    assert first["node"]["network"]["interfaces"][0]["rxBytes"] == first["node"]["network"]["rxBytes"]


async def test_the_page_for_metrics_server_tells_what_the_summary_tells(east: Remote) -> None:
    made = await east.run_pod(pod("measured", cpu="1", memory="1Gi", node="east-node-002"))
    names = {container["name"] for container in made["spec"]["containers"]}
    url = await kubelet_url(east, "east-node-002")
    before = await east.ask(f"{url}/stats/summary")
    page = read_page(await east.ask(f"{url}/metrics/resource"), "east-node-002", 0.0)
    after = await east.ask(f"{url}/stats/summary")
    containers = page.pods["default", "measured"]
    assert containers.keys() == names
    assert all(one.at > one.started > 1e9 for one in containers.values())
    used = sum(one.cpu_s for one in containers.values()), page.nodes["east-node-002"].cpu_s
    assert all(first <= found <= last for first, found, last in zip(_cpu(before), used, _cpu(after), strict=True))
    memory = page.nodes["east-node-002"].memory
    assert memory == pytest.approx(before["node"]["memory"]["workingSetBytes"], rel=0.1)
    assert 0.9 * 2**30 < sum(one.memory for one in containers.values()) < 1.1 * 2**30


def _cpu(summary: Any) -> list[float]:
    """Core-seconds of pod measured, and of its node."""
    (there,) = (one for one in summary["pods"] if one["podRef"]["name"] == "measured")
    return [part["cpu"]["usageCoreNanoSeconds"] / 1e9 for part in (there, summary["node"])]


@pytest.mark.parametrize(
    "path", ["exec/default/entered/main", "attach/default/entered/main", "portForward/default/entered"]
)
async def test_why_a_pod_cannot_be_entered_is_no_mapping_of_yaml(east: Remote, path: str) -> None:
    """Older kubectl takes a mapping for a Status, and then says nothing but "Error from server: "."""
    with suppress(aiohttp.ClientResponseError):
        await east.run_pod(pod("entered", node="east-node-001"))
    url = await kubelet_url(east, "east-node-001")
    headers = {"Authorization": f"Bearer {east.token}"}
    async with east.session.get(f"{url}/{path}", headers=headers, ssl=east.trust) as answer:
        told = await answer.text()
    assert "where no container really runs" in told
    assert yaml.safe_load(told) == told


async def test_the_kubelet_wants_the_token_for_all_but_its_health(east: Remote) -> None:
    url = await kubelet_url(east, "east-node-000")
    assert await east.ask(url + "/healthz", token="") == "ok"
    for token, path in product(("", "wrong"), ("/stats/summary", "/metrics/resource", "/exec/default/web/main")):
        with pytest.raises(aiohttp.ClientResponseError, match="401"):
            await east.ask(url + path, token=token)


async def test_it_listens_on_no_other_address_than_its_own(east: Remote) -> None:
    port = int((await kubelet_url(east, "east-node-000")).rpartition(":")[2])
    with pytest.raises(OSError, match="Connect call failed"):
        await asyncio.open_connection("127.0.0.1", port)


async def test_a_node_can_be_made_hot_while_it_runs(east: Remote) -> None:
    notes: dict[str, str | None] = {"embedded.global-dispatcher.io/background-cpu": "0.9"}
    await east.annotate_node("east-node-002", notes)
    url = await kubelet_url(east, "east-node-002") + "/stats/summary"
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        summary = await east.ask(url)
        if summary["node"]["cpu"]["usageNanoCores"] >= 7.2e9:
            break
        await asyncio.sleep(0.02)
    assert 7.2e9 <= summary["node"]["cpu"]["usageNanoCores"] <= 8e9


async def test_a_lost_node_does_not_answer(east: Remote) -> None:
    url = await kubelet_url(east, "east-node-001") + "/stats/summary"
    for value, answers in (("down", False), (None, True)):
        await east.annotate_node("east-node-001", {"embedded.global-dispatcher.io/kubelet": value})
        assert await _answers(east, url) is answers


async def _answers(remote: Remote, url: str) -> bool:
    try:
        await remote.ask(url)
    except aiohttp.ClientConnectionError:
        return False
    return True


async def test_a_node_that_joins_later_gets_a_kubelet_and_an_address(east: Remote) -> None:
    resources = {"cpu": "4", "memory": "8Gi", "pods": "10"}
    labels = {"global-dispatcher.io/embedded-node": "true"}
    late = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "late", "labels": labels}}
    await east.ask("/api/v1/nodes", "POST", {**late, "status": {"capacity": resources, "allocatable": resources}})
    await east.run_pod(pod("guest", node="late"))
    summary = await east.ask(await kubelet_url(east, "late") + "/stats/summary")
    assert [entry["podRef"]["name"] for entry in summary["pods"]] == ["guest"]


async def test_after_a_kill_it_is_back_at_the_same_place_with_the_same_keys_and_pods(
    fleet: EmbeddedFleet, east: Remote
) -> None:
    before = await east.run_pod(pod("survivor", node="east-node-000"))
    kubelet = await kubelet_url(east, "east-node-000")
    fleet.kill("east")
    with pytest.raises(aiohttp.ClientConnectionError):
        await east.ask("/api/v1/nodes")
    fleet.restart("east")
    after = await east.ask("/api/v1/namespaces/default/pods/survivor")
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    assert after["status"]["containerStatuses"] == before["status"]["containerStatuses"]
    assert await kubelet_url(east, "east-node-000") == kubelet
    again = Remote(fleet.kubeconfig, east.session)
    assert (again.server, again.token, again.authority) == (east.server, east.token, east.authority)
    summary = await east.ask(kubelet + "/stats/summary")
    assert "survivor" in [entry["podRef"]["name"] for entry in summary["pods"]]


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "localfleet.embedded", *arguments]


async def test_an_open_exec_does_not_keep_it_from_ending_and_ends_with_it(tmp_path: Path) -> None:
    with EmbeddedFleet.start([ClusterSpec("brief", nodes=0)], tmp_path) as fleet:
        async with aiohttp.ClientSession() as session, kubelet() as (port, _):
            remote = Remote(fleet.kubeconfig, session)
            connector = aiohttp.TCPConnector(ssl=remote.trust)
            headers = {"Authorization": f"Bearer {remote.token}"}
            async with aiohttp.ClientSession(connector=connector, headers=headers) as own:
                api = Api(remote.server, own, "default")
                async with running_at(api, "echo-1", port):
                    path = api.at("pods", "echo-1", "exec")
                    async with switched(api, path, "GET", WEBSOCKET) as (_, reader, _):
                        assert await reader.readexactly(6) == b"first "
                        assert await asyncio.to_thread(fleet.terminate, "brief") == 0
                        assert await reader.read() == b""
                    fleet.restart("brief")


async def test_an_open_watch_does_not_keep_it_from_ending(tmp_path: Path) -> None:
    fleet = EmbeddedFleet.start([ClusterSpec("brief", nodes=0)], tmp_path)
    async with aiohttp.ClientSession() as session:
        remote = Remote(fleet.kubeconfig, session)
        headers = {"Authorization": f"Bearer {remote.token}"}
        url = remote.server + "/api/v1/pods?watch=true"
        async with session.get(url, headers=headers, ssl=remote.trust) as watch:
            assert watch.status == 200
            code = await asyncio.to_thread(fleet.terminate, "brief")
    assert code == 0


def test_it_ends_cleanly_on_sigterm(tmp_path: Path) -> None:
    state = tmp_path / "state"
    with subprocess.Popen(
        command("--name", "solo", "--nodes", "1", "--state-dir", str(state)), stdout=subprocess.PIPE
    ) as one:
        assert one.stdout is not None
        line = json.loads(one.stdout.readline())
        one.send_signal(signal.SIGTERM)
        assert one.wait(10) == 0
    assert line["ready"] is True
    path = Path(line["kubeconfig"])
    assert kubeconfig.read(path)["current-context"] == "solo"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--nodes", "3"], "--name"),
        (["--name", "a", "--node-shape", "cpus=8"], "'cpus=8' is not KEY=VALUE"),
        (["--name", "a", "--cpu", "1e999999"], "node shape: cpu"),
        (["--name", "a", "--nodes-csv", "missing.csv"], "missing.csv"),
        (["--name", "a", "--nodes-part", "4/3"], "--nodes-part"),
        (["--name", "a", "--zones", ","], "--zones"),
        (["--name", "East_1"], "--name: 'East_1'"),
    ],
)
def test_a_bad_command_line_is_refused_with_the_key(arguments: list[str], words: str) -> None:
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 2
    assert words in result.stderr


def test_a_node_that_the_api_refuses_is_named(tmp_path: Path) -> None:
    table = tmp_path / "nodes.csv"
    table.write_text("sn,cpu_milli,memory_mib,gpu,model\nNode_1,1000,1024,0,\n")
    result = subprocess.run(
        command("--name", "a", "--nodes-csv", str(table)), capture_output=True, text=True, check=False, timeout=120
    )
    assert result.returncode == 1
    assert 'cluster a: Node "Node_1" is invalid: metadata.name' in result.stderr


def test_a_state_directory_serves_one_process_at_a_time(fleet: EmbeddedFleet) -> None:
    taken = fleet.directory / "east"
    result = subprocess.run(
        command("--name", "east", "--state-dir", str(taken)), capture_output=True, text=True, check=False, timeout=120
    )
    assert result.returncode == 1
    assert f"{taken} is in use by another cluster process" in result.stderr


_PARENT = """
import sys, time, pathlib
from localfleet.embedded.fleet import ClusterSpec, EmbeddedFleet
from localfleet.embedded.metrics_server.points import read_page
fleet = EmbeddedFleet.start([ClusterSpec("orphan", nodes=1)], pathlib.Path(sys.argv[1]))
if sys.argv[2] == "paused":
    fleet.pause("orphan")
print(fleet.pid("orphan"), flush=True)
time.sleep(60)
"""


@pytest.mark.parametrize("state", ["running", "paused"])
def test_it_ends_when_its_parent_is_killed(tmp_path: Path, state: str) -> None:
    with subprocess.Popen([sys.executable, "-c", _PARENT, str(tmp_path), state], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        parent.kill()
    end = time.monotonic() + PATIENCE_S
    while _lives(child) and time.monotonic() < end:
        time.sleep(0.05)
    survived = _lives(child)
    if survived:
        os.kill(child, signal.SIGKILL)
    assert not survived


def _lives(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"
