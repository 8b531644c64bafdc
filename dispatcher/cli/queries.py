"""The commands that ask a running dispatcher: why a pod is where it is, and tables of what there
is.
"""

from pathlib import Path
from typing import Annotated, Any

import typer

from dispatcher.cli.options import DEFAULT_SERVER, Out, Server
from dispatcher.cli.output import Output
from dispatcher.service.errors import CommandError, ExitCode


def explain(
    pod: Annotated[
        str,
        typer.Argument(
            metavar="NAMESPACE/POD|KIND/NAME",
            help="A pod, or all pods of deployment/NAME, replicaset/NAME, statefulset/NAME or "
            "job/NAME; without a namespace, of that of -n, else `default`.",
        ),
    ],
    of_namespace: Annotated[
        str, typer.Option("-n", "--namespace", help="Namespace of the pod.")
    ] = "",
    cluster: Annotated[
        str, typer.Option(help="The cluster it was submitted in, if several have one.")
    ] = "",
    output: Out = Output.TABLE,
    server: Server = DEFAULT_SERVER,
) -> None:
    """Say why a pod, or the pods of a controller, went where they are, or why they wait."""
    from dispatcher.cli.output import make_console, print_value

    kind, _, controller = pod.partition("/")
    if kind.lower() in _KINDS and controller:
        _explain_controller(
            f"{_KINDS[kind.lower()]}/{controller}",
            of_namespace or "default",
            cluster,
            output,
            server,
        )
        return
    namespace, name = pod_name(pod, of_namespace)
    found = client_of(server).explain(namespace, name, cluster)
    if output is not Output.TABLE:
        print_value(found, output)
        return
    from dispatcher.cli.explain_view import print_explained

    print_explained(make_console(), found)


# As kubectl knows them. A namespace of such a name is asked for with -n.
_KINDS = {
    **dict.fromkeys(("deployment", "deployments", "deploy", "deployments.apps"), "Deployment"),
    **dict.fromkeys(("replicaset", "replicasets", "rs", "replicasets.apps"), "ReplicaSet"),
    **dict.fromkeys(("statefulset", "statefulsets", "sts", "statefulsets.apps"), "StatefulSet"),
    **dict.fromkeys(("job", "jobs", "jobs.batch"), "Job"),
}


def _explain_controller(
    controller: str, namespace: str, cluster: str, output: Output, server: str
) -> None:
    from dispatcher.cli.explain_view import print_controller
    from dispatcher.cli.output import make_console, print_value

    key = "deployment" if controller.startswith("Deployment/") else "controller"
    rows = client_of(server).rows(
        "pods", **{"namespace": namespace, "source": cluster, key: controller}
    )
    if not rows:
        raise CommandError(
            f"nothing is known of pods of {controller} in namespace {namespace}: either it has "
            "made none (`kubectl describe` it), or they are not ours: the annotation "
            'global-dispatcher.io/schedule: "true" belongs on its pod template',
            ExitCode.NOT_FOUND,
        )
    if output is not Output.TABLE:
        print_value({"controller": controller, "namespace": namespace, "pods": rows}, output)
        return
    print_controller(make_console(), controller, namespace, rows)


def clusters(
    links: Annotated[
        bool, typer.Option("--links", help="How far they are from each other instead.")
    ] = False,
    output: Out = Output.TABLE,
    server: Server = DEFAULT_SERVER,
) -> None:
    """List the clusters: readiness, nodes, pods.

    PODS: that run there. REMOTE: copies there of other clusters' pods, ended ones too. SUBMITTED:
    to us in that cluster, wherever they run. REPORT: since its agent last answered.

    With --links: the round-trip times that agents measured, and those that count.
    """
    if links:
        _list("links", "there are no two clusters", server, output)
    else:
        _list("clusters", "no clusters are configured", server, output)


