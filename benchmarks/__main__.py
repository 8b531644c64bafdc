"""`python -m benchmarks [run|list|history WORD|table]`; see docs/benchmarks.md.

run: measure what is chosen, print it beside baselines and anchors, append it to benchmarks/results.jsonl, and put the
tables of docs/benchmarks.md in line with it.
list: the benchmarks and the minutes that each takes. history WORD: figures whose name holds WORD, over time.
table: the tables of docs/benchmarks.md out of the results file; with --write they are put there.
"""

import argparse
import json
import shutil
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from rich.console import Console

from benchmarks.report import document
from benchmarks.report.history import show_history
from benchmarks.report.machine import Machine, this_machine
from benchmarks.report.results import append, read
from benchmarks.report.rows import Row
from benchmarks.report.table import heading, show

_WIDTH = 200  # where there is no terminal that knows better


def main() -> int:
    """One command; the exit code."""
    parser = argparse.ArgumentParser(
        prog="benchmarks", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("command", nargs="?", choices=sorted(_COMMANDS), default="run")
    parser.add_argument("word", nargs="?", default="", help="for history: a part of a figure's name")
    parser.add_argument("--only", default="", help="run the benchmarks whose name holds this word, or one of a,b,c")
    parser.add_argument("--quick", action="store_true", help="a tenth of the work: to see that it runs, not kept")
    parser.add_argument("--no-keep", action="store_true", help="neither in the results file nor in the page")
    parser.add_argument(
        "--pods", type=Path, metavar="FILE", help="run fragmentation alone, with these pods of openb's form; not kept"
    )
    parser.add_argument("--write", action="store_true", help="for table: write it into docs/benchmarks.md")
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table")
    options = parser.parse_args()
    return _COMMANDS[options.command](options)


def _run(options: argparse.Namespace) -> int:
    from benchmarks.catalogue import chosen, minutes, with_pods
    from benchmarks.fragmentation import PodsFileError, read_pods
    from dispatcher.runtime.warm import collect_less_often
    from dispatcher.scheduling.classes.kernels import compile_all

    machine = this_machine()
    share, benches = (10 if options.quick else 1), chosen(options.only)
    if options.pods:
        try:
            read_pods(options.pods)
        except PodsFileError as error:
            _say(str(error))
            return 2
        benches, options.no_keep = [with_pods(options.pods)], True
    _say(heading(machine))
    _say(f"{len(benches)} benchmarks, about {minutes(benches, share):.0f} minutes on two quiet cores")
    rows: list[Row] = []
    compile_all()  # as the dispatcher does from 1,000 nodes on
    collect_less_often()
    for bench in benches:
        _say(f"running {bench.name} ...")
        found = bench.run(share)
        if not options.quick and not options.no_keep:
            append(found, machine)  # at once: what was measured stays, whatever comes after
        rows += found
    if not options.quick and not options.no_keep:
        _write_page()
    if options.quick:
        _say("a tenth of the work: beside targets and anchors these figures mean nothing")
    _show(rows, machine, options.output)
    return 0 if rows else 1


def _show(rows: list[Row], machine: Machine, output: str) -> None:
    if output == "json":
        print(json.dumps([{**asdict(row), **asdict(machine)} for row in rows], indent=1))
        return
    console = _console()
    console.print(heading(machine), "", sep="\n", highlight=False)
    show(rows, console)


def _list(options: argparse.Namespace) -> int:
    from benchmarks.catalogue import chosen

    for bench in chosen(options.only):
        print(f"{bench.name:<64} {bench.seconds / 60:4.1f} min")
    return 0


def _history(options: argparse.Namespace) -> int:
    if show_history(read(), options.word, _console()):
        return 0
    _say(f"the results file has no figure whose name holds {options.word!r}")
    return 1


def _table(options: argparse.Namespace) -> int:
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
    return Console(width=shutil.get_terminal_size().columns if terminal else _WIDTH, highlight=False)


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


_COMMANDS: dict[str, Callable[[argparse.Namespace], int]] = {
    "run": _run,
    "list": _list,
    "history": _history,
    "table": _table,
}

if __name__ == "__main__":
    sys.exit(main())
