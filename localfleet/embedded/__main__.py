"""`python -m localfleet.embedded`: one embedded cluster, in the foreground."""

import enum
from pathlib import Path
from typing import Annotated

import typer

from localfleet.embedded.cluster import run
from localfleet.embedded.controllers.nodes import Patience
from localfleet.embedded.controllers.roster import Tempo
from localfleet.embedded.kubelet.kubelets import Pace
from localfleet.embedded.options import Options, checked_name, shapes_of, zones_of
from localfleet.embedded.state import StateError


class LogLevel(enum.StrEnum):
    """The --log-level option."""

    DEBUG = "DEBUG"
    INFO = "INFO"
    WARNING = "WARNING"
    ERROR = "ERROR"


app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)


# An option is an argument of the command; its help stands here.
Name = Annotated[str, typer.Option(help="Name of the cluster and of its kubeconfig context.")]
Nodes = Annotated[
    int | None,
    typer.Option(help="How many equal nodes (10, or none when shapes or a table are given)."),
]
Cpu = Annotated[str, typer.Option(help="CPU of each of them.")]
Memory = Annotated[str, typer.Option(help="Memory of each.")]
Pods = Annotated[str, typer.Option(help="Pods that each may hold.")]
Gpu = Annotated[str, typer.Option(help="nvidia.com/gpu of each.")]
Bandwidth = Annotated[str, typer.Option(help="Network of each, bytes/s per direction.")]
NodeShapes = Annotated[
    list[str] | None,
    typer.Option(
        metavar="cpu=8,memory=32Gi,pods=110,count=10,zone=a",
        help="More nodes of a shape of their own; repeatable; keys gpu, bandwidth and type as "
        "well.",
    ),
]
NodesCsv = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Nodes from a table: sn,cpu_milli,memory_mib,gpu,model."),
]
NodesPart = Annotated[str, typer.Option(metavar="I/N", help="Only every N-th row, from the I-th.")]
Region = Annotated[str, typer.Option(help="Label topology.kubernetes.io/region of all nodes.")]
Zones = Annotated[str, typer.Option(help="Zones that nodes without one are spread over in turn.")]
StateDir = Annotated[
    Path | None,
    typer.Option(help="Objects, certificates, token and ports live here and outlive a kill."),
]
Port = Annotated[
    int, typer.Option(help="Port of the API server on 127.0.0.1 (0: a free one, then kept).")
]
Kubeconfig = Annotated[
    Path | None,
    typer.Option(help="Where to write the cluster's kubeconfig (STATE_DIR/kubeconfig)."),
]
Seed = Annotated[int, typer.Option(help="Seed of background load.")]
ExitWithParent = Annotated[
    bool,
    typer.Option("--exit-with-parent", help="End when the process that started this one ends."),
]
Level = Annotated[LogLevel, typer.Option(help="On stderr.")]
Heartbeat = Annotated[float, typer.Option(help="Seconds between a kubelet's leases.")]
MonitorGrace = Annotated[
    float, typer.Option(help="Seconds of silence until a node is Unknown and tainted.")
]
MonitorPeriod = Annotated[
    float, typer.Option(help="Seconds between looks at the clock for a process that was stopped.")
]
PodGcQuarantine = Annotated[
    float, typer.Option(help="Seconds until the pods of a missing node are removed.")
]
RestartBackoff = Annotated[
    float, typer.Option(help="Seconds before a container's second restart, doubling.")
]
JobBackoff = Annotated[
    float, typer.Option(help="Seconds before a Job replaces its first failed pod, doubling.")
]
MetricResolution = Annotated[
    float,
    typer.Option(help="Seconds between looks at what pods of other kubelets use (`kubectl top`)."),
]


@app.command()
def cluster(  # noqa: PLR0913 - an option is an argument
    name: Name,
    nodes: Nodes = None,
    cpu: Cpu = "8",
    memory: Memory = "32Gi",
    pods: Pods = "110",
    gpu: Gpu = "0",
    bandwidth: Bandwidth = "1250M",
    node_shape: NodeShapes = None,
    nodes_csv: NodesCsv = None,
    nodes_part: NodesPart = "1/1",
    region: Region = "local",
    zones: Zones = "a,b,c",
    state_dir: StateDir = None,
    port: Port = 0,
    kubeconfig: Kubeconfig = None,
    seed: Seed = 0,
    exit_with_parent: ExitWithParent = False,
    log_level: Level = LogLevel.WARNING,
    heartbeat_s: Heartbeat = 10.0,
    node_monitor_grace_s: MonitorGrace = 40.0,
    node_monitor_period_s: MonitorPeriod = 5.0,
    pod_gc_quarantine_s: PodGcQuarantine = 40.0,
    restart_backoff_s: RestartBackoff = 10.0,
    job_backoff_s: JobBackoff = 10.0,
    metric_resolution_s: MetricResolution = 15.0,
) -> None:
    """Run one embedded Kubernetes cluster on loopback: API server, controllers, kubelets.

    Prints one line of JSON {"ready": true, "server": ..., "kubeconfig": ...} when it answers, and
    runs until SIGTERM.
    """
    equal = {"cpu": cpu, "memory": memory, "pods": pods, "gpu": gpu, "bandwidth": bandwidth}
    patience = Patience(node_monitor_grace_s, node_monitor_period_s, pod_gc_quarantine_s)
    _run(
        Options(
            name=checked_name(name),
            shapes=shapes_of(equal, nodes, node_shape or (), nodes_csv, nodes_part),
            region=region,
            zones=zones_of(zones),
            state_dir=state_dir,
            port=port,
            kubeconfig=kubeconfig,
            seed=seed,
            exit_with_parent=exit_with_parent,
            log_level=log_level.value,
            tempo=Tempo(patience, job_backoff_s),
            pace=Pace(heartbeat_s, restart_backoff_s),
            metric_resolution_s=metric_resolution_s,
        )
    )


def _run(options: Options) -> None:
    try:
        run(options)
    except StateError as error:
        typer.echo(f"localfleet.embedded: {error}", err=True)
        raise typer.Exit(1) from None


if __name__ == "__main__":
    app(prog_name="python -m localfleet.embedded")
