"""`python -m benchmarks [run|list|history WORD|table]`; see docs/benchmarks.md.

run: measure what is chosen, print it beside baselines and anchors, append it to
benchmarks/results.jsonl, and put the tables of docs/benchmarks.md in line with it.

list: the benchmarks and the minutes that each takes. history WORD: figures whose name holds WORD,
over time.

table: the tables of docs/benchmarks.md out of the results file; with --write they are put there.
"""

import enum
import json
import shutil
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from benchmarks.report import document
from benchmarks.report.history import show_history
from benchmarks.report.machine import Machine, this_machine
from benchmarks.report.results import ResultsError, append, check, read
from benchmarks.report.rows import Row
from benchmarks.report.table import heading, show

_WIDTH = 200  # where there is no terminal that knows better


class Command(enum.StrEnum):
    """What there is to do."""

    RUN = "run"
    LIST = "list"
    HISTORY = "history"
    TABLE = "table"


class Output(enum.StrEnum):
    """The --output option."""

    TABLE = "table"
    JSON = "json"


@dataclass(frozen=True)
class Options:
    """What was asked for."""

    word: str
    only: str | None
    quick: bool
    no_keep: bool
    pods: Path | None
    write: bool
    output: Output


app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)


@app.command(help=__doc__)
def main(  # noqa: PLR0913 - the options of a command
    *,
    command: Annotated[Command, typer.Argument()] = Command.RUN,
    word: Annotated[str, typer.Argument(help="For history: a part of a figure's name.")] = "",
    only: Annotated[
        str | None,
        typer.Option(help="Benchmarks, or figures, whose name holds this word, or one of a,b,c."),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="A tenth of the work: to see that it runs, not kept.")
    ] = False,
    no_keep: Annotated[
        bool, typer.Option("--no-keep", help="Neither in the results file nor in the page.")
    ] = False,
    pods: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Fragmentation alone, with these pods of openb's form; not kept."
        ),
    ] = None,
    write: Annotated[
        bool, typer.Option("--write", help="For table: write it into docs/benchmarks.md.")
    ] = False,
    output: Annotated[Output, typer.Option("-o", "--output", help="How to print.")] = Output.TABLE,
) -> None:
    """One command; the exit code."""
    if word and command is not Command.HISTORY:
        _say(f"{word}: a word is for history; --only {word} chooses benchmarks")
        raise typer.Exit(2)
    try:
        code = _COMMANDS[command](Options(word, only, quick, no_keep, pods, write, output))
    except ResultsError as error:
        _say(str(error))
        code = 2
    raise typer.Exit(code)


def _run(options: Options) -> int:
    from benchmarks.catalogue import chosen, minutes, with_pods
    from benchmarks.fragmentation import PodsFileError, read_pods
    from dispatcher.scheduling.framework.kernels import compile_all
    from dispatcher.service.warm_up import collect_less_often

    machine = this_machine()
    share, benches = (10 if options.quick else 1), chosen(options.only)
    if not benches:
        _say(
            f"--only {options.only}: no benchmark's or figure's name holds it; `python -m "
            "benchmarks list` names them"
        )
        return 2
    if options.pods:
        try:
            read_pods(options.pods)
        except PodsFileError as error:
            _say(str(error))
            return 2
        benches = [with_pods(options.pods)]
    keeps = not (options.quick or options.no_keep or options.pods)
    if keeps:
        check()
    _say(heading(machine))
    _say(
        f"{len(benches)} benchmarks, about {minutes(benches, share):.0f} minutes on two quiet cores"
    )
    rows: list[Row] = []
    compile_all()  # as the dispatcher does from 1,000 nodes on
    collect_less_often()
    for bench in benches:
        _say(f"running {bench.name} ...")
        found = bench.run(share)
        if keeps:
            append(found, machine)  # at once: what was measured stays, whatever comes after
        rows += found
    if keeps:
        _write_page()
    if options.quick:
        _say("a tenth of the work: beside targets and anchors these figures mean nothing")
    _show(rows, machine, options.output)
    return 0 if rows else 1


def _show(rows: list[Row], machine: Machine, output: Output) -> None:
    if output is Output.JSON:
        print(json.dumps([{**asdict(row), **asdict(machine)} for row in rows], indent=1))
        return
    console = _console()
    console.print(heading(machine), "", sep="\n", highlight=False)
    show(rows, console)


def _list(options: Options) -> int:
    from benchmarks.catalogue import chosen

    for bench in chosen(options.only):
        print(f"{bench.name:<64} {bench.seconds / 60:4.1f} min")
    return 0


def _history(options: Options) -> int:
    if show_history(read(), options.word, _console()):
        return 0
    _say(f"the results file has no figure whose name holds {options.word!r}")
    return 1


def _table(options: Options) -> int:
    if options.write:
        _write_page()
    else:
        print(document.tables(read()))
    return 0


def _write_page() -> None:
    document.PAGE.write_text(document.put(document.PAGE.read_text(), document.tables(read())))
    _say(f"wrote {document.PAGE}")


def _console() -> Console:
    terminal = sys.stdout.isatty()
    return Console(
        width=shutil.get_terminal_size().columns if terminal else _WIDTH, highlight=False
    )


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


_COMMANDS: dict[Command, Callable[[Options], int]] = {
    Command.RUN: _run,
    Command.LIST: _list,
    Command.HISTORY: _history,
    Command.TABLE: _table,
}

if __name__ == "__main__":
    app(prog_name="python -m benchmarks")
