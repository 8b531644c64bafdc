"""Pods that we place really run: two kubelets with containerd and runc, and what they tell of their load.

Beside the real nodes, of the same size, a KWOK node whose kubelet tells nothing. It is 75 % requested, the real nodes
60 %, of which nothing is used: it counts as loaded as they would be with such requests, so the next pod would go there
only if unknown counted as idle.
"""

import json
import os
import ssl
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest

from agents.observer.loads import Sample
from agents.observer.seen import NodeTarget
from agents.telemetry.kubelet import Kubelets
from agents.telemetry.source import SourceError
from localfleet.controlplane import opt_in
from localfleet.controlplane.binaries import selected_minor
from localfleet.controlplane.components import IDENTITIES
from localfleet.controlplane.credentials import Authority
from localfleet.controlplane.nodes import NodeSpec
from localfleet.controlplane.plane import ControlPlane
from tests.charts.rendering import KUBELET_ACCOUNT, NAMESPACE, Helm
from tests.controlplane.fixtures import ControlPlanes
from tests.controlplane.realnode import RealNode
from tests.controlplane.realnode_config import IMAGE
from tests.controlplane.realnode_fixtures import RealNodes, real_node
from tests.controlplane.realnode_init import SYSCTLS
from tests.real.fleet import RealFleet
from tests.system.cluster_api import eventually
from tests.system.harness import HOME, System

__all__ = ["real_node"]
Object = dict[str, Any]
PODS = "/api/v1/namespaces/default/pods"
KWOK = "kwok"
BANDWIDTH = 125_000_000  # bytes/s, what the nodes are said to have
CPUS = os.cpu_count() or 1
REAL = {"kind": "real"}
WAIT_S = 120.0


class NodeFleet(RealFleet):
    """One plane; its agent asks kubelets often, and knows the authority that signed their certificates."""

    kubelets: Path

    def members(self) -> list[Object]:
        """The kubelets' certificates are not signed by the cluster's authority: that has to be told."""
        told = {
            "interval_s": 1,
            "timeout_s": 2,
            "smoothing_s": 1,
            "bandwidth": BANDWIDTH,
            "ca_file": str(self.kubelets),
            "account": KUBELET_ACCOUNT,
        }
        return [{**member, "agent": {"kubelet": told}} for member in super().members()]


@dataclass(frozen=True)
class World:
    """The plane, its real nodes by name, the dispatcher, the authority of the kubelets."""

    plane: ControlPlane
    nodes: dict[str, RealNode]
    system: System
    kubelets: Authority

    def told(self) -> str:
        """What happened, for a failure."""
        loads = {name: self.load(name) for name in (*self.nodes, KWOK)}
        return "\n".join([self.system.log, str(loads), *(node.tails(8) for node in self.nodes.values())])

    def submit(self, name: str, script: str, *, cpu: str = "10m", where: Object | None = None) -> None:
        """A pod that runs a shell script and asks for us; `where` is its nodeSelector."""
        made = shell_pod(name, script, cpu)
        made["metadata"]["annotations"] = {"global-dispatcher.io/schedule": "true"}
        made["spec"]["nodeSelector"] = where or {}
        self.plane.admin.create(PODS, made)

    def place(self, name: str, phase: str = "Running") -> str:
        """The node of a pod, once it is in that phase."""
        path = f"{PODS}/{name}"
        eventually(lambda: self.plane.admin.get(path)["status"]["phase"] == phase, WAIT_S, self.told)
        return str(self.plane.admin.get(path)["spec"]["nodeName"])

    def run(self, name: str, script: str, *, cpu: str = "10m", where: Object | None = None) -> str:
        """Submit, and the node on which it runs."""
        self.submit(name, script, cpu=cpu, where=where)
        return self.place(name)

    def remove(self, *names: str) -> None:
        """Delete pods, and wait until they are gone."""
        for name in names:
            self.plane.admin.delete(f"{PODS}/{name}")
        eventually(
            lambda: not {*names} & {pod["metadata"]["name"] for pod in self.system.home.pods()}, WAIT_S, self.told
        )

    def load(self, node: str) -> Object:
        """What the dispatcher knows of a node's load: {cpu, memory, network: {used, age_s}}."""
        rows: list[Object] = self.system.get("/v1/nodes")
        found: Object = next(row["load"] for row in rows if row["name"] == node)
        return found

    def used(self, node: str, signal: str = "cpu") -> float:
        """The share of a node that is used, -1 while unknown."""
        share = self.load(node)[signal]["used"]
        return -1.0 if share is None else float(share)

    def wait_read_anew(self) -> None:
        """Until every real node has a reading of a time after this call."""
        asked = time.monotonic()

        def anew(node: str) -> bool:
            age = self.load(node)["cpu"]["age_s"]
            return age is not None and time.monotonic() - age > asked + 2.5  # and after one more housekeeping

        eventually(lambda: all(anew(node) for node in self.nodes), WAIT_S, self.told)

    def decision(self, name: str) -> Object:
        """Why a pod is where it is."""
        record: Object = self.system.explain(name)["decision"]
        return record


