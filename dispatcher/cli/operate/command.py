"""`global-dispatcher cluster ...`: look, show what will be done, ask, do it, say what became of it
in each cluster.
"""

import asyncio
import sys
from typing import Any

from dispatcher.cli.operate.actions import Errand
from dispatcher.cli.operate.checks import (
    check_name,
    named,
    refusals,
    signs_of_life,
    without_controller,
)
from dispatcher.cli.operate.elsewhere import Elsewhere, ask_elsewhere
from dispatcher.cli.operate.identity import check_contexts
from dispatcher.cli.operate.members import Member, reached
from dispatcher.cli.operate.survey import COLUMNS, Sight, bound, copies, how_many, survey
from dispatcher.cli.operate.table import Wish
from dispatcher.cli.output import Output, print_table, print_value
from dispatcher.config import DispatcherConfig
from dispatcher.service.errors import CommandError, ExitCode
from dispatcher.service.interrupts import ctrl_c_heard, interruptible
from dispatcher.service.run import read_config


def operate(wish: Wish) -> int:
    """Carry out one command; the exit code. CommandError for what cannot begin."""
    config, _ = read_config(wish.config)
    with ctrl_c_heard():
        return int(asyncio.run(_operate(wish, config)))


async def _operate(wish: Wish, config: DispatcherConfig) -> ExitCode:
    action = wish.does
    known = [cluster.name for cluster in config.clusters]
    async with reached(config) as members:
        await check_contexts(wish.config, config, members)
        asked = _asked(wish, members)
        sights = await survey(asked, wish.cluster, whole=action.whole or action.itself)
        errand = Errand(
            wish.cluster,
            asked,
            sights,
            wish.timeout_s,
            lambda line: _say(f"{wish.cluster}: {line}"),
            [],
        )
        if action.look is not None:
            await action.look(errand)
        check_name(wish, known, sights)
        alive = await signs_of_life(members.get(wish.cluster)) if action.instead else ""
        against = refusals(wish, known, sights, alive)
        will = _will(wish, sights)
        _show(wish, sights, will)
        if alive and wish.force:
            _say(f"all the same: {alive}")
        if wish.dry_run:
            leave = wish.action == "leave"
            elsewhere = (
                await ask_elsewhere(wish.server, wish.cluster, leave=leave)
                if action.evicts
                else None
            )
            return _end(
                wish,
                sights,
                will,
                [f"would be refused: {why}" for why in against],
                elsewhere,
                done=False,
            )
        if against:
            raise CommandError("; ".join(against))
        _agree(wish)
        await _do(wish, errand)
    return _end(wish, sights, will, [], None, done=True)


def _asked(wish: Wish, members: dict[str, Member]) -> dict[str, Member]:
    """The clusters that the command is about: itself, all, or all but the one that is lost."""
    if wish.does.itself:
        return {name: member for name, member in members.items() if name == wish.cluster}
    return {
        name: member for name, member in members.items() if not (wish.lost and name == wish.cluster)
    }


async def _do(wish: Wish, errand: Errand) -> None:
    try:
        await wish.does.do(errand)
    except asyncio.CancelledError:  # Ctrl-C
        stays = wish.does.stays.format(name=wish.cluster, asked=len(errand.asked))
        raise CommandError(f"interrupted: {stays}") from None


def _will(wish: Wish, sights: list[Sight]) -> str:
    others = [sight for sight in sights if wish.does.itself or sight.name != wish.cluster]
    alone = without_controller(sights)
    gone = f"; {len(alone)} without one are gone for good ({named(alone)})" if alone else ""
    pods = how_many(bound(sights), sights)
    copied = how_many(copies(others), others)
    will = wish.does.will.format(name=wish.cluster, pods=pods, copies=copied, gone=gone)
    silent = ", ".join(sight.name for sight in sights if sight.problem and not sight.counted)
    if not silent:
        return will
    unseen = wish.does.unseen.format(name=wish.cluster, silent=silent)
    return f"{will}. Nobody knows which pods are meant in {silent}, which cannot be asked: {unseen}"


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
    try:
        with interruptible():  # the event loop would only note Ctrl-C until a line is read
            answer = sys.stdin.readline()
    except KeyboardInterrupt:
        answer = ""
    if answer.strip().lower() not in ("y", "yes"):
        raise CommandError("nothing was done")


def _end(
    wish: Wish,
    sights: list[Sight],
    will: str,
    against: list[str],
    elsewhere: Elsewhere | None,
    *,
    done: bool,
) -> ExitCode:
    silent = [f"{sight.name}: {sight.problem}" for sight in sights if sight.problem]
    problems = [*silent, *against]
    then = _next_steps(wish) if done and not problems and wish.action == "leave" else []
    if wish.output is not Output.TABLE:
        summary: dict[str, Any] = {
            "cluster": wish.cluster,
            "action": wish.action,
            "will": will,
            "done": done,
        }
        if elsewhere is not None:
            summary["no_other_place"] = elsewhere.nowhere
            summary["not_known"] = elsewhere.unknown
        rows = [sight.row() for sight in sights]
        print_value({**summary, "clusters": rows, "problems": problems, "next": then}, wish.output)
    elif done:
        print_table(COLUMNS, [sight.row() for sight in sights])
    for line in (*(elsewhere.words if elsewhere is not None else ()), *problems, *then):
        _say(line)
    if silent and done:
        _say(
            "not all is done: repeat the command when these clusters answer; what is done stays "
            "done"
        )
    return ExitCode.FAILED if problems else ExitCode.OK


def _next_steps(wish: Wish) -> list[str]:
    gone = (
        []
        if wish.lost
        else [
            f"helm uninstall agent  # in cluster {wish.cluster}, under the name that it has there"
        ]
    )
    return [
        f"remove the entry `- name: {wish.cluster}` from `clusters` of the dispatcher's "
        "configuration (its file, or the"
        f" values of its chart; {wish.config} is what this command has read) and start the "
        "dispatcher again: the agents"
        " then remove its proxy nodes",
        *gone,
    ]


def _say(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()
