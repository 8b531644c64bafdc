"""The dispatcher's pod beside a Ray cluster of others, as processes: token and TLS on, agents on another node.

The two containers see each other's processes and nobody else's, as in the pod.
"""

import json
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest
import trustme

from localfleet.embedded.fleet import ClusterSpec, EmbeddedFleet
from tests.charts.pods import run_container
from tests.charts.rendering import Helm, Object, containers, of_kind, write_mounted
from tests.charts.test_ray_pods import option
from tests.system.cluster_api import ClusterApi, eventually
from tests.system.dialled import pod, running
from tests.system.ray_fleet import AGENT_IP, HEAD_IP, Head, Node, Process, environment, free_ports, node_ports

CLUSTERS = ("east", "west")
POD_IP = "127.0.0.9"
WAIT_S = 120.0
OWN_PROCESSES = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"]


def unavailable() -> str:
    """Why no process can have a view of its own here; empty if one can."""
    if not (shutil.which("unshare") and shutil.which("nsenter")):
        return "unshare and nsenter are not installed"
    tried = subprocess.run([*OWN_PROCESSES, "true"], capture_output=True, text=True, check=False)
    return f"no process namespaces: {tried.stderr.strip()}" if tried.returncode else ""


pytestmark = [
    pytest.mark.real,
    pytest.mark.timeout(900),
    pytest.mark.skipif(bool(unavailable()), reason=unavailable()),
]


def camel(ports: dict[str, int]) -> dict[str, int]:
    """Port names as values.yaml spells them."""
    words = {name: name.title().replace("_", "") for name in ports}
    return {words[name][0].lower() + words[name][1:]: port for name, port in ports.items()}


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[EmbeddedFleet]:
    fleet = EmbeddedFleet.start([ClusterSpec(name, nodes=2) for name in CLUSTERS], tmp_path / "fleet")
    yield fleet
    fleet.stop()


def certificate(folder: Path) -> dict[str, str]:
    """What each process of this Ray is told; the files are named as in the Secret."""
    folder.mkdir()
    authority = trustme.CA()
    made = authority.issue_cert(HEAD_IP, AGENT_IP, POD_IP)
    authority.cert_pem.write_to_path(str(folder / "ca.crt"))
    made.private_key_pem.write_to_path(str(folder / "tls.key"))
    for at, blob in enumerate(made.cert_chain_pems):
        blob.write_to_path(str(folder / "tls.crt"), append=at > 0)
    names = {"SERVER_CERT": "tls.crt", "SERVER_KEY": "tls.key", "CA_CERT": "ca.crt"}
    return {"RAY_USE_TLS": "1", **{f"RAY_TLS_{name}": str(folder / file) for name, file in names.items()}}


def member(folder: Path, fleet: EmbeddedFleet, name: str) -> Object:
    key = folder / f"{name}.pem"
    subprocess.run(["openssl", "genpkey", "-algorithm", "ed25519", "-out", key], check=True)
    agent = {"key_file": str(key), "log_file": str(folder / f"{name}.log"), "kubelet": {"interval_s": 2}}
    return {"name": name, "kubeconfig": str(fleet.kubeconfig), "context": name, "agent": agent}


def first_child(process: Process) -> int:
    return int(Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()[0])


def test_agents_on_a_node_of_a_ray_cluster_dial_the_dispatchers_pod(
    helm: Helm, tmp_path: Path, fleet: EmbeddedFleet
) -> None:
    secure = environment(**certificate(tmp_path / "ray-tls"))
    http, dialled, gcs = free_ports(3)
    with ExitStack() as stack:
        short = [stack.enter_context(tempfile.TemporaryDirectory(prefix="gd-")) for _ in range(2)]
        head = stack.enter_context(Head(tmp_path, Path(short[0]), gcs, env=secure))
        head.wait_ready()
        offered = {f"cluster:{name}": 1 for name in CLUSTERS}
        stack.enter_context(Node(tmp_path / "node.log", Path(short[0]), head.address, AGENT_IP, offered, secure))
        values: dict[str, Any] = {
            "config": {
                "clusters": [member(tmp_path, fleet, name) for name in CLUSTERS],
                "ray": {"address": head.address, "port": dialled},
                "http": {"port": http},
                "leader_election": {"enabled": False},
            },
            "ray": {"tls": {"existingSecret": "ray-tls"}, "ports": camel(node_ports())},
        }
        objects = helm.template("dispatcher", values)
        node, dispatcher = containers(of_kind(objects, "Deployment"))
        paths: dict[str, Path | str] = {
            "/etc/global-dispatcher": write_mounted(objects, tmp_path / "config"),
            "/run/secrets/ray": tmp_path / "ray-tls",
            "/tmp/ray": short[1],
            option(node, "node-ip-address"): POD_IP,
        }
        beside = stack.enter_context(run_container(node, POD_IP, paths, tmp_path / "ray-node.log", OWN_PROCESSES))
        eventually(lambda: "block forever" in beside.tail() or beside.code is not None, WAIT_S, beside.tail)
        stack.callback(os.kill, first_child(beside), signal.SIGKILL)  # with the first of its processes all of them end
        entered = ["nsenter", f"--target={first_child(beside)}", "--pid", "--mount"]
        run = stack.enter_context(run_container(dispatcher, POD_IP, paths, tmp_path / "dispatcher.log", entered))

        def ready() -> list[bool]:
            assert run.code is None, run.tail()
            answer = httpx.get(f"http://127.0.0.1:{http}/v1/clusters", timeout=5, trust_env=False)
            return [row["ready"] for row in answer.json().get("clusters", ())]

        eventually(lambda: ready() == [True, True], WAIT_S, run.tail)
        connected = subprocess.run(["ss", "-Htn"], capture_output=True, text=True, check=True).stdout
        assert f"{POD_IP}:{dialled}" in connected, "they dial the address of the pod"
        east = ClusterApi(fleet.kubeconfig, "east")
        east.create("/api/v1/namespaces/default/pods", pod("one", "west"))
        eventually(lambda: running(east, "one"), WAIT_S, lambda: json.dumps(east.pods())[-2000:])
        east.close()
