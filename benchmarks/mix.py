"""Mixed work of any kind through the whole core: each argument of the generator is an option
(`workloads/mixed.py`).

python -m benchmarks.mix --classes 300 --tenants 7 --sizes 5 --churn 20 --seed 3
python -m benchmarks.mix --classes 300 --nothing-fits
"""

import json
import math
from argparse import ArgumentParser, BooleanOptionalAction
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields, replace
from functools import partial
from typing import Any

from benchmarks.mixed.measures import TooSmallError, bound_rate, hopeless, refusal_rate
from benchmarks.workloads.mixed import Mix, MixError

_FIELDS = fields(Mix)
_ABOUT = """Bind pods of many templates in one cluster, through reports, queue, quota, decisions, records and answers.
Printed as JSON are the work, how many pods a second of CPU time are bound, and how many of the smallest template
without quota and rules. The usual work takes some seconds."""
_HOPELESS = (
    "pods that no node takes, of twice --node-cpu whatever --cpu is: print refusals a second"
)
_HELPS = (
    "more --nodes, --node-cpu or --ratio make room, fewer or smaller pods need less;"
    " where anti-affinity keeps pods apart, more --nodes or more --classes"
)


def _parser() -> ArgumentParser:
    parser = ArgumentParser(prog="python -m benchmarks.mix", description=_ABOUT)
    for one in _FIELDS:
        name, meaning = (
            _option(one.name),
            f"{one.metadata['meaning']} ({_limits(one.metadata)}default {one.default})",
        )
        if isinstance(one.default, bool):
            parser.add_argument(
                name, action=BooleanOptionalAction, default=one.default, help=meaning
            )
        else:
            parser.add_argument(
                name, type=type(one.default), default=one.default, metavar="N", help=meaning
            )
    parser.add_argument(
        "--burst", type=int, metavar="N", help="pods that are submitted at once (default all)"
    )
    parser.add_argument(
        "--recorded", action="store_true", help="journal the record of every decision"
    )
    parser.add_argument("--nothing-fits", action="store_true", help=_HOPELESS)
    return parser


def _limits(of: Mapping[str, Any]) -> str:
    return f"{of['least']:,} to {of['most']:,}, " if math.isfinite(of.get("most", math.inf)) else ""


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def main(words: Sequence[str] | None = None) -> None:
    """Print what was asked for, the figures of it, and those of one template without quota and
    rules, as JSON. Work that cannot be done ends it with a line of why.
    """
    parser = _parser()
    given = vars(parser.parse_args(words))
    burst, recorded, nothing_fits = (
        given.pop(name) for name in ("burst", "recorded", "nothing_fits")
    )
    if burst is not None and burst < 1:
        parser.error(f"--burst: must be 1 at least, and is {burst}")
    if nothing_fits and (burst or recorded or given["churn"] or given["readings"]):
        text = (
            "takes none of --burst, --recorded, --churn, --readings: all pods come at once, and "
            "none is bound"
        )
        parser.error(f"--nothing-fits: {text}")
    try:
        mix = Mix(**given)
    except MixError as error:
        parser.error(f"{_option(error.argument)}: {error.problem}")
    mix = hopeless(mix) if nothing_fits else mix
    measure = _refusals if nothing_fits else partial(_bound, recorded=recorded, burst=burst)
    try:
        figures = measure(mix)
        beside = measure(
            replace(mix, classes=1, tenants=0, anti_affinity=0, soft_spread=0)
        )  # the smallest template
    except TooSmallError as error:
        parser.exit(1, f"{error}\n{_HELPS}\n")
    except KeyboardInterrupt:
        parser.exit(130, "interrupted\n")
    work = asdict(mix) | {"burst": burst, "recorded": recorded, "nothing_fits": nothing_fits}
    print(json.dumps({"work": work, "CPU time": figures, "one template in the same run": beside}))


def _bound(mix: Mix, *, recorded: bool, burst: int | None) -> dict[str, float]:
    return {"bound/s": round(bound_rate(mix, recorded=recorded, burst=burst), 1)}


def _refusals(mix: Mix) -> dict[str, float]:
    found = refusal_rate(mix)
    names = ("refusals/s", "refusals/s with their report", "refusals/s after five minutes")
    return {name: round(rate, 1) for name, rate in zip(names, found, strict=True)}


if __name__ == "__main__":
    main()
