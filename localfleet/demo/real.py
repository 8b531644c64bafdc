"""The demo on real control planes: kube-apiserver, etcd and kube-controller-manager, and KWOK for
the nodes.
"""

import itertools
import os
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import httpx

from agents.runtime.settings import KubeletSettings
from dispatcher.service.errors import CommandError, ExitCode
from localfleet.controlplane import binaries
from localfleet.controlplane.components import PlaneSpec
from localfleet.controlplane.nodes import NodeSpec
from localfleet.controlplane.opt_in import opt_in
from localfleet.controlplane.plane import ControlPlane, control_planes
from localfleet.controlplane.process import ComponentFailedError
from localfleet.demo.clusters import Running, Say
from localfleet.embedded import kubeconfig
from localfleet.embedded.fleet import ClusterSpec, FleetError
from localfleet.embedded.kubelet.shapes import read_shapes

_PLANE_MIB = 400  # with ten nodes and a few pods; seen: 360
_PLANES_A_CPU = 4  # more at once, and neither they nor Ray start within their time
_TOOLS = tuple(tool for tool in binaries.CONTROL_PLANE if tool != "kube-scheduler")
_FAILURES = (ComponentFailedError, TimeoutError, httpx.HTTPError)


class RealClusters:
    """Control planes as processes on loopback. Their programs are found or built once (see
    localfleet.controlplane).
    """

    live_load = False
    note = "KWOK's nodes tell no live load: scores go by requests"
    kubelet = KubeletSettings(interval_s=60.0, timeout_s=1.0)  # KWOK has no answer: seldom asked

    def prepare(self, count: int, say: Say) -> None:
        """See that this machine can carry them and that the programs are there; build what is
        missing.
        """
        _check_room(count, _free_mib(), os.cpu_count() or 1)
        try:
            binaries.ensure(_TOOLS, progress=say)
        except binaries.BinariesUnavailableError as error:
            missing = str(error).removeprefix(f"{binaries.UNAVAILABLE}: ")
            raise CommandError(
                f"--real: {missing}; the demo without --real needs nothing"
            ) from None
        except binaries.BuildFailedError as error:
            print(error, file=sys.stderr)
            raise CommandError("--real: the programs could not be built: see above") from None

    def announce(self, count: int) -> str:
        """In words."""
        return (
            f"{count} real control planes (kube-apiserver, etcd, kube-controller-manager; nodes "
            "by KWOK)"
        )

    def start(self, specs: Sequence[ClusterSpec], directory: Path) -> Running:
        """All planes at once, each with the policy by which a pod's annotation asks for us."""
        with ExitStack() as started:
            try:
                planes = started.enter_context(
                    control_planes([_plane(spec) for spec in specs], directory)
                )
                for plane in planes:
                    opt_in(plane.admin)
            except _FAILURES as error:
                raise FleetError(str(error)) from None
            merged = directory / "kubeconfig"
            kubeconfig.write(
                merged, kubeconfig.merged(kubeconfig.read(plane.kubeconfig) for plane in planes)
            )
            return Running(merged, started.pop_all().close, _kubectl(planes[0]))


def _plane(spec: ClusterSpec) -> PlaneSpec:
    return PlaneSpec(spec.name, nodes=list(_nodes(spec)))


def _nodes(spec: ClusterSpec) -> Iterator[NodeSpec]:
    zones = itertools.cycle(spec.zones)
    for number in range(spec.nodes):
        name = f"{spec.name}-node-{number:03d}"
        yield NodeSpec(name, spec.cpu, spec.memory, spec.pods, spec.region, next(zones))
    for shape in read_shapes(spec.nodes_csv) if spec.nodes_csv else ():
        yield NodeSpec(shape.name, shape.cpu, shape.memory, shape.pods, spec.region, next(zones))


def _kubectl(plane: ControlPlane) -> str:
    """The user's own if there is one."""
    return "kubectl" if shutil.which("kubectl") else str(plane.programs["kubectl"])


def _free_mib() -> int:
    """Memory that can be had without swapping; proc(5)."""
    fields = dict(line.split(":", 1) for line in Path("/proc/meminfo").read_text().splitlines())
    return int(fields["MemAvailable"].split()[0]) // 1024


def _check_room(count: int, free_mib: int, cpus: int) -> None:
    most = min(free_mib // _PLANE_MIB, cpus * _PLANES_A_CPU)
    if most < 1:
        raise CommandError(
            f"--real: a control plane needs {_PLANE_MIB} MiB of memory and {free_mib} MiB are free"
        )
    if count > most:
        raise CommandError(
            f"--real: {count} control planes are too many for {free_mib} MiB of free memory and "
            f"{cpus} CPUs:"
            f" use --clusters {most} or fewer",
            ExitCode.USAGE,
        )
