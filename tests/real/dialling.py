"""Agents as processes of their own that dial in, and dispatchers that come and go, as the charts deploy them."""

import json
import os
import signal
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx

from dispatcher.service.gateway.authority import SIGNING, ensure
from tests.real.fleet import CLUSTERS, RealFleet
from tests.system.ray_fleet import JoinedAgent, Process, environment, free_ports

_HOST = "127.0.0.1"
_AT_ONCE = 2  # dispatchers that agents dial


class Site:
    """Certificates of the fleet, and a port for the gateway of each dispatcher that runs."""

    def __init__(self, folder: Path) -> None:
        self.certificates = folder / "certificates"
        self.ports = free_ports(_AT_ONCE)
        self.held: dict[int, Process] = {}
        ensure(self.certificates, [_HOST], CLUSTERS)

    def free_port(self) -> int:
        """One at which no dispatcher listens."""
        return next(port for port in self.ports if port not in self.held or self.held[port].code is not None)

    def files(self, stem: str) -> dict[str, str]:
        """Of a certificate and its key."""
        return {"cert_file": str(self.certificates / f"{stem}.crt"), "key_file": str(self.certificates / f"{stem}.key")}

    @property
    def authority(self) -> str:
        """Whom all trust."""
        return str(self.certificates / "ca.crt")


class Dispatcher(Process):
    """`global-dispatcher run`; of the clusters it knows the names alone. `election` says more of it."""

    def __init__(
        self, folder: Path, site: Site, lease: Path, election: Mapping[str, Any] | None = None, name: str = "dispatcher"
    ) -> None:
        (self.port,) = free_ports(1)
        gateway_port = site.free_port()
        config = folder / f"{name}.yaml"
        config.write_text(
            json.dumps(
                {
                    "clusters": [{"name": cluster, "via": "gateway"} for cluster in CLUSTERS],
                    "gateway": {"port": gateway_port, "client_ca_file": site.authority, **site.files("gateway")},
                    "signing": site.files(SIGNING),
                    "leader_election": {"kubeconfig": str(lease), **(election or {})},
                    "http": {"port": self.port},
                }
            )
        )
        command = [sys.executable, "-m", "dispatcher.cli.main", "run", "--config", str(config)]
        super().__init__(command, folder / f"{name}.log", environment())
        site.held[gateway_port] = self

    def get(self, path: str) -> Any:
        """Of its HTTP API."""
        assert self.code is None, f"ended with {self.code}:\n{self.tail()}"
        return httpx.get(f"http://127.0.0.1:{self.port}{path}", timeout=10, trust_env=False).json()

    def all_ready(self) -> bool:
        """Whether it leads, and all clusters are well as it sees them."""
        rows = self.get("/v1/clusters").get("clusters", [])  # one that stands by shows none
        return [row["ready"] for row in rows] == [True] * len(CLUSTERS)

    def kill(self) -> None:
        """kill -9."""
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()


@contextmanager
def dialling(fleet: RealFleet, folder: Path) -> Iterator[Site]:
    """The agent of each plane, which dials every dispatcher."""
    with ExitStack() as stack:
        site = Site(folder)
        for member in fleet.members():
            own = folder / member["name"]
            own.mkdir()
            access = {"cluster": member["name"], "context": member["context"], "kubeconfig": member["kubeconfig"]}
            gateway = {
                "urls": [f"wss://{_HOST}:{port}" for port in site.ports],
                "ca_file": site.authority,
                "longest_pause_s": 1,
                **site.files(f"cluster-{member['name']}"),
            }
            stack.enter_context(JoinedAgent(own, {**access, **member["agent"], "gateway": gateway}, ip=_HOST))
        yield site
