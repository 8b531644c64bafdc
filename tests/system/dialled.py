"""A fleet of embedded clusters whose agents dial out: its certificates, its dispatcher, and settings of agents."""

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx

from localfleet.embedded.fleet import EmbeddedFleet
from tests.system.cluster_api import ClusterApi
from tests.system.ray_fleet import Process, environment, free_ports

CLUSTERS = ("east", "west")


def pod(name: str, clusters: str) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "annotations": {"global-dispatcher.io/clusters": clusters}},
        "spec": {
            "schedulerName": "global-dispatcher",
            "containers": [{"name": "main", "image": "example.invalid/app:1"}],
        },
    }


class Dispatcher(Process):
    """`global-dispatcher run` of clusters that dial in: no kubeconfig, no Ray unless `more` sections say so.

    `before`: words before its command.
    """

    def __init__(
        self,
        folder: Path,
        certificates: Path,
        gateway_port: int = 0,
        more: Mapping[str, Any] | None = None,
        *,
        host: str = "127.0.0.1",
        before: Sequence[str] = (),
    ) -> None:
        self.port, free = free_ports(2)
        self.gateway_port = gateway_port or free
        settings: dict[str, Any] = {
            "clusters": [{"name": name, "via": "gateway"} for name in CLUSTERS],
            "gateway": {
                "host": host,
                "port": self.gateway_port,
                "cert_file": str(certificates / "gateway.crt"),
                "key_file": str(certificates / "gateway.key"),
                "client_ca_file": str(certificates / "ca.crt"),
            },
            "signing": {"cert_file": str(certificates / "signing.crt"), "key_file": str(certificates / "signing.key")},
            "http": {"port": self.port},
            "leader_election": {"enabled": False},
            "log": {"format": "json"},
            **{key: value for key, value in (more or {}).items() if key != "gateway"},
        }
        settings["gateway"] |= (more or {}).get("gateway", {})
        config = folder / "dispatcher.yaml"
        config.write_text(json.dumps(settings))
        command = [*before, sys.executable, "-m", "dispatcher.cli.main", "run", "--config", str(config)]
        super().__init__(command, folder / "dispatcher.log", environment())

    def ready(self) -> list[bool]:
        """Of each cluster."""
        assert self.code is None, f"ended with {self.code}:\n{self.tail()}"
        answer = httpx.get(f"http://127.0.0.1:{self.port}/v1/clusters", timeout=5, trust_env=False)
        return [row["ready"] for row in answer.json().get("clusters", ())]  # none before its first term

    def answers(self) -> list[bool]:
        """Of each time that a cluster answered after a silence, or told everything, whether it told everything."""
        lines = map(json.loads, self.log.read_text().splitlines())
        return [line["full"] for line in lines if line.get("event") == "cluster answers"]


def settings(fleet: EmbeddedFleet, cluster: str, certificates: Path, port: int, role: str = "both") -> dict[str, Any]:
    """Of an agent, or of one half of it; an observer is given no key."""
    key = certificates / f"{cluster}-key.pem"
    if role != "observer" and not key.exists():
        subprocess.run(["openssl", "genpkey", "-algorithm", "ed25519", "-out", key], check=True)
    stem = f"cluster-{cluster}" if role == "both" else f"cluster-{cluster}.{role}"
    return {
        "cluster": cluster,
        "role": role,
        "kubeconfig": str(fleet.kubeconfig),
        "context": cluster,
        "key_file": str(key) if role != "observer" else "/nonexistent/key.pem",
        "kubelet": {"interval_s": 2},
        "gateway": {
            "urls": [f"wss://127.0.0.1:{port}"],
            "ca_file": str(certificates / "ca.crt"),
            "cert_file": str(certificates / f"{stem}.crt"),
            "key_file": str(certificates / f"{stem}.key"),
            "longest_pause_s": 1,
        },
    }


def phase(api: ClusterApi, name: str) -> str:
    """Of the pod of this name, or "" where there is none."""
    found = [one["status"].get("phase", "") for one in api.pods() if one["metadata"]["name"] == name]
    return found[0] if found else ""


def running(api: ClusterApi, name: str) -> bool:
    return phase(api, name) == "Running"
