"""The command `global-dispatcher`; what is heavy is imported by the command that needs it (start
under 150 ms).
"""

import enum
import os
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from dispatcher.cli.cluster import cluster_app
from dispatcher.cli.command_group import Commands, list_only
from dispatcher.cli.membership import certificates, install, inventory, join, revoke
from dispatcher.cli.options import Config, Out
from dispatcher.cli.output import Output
from dispatcher.cli.queries import clusters, doctor, explain, nodes, pods, rebalance
from dispatcher.cli.queue_view import queue
from dispatcher.cli.signals import signals_app
from dispatcher.cli.support_bundle import support_bundle
from dispatcher.cli.tenants import quota_app, tenants_app
from dispatcher.cli.top import top_app
from dispatcher.service.errors import CommandError


class LogLevel(enum.StrEnum):
    """The --log-level option."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class PluginExample(enum.StrEnum):
    """The --example option; the same as in dispatcher.kit.template."""

    FILTER_SCORE = "filter-score"
    COUNTED = "counted"
    PERMIT = "permit"


_CODES = (
    "Exit codes: 0 done, 1 failed, 2 wrong usage, 3 the dispatcher cannot be reached, 4 not found."
)
# The commands that only ask a dispatcher: all that the plugin's archive has.
_ASKING = (
    "explain",
    "clusters",
    "nodes",
    "pods",
    "queue",
    "rebalance",
    "tenants",
    "doctor",
    "top",
    "support-bundle",
    "version",
)

app = typer.Typer(
    cls=Commands,
    name="global-dispatcher",
    help="One scheduler for the pods of many Kubernetes clusters.\n\n"
    "Start with `global-dispatcher demo`: three clusters on this machine, and pods spreading over "
    "them.\n\n" + _CODES,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
config_app = typer.Typer(
    cls=Commands, help="Look at configuration files.", no_args_is_help=True, rich_markup_mode=None
)
app.add_typer(config_app, name="config")
plugin_app = typer.Typer(
    cls=Commands, help="Write and check plugins.", no_args_is_help=True, rich_markup_mode=None
)
app.add_typer(plugin_app, name="plugin")
app.add_typer(cluster_app, name="cluster")
app.add_typer(top_app, name="top")
app.add_typer(signals_app, name="signals")
app.add_typer(tenants_app, name="tenants")
app.add_typer(quota_app, name="quota")
for _one in (join, revoke, certificates, install, inventory):
    app.command()(_one)

Level = Annotated[LogLevel, typer.Option("--log-level", help="What to log to stderr.")]


@app.command()
def demo(  # noqa: PLR0913 - an option is an argument
    real: Annotated[
        bool,
        typer.Option(
            "--real",
            help="On real control planes (kube-apiserver, etcd, kube-controller-manager, KWOK "
            "nodes; 400 MiB each), "
            "from KUBEBUILDER_ASSETS or built once with Go.",
        ),
    ] = False,
    clusters: Annotated[int, typer.Option(min=1, max=32, help="How many clusters.")] = 3,
    nodes: Annotated[
        int | None,
        typer.Option(min=1, max=1000, help="Nodes in each cluster (default 10; with --trace all)."),
    ] = None,
    pods: Annotated[
        int | None, typer.Option(min=1, help="About how many pods (default 40; with --trace 1000).")
    ] = None,
    once: Annotated[
        bool, typer.Option("--once", help="End with a table; exit code 0 if all pods run.")
    ] = False,
    keep: Annotated[
        bool, typer.Option("--keep", help="Stay up until Ctrl-C and say how to use kubectl.")
    ] = False,
    keep_state: Annotated[
        bool, typer.Option("--keep-state", help="Leave the clusters' state on disk.")
    ] = False,
    trace: Annotated[
        Path | None,
        typer.Option(help="Replay nodes.csv and pods.csv (openb format) of this folder instead."),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(
            help="Plugins, profiles, tenants and times of this configuration; its clusters are "
            "left aside."
        ),
    ] = None,
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port of the HTTP API; 0 takes a free one.")
    ] = 7480,
    timeout: Annotated[
        float, typer.Option(min=1, help="Seconds that --once waits for the pods.")
    ] = 120.0,
    output: Out = Output.TABLE,
    level: Level = LogLevel.ERROR,
) -> None:
    """Start a fleet here and watch pods spread over it.

    Everything is submitted in the first cluster; each placement says why it was made. On a terminal
    it goes on until Ctrl-C; with --once it ends when all pods run, with --keep it says how to use
    kubectl and stays. The clusters are embedded ones that need nothing installed; with --real they
    are real control planes.
    """
    if (
        find_spec("localfleet") is None and find_spec("agents") is not None
    ):  # the image, not the plugin
        raise CommandError(
            "demo: clusters of its own are not in the image: run it from a checkout (`make demo`)"
        )
    from localfleet.demo.demo import DemoOptions, run_demo

    options = DemoOptions(
        real, clusters, nodes, pods, once, keep, keep_state, trace, config, port, timeout, output
    )
    raise typer.Exit(run_demo(options, level.value))


@app.command()
def run(
    config: Config,
    level: Annotated[
        LogLevel | None, typer.Option("--log-level", help="Instead of log.level.")
    ] = None,
) -> None:
    """Schedule for the clusters of a configuration.

    Their agents run beside the dispatcher, with the kubeconfig contexts that it lists.
    """
    from dispatcher.api.listen import listen
    from dispatcher.service.run import run_dispatcher
    from shared.process.limits import collect_less_often

    collect_less_often()
    raise typer.Exit(run_dispatcher(config, level.value if level else None, listen))


@app.command()
def agent(
    config: Annotated[
        Path, typer.Option("--config", metavar="FILE", help="The agent's settings, agent.yaml.")
    ],
    node_ip: Annotated[
        str,
        typer.Option(
            "--node-ip",
            metavar="IP",
            help="Where API server and pods reach it: relay.address, links.pod_address.",
        ),
    ] = "",
    role: Annotated[
        str,
        typer.Option(
            "--role",
            metavar="observer|executor|both",
            help="Instead of role: one half of the agent.",
        ),
    ] = "",
) -> None:
    """Run the agent of a cluster, beside its API server, and stay.

    Exit codes: 0 stopped by a signal, 2 wrong configuration.
    """
    from agents.runtime.join.process import join

    raise typer.Exit(join(config, node_ip, role))


@app.command()
def admit(
    cert_file: Annotated[Path, typer.Option(metavar="FILE", help="Certificate, PEM.")],
    key_file: Annotated[Path, typer.Option(metavar="FILE", help="Its key, PEM.")],
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 takes a free one.")] = 9443,
) -> None:
    """Serve the admission webhook that gives annotated pods our schedulerName.

    For API servers without MutatingAdmissionPolicy; the agent's chart sets both up. POST /admit,
    GET /livez.
    """
    from agents.runtime.admission.server import serve
    from shared.process.logs import configure_logging

    configure_logging("info")
    try:
        serve(host, port, cert_file, key_file)
    except OSError as error:  # ssl.SSLError is one
        raise CommandError(
            f"cannot serve at {host}:{port} with {cert_file} and {key_file}: {error}"
        ) from None


app.command()(explain)


@app.command()
def journal(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="The file that `journal.path` names.")
    ],
) -> None:
    """Print a journal of decisions, oldest first, as a line of JSON each: for jq and the like.

    What was written before FILE last began anew is in FILE.1, and is printed first.
    """
    from dispatcher.cli.journal_view import print_journal

    print_journal(file)


for _query in (clusters, nodes, pods, queue, rebalance, doctor):
    app.command()(_query)


@config_app.command("check")
def config_check(
    file: Annotated[
        Path,
        typer.Argument(
            help="dispatcher.yaml; agent.yaml where the agent is to run; or a tenants file, but "
            "for the names of clusters in it."
        ),
    ],
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
        PluginExample,
        typer.Option(
            help="What it starts as: a filter and a score by labels, a rule over counts of pods, "
            "or one app after another at Permit."
        ),
    ] = PluginExample.FILTER_SCORE,
    directory: Annotated[
        Path | None, typer.Option(help="Where to; default: a new folder of that name here.")
    ] = None,
) -> None:
    """Write a plugin with its tests, and a profile to try it in, from a template."""
    from dispatcher.cli.plugin_files import write_new

    write_new(name, example.value, directory)


@plugin_app.command("check")
def plugin_check(
    file: Annotated[Path, typer.Argument(help="A Python file that holds PLUGIN.")],
    output: Out = Output.TABLE,
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
    from shared.version import version as installed

    if output is Output.TABLE:
        typer.echo(f"global-dispatcher {installed()}")
    else:
        print_value({"version": installed(), "python": sys.version.split()[0]}, output)


def main() -> None:
    """The console script."""
    app()


def kubectl_plugin() -> None:
    """The same as a plugin of kubectl: it asks the dispatcher of the current context unless told
    another.
    """
    from dispatcher.cli.kubectl_flags import SERVER_VARIABLE, taken_over

    try:
        words, changed = taken_over(sys.argv[1:], {*_ASKING} - {"version"})
    except CommandError as error:
        sys.stderr.write(f"error: {error}\n")
        sys.exit(int(error.code))
    os.environ.update(changed)
    os.environ.setdefault(SERVER_VARIABLE, "kubectl:")
    if find_spec("agents") is None:
        list_only(app, _ASKING)
        app.info.help = (
            "Ask a Global Dispatcher in a cluster: why a pod is where it is, how clusters "
            f"are.\n\n{_CODES}"
        )
    app.info.epilog = "--context and --kubeconfig say which cluster is asked, as of kubectl."
    try:
        app(words, prog_name="kubectl dispatch")
    except ModuleNotFoundError as error:
        sys.exit(
            f"error: this command is not in the plugin (no {error.name}): install "
            "global-dispatcher itself"
        )


if __name__ == "__main__":
    main()
