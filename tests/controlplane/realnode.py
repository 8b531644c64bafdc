"""One real node of a real control plane: a kubelet, containerd and runc in namespaces of their own.

    node = RealNode(plane, folder)
    node.start()

Its process, mount and network namespaces go with its process 1, whatever ends it. So one signal ends all of it, and
nothing is left but a cgroup, which `stop` removes (and the next start, after a kill).

It has the machine's capacity, but its readings are its own: its cgroup namespace makes its part of the machine's CPU
and memory the whole that the kubelet sees, and process 1, whose network cAdvisor reads, is in the node's. So several
real nodes of one machine differ, and what else the machine does is not theirs.
"""

import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from localfleet.controlplane import binaries
from localfleet.controlplane.credentials import Authority
from localfleet.controlplane.plane import ControlPlane, takes_pods
from localfleet.controlplane.process import Component
from tests.controlplane.realnode_config import (
    CONTAINERD,
    IMAGE,
    KUBELET_PORT,
    PAUSE_IMAGE,
    NodeLayout,
    containerd_config,
    kubelet_command,
)
from tests.controlplane.realnode_host import LEAF, UNSHARE, Cable, ControlGroup, run
from tests.controlplane.realnode_image import write_image

Object = dict[str, Any]
_HERE = Path(__file__).parent
_START_S = 240.0
LABELS = {"topology.kubernetes.io/region": "local", "topology.kubernetes.io/zone": "real"}


class RealNode:
    """A node's processes. `start` returns when the node is Ready in its plane.

    `authority` signs the kubelet's serving certificate (default: the plane's own), `labels` come on top of LABELS.
    `names`: its pods ask a server at the machine's end of its cable, which runs beside it (`tests.real.node_services`).
    """

    def __init__(
        self,
        plane: ControlPlane,
        folder: Path,
        name: str = "real",
        *,
        authority: Authority | None = None,
        labels: Mapping[str, str] | None = None,
        names: bool = False,
    ) -> None:
        self.name = name
        self.plane = plane
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self._authority = authority or plane.authority
        self._labels: Mapping[str, str] = {**LABELS, **(labels or {})}
        self._names = names
        self._program = binaries.ensure(("kubelet",), plane.spec.minor)["kubelet"]
        self._cgroup: ControlGroup | None = None
        self._cable: Cable | None = None
        self._components: list[Component] = []

    @property
    def address(self) -> str:
        """Its InternalIP."""
        return self.cable.node

    @property
    def kubelet(self) -> str:
        """The kubelet's URL."""
        return f"https://{self.address}:{KUBELET_PORT}"

    @property
    def cable(self) -> Cable:
        """Its network; RuntimeError before `start`."""
        if self._cable is None:
            raise RuntimeError(f"node {self.name} has not been started")
        return self._cable

    def start(self) -> None:
        """Namespaces, network, containerd with its images, kubelet; ComponentFailedError with the end of a log else."""
        self._cgroup = ControlGroup()
        holder = self._run("node", self._cgroup.joined([*UNSHARE, *self._init(self._cgroup)]))
        holder.wait_until((self.folder / "ready").exists, "its mounts are made", _START_S)
        self._cable = Cable.lay(f"/proc/{holder.pid}/ns/net")
        layout = NodeLayout(self.name, self.folder, self._cable, self._labels, self._names)
        port = self.plane.server.rsplit(":", 1)[1]
        self._run("relay", [sys.executable, "-S", str(_HERE / "realnode_relay.py"), self.cable.machine, port])
        containerd = self._run("containerd", self.inside("containerd", f"--config={containerd_config(layout)}"))
        containerd.wait_until(self._containerd_serves, "serving", _START_S)
        self.import_images(write_image(self.folder / "images.tar", (IMAGE, PAUSE_IMAGE)))
        serving = self._authority.server(f"kubelet-{self.name}", self.address)
        kubelet = self._run("kubelet", self.inside(*kubelet_command(layout, self.plane, self._program, serving)))
        kubelet.wait_until(self._ready, "Ready", _START_S)

    def stop(self) -> None:
        """Kill all of it, and wait until the machine is as it was."""
        holders, others = self._components[:1], self._components[1:]
        for component in reversed(others):
            component.kill()
        for holder in holders:
            # Not killed: process 1 is told to end, and its parent outlives all that the kernel ends with it.
            holder.stop()
        self._components = []
        if self._cable is not None:
            self._cable.cut()
        if self._cgroup is not None:
            self._cgroup.remove()
        for name in ("containerd", "kubelet", "opt"):
            shutil.rmtree(self.folder / name, ignore_errors=True)

    @property
    def cgroup(self) -> str:
        """The name of its cgroup, at the top of each hierarchy; empty before `start`."""
        return self._cgroup.name if self._cgroup is not None else ""

    @property
    def pid(self) -> int:
        """Of the process that holds the namespaces; 0 when it does not run."""
        return self._components[0].pid if self._components else 0

    @property
    def network(self) -> str:
        """The path of its network namespace."""
        return f"/proc/{self.pid}/ns/net"

    def object(self) -> Object:
        """The Node as the API server has it."""
        return self.plane.admin.get(f"/api/v1/nodes/{self.name}")

    def tails(self, lines: int = 30) -> str:
        """The ends of its logs."""
        return "\n".join(component.tail(lines) for component in self._components)

    def _run(self, name: str, command: list[str]) -> Component:
        component = Component(name, command, self.folder / f"{name}.log")
        self._components.append(component)
        component.start()
        return component

    def _init(self, cgroup: ControlGroup) -> list[str]:
        hierarchies = [f"{hierarchy}={root}" for hierarchy, root in cgroup.roots()]
        return [sys.executable, "-S", str(_HERE / "realnode_init.py"), str(self.folder), LEAF, *hierarchies]

    def inside(self, *command: str) -> list[str]:
        """A command in the node's namespaces and its cgroup for programs."""
        assert self._cgroup is not None, "not before `start`"
        at = f"/proc/{self._components[0].pid}/ns"
        spaces = {"mount": "mnt", "net": "net", "cgroup": "cgroup", "pid": "pid_for_children"}
        enter = ["nsenter", *(f"--{option}={at}/{name}" for option, name in spaces.items()), "--"]
        return self._cgroup.joined([*enter, *command], LEAF)

    def _ctr(self, *words: str) -> str:
        return run(*self.inside("ctr", f"--address={CONTAINERD}", "--namespace=k8s.io", *words))

    def _containerd_serves(self) -> bool:
        try:
            return bool(self._ctr("version"))
        except RuntimeError:
            return False

    def import_images(self, archive: Path) -> None:
        """Those of a docker archive, for pods that do not always pull."""
        self._ctr("images", "import", str(archive))

    def _ready(self) -> bool:
        return self.plane.admin.answers(f"/api/v1/nodes/{self.name}") and takes_pods(self.object())