def shell_pod(name: str, script: str, cpu: str) -> Object:
    """A pod that runs a shell script."""
    container = {
        "name": "main",
        "image": IMAGE,
        "imagePullPolicy": "Never",
        "command": ["sh", "-c", script],
        "resources": {"requests": {"cpu": cpu, "memory": "16Mi"}},
    }
    spec = {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 0,
        "dnsPolicy": "Default",
        "containers": [container],
    }
    return {"metadata": {"name": name}, "spec": spec}


def fill(plane: ControlPlane, node: str, percent: int) -> None:
    """A pod that requests so much of the node's CPU and uses nothing runs there: it came long before the dispatcher."""
    made = shell_pod(f"idle-{node}", "sleep 3600", f"{CPUS * percent * 10}m")
    made["spec"]["nodeName"] = node
    plane.admin.create(PODS, made)
    path = f"{PODS}/idle-{node}"
    eventually(lambda: plane.admin.get(path)["status"]["phase"] == "Running", WAIT_S)


def whole_machine() -> NodeSpec:
    """A KWOK node of the size of the real ones."""
    memory = next(line.split()[1] for line in Path("/proc/meminfo").read_text().splitlines() if "MemTotal" in line)
    return NodeSpec(KWOK, cpu=str(CPUS), memory=f"{memory}Ki")


