"""`global-dispatcher cluster ...`: look, show what will be done, ask, do it, say what became of it in each cluster."""

import asyncio
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, NamedTuple

from dispatcher.runtime.errors import CommandError, ExitCode
from dispatcher.runtime.operate import actions, words
from dispatcher.runtime.operate.actions import Errand
from dispatcher.runtime.operate.members import Member, reached
from dispatcher.runtime.operate.survey import COLUMNS, Sight, bound, copies, survey
from dispatcher.runtime.output import Output, print_table, print_value
from dispatcher.runtime.run import read_config
from dispatcher.runtime.settings import DispatcherConfig


class Wish(NamedTuple):
    """What was asked for on the command line."""

    action: str
    cluster: str
    config: Path
    yes: bool
    dry_run: bool
    output: Output
    timeout_s: float = 600.0
    force: bool = False
    lost: bool = False


class _Action(NamedTuple):
    do: Callable[[Errand], Awaitable[None]]
    will: str  # what it will do; {} the cluster, {pods}, {copies}
    whole: bool = False  # whether it looks at the cluster itself and at all that is left
    evicts: bool = False
    itself: bool = False  # whether it is about that cluster alone
    look: Callable[[Errand], Awaitable[None]] | None = None  # what else to look at first


_CORDON = "no new pods of other clusters go to {name}; the {pods} that run there stay"
_DRAIN = "{name} is cordoned, and {pods} pods that run there are evicted"
_FENCE = (
    "you say that nothing runs in {name} any more: its {pods} pods are let go and replaced elsewhere by their "
    "controllers. If they run on all the same, they run twice"
)
_LEAVE = "{name} is cordoned both ways, and {pods} pods that went there, or came from there, are evicted"
_LOST = (
    "you say that nothing runs in {name} any more and that it never comes back: {pods} pods that went there are "
    "let go, and {copies} copies of its own pods in other clusters are deleted"
)
_CONFIRM = (
    "you say that what {name} shows since it was restored is meant ({pods} pods of its own in other clusters, {copies} "
    "copies of theirs): what is missing there is gone. Copies elsewhere of pods that it lacks are deleted, and pods "
    "elsewhere are let go whose copies it lacks"
)
_FORGET = (
    "the other clusters forget the keys of {name} and believe the next ones that they hear of it: its agent must run "
    "with its new key already. What the old key has signed counts for nothing there from then on"
)
_ACTIONS = {
    "confirm": _Action(actions.confirm, _CONFIRM, itself=True),
    "forget-keys": _Action(actions.forget_keys, _FORGET, look=actions.look_at_keys),
    "cordon": _Action(lambda errand: actions.say_everywhere(errand, words.CORDON), _CORDON),
    "uncordon": _Action(lambda errand: actions.say_everywhere(errand, words.UNCORDON), "pods may go to {name} again"),
    "drain": _Action(actions.drain, _DRAIN, evicts=True),
    "fence": _Action(lambda errand: actions.say_everywhere(errand, words.FENCE), _FENCE),
    "unfence": _Action(
        lambda errand: actions.say_everywhere(errand, words.UNFENCE),
        "what runs in {name} counts again; it stays cordoned until `cluster uncordon {name}`",
    ),
    "leave": _Action(actions.leave, _LEAVE, whole=True, evicts=True),
    "leave --lost": _Action(actions.leave_lost, _LOST, whole=True),
}


def operate(wish: Wish) -> int:
    """Carry out one command; the exit code. CommandError for what cannot begin."""
    config, _ = read_config(wish.config)
    return int(asyncio.run(_operate(wish, config)))


async def _operate(wish: Wish, config: DispatcherConfig) -> ExitCode:
    action = _ACTIONS["leave --lost" if wish.lost else wish.action]
    known = [cluster.name for cluster in config.clusters]
    only = [name for name in known if not (wish.lost and name == wish.cluster)]
    async with reached(config, only) as members:
        sights = await survey(_asked(wish, action, members), wish.cluster, whole=action.whole or action.itself)
        if action.look is not None:
            await action.look(_errand(wish, members, sights))
        _check(wish, action, known, sights)
        will = _will(wish, action, sights)
        _show(wish, sights, will)
        if wish.dry_run:
            return _end(wish, sights, will, done=False)
        _agree(wish)
        await action.do(_errand(wish, members, sights))
    return _end(wish, sights, will, done=True)


