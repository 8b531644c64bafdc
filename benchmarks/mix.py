"""Mixed work of any kind through the whole core: each argument of the generator is an option (`workloads/mixed.py`).

python -m benchmarks.mix --classes 300 --tenants 7 --sizes 5 --churn 20 --seed 3
python -m benchmarks.mix --classes 300 --nothing-fits
"""

import json
from argparse import ArgumentParser, BooleanOptionalAction
from collections.abc import Sequence
from dataclasses import asdict, fields

from benchmarks.mixed import bound_rate, refusal_rate
from benchmarks.workloads.mixed import Mix

_FIELDS = fields(Mix)


def _parser() -> ArgumentParser:
    parser = ArgumentParser(prog="python -m benchmarks.mix", description=Mix.__doc__)
    for one in _FIELDS:
        name = f"--{one.name.replace('_', '-')}"
        if isinstance(one.default, bool):
            parser.add_argument(name, action=BooleanOptionalAction, default=one.default)
        else:
            parser.add_argument(name, type=type(one.default), default=one.default, help=f"default {one.default}")
    parser.add_argument("--burst", type=int, help="so many pods are submitted at once; default: all")
    parser.add_argument("--recorded", action="store_true", help="every decision goes into a journal")
    parser.add_argument("--nothing-fits", action="store_true", help="pods that no node takes: refusals a second")
    return parser


def main(words: Sequence[str] | None = None) -> None:
    """Print what was asked for and the figures of it, as JSON."""
    given = vars(_parser().parse_args(words))
    burst, recorded, hopeless = (given.pop(name) for name in ("burst", "recorded", "nothing_fits"))
    mix = Mix(**given)
    if hopeless:
        first, again = refusal_rate(mix)
        figures = {"refusals/s": first, "refusals/s after an event": again}
    else:
        figures = {"bound/s": bound_rate(mix, recorded=recorded, burst=burst)}
    print(json.dumps({"work": asdict(mix), "CPU time": {name: round(value, 1) for name, value in figures.items()}}))


if __name__ == "__main__":
    main()
