"""The tables of docs/benchmarks.md, made of the results file: figures in the page and in the file
cannot drift.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks import fragmentation, listing
from benchmarks.end_to_end.cases import NAMES
from benchmarks.end_to_end.contestants import THEM
from benchmarks.fleet.case import DECODED as _DECODED
from benchmarks.fleet.case import REST as _REST
from benchmarks.report.anchors import ANCHORS
from benchmarks.report.meanings import MEANINGS
from benchmarks.report.numbers import amount, short, times
from benchmarks.report.results import Key, Result, latest
from benchmarks.report.table import heading
from benchmarks.workloads.cases import CASES, Case, case

PAGE = Path(__file__).parents[2] / "docs" / "benchmarks.md"
_BEGIN, _END = (
    "<!-- figures: .venv/bin/python -m benchmarks table --write -->",
    "<!-- end of figures -->",
)
_MIXED = ("decide_small", "mixed_", "planes_", "fleet_", "fail_over_")
_KINDS = "bound", "bound_cpu", "bound_tries"
_ALL = f"{THEM}, all nodes scored"


@dataclass(frozen=True)
class Goal:
    """One line of what the shape must carry, and the figures that show it."""

    work: str
    target: str
    holder: str
    figures: tuple[Key, ...]


_PERF = "TopologySpreading", "SchedulingPodAffinity", "MixedSchedulingBasePod"
GOALS = (
    Goal(
        "5,000 nodes, 50k pods of one template",
        ">= 100,000 decisions/s",
        "kube-scheduler: CI floor 810 bound/s, 10 % of nodes scored",
        (("decide_one_template", 5000, ""),),
    ),
    Goal(
        "5,000 nodes, every pod its own class",
        ">= 5,000 decisions/s",
        "-",
        (("decide_all_different", 5000, ""),),
    ),
    Goal(
        "5,000 nodes, hard spread / required affinity / mixed",
        ">= 20,000 / 10,000 / 10,000 a second",
        "kube-scheduler: 460 / 35 / 140",
        tuple((f"perf_{name}", 5000, "") for name in _PERF),
    ),
    Goal(
        "100 clusters x 5,000 nodes, one odd pod; memory a node, a pod",
        "p99 <= 10 ms; <= 1 KiB; <= 1 KiB",
        "Karmada: p99 32 ms, cluster only",
        (
            ("odd_pod_p99", 500_000, ""),
            ("memory_per_node", 500_000, ""),
            ("memory_per_pod", 5000, ""),
        ),
    ),
    Goal(
        "100 clusters x 5,000 nodes, 1,500 pods each, one dispatcher: CPU until it decides; a "
        "reading; a pod change",
        "<= 15 s; <= 3 us; <= 100 us",
        "-",
        (
            ("fleet_until_it_decides", 500_000, _DECODED),
            ("fleet_reading_cpu", 500_000, _DECODED),
            ("fleet_change_cpu", 500_000, _DECODED),
        ),
    ),
    Goal(
        "the same: longest time without decisions, CPU, while pods change / a cluster is new / an "
        "agent tells all anew",
        "<= 50 ms each",
        "-",
        tuple(
            (f"fleet_{name}_stall", 500_000, _REST)
            for name in ("changes", "first_report", "return")
        ),
    ),
    Goal(
        "readings of 5,000 nodes from one Prometheus: how often a query is asked a round; CPU of "
        "the dispatcher for it",
        "once; <= 20 ms",
        "load-watcher: 34 queries a fetch; Crane: a query a node and metric",
        tuple((f"prometheus_{name}", 5000, "") for name in ("questions", "fold_cpu")),
    ),
    Goal(
        "the same: from submission to bound while a query hangs, p50 / p99, beside answers in the "
        "same run",
        "<= 1.1 x each",
        "-",
        tuple((f"prometheus_hangs_{name}", 10_000, "") for name in ("p50_ratio", "p99_ratio")),
    ),
    Goal(
        "openb trace, fragmentation-aware profile: GPU allocated, time",
        ">= 95.23 %; <= 10 s",
        "FGD: 95.23 %, about 10 min on 2 vCPU",
        (
            ("openb_gpu_allocated", 1213, fragmentation.PLAIN),
            ("openb_time", 1213, fragmentation.PLAIN),
        ),
    ),
    Goal(
        "one agent, 5,000 nodes / 150k pods: list and decode",
        "<= 15 s; <= 1,024 MiB",
        "-",
        (
            ("list_and_decode", 5000, listing.PLAIN),
            ("list_and_decode_rss", 5000, ""),
        ),
    ),
    Goal(
        "bind on a real API server beside kube-scheduler: pods/s at 500 / 5,000 nodes",
        ">= 2 x kube-scheduler's",
        "kube-scheduler 1.36, in the same run",
        tuple(("bind_rate_beside", nodes, THEM) for nodes in (500, 5000)),
    ),
    Goal(
        "the same, CPU a bound pod",
        "<= 1/3 of kube-scheduler's",
        "kube-scheduler 1.36, in the same run",
        tuple(("bind_cpu_beside", nodes, THEM) for nodes in (500, 5000)),
    ),
    Goal(
        "the same beside kube-scheduler scoring all nodes, as ours does: pods/s",
        ">= 2 x kube-scheduler's",
        "kube-scheduler 1.36, percentageOfNodesToScore 100",
        tuple(("bind_rate_beside", nodes, _ALL) for nodes in (500, 5000)),
    ),
)


def tables(results: Sequence[Result]) -> str:
    """All tables in Markdown, out of the latest figure of each kind that a quiet machine gave."""
    found = latest(results)
    parts = [
        _machines(found.values()),
        _goals(found),
        _mixed(found),
        _cases(found),
        _end_to_end(found),
    ]
    return "\n\n".join(parts)


def put(page: str, text: str) -> str:
    """The page with its tables replaced. ValueError where it has no place for them."""
    before, begin, rest = page.partition(_BEGIN)
    _, end, after = rest.partition(_END)
    if not begin or not end:
        raise ValueError(f"{PAGE}: the lines {_BEGIN!r} and {_END!r} must both be there")
    return f"{before}{begin}\n\n{text}\n\n{end}{after}"


def _machines(results: Iterable[Result]) -> str:
    runs: dict[str, list[str]] = {}
    for line in sorted({heading(one.machine) for one in results}):
        date, commit, *machine, _load = line.split(", ")
        runs.setdefault(", ".join(machine), []).append(f"{date[:10]} ({commit})")
    lines = [f"- {machine}: {'; '.join(dict.fromkeys(of))}" for machine, of in runs.items()]
    return "\n".join(["Measured:", "", *lines]) if lines else "Nothing is measured yet."


def _goals(found: Mapping[Key, Result]) -> str:
    head = ("work", "target", "measured", "who holds it today")
    return _markdown(
        head, ((goal.work, goal.target, _measured(goal, found), goal.holder) for goal in GOALS)
    )


def _measured(goal: Goal, found: Mapping[Key, Result]) -> str:
    return " / ".join(_figure(found.get(key)) for key in goal.figures)


def _figure(one: Result | None) -> str:
    if one is None:
        return "not measured"
    row = one.row
    met = {None: "", True: " (met)", False: " (**not met**)"}[row.met]
    beside = f", {times(row.ratio)}x" if row.beside.startswith(THEM) and row.ratio else ""
    return f"{amount(row.value, row.unit)}{beside}{met}{' (loaded)' if one.machine.loaded else ''}"


def _mixed(found: Mapping[Key, Result]) -> str:
    """Figures of work as fleets have it that have a target and are no goal; the results file has
    those without.
    """
    head = (
        "mixed work, and fleets",
        "what it is",
        "nodes",
        "pods",
        "measured",
        "target",
        "beside, in the same run",
    )
    goals = {key for goal in GOALS for key in goal.figures}
    rows = [
        one
        for key, one in found.items()
        if one.row.name.startswith(_MIXED) and one.row.target is not None and key not in goals
    ]
    return _markdown(head, (_work(one) for one in sorted(rows, key=_place)))


def _place(one: Result) -> tuple[int, Key]:
    """Where a figure stands; last, by its name, where nobody says what it is."""
    key = one.row.key
    return list(MEANINGS).index(key[0]) if key[0] in MEANINGS else len(MEANINGS), key


def _work(one: Result) -> tuple[str, ...]:
    row = one.row
    target = (
        "-"
        if row.target is None
        else f"{'>=' if row.more_is_better else '<='} {amount(row.target, row.unit)}"
    )
    other = row.beside.removesuffix(" in the same run").removesuffix(",")
    beside = f"{amount(row.baseline, row.unit)} ({other})" if row.baseline and other else "-"
    meaning = MEANINGS.get(row.name, row.counts)
    return (row.name, meaning, short(row.nodes), short(row.pods), _figure(one), target, beside)


def _cases(found: Mapping[Key, Result]) -> str:
    head = (
        "the core alone",
        "nodes",
        "pods",
        "decisions/s",
        "plain loop: decisions/s",
        "CI floor: pods bound/s",
    )
    return _markdown(
        head, (_core(case.name, case.nodes.count, case.measured.total, found) for case in CASES)
    )


def _core(name: str, nodes: int, pods: int, found: Mapping[Key, Result]) -> tuple[str, ...]:
    floor = ANCHORS.get(f"perf_{name}")
    pair = _pair(found.get((f"perf_{name}", nodes, "")))
    return (name, short(nodes), short(pods), *pair, amount(floor.value) if floor else "-")


def _end_to_end(found: Mapping[Key, Result]) -> str:
    """Ours / kube-scheduler's of each kind."""
    head = (
        "end to end, ours / kube-scheduler",
        "nodes",
        "pods",
        "pods bound/s",
        "CPU ms a pod",
        "attempts a pod",
    )
    return _markdown(head, (_race(case(name), found) for name in NAMES))


def _race(case: Case, found: Mapping[Key, Result]) -> tuple[str, ...]:
    figures = [found.get((f"{kind}_{case.name}", case.nodes.count, THEM)) for kind in _KINDS]
    pods = short(figures[0].row.pods) if figures[0] else "-"
    return (case.name, short(case.nodes.count), pods, *(" / ".join(_pair(one)) for one in figures))


def _pair(one: Result | None) -> tuple[str, str]:
    if one is None:
        return "-", "-"
    loaded = " (loaded)" if one.machine.loaded else ""
    return amount(one.row.value) + loaded, amount(one.row.baseline) or "-"


def _markdown(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