def nodes(
    cluster: Annotated[str, typer.Option(help="Only of this cluster.")] = "",
    output: Out = Output.TABLE,
    server: Server = DEFAULT_SERVER,
) -> None:
    """List the nodes of all clusters: requests and live load.

    SAMPLE AGE is that of the reading of CPU. `top nodes` sorts by load and shows all signals, and
    who told them.
    """
    _list("nodes", "no nodes are known yet", server, output, cluster=cluster)


def pods(
    namespace: Annotated[
        str, typer.Option("-n", "--namespace", help="Only of this namespace.")
    ] = "",
    cluster: Annotated[str, typer.Option(help="Only those that run in this cluster.")] = "",
    source: Annotated[str, typer.Option(help="Only those submitted in this cluster.")] = "",
    output: Out = Output.TABLE,
    server: Server = DEFAULT_SERVER,
) -> None:
    """List our pods: from where, to where, and why."""
    _list(
        "pods",
        "no pods were submitted to us yet",
        server,
        output,
        namespace=namespace,
        cluster=cluster,
        source=source,
    )


def rebalance(output: Out = Output.TABLE, server: Server = DEFAULT_SERVER) -> None:
    """List the pods that were moved off hot nodes, or would be in a dry run; and those that stay
    there, and why.

    GAIN is what the move wins, in points of a node's cost: 0 is an idle node, 100 a full one. It
    changes nothing.
    """
    _list("rebalancing", "no node is a hot spot, and no pod was moved", server, output)


def doctor(
    cluster: Annotated[str, typer.Option(help="Only of this cluster.")] = "",
    config: Annotated[
        Path | None,
        typer.Option(
            "--config",
            "-c",
            help="Also ask each cluster, by contexts of this dispatcher.yaml: opt-in, "
            "certificates, agents' rights.",
        ),
    ] = None,
    output: Out = Output.TABLE,
    server: Server = DEFAULT_SERVER,
) -> None:
    """Say what is wrong with clusters and their sources of live load, and what to do about it.

    Clusters that are away, clocks that differ, versions that do not go together; sources that fail
    or are stale, nodes of which nothing is told, series that mean no node or several; namespaces
    whose pods stay at home for what other clusters lack, and remote pods that do not start; pod
    networks that are declared to be one and whose pods do not reach each other; what of the
    gateway's and the agents' certificates and of revocation lists ends soon. With --config also
    what gives pods our schedulerName in each cluster, tried with a pod that is never stored,
    DaemonSets with pods on proxy nodes, pod networks that overlap, Services that remote pods find
    in place of those at home, consents that name no cluster, which agents ask in vain for a
    certificate to serve logs of remote pods with, and which rights the agents lack (RBAC). Why one
    pod waits: `explain`. Exit code 1 if anything is wrong.
    """
    from dispatcher.cli.doctor import examine

    raise typer.Exit(examine(client_of(server), cluster, config, output))


def _list(kind: str, nothing: str, server: str, output: Output, **query: str) -> None:
    from dispatcher.cli import tables
    from dispatcher.cli.output import print_rows

    if any(query.values()):
        nothing = f"no {kind} match"
    columns = {
        "clusters": tables.CLUSTERS,
        "links": tables.LINKS,
        "nodes": tables.NODES,
        "pods": tables.PODS,
        "rebalancing": tables.REBALANCING,
    }[kind]
    print_rows(columns, client_of(server).rows(kind, **query), output, nothing)


def client_of(server: str) -> Any:
    """Who asks the dispatcher there."""
    from dispatcher.cli.api_client import ApiClient

    return ApiClient(server)


def pod_name(text: str, given: str) -> tuple[str, str]:
    """Namespace and name of a pod as written, with the namespace of `-n`; CommandError if it is
    none.
    """
    namespace, slash, name = text.rpartition("/")
    if not name or "/" in namespace or (slash and not namespace):
        raise CommandError(
            f"{text!r} is no pod: write NAMESPACE/POD, or POD for the namespace default",
            ExitCode.USAGE,
        )
    if given and namespace not in ("", given):
        raise CommandError(
            f"{text!r} is not of namespace {given}: leave -n or the namespace out", ExitCode.USAGE
        )
    return namespace or given or "default", name