@pytest.fixture(scope="module")
def world(
    control_plane: ControlPlanes, real_node: RealNodes, helm: Helm, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[World]:
    """Two real nodes and one of KWOK under our dispatcher, with requests as the module says."""
    if opt_in.version(selected_minor()) != "v1":
        pytest.skip(f"Kubernetes {selected_minor()} has no MutatingAdmissionPolicy, by which these pods ask for us")
    folder = tmp_path_factory.mktemp("node-fleet")
    plane = control_plane(HOME, nodes=[whole_machine()])
    kubelets = Authority(folder / "kubelets", "kubelets")
    nodes = {name: real_node(plane, name, authority=kubelets, labels=REAL) for name in ("real-a", "real-b")}
    fleet = NodeFleet({plane.name: plane}, folder)
    fleet.kubelets = kubelets.certificate
    fleet.grant(helm)
    for node, percent in {**dict.fromkeys(nodes, 60), KWOK: 75}.items():
        fill(plane, node, percent)
    with System(folder, fleet, readings=False) as system:
        world = World(plane, nodes, system, kubelets)
        system.wait_ready(WAIT_S)
        eventually(lambda: all(world.used(node) >= 0 for node in nodes), WAIT_S, world.told)
        world.wait_read_anew()
        yield world


def on(node: str) -> Object:
    """A nodeSelector."""
    return {"kubernetes.io/hostname": node}


def test_a_pod_that_we_place_really_runs_and_kubectl_reads_and_enters_it(world: World) -> None:
    node = world.run("hello", "echo hello from $(hostname); sleep 3600", where=REAL)
    assert world.decision("hello")["decision"]["node"] == node
    kubectl = world.plane.kubectl
    eventually(lambda: kubectl("logs", "hello") == "hello from hello\n", 20, world.told)
    assert kubectl("exec", "hello", "--", "sh", "-c", "expr $(cat /proc/1/comm | wc -c) + 36").strip() == "42"
    address = world.plane.admin.get(f"{PODS}/hello")["status"]["podIP"]
    assert f"inet {address}/" in kubectl("exec", "hello", "--", "ip", "address", "show", "eth0")
    world.remove("hello")


@pytest.mark.parametrize(("code", "phase"), [(0, "Succeeded"), (3, "Failed")], ids=["good end", "bad end"])
def test_a_container_that_ends_ends_its_pod(world: World, code: int, phase: str) -> None:
    world.submit("ends", f"exit {code}", where=REAL)
    world.place("ends", phase)
    (status,) = world.plane.admin.get(f"{PODS}/ends")["status"]["containerStatuses"]
    assert status["state"]["terminated"]["exitCode"] == code
    world.remove("ends")


def test_the_readings_of_a_real_node_are_its_own_and_have_an_age(world: World) -> None:
    for name, node in world.nodes.items():
        summary = json.loads(world.plane.kubectl("get", "--raw", f"/api/v1/nodes/{name}/proxy/stats/summary"))["node"]
        load = world.load(name)
        capacity = world.plane.admin.get(f"/api/v1/nodes/{node.name}")["status"]["capacity"]["memory"]
        measured = summary["memory"]["workingSetBytes"] / (int(capacity.removesuffix("Ki")) * 1024)
        assert load["memory"]["used"] == pytest.approx(measured, rel=0.5)
        assert 0 < load["cpu"]["used"] < 0.5
        assert 0 <= load["network"]["used"] < 0.5
        assert all(0 <= load[signal]["age_s"] < 30 for signal in load)
    assert all(world.load(KWOK)[signal]["used"] is None for signal in ("cpu", "memory", "network"))


def test_an_unknown_node_is_not_taken_for_an_idle_one(world: World) -> None:
    # Nodes that have just started are busy for a while, perhaps more so than the unknown one is thought to be.
    eventually(lambda: all(0 <= world.used(node) < 0.05 for node in world.nodes), WAIT_S, world.told)
    assert world.run("light", "sleep 3600") in world.nodes
    decision = world.decision("light")
    assert decision["evaluated"] == decision["feasible"] == len(world.nodes) + 1
    light = decision["extras"]["ExpectedLoad"]["cpu"]
    assert light["judged"] == "fresh"
    assert light["mean"] < 0.5
    assert world.run("blind", "", where=on(KWOK)) == KWOK
    blind = world.decision("blind")["extras"]["ExpectedLoad"]["cpu"]
    assert (blind["judged"], blind["reading"]) == ("unknown, by requests", None)
    assert blind["utilisation"] > max(light["utilisation"], 0.7 * blind["used_of_requested"])
    world.remove("light", "blind")


def test_a_busy_pod_moves_the_next_placements_away_until_it_ends(world: World) -> None:
    hot = world.run("burner", f"for each in $(seq {CPUS}); do while :; do :; done & done; wait")
    (cool,) = world.nodes.keys() - {hot}
    # On a machine that does other things, too, it gets no more than its part of the CPU: so it need not be near 1.
    eventually(lambda: world.used(hot) > world.used(cool) + 0.15, WAIT_S, world.told)
    after = [f"after-{number}" for number in range(4)]
    assert [world.run(name, "sleep 3600") for name in after] == [cool] * 4
    why = world.decision("after-0")["scores"]["ExpectedLoad"]
    assert why["weighted"] > why["runner_up_weighted"] + 3
    world.remove("burner")
    eventually(lambda: world.used(hot) < world.used(cool) + 0.02, WAIT_S, world.told)
    later: list[str] = []

    def trusted() -> bool:
        """Its mean of the last minutes has come down."""
        later.append(f"later-{len(later)}")
        return world.run(later[-1], "sleep 3600", cpu="100m") == hot

    eventually(trusted, 5 * WAIT_S, world.told)
    world.remove(*after, *later)


class Payload(BaseHTTPRequestHandler):
    """Answers every GET with some megabytes."""

    def do_GET(self) -> None:
        body = bytes(4 * 2**20)
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Silent."""


@pytest.fixture
def payload(world: World) -> Iterator[dict[str, str]]:
    """Real node -> the URL of some megabytes at the machine's end of its cable."""
    servers = {name: ThreadingHTTPServer((node.cable.machine, 0), Payload) for name, node in world.nodes.items()}
    for server in servers.values():
        threading.Thread(target=server.serve_forever, daemon=True).start()
    yield {name: f"http://{server.server_address[0]!s}:{server.server_port}/" for name, server in servers.items()}
    for server in servers.values():
        server.shutdown()
        server.server_close()


def test_what_a_pod_receives_is_in_the_network_reading_of_its_node_alone(world: World, payload: dict[str, str]) -> None:
    busy, quiet = world.nodes
    script = f"while wget -q -O /dev/null {payload[busy]}; do sleep 0.2; done"
    assert world.run("download", script, where=on(busy)) == busy
    eventually(lambda: world.used(busy, "network") > 0.03, WAIT_S, world.told)
    assert world.used(quiet, "network") < 0.02
    world.remove("download")


@pytest.mark.parametrize(("account", "figures"), [("agent-kubelets", 200), ("agent", 403)])
def test_the_account_for_kubelets_may_read_their_figures_and_nothing_else_and_the_agents_own_nothing(
    world: World, account: str, figures: int
) -> None:
    node = next(iter(world.nodes.values()))
    trust = ssl.create_default_context(cafile=str(world.kubelets.certificate))
    token = {"Authorization": f"Bearer {world.plane.token_for(account, NAMESPACE)}"}
    with httpx.Client(base_url=node.kubelet, verify=trust, headers=token, trust_env=False) as asking:
        seen = {path: asking.get(path).status_code for path in ("/stats/summary", "/metrics/resource", "/pods")}
    assert seen == {"/stats/summary": figures, "/metrics/resource": figures, "/pods": 403}
    with httpx.Client(base_url=node.kubelet, verify=trust, trust_env=False) as nobody:
        assert nobody.get("/stats/summary").status_code == 401


def test_the_resource_metrics_of_a_kubelet_are_readable_by_who_has_the_right(world: World) -> None:
    node = next(iter(world.nodes.values()))
    trust = ssl.create_default_context(cafile=str(world.kubelets.certificate))
    pair = world.plane.authority.client(*IDENTITIES["admin"])
    trust.load_cert_chain(pair.certificate, pair.key)
    with httpx.Client(base_url=node.kubelet, verify=trust, trust_env=False) as admin:
        text = admin.get("/metrics/resource").raise_for_status().text
    values = {line.split()[0]: float(line.split()[1]) for line in text.splitlines() if line and line[0] != "#"}
    assert values["node_cpu_usage_seconds_total"] > 0
    assert values["node_memory_working_set_bytes"] > 2**20
    assert f'pod="idle-{node.name}"' in text
    assert values["resource_scrape_error"] == 0


async def ask(world: World, trust: ssl.SSLContext) -> Sample:
    """One sample by the agent's own means, with a token of the account for kubelets."""
    node = next(iter(world.nodes.values()))

    async def headers() -> dict[str, str]:
        return {"Authorization": f"Bearer {world.plane.token_for('agent-kubelets', NAMESPACE)}"}

    kubelets = Kubelets(trust, headers, 5)
    try:
        return await kubelets.sample(NodeTarget(node.name, node.address))
    finally:
        await kubelets.close()


async def test_a_kubelet_whose_certificate_nobody_vouches_for_is_not_spoken_to(world: World) -> None:
    trusted = ssl.create_default_context(cafile=str(world.kubelets.certificate))
    sample = await ask(world, trusted)
    assert sample.measures["network_receive"].parts == ("eth0",)
    assert sample.measures["cpu"].value is not None
    clusters_own = ssl.create_default_context(cafile=str(world.plane.authority.certificate))
    with pytest.raises(SourceError, match="certificate verify failed"):
        await ask(world, clusters_own)


def mounts_and_sysctls() -> set[str]:
    """Of the machine's own namespaces: what a container runtime and a kubelet like to change."""
    sysctls = [f"{name}={Path('/proc/sys', name).read_text()}" for name in SYSCTLS if Path("/proc/sys", name).exists()]
    return {*Path("/proc/self/mounts").read_text().splitlines(), *sysctls}


def traces(node: RealNode, link: str) -> list[str]:
    """What of a node is on the machine: its cable, its route, its cgroups, cgroups that went astray."""
    groups = [path.name for level in ("*", "*/*") for path in Path("/sys/fs/cgroup").glob(level) if path.is_dir()]
    return [
        *(name for name in os.listdir("/sys/class/net") if name == link),
        *(line for line in Path("/proc/net/route").read_text().splitlines() if line.startswith(f"{link}\t")),
        *(name for name in groups if name in {node.cgroup, "kubepods"}),
    ]


def test_a_node_leaves_nothing_behind(world: World, real_node: RealNodes) -> None:
    before = mounts_and_sysctls()
    node = real_node(world.plane, "brief", authority=world.kubelets)
    link = node.cable.link
    world.run("brief", "sleep 3600", where=on("brief"))
    inside = processes_in(node)
    assert len(inside) == 4  # process 1, containerd, the kubelet, a shim; the pod's are in a namespace below
    assert {link, node.cgroup} <= set(traces(node, link))
    node.stop()
    # A cgroup with a process in it cannot be removed: so the pod's are gone, too.
    assert traces(node, link) == []
    assert mounts_and_sysctls() == before
    assert not [pid for pid in inside if Path("/proc", pid).exists()]
    world.plane.admin.delete("/api/v1/nodes/brief")
    world.plane.kubectl("delete", "pod", "brief", "--force", "--grace-period=0")


def processes_in(node: RealNode) -> list[str]:
    """The processes in a node's PID namespace, by the machine's numbers."""
    space = os.readlink(f"/proc/{node.pid}/ns/pid_for_children")
    found = []
    for path in Path("/proc").glob("[0-9]*/ns/pid"):
        try:
            if os.readlink(path) == space:
                found.append(path.parts[2])
        except OSError:
            continue  # it has ended
    return found
