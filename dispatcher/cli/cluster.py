"""`global-dispatcher cluster cordon | uncordon | drain | fence | ... NAME`: the table of commands
and their options.
"""

from collections.abc import Callable
from inspect import Parameter, Signature
from typing import Annotated, Any, NamedTuple

import typer

from dispatcher.cli.command_group import Commands
from dispatcher.cli.options import DEFAULT_SERVER, Config, Out, Server
from dispatcher.cli.output import Output

cluster_app = typer.Typer(
    cls=Commands,
    help="Take a cluster out of service, and back; say what only you can know.\n\n"
    "Each command writes on the proxy nodes of NAME in all other clusters, with the kubeconfig "
    "contexts of the "
    "configuration: what you may do there decides. `confirm` and `forget-keys` write on the Lease "
    "that holds the "
    "agent's state, of NAME or of all others. Each shows first what it will do. Exit code 1 if a "
    "cluster could "
    "not be reached; repeating a command is safe.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


def _argument(name: str, help_text: str) -> Parameter:
    return _parameter(
        name, Annotated[str, typer.Argument(metavar="NAME", help=help_text)], Parameter.empty
    )


def _switch(name: str, *words: str, help_text: str) -> Parameter:
    return _parameter(name, Annotated[bool, typer.Option(*words, help=help_text)], False)


def _seconds(default: float, help_text: str) -> Parameter:
    return _parameter(
        "timeout_s", Annotated[float, typer.Option("--timeout", min=1, help=help_text)], default
    )


def _parameter(name: str, kind: Any, default: Any) -> Parameter:
    return Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=kind)


# What every command takes before and after its own; the names are the fields of
# `operate.table.Wish`.
_FIRST = (
    _argument("cluster", "The cluster, as the configuration names it."),
    _parameter("config", Config, Parameter.empty),
    _switch("yes", "--yes", "-y", help_text="Go on without asking."),
    _switch("dry_run", "--dry-run", help_text="Only show what would be done."),
)
_LAST = (_parameter("output", Out, Output.TABLE),)

_ORPHANS = _switch(
    "force", "--force", help_text="Even if pods without a controller are lost by it."
)
_SURE = _switch(
    "force",
    "--force",
    help_text="Even if the cluster answers, or pods without a controller are lost by it.",
)
_LOST = _switch(
    "lost",
    "--lost",
    help_text="It never comes back: fence instead of drain, delete copies of its pods.",
)
_SERVER = _parameter("server", Server, DEFAULT_SERVER)  # asked in a dry run
_PODS_GO = _seconds(600.0, "Seconds that pods may take to go.")
_AGENTS_HEED = _seconds(60.0, "Seconds that agents may take to do it.")


class _Command(NamedTuple):
    name: str
    help: str
    options: tuple[Parameter, ...] = ()


_COMMANDS = (
    _Command("cordon", "Let no new pods of other clusters go there; what runs there stays."),
    _Command(
        "uncordon", "Let pods go there again, and its own elsewhere if `leave` had stopped that."
    ),
    _Command(
        "drain",
        "Cordon it and evict the pods of other clusters that run there.\n\n"
        "The PodDisruptionBudgets of the clusters where the pods were submitted hold. With "
        "--dry-run the running "
        "dispatcher says which pods have no other place.",
        (_ORPHANS, _PODS_GO, _SERVER),
    ),
    _Command(
        "fence",
        "Say that nothing runs there any more, so that its pods are replaced elsewhere.\n\n"
        "Only for a cluster that is really off: what runs on there behind a broken line then runs "
        "twice.",
        (_SURE,),
    ),
    _Command("unfence", "Take the word back; the cluster stays cordoned until `uncordon`."),
    _Command(
        "leave",
        "Take it out of the fleet: move all pods home or elsewhere, see that nothing is left, say "
        "what to remove.",
        (_SURE, _LOST, _PODS_GO, _SERVER),
    ),
    _Command(
        "confirm",
        "Say that what a restored cluster shows now is meant: what is missing there is gone.\n\n"
        "While its API server is held to have gone back in time, nothing is concluded from what "
        "is missing there.",
        (_AGENTS_HEED,),
    ),
    _Command(
        "forget-keys",
        "Make all clusters forget its public keys, so that its agent may sign with another one, "
        "and is believed.\n\n"
        "For a key that was stolen or lost. First stop agents with the old key, and start one "
        "with the new key alone.",
        (_AGENTS_HEED,),
    ),
)


def _callback(command: _Command) -> Callable[..., None]:
    def run(**given: Any) -> None:
        from dispatcher.cli.operate.command import operate
        from dispatcher.cli.operate.table import Wish

        raise typer.Exit(operate(Wish(command.name, **given)))

    run.__signature__ = Signature([*_FIRST, *command.options, *_LAST])  # type: ignore[attr-defined]  # typer reads it
    return run


for _one in _COMMANDS:
    cluster_app.command(_one.name, help=_one.help)(_callback(_one))
