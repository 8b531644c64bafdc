"""`global-dispatcher cluster cordon | uncordon | drain | fence | ... NAME`: the options and their help."""

from pathlib import Path
from typing import Annotated

import typer

from dispatcher.runtime.command_group import Commands
from dispatcher.runtime.output import Output

cluster_app = typer.Typer(
    cls=Commands,
    help="Take a cluster out of service, and back; say what only you can know.\n\n"
    "Each command writes on the proxy nodes of NAME in all other clusters, with the kubeconfig contexts of the "
    "configuration: what you may do there decides. `confirm` and `forget-keys` write on the Lease that holds the "
    "agent's state, of NAME or of all others. Each shows first what it will do. Exit code 1 if a cluster could "
    "not be reached; repeating a command is safe.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

Name = Annotated[str, typer.Argument(metavar="NAME", help="The cluster, as the configuration names it.")]
Config = Annotated[Path, typer.Option("--config", "-c", help="The dispatcher's configuration file.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Go on without asking.")]
Dry = Annotated[bool, typer.Option("--dry-run", help="Only show what would be done.")]
Out = Annotated[Output, typer.Option("-o", "--output", help="How to print.")]
Force = Annotated[bool, typer.Option("--force", help="Even if pods without a controller are lost by it.")]
Sure = Annotated[
    bool, typer.Option("--force", help="Even if the cluster answers, or pods without a controller are lost by it.")
]
Timeout = Annotated[float, typer.Option("--timeout", min=1, help="Seconds that pods may take to go.")]
Heed = Annotated[float, typer.Option("--timeout", min=1, help="Seconds that agents may take to do it.")]


@cluster_app.command()
def cordon(name: Name, config: Config, yes: Yes = False, dry_run: Dry = False, output: Out = Output.TABLE) -> None:
    """Let no new pods of other clusters go there; what runs there stays."""
    _run("cordon", name, config, yes, dry_run, output)


@cluster_app.command()
def uncordon(name: Name, config: Config, yes: Yes = False, dry_run: Dry = False, output: Out = Output.TABLE) -> None:
    """Let pods go there again, and its own elsewhere if `leave` had stopped that."""
    _run("uncordon", name, config, yes, dry_run, output)


@cluster_app.command()
def drain(
    name: Name,
    config: Config,
    yes: Yes = False,
    dry_run: Dry = False,
    force: Force = False,
    timeout: Timeout = 600.0,
    output: Out = Output.TABLE,
) -> None:
    """Cordon it and evict the pods of other clusters that run there.

    The PodDisruptionBudgets of the clusters where the pods were submitted hold.
    """
    _run("drain", name, config, yes, dry_run, output, timeout_s=timeout, force=force)


@cluster_app.command()
def fence(
    name: Name,
    config: Config,
    yes: Yes = False,
    dry_run: Dry = False,
    force: Sure = False,
    output: Out = Output.TABLE,
) -> None:
    """Say that nothing runs there any more, so that its pods are replaced elsewhere.

    Only for a cluster that is really off: what runs on there behind a broken line then runs twice.
    """
    _run("fence", name, config, yes, dry_run, output, force=force)


@cluster_app.command()
def unfence(name: Name, config: Config, yes: Yes = False, dry_run: Dry = False, output: Out = Output.TABLE) -> None:
    """Take the word back; the cluster stays cordoned until `uncordon`."""
    _run("unfence", name, config, yes, dry_run, output)


@cluster_app.command()
def leave(  # noqa: PLR0913, PLR0917 - an option is an argument
    name: Name,
    config: Config,
    yes: Yes = False,
    dry_run: Dry = False,
    force: Sure = False,
    lost: Annotated[
        bool, typer.Option("--lost", help="It never comes back: fence instead of drain, delete copies of its pods.")
    ] = False,
    timeout: Timeout = 600.0,
    output: Out = Output.TABLE,
) -> None:
    """Take it out of the fleet: move all pods home or elsewhere, see that nothing is left, say what to remove."""
    _run("leave", name, config, yes, dry_run, output, timeout_s=timeout, force=force, lost=lost)


@cluster_app.command()
def confirm(
    name: Name,
    config: Config,
    yes: Yes = False,
    dry_run: Dry = False,
    timeout: Heed = 60.0,
    output: Out = Output.TABLE,
) -> None:
    """Say that what a restored cluster shows now is meant: what is missing there is gone.

    While its API server is held to have gone back in time, nothing is concluded from what is missing there.
    """
    _run("confirm", name, config, yes, dry_run, output, timeout_s=timeout)


@cluster_app.command(name="forget-keys")
def forget_keys(
    name: Name,
    config: Config,
    yes: Yes = False,
    dry_run: Dry = False,
    timeout: Heed = 60.0,
    output: Out = Output.TABLE,
) -> None:
    """Make all clusters forget its public keys, so that its agent may sign with another one, and is believed.

    For a key that was stolen or lost. First stop every agent with the old key, and start one with the new key alone.
    """
    _run("forget-keys", name, config, yes, dry_run, output, timeout_s=timeout)


def _run(  # noqa: PLR0913 - one for each option
    action: str,
    name: str,
    config: Path,
    yes: bool,
    dry_run: bool,
    output: Output,
    *,
    timeout_s: float = 600.0,
    force: bool = False,
    lost: bool = False,
) -> None:
    from dispatcher.runtime.operate.command import operate
    from dispatcher.runtime.operate.table import Wish

    raise typer.Exit(operate(Wish(action, name, config, yes, dry_run, output, timeout_s, force, lost)))
