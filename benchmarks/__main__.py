"""`python -m benchmarks [--only WORD] [--quick] [-o table|json]`: run the cases, print, append to results.jsonl."""

import argparse
import json
import sys
from dataclasses import asdict

from rich.console import Console

from benchmarks.catalogue import chosen, minutes
from benchmarks.rows import Row, append, show
from dispatcher.runtime.warm import collect_less_often
from dispatcher.scheduling.classes.kernels import compile_all


def main() -> None:
    """Run every case whose name holds the word of --only."""
    parser = argparse.ArgumentParser(prog="benchmarks", description=__doc__)
    parser.add_argument("--only", default="", help="run the cases whose name holds this word")
    parser.add_argument("--quick", action="store_true", help="a tenth of the work: to see that it runs, not to quote")
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table")
    options = parser.parse_args()
    rows: list[Row] = []
    compile_all()  # as the dispatcher does from 1,000 nodes on
    collect_less_often()
    share, benches = (10 if options.quick else 1), chosen(options.only)
    print(f"{len(benches)} benchmarks, about {minutes(benches, share):.0f} minutes", file=sys.stderr)
    for bench in benches:
        print(f"running {bench.name} ...", file=sys.stderr, flush=True)
        rows += bench.run(share)
    if not options.quick:
        append(rows)
    if options.output == "json":
        print(json.dumps([asdict(row) for row in rows], indent=1))
    else:
        show(rows, Console(width=200))


if __name__ == "__main__":
    main()
