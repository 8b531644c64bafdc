"""The command line of one embedded cluster."""

import argparse
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from localfleet.embedded.controllers.nodes import Patience
from localfleet.embedded.controllers.roster import Tempo
from localfleet.embedded.kubelet.kubelets import Pace
from localfleet.embedded.kubelet.shapes import Shape, ShapeError, parse_shape, read_shapes

_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,38}[a-z0-9])?")


@dataclass(frozen=True, slots=True)
class Options:
    """What one cluster process is told. `state_dir` None: a temporary one, gone with the process."""

    name: str
    shapes: tuple[Shape, ...]
    region: str
    zones: tuple[str, ...]
    state_dir: Path | None
    port: int
    kubeconfig: Path | None
    seed: int
    exit_with_parent: bool
    log_level: str
    tempo: Tempo
    pace: Pace

    @property
    def nodes(self) -> int:
        """How many nodes there are."""
        return sum(shape.count for shape in self.shapes)


def parse(arguments: Sequence[str]) -> Options:
    """Read the command line; a bad one ends the process with a message and code 2, as commands do."""
    parser = _parser()
    given = parser.parse_args(arguments)
    try:
        shapes = _shapes(given)
    except (ShapeError, OSError) as error:
        _refuse(parser, str(error))
    if not _NAME.fullmatch(given.name):
        _refuse(parser, f"--name: {given.name!r} is not up to 40 lower-case letters, digits and dashes, such as east-1")
    zones = tuple(filter(None, given.zones.split(",")))
    if not zones:
        _refuse(parser, "--zones: give at least one zone, such as a,b,c")
    return Options(
        name=given.name,
        shapes=shapes,
        region=given.region,
        zones=zones,
        state_dir=given.state_dir,
        port=given.port,
        kubeconfig=given.kubeconfig,
        seed=given.seed,
        exit_with_parent=given.exit_with_parent,
        log_level=given.log_level,
        tempo=Tempo(
            Patience(given.node_monitor_grace_s, given.node_monitor_period_s, given.pod_gc_quarantine_s),
            given.job_backoff_s,
        ),
        pace=Pace(given.heartbeat_s, given.restart_backoff_s),
    )


def _refuse(parser: argparse.ArgumentParser, why: str) -> NoReturn:
    parser.error(why)


def _shapes(given: argparse.Namespace) -> tuple[Shape, ...]:
    part, parts = given.nodes_part
    shapes = [parse_shape(text) for text in given.node_shape]
    if given.nodes_csv:
        shapes += read_shapes(given.nodes_csv, part, parts)
    count = given.nodes if given.nodes is not None else 0 if shapes else 10
    if count:
        shapes.append(Shape(given.cpu, given.memory, given.pods, given.gpu, given.bandwidth, count))
    return tuple(shapes)


def _part(text: str) -> tuple[int, int]:
    part, separator, parts = text.partition("/")
    if not (separator and part.isdigit() and parts.isdigit() and 1 <= int(part) <= int(parts)):
        raise argparse.ArgumentTypeError(f"{text!r} is not I/N with 1 <= I <= N, such as 2/3")
    return int(part), int(parts)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m localfleet.embedded",
        description="Run one embedded Kubernetes cluster on loopback: API server, controllers, kubelets. Prints one "
        'line of JSON {"ready": true, "server": ..., "kubeconfig": ...} when it answers, and runs until SIGTERM.',
    )
    parser.add_argument("--name", required=True, help="name of the cluster and of its kubeconfig context")
    _add_nodes(parser.add_argument_group("nodes"))
    _add_process(parser.add_argument_group("process"))
    _add_timers(parser.add_argument_group("timers, in seconds"))
    return parser


def _add_nodes(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--nodes", type=int, help="how many equal nodes (10, or none when shapes or a table are given)")
    group.add_argument("--cpu", default="8", help="CPU of each of them")
    group.add_argument("--memory", default="32Gi", help="memory of each")
    group.add_argument("--pods", default="110", help="pods that each may hold")
    group.add_argument("--gpu", default="0", help="nvidia.com/gpu of each")
    group.add_argument("--bandwidth", default="1250M", help="network of each, bytes/s per direction")
    group.add_argument(
        "--node-shape",
        action="append",
        default=[],
        metavar="cpu=8,memory=32Gi,pods=110,count=10,zone=a",
        help="more nodes of a shape of their own; repeatable; keys gpu, bandwidth and type as well",
    )
    group.add_argument(
        "--nodes-csv", type=Path, metavar="FILE", help="nodes from a table: sn,cpu_milli,memory_mib,gpu,model"
    )
    group.add_argument(
        "--nodes-part", type=_part, default=(1, 1), metavar="I/N", help="only every N-th row, from the I-th"
    )
    group.add_argument("--region", default="local", help="label topology.kubernetes.io/region of all nodes")
    group.add_argument("--zones", default="a,b,c", help="zones that nodes without one are spread over in turn")


def _add_process(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--state-dir", type=Path, help="objects, certificates, token and ports live here and outlive a kill"
    )
    group.add_argument(
        "--port", type=int, default=0, help="port of the API server on 127.0.0.1 (0: a free one, then kept)"
    )
    group.add_argument("--kubeconfig", type=Path, help="where to write the cluster's kubeconfig (STATE_DIR/kubeconfig)")
    group.add_argument("--seed", type=int, default=0, help="seed of background load")
    group.add_argument(
        "--exit-with-parent", action="store_true", help="end when the process that started this one ends"
    )
    group.add_argument(
        "--log-level", default="WARNING", choices=("DEBUG", "INFO", "WARNING", "ERROR"), help="on stderr"
    )


def _add_timers(group: argparse._ArgumentGroup) -> None:
    timers = (
        ("--heartbeat-s", 10.0, "between a kubelet's leases"),
        ("--node-monitor-grace-s", 40.0, "of silence until a node is Unknown and tainted"),
        ("--node-monitor-period-s", 5.0, "between looks at the clock for a process that was stopped"),
        ("--pod-gc-quarantine-s", 40.0, "until the pods of a missing node are removed"),
        ("--restart-backoff-s", 10.0, "before a container's second restart, doubling"),
        ("--job-backoff-s", 10.0, "before a Job replaces its first failed pod, doubling"),
    )
    for name, default, text in timers:
        group.add_argument(name, type=float, default=default, help=f"{text} ({default:g})")