def _asked(wish: Wish, action: _Action, members: dict[str, Member]) -> dict[str, Member]:
    return {name: member for name, member in members.items() if name == wish.cluster or not action.itself}


def _errand(wish: Wish, members: dict[str, Member], sights: list[Sight]) -> Errand:
    return Errand(wish.cluster, members, sights, wish.timeout_s, lambda line: _say(f"{wish.cluster}: {line}"))


def _check(wish: Wish, action: _Action, known: list[str], sights: list[Sight]) -> None:
    name, traces = wish.cluster, any(sight.proxy not in ("", "absent") or sight.found.left for sight in sights)
    if name not in known and not traces and not any(sight.problem for sight in sights):
        raise CommandError(f"no cluster {name!r} is known; {wish.config} lists: {', '.join(known)}", ExitCode.NOT_FOUND)
    if name not in known and wish.action == "leave" and not wish.lost:
        raise CommandError(f"{wish.config} does not list {name!r}: put it back, or say --lost if it never comes back")
    alone = [str(pod) for pod in bound(sights) if not (pod.controlled or pod.ended)]
    if action.evicts and alone and not wish.force:
        raise CommandError(
            f"{len(alone)} pods have no controller that would replace them ({', '.join(alone[:3])}): "
            "--force evicts them all the same"
        )
    here = next((sight for sight in sights if sight.name == name), None)
    if action.whole and here is not None and here.problem:
        raise CommandError(f"cluster {name} does not answer ({here.problem}): --lost if it never comes back")


def _will(wish: Wish, action: _Action, sights: list[Sight]) -> str:
    others = [sight for sight in sights if action.itself or sight.name != wish.cluster]
    return action.will.format(name=wish.cluster, pods=len(bound(sights)), copies=len(copies(others)))


def _show(wish: Wish, sights: list[Sight], will: str) -> None:
    if wish.output is Output.TABLE:
        print_table(COLUMNS, [sight.row() for sight in sights])
    for sight in sights:
        if sight.note:
            _say(f"{sight.name}: {sight.note}")
    _say(f"{wish.action} {wish.cluster}: {will}")


def _agree(wish: Wish) -> None:
    if wish.yes:
        return
    if not sys.stdin.isatty():
        raise CommandError("nothing was done: --yes goes on, --dry-run only shows", ExitCode.USAGE)
    sys.stderr.write("Go on? [y/N] ")
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise CommandError("nothing was done")


def _end(wish: Wish, sights: list[Sight], will: str, *, done: bool) -> ExitCode:
    problems = [f"{sight.name}: {sight.problem}" for sight in sights if sight.problem]
    then = _next_steps(wish) if done and not problems and wish.action == "leave" else []
    if wish.output is not Output.TABLE:
        told: dict[str, Any] = {"cluster": wish.cluster, "action": wish.action, "will": will, "done": done}
        rows = [sight.row() for sight in sights]
        print_value({**told, "clusters": rows, "problems": problems, "next": then}, wish.output)
    elif done:
        print_table(COLUMNS, [sight.row() for sight in sights])
    for line in (*problems, *then):
        _say(line)
    if problems:
        _say("not all is done: repeat the command when these clusters answer; what is done stays done")
    return ExitCode.FAILED if problems else ExitCode.OK


def _next_steps(wish: Wish) -> list[str]:
    gone = [] if wish.lost else [f"helm uninstall agent  # in cluster {wish.cluster}, under the name that it has there"]
    return [
        f"remove the entry `- name: {wish.cluster}` from `clusters` of {wish.config} and start the dispatcher again: "
        "the agents then remove its proxy nodes",
        *gone,
    ]


def _say(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()
