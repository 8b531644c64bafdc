"""Two planes whose agents, processes with the chart's rights, dial out to a dispatcher and relay all."""

import subprocess
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from dispatcher.service.gateway.authority import ensure
from localfleet.controlplane.plane import ControlPlane
from tests.charts.rendering import KUBELET_ACCOUNT, NAMESPACE, Helm
from tests.controlplane.realnode import RealNode
from tests.real.fleet import _RIGHTS
from tests.system.cluster_api import eventually
from tests.system.dialled import CLUSTERS, Dispatcher
from tests.system.ray_fleet import JoinedAgent, free_ports

HOME, TARGET = CLUSTERS
WAIT_S = 120.0
# Sections of a dispatcher: the pods of both reach each other.
ONE_NETWORK: Mapping[str, Any] = {
    "clusters": [{"name": name, "via": "gateway", "network": "flat"} for name in CLUSTERS]
}


@dataclass
class TwoPlanes:
    """The planes by name, their real nodes, what runs beside them; `executor`: its settings, beside relaying all."""

    planes: dict[str, ControlPlane]
    nodes: dict[str, RealNode]  # one of a cluster
    folder: Path
    certificates: Path
    dispatcher: Dispatcher
    serving: Literal["self-signed", "csr"] = "self-signed"
    executor: Mapping[str, Any] = field(default_factory=dict)
    agents: dict[str, JoinedAgent] = field(default_factory=dict)

    @property
    def home(self) -> ControlPlane:
        """Where pods are submitted."""
        return self.planes[HOME]

    def started(self, cluster: str) -> JoinedAgent:
        """An agent's process."""
        folder = self.folder / cluster
        folder.mkdir(exist_ok=True)
        key = folder / "key.pem"
        if not key.exists():
            subprocess.run(["openssl", "genpkey", "-algorithm", "ed25519", "-out", key], check=True)
        (port,) = free_ports(1)
        given = {
            "cluster": cluster,
            "kubeconfig": str(self.planes[cluster].kubeconfig_for("agent", NAMESPACE, 12 * 3600)),
            "context": cluster,
            "key_file": str(key),
            "kubelet": {"interval_s": 60, "account": KUBELET_ACCOUNT},
            "executor": {"relay": "all", **self.executor},
            "relay": {
                "port": port,
                "host": "127.0.0.1",
                "certificate": self.serving,
                "folder": str(folder / "serving"),
            },
            "gateway": {
                "urls": [f"wss://127.0.0.1:{self.dispatcher.gateway_port}"],
                "ca_file": str(self.certificates / "ca.crt"),
                "cert_file": str(self.certificates / f"cluster-{cluster}.crt"),
                "key_file": str(self.certificates / f"cluster-{cluster}.key"),
                "longest_pause_s": 1,
            },
        }
        agent = self.agents[cluster] = JoinedAgent(folder, given, ip="127.0.0.1")
        return agent

    def stop(self) -> None:
        """End the agents that run now."""
        for agent in self.agents.values():
            agent.__exit__(None, None, None)

    def told(self) -> str:
        """For a failure."""
        return "\n".join([self.dispatcher.tail(), *(agent.tail() for agent in self.agents.values())])

    @contextmanager
    def with_agents(self) -> Iterator[None]:
        """Its agents, until the end."""
        with ExitStack() as stack:
            stack.callback(self.stop)
            for name in CLUSTERS:
                self.started(name).wait_ready()
            eventually(lambda: self.dispatcher.ready() == [True, True], WAIT_S, self.told)
            yield


@contextmanager
def dispatching(folder: Path, more: Mapping[str, Any] | None = None) -> Iterator[tuple[Path, Dispatcher]]:
    """A dispatcher that both clusters may dial, and the folder of their certificates. `more`: its sections."""
    certificates = folder / "certificates"
    ensure(certificates, ["127.0.0.1"], CLUSTERS)
    with Dispatcher(folder, certificates, more=more) as dispatcher:
        yield certificates, dispatcher


def grant(plane: ControlPlane, helm: Helm, serving: str, executor: Mapping[str, Any], **more: Any) -> None:
    """The chart's rights and policies, as of an agent that dials out and relays all. `more`: values of the chart."""
    values = {
        "cluster": plane.name,
        "gateway": {"split": True},
        "config": {"executor": {"relay": "all", **executor}},
        "relay": {"certificate": serving},
        **more,
    }
    kinds = (*_RIGHTS, "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding")
    plane.admin.create("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
    objects = [one for one in helm.template("agent", values) if one["kind"] in kinds]
    for one in objects:  # one process is both halves here
        if one["kind"] == "ClusterRoleBinding" and one["metadata"]["name"].endswith("-observer"):
            one["subjects"].append({"kind": "ServiceAccount", "name": "agent", "namespace": NAMESPACE})
    plane.apply(*objects)
