"""The command `global-dispatcher`; what is heavy is imported by the command that needs it (start under 150 ms)."""

import enum
import os
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import typer

from dispatcher.cli.cluster import cluster_app
from dispatcher.cli.command_group import Commands, list_only
from dispatcher.cli.membership import certificates, install, inventory, join, revoke
from dispatcher.cli.options import DEFAULT_SERVER, Config, Out, Server
from dispatcher.cli.output import Output
from dispatcher.cli.signals import signals_app
from dispatcher.cli.support_bundle import support_bundle
from dispatcher.cli.top import top_app
from dispatcher.service.errors import CommandError, ExitCode


class LogLevel(enum.StrEnum):
    """The --log-level option."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class PluginExample(enum.StrEnum):
    """The --example option; the same as in dispatcher.kit.template."""

    FILTER_SCORE = "filter-score"
    PERMIT = "permit"


_CODES = "Exit codes: 0 done, 1 failed, 2 wrong usage, 3 the dispatcher cannot be reached, 4 not found."
# The commands that only ask a dispatcher: all that the plugin's archive has.
_ASKING = ("explain", "clusters", "nodes", "pods", "rebalance", "doctor", "top", "support-bundle", "version")

app = typer.Typer(
    cls=Commands,
    name="global-dispatcher",
    help="One scheduler for the pods of many Kubernetes clusters.\n\n"
    "Start with `global-dispatcher demo`: three clusters on this machine, and pods spreading over them.\n\n" + _CODES,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
config_app = typer.Typer(cls=Commands, help="Look at configuration files.", no_args_is_help=True, rich_markup_mode=None)
app.add_typer(config_app, name="config")
plugin_app = typer.Typer(cls=Commands, help="Write and check plugins.", no_args_is_help=True, rich_markup_mode=None)
app.add_typer(plugin_app, name="plugin")
app.add_typer(cluster_app, name="cluster")
app.add_typer(top_app, name="top")
app.add_typer(signals_app, name="signals")
for _one in (join, revoke, certificates, install, inventory):
    app.command()(_one)

Level = Annotated[LogLevel, typer.Option("--log-level", help="What to log to stderr.")]


@app.command()
def demo(  # noqa: PLR0913 - an option is an argument
    real: Annotated[
        bool,
        typer.Option(
            "--real",
            help="On real control planes (kube-apiserver, etcd, kube-controller-manager, KWOK nodes; 400 MiB each), "
            "from KUBEBUILDER_ASSETS or built once with Go.",
        ),
    ] = False,
    clusters: Annotated[int, typer.Option(min=1, max=32, help="How many clusters.")] = 3,
    nodes: Annotated[
        int | None, typer.Option(min=1, max=1000, help="Nodes in each cluster (default 10; with --trace all).")
    ] = None,
    pods: Annotated[
        int | None, typer.Option(min=1, help="About how many pods (default 40; with --trace 1000).")
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="End with a table; exit code 0 if all pods run.")] = False,
    keep: Annotated[bool, typer.Option("--keep", help="Stay up until Ctrl-C and say how to use kubectl.")] = False,
    keep_state: Annotated[bool, typer.Option("--keep-state", help="Leave the clusters' state on disk.")] = False,
    trace: Annotated[
        Path | None, typer.Option(help="Replay nodes.csv and pods.csv (openb format) of this folder instead.")
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(help="Plugins, profiles, tenants and times of this configuration; its clusters are left aside."),
    ] = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port of the HTTP API; 0 takes a free one.")] = 7480,
    timeout: Annotated[float, typer.Option(min=1, help="Seconds that --once waits for the pods.")] = 120.0,
    output: Out = Output.TABLE,
    level: Level = LogLevel.ERROR,
) -> None:
    """Start a fleet here and watch pods spread over it.

    Everything is submitted in the first cluster; each placement says why it was made. On a terminal it goes on until
    Ctrl-C; with --once it ends when all pods run, with --keep it says how to use kubectl and stays. The clusters are
    embedded ones that need nothing installed; with --real they are real control planes.
    """
    from localfleet.demo.demo import DemoOptions, run_demo

    options = DemoOptions(real, clusters, nodes, pods, once, keep, keep_state, trace, config, port, timeout, output)
    raise typer.Exit(run_demo(options, level.value))


@app.command()
def run(
    config: Config,
    level: Annotated[LogLevel | None, typer.Option("--log-level", help="Instead of log.level.")] = None,
) -> None:
    """Schedule for the clusters of a configuration.

    Their agents run beside the dispatcher, with the kubeconfig contexts that it lists.
    """
    from agents.runtime.limits import collect_less_often
    from dispatcher.api.listen import listen
    from dispatcher.service.run import run_dispatcher

    collect_less_often()
    raise typer.Exit(run_dispatcher(config, level.value if level else None, listen))


@app.command()
def agent(
    config: Annotated[Path, typer.Option("--config", metavar="FILE", help="The agent's settings, agent.yaml.")],
    node_ip: Annotated[str, typer.Option("--node-ip", metavar="IP", help="Instead of ray.node_ip.")] = "",
    role: Annotated[
        str, typer.Option("--role", metavar="observer|executor|both", help="Instead of role: one half of the agent.")
    ] = "",
) -> None:
    """Run the agent of a cluster, beside its API server, and stay.

    Exit codes: 0 stopped by a signal, 1 lost (to be started again), 2 wrong configuration.
    """
    from agents.runtime.join.process import join

    code = join(config, node_ip, role)
    sys.stderr.flush()
    os._exit(code)  # Ray's own exit handlers wait for a head that may be gone


@app.command()
def admit(
    cert_file: Annotated[Path, typer.Option(metavar="FILE", help="Certificate, PEM.")],
    key_file: Annotated[Path, typer.Option(metavar="FILE", help="Its key, PEM.")],
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 takes a free one.")] = 9443,
) -> None:
    """Serve the admission webhook that gives annotated pods our schedulerName.

    For API servers without MutatingAdmissionPolicy; the agent's chart sets both up. POST /admit, GET /livez.
    """
    from agents.runtime.admission.server import serve
    from agents.runtime.logs import configure_logging

    configure_logging("info")
    try:
        serve(host, port, cert_file, key_file)
    except OSError as error:  # ssl.SSLError is one
        raise CommandError(f"cannot serve at {host}:{port} with {cert_file} and {key_file}: {error}") from None


@app.command()
def explain(
    pod: Annotated[
        str,
        typer.Argument(metavar="NAMESPACE/POD", help="A pod; without a namespace, of that of -n, else `default`."),
    ],
    of_namespace: Annotated[str, typer.Option("-n", "--namespace", help="Namespace of the pod.")] = "",
    cluster: Annotated[str, typer.Option(help="The cluster it was submitted in, if several have one.")] = "",
    output: Out = Output.TABLE,
    server: Server = DEFAULT_SERVER,
) -> None:
    """Say why a pod went where it is, or why it waits."""
    from dispatcher.cli.output import make_console, print_value

    namespace, name = _pod_name(pod, of_namespace)
    found = _client(server).explain(namespace, name, cluster)
    if output is not Output.TABLE:
        print_value(found, output)
        return
    from dispatcher.cli.explain_view import print_explained

    print_explained(make_console(), found)


@app.command()
def journal(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The file that `journal.path` names.")],
) -> None:
    """Print a journal of decisions, oldest first, as a line of JSON each: for jq and the like.

    What was written before FILE last began anew is in FILE.1, and is printed first.
    """
    from dispatcher.cli.journal_view import print_journal

    print_journal(file)


@app.command()
def clusters(
    links: Annotated[bool, typer.Option("--links", help="How far they are from each other instead.")] = False,
    output: Out = Output.TABLE,
    server: Server = DEFAULT_SERVER,
) -> None:
    """List the clusters: readiness, nodes, pods.

    PODS: that run there. REMOTE: copies there of other clusters' pods, ended ones too. SUBMITTED: to us in that
    cluster, wherever they run. REPORT: since its agent last answered.

    With --links: the round-trip times that agents measured, and those that count.
    """
    if links:
        _list("links", "there are no two clusters", server, output)
    else:
        _list("clusters", "no clusters are configured", server, output)


@app.command()
def nodes(
    cluster: Annotated[str, typer.Option(help="Only of this cluster.")] = "",
    output: Out = Output.TABLE,
    server: Server = DEFAULT_SERVER,
) -> None:
    """List the nodes of all clusters: requests and live load.

    SAMPLE AGE is that of the reading of CPU. `top nodes` sorts by load and shows all signals, and who told them.
    """
    _list("nodes", "no nodes are known yet", server, output, cluster=cluster)


@app.command()
def pods(
    namespace: Annotated[str, typer.Option("-n", "--namespace", help="Only of this namespace.")] = "",
    cluster: Annotated[str, typer.Option(help="Only those that run in this cluster.")] = "",
    source: Annotated[str, typer.Option(help="Only those submitted in this cluster.")] = "",
    output: Out = Output.TABLE,
    server: Server = DEFAULT_SERVER,
) -> None:
    """List our pods: from where, to where, and why."""
    _list(
        "pods", "no pods were submitted to us yet", server, output, namespace=namespace, cluster=cluster, source=source
    )


@app.command()
def rebalance(output: Out = Output.TABLE, server: Server = DEFAULT_SERVER) -> None:
    """List the pods that were moved off hot nodes, or would be in a dry run; and those that stay there, and why.

    GAIN is what the move wins, in points of a node's cost: 0 is an idle node, 100 a full one. It changes nothing.
    """
    _list("rebalancing", "no node is a hot spot, and no pod was moved", server, output)


@app.command()
def doctor(
    cluster: Annotated[str, typer.Option(help="Only of this cluster.")] = "",
    config: Annotated[
        Path | None,
        typer.Option(
            "--config",
            "-c",
            help="Also ask each cluster, by contexts of this dispatcher.yaml: opt-in, certificates, agents' rights.",
        ),
    ] = None,
    output: Out = Output.TABLE,
    server: Server = DEFAULT_SERVER,
) -> None:
    """Say what is wrong with clusters and their sources of live load, and what to do about it.

    Clusters that are away, clocks that differ, versions that do not go together; sources that fail or are stale, nodes
    of which nothing is told, series that mean no node or several; what of the gateway's and the agents' certificates
    and of revocation lists ends soon. With --config also what gives pods our schedulerName in each cluster, tried with
    a pod that is never stored, which agents ask in vain for a certificate to serve logs of remote pods with, and which
    rights the agents' service accounts lack (RBAC). Exit code 1 if anything is wrong.
    """
    from dispatcher.cli.doctor import examine

    raise typer.Exit(examine(_client(server), cluster, config, output))


@config_app.command("check")
def config_check(
    file: Annotated[Path, typer.Argument(help="dispatcher.yaml, or agent.yaml where the agent is to run.")],
    output: Out = Output.TABLE,
) -> None:
    """Check a configuration file and all that it names, certificates too.

    Every problem is told with file, line, key and fix. A file with the key `cluster` is an agent's.
    """
    from dispatcher.cli.config_check import check

    raise typer.Exit(check(file, output))


@plugin_app.command("new")
def plugin_new(
    name: Annotated[str, typer.Argument(help="Its name in profiles, like NodeAffinity.")],
    example: Annotated[
        PluginExample, typer.Option(help="What it starts as: a filter and a score by labels, or a gang at Permit.")
    ] = PluginExample.FILTER_SCORE,
    directory: Annotated[Path | None, typer.Option(help="Where to; default: a new folder of that name here.")] = None,
) -> None:
    """Write a plugin with its tests, and a profile to try it in, from a template."""
    from dispatcher.cli.plugin_files import write_new

    write_new(name, example.value, directory)


@plugin_app.command("check")
def plugin_check(
    file: Annotated[Path, typer.Argument(help="A Python file that holds PLUGIN.")], output: Out = Output.TABLE
) -> None:
    """Hold a plugin file to the laws of plugins."""
    from dispatcher.cli.plugin_files import check

    raise typer.Exit(check(file, output))


@plugin_app.command("list")
def plugin_list(output: Out = Output.TABLE) -> None:
    """List all plugins: extension points and arguments."""
    from dispatcher.cli.plugin_files import print_plugins

    print_plugins(output)


app.command("support-bundle")(support_bundle)


@app.command()
def version(output: Out = Output.TABLE) -> None:
    """Show the version."""
    from dispatcher.cli.output import print_value
    from dispatcher.version import version as installed

    if output is Output.TABLE:
        typer.echo(f"global-dispatcher {installed()}")
    else:
        print_value({"version": installed(), "python": sys.version.split()[0]}, output)


def main() -> None:
    """The console script."""
    app()


def kubectl_plugin() -> None:
    """The same as a plugin of kubectl: it asks the dispatcher of the current context unless told another."""
    os.environ.setdefault("GLOBAL_DISPATCHER_SERVER", "kubectl:")
    if find_spec("agents") is None:
        list_only(app, _ASKING)
        app.info.help = f"Ask a Global Dispatcher in a cluster: why a pod is where it is, how clusters are.\n\n{_CODES}"
    try:
        app(prog_name="kubectl dispatch")
    except ModuleNotFoundError as error:
        sys.exit(f"error: this command is not in the plugin (no {error.name}): install global-dispatcher itself")


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
    print_rows(columns, _client(server).rows(kind, **query), output, nothing)


def _client(server: str) -> Any:
    from dispatcher.cli.api_client import ApiClient

    return ApiClient(server)


def _pod_name(text: str, given: str) -> tuple[str, str]:
    namespace, slash, name = text.rpartition("/")
    if not name or "/" in namespace or (slash and not namespace):
        raise CommandError(f"{text!r} is no pod: write NAMESPACE/POD, or POD for the namespace default", ExitCode.USAGE)
    if given and namespace not in ("", given):
        raise CommandError(f"{text!r} is not of namespace {given}: leave -n or the namespace out", ExitCode.USAGE)
    return namespace or given or "default", name


if __name__ == "__main__":
    main()
