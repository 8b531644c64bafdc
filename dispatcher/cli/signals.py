"""`global-dispatcher signals check`: its options."""

from pathlib import Path
from typing import Annotated

import typer

from dispatcher.cli.command_group import Commands
from dispatcher.cli.options import Out
from dispatcher.cli.output import Output

signals_app = typer.Typer(
    cls=Commands,
    help="Look at what is read of nodes: live load by signal, from the sources of agents.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@signals_app.callback()
def _group() -> None:
    """Without it typer makes a group of one command that command."""


@signals_app.command("check")
def check(
    config: Annotated[
        Path,
        typer.Option(
            "--config",
            "-c",
            metavar="FILE",
            help="The dispatcher's configuration file, or an agent.yaml.",
        ),
    ],
    cluster: Annotated[str, typer.Option(help="Only of this cluster.")] = "",
    node: Annotated[
        list[str] | None, typer.Option(help="Show this node; may be repeated. Default: the first.")
    ] = None,
    limit: Annotated[
        int, typer.Option(min=1, max=100, help="Only so many nodes of each cluster.")
    ] = 3,
    wait: Annotated[
        float, typer.Option(min=0, help="Seconds that rates of counters may take to be known.")
    ] = 15.0,
    output: Out = Output.TABLE,
) -> None:
    """Ask the sources of live load once, and show what would be read for three nodes.

    It asks as the agents of the file would, from here, with the kubeconfig contexts and credentials
    of the file; in an agent's pod, give it /etc/global-dispatcher/agent.yaml. A dispatcher need not
    run, and nothing is changed. Each problem is told with its key and what to do. Exit code 1 if
    there is any.
    """
    from dispatcher.cli.signals_check import Wanted, check_signals

    raise typer.Exit(check_signals(config, Wanted(cluster, tuple(node or ()), limit, wait), output))
