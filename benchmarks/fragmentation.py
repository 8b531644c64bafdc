"""The openb trace with a fragmentation-aware profile: how much of all GPUs is allocated, and in
what time.

As in the published runs of the paper (see plugins/gpu_fragmentation.py): the trace's pods and
clones of random ones, until 130 % of all GPUs are asked for, in random order; those that fit
nowhere are turned away, nobody leaves. Allocated: GPU held when 100 % (and 130 %) have been asked
for, over all GPU; the mean of the seeds. GLOBAL_DISPATCHER_TRACES names the folder that holds
openb/gpu_nodes.csv and openb/pods.csv. Another file of pods has the columns cpu_milli, memory_mib,
num_gpu and gpu_milli; pods without a gpu_spec take any GPU.
"""

import csv
import os
import random
import statistics
import sys
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter
from typing import Any

from benchmarks.report.rows import Row
from dispatcher.plugins.registry import PluginContext, build
from dispatcher.scheduling.cycle.cycle import Decision, Scheduler
from dispatcher.scheduling.fleet.fleet import FleetState
from dispatcher.scheduling.framework import PluginUse, PodInfo, Profile
from shared.model.labels import NodeSelectorTerm, Requirement
from shared.model.names import GPU_MILLI, SCHEDULER_NAME
from shared.model.node import Node
from shared.model.pod import Affinity, Pod

TRACES = (
    os.environ.get("GLOBAL_DISPATCHER_TRACES") or Path(__file__).parents[2] / "shared" / "traces"
)
TRACE = Path(TRACES) / "openb"
MODEL = "gpu-model"
SEEDS = 10
TYPICAL = 0.95  # the mix is made of the most popular tasks up to this share of all
PLAIN = "LeastAllocated by CPU and memory, the same trace"
NODES = 1213
_COLUMNS = ("cpu_milli", "memory_mib", "num_gpu", "gpu_milli")  # of pods, whole numbers
PUBLISHED, PUBLISHED_MORE = 95.23, 95.39  # FGD's own figures at 100 % and 130 %


@dataclass(frozen=True)
class Shape:
    """What a pod of the trace asks for; `models` are the GPUs it accepts, empty: any."""

    cpu: int
    memory: int
    gpu: int
    models: tuple[str, ...]


class PodsFileError(ValueError):
    """A file of pods that cannot be used; the text names it and says what is wrong."""


def fragmentation(share: int) -> list[Row]:
    """1,213 GPU nodes, about 10,800 pods; skipped with a line where the trace is not."""
    return _figures(TRACE / "pods.csv", share) if _is_there() else []


def fragmentation_of(pods: Path, share: int) -> list[Row]:
    """The same nodes with the pods of any file; figures without targets, named after the file.
    PodsFileError.
    """
    if not _is_there():
        return []
    found = _figures(pods, share)
    return [
        replace(row, name=row.name.replace("openb", f"openb {pods.stem}", 1), target=None)
        for row in found
    ]


def _is_there() -> bool:
    if not TRACE.exists():
        print(f"skipped: no trace in {TRACE}", file=sys.stderr)
    return TRACE.exists()


def _figures(file: Path, share: int) -> list[Row]:
    shapes = read_pods(file)
    runs = [_run(shapes, seed, "GPUFragmentation") for seed in range(max(1, SEEDS // share))]
    plain = _run(shapes, 0, "")
    pods = int(statistics.mean(run.pods for run in runs))
    seeds = f"mean of {len(runs)} seeds"
    at_100, at_130 = (
        statistics.mean(getattr(run, key) for run in runs) for key in ("at_100", "at_130")
    )
    seconds = statistics.median(run.seconds for run in runs)
    return [
        _figure(
            "openb_gpu_allocated",
            pods,
            at_100,
            PUBLISHED,
            plain.at_100,
            f"% of all GPU at 100 % asked, {seeds}",
        ),
        _figure(
            "openb_gpu_allocated_130",
            pods,
            at_130,
            PUBLISHED_MORE,
            plain.at_130,
            f"the same at 130 %, {seeds}",
        ),
        Row(
            "openb_time",
            NODES,
            pods,
            seconds,
            "s",
            10,
            plain.seconds,
            "one run to 130 %, median of seeds",
            PLAIN,
        ),
    ]


def _figure(name: str, pods: int, share: float, target: float, plain: float, counts: str) -> Row:
    return Row(name, NODES, pods, share, "%", target, plain, counts, PLAIN)


@dataclass(frozen=True)
class Run:
    """Percent of all GPU that is allocated when 100 % and 130 % were asked for, pods that came,
    seconds in all.
    """

    at_100: float
    at_130: float
    pods: int
    seconds: float


def _run(shapes: list[Shape], seed: int, policy: str) -> Run:
    fleet = _fleet()
    capacity = int(fleet.allocatable[fleet.axis.column(GPU_MILLI)].sum())
    scheduler = _scheduler(fleet, shapes, policy)
    arrivals = list(_arrivals(shapes, capacity * 1.3, seed))
    asked = held = 0
    at_100: float | None = None
    start = perf_counter()
    for number, shape in enumerate(arrivals):
        placed = PodInfo(_pod(number, shape), "openb")
        result = scheduler.schedule(placed, ("openb", placed.pod.uid))
        asked += shape.gpu
        held += shape.gpu if isinstance(result, Decision) else 0
        if at_100 is None and asked >= capacity:
            at_100 = 100 * held / capacity
    seconds = perf_counter() - start
    return Run(at_100 or 0.0, 100 * held / capacity, len(arrivals), seconds)


def _arrivals(shapes: list[Shape], most: float, seed: int) -> list[Shape]:
    dice = random.Random(seed)
    came, asked = list(shapes), sum(shape.gpu for shape in shapes)
    while asked < most:
        came.append(dice.choice(shapes))
        asked += came[-1].gpu
    dice.shuffle(came)
    return came


def _scheduler(fleet: FleetState, shapes: list[Shape], policy: str) -> Scheduler:
    fit = PluginUse("NodeResourcesFit", 0.0 if policy else 1.0)
    uses = [PluginUse("PrioritySort"), PluginUse("NodeAffinity", 0.0), fit]
    uses.append(PluginUse("GPUFragmentation", 1.0 if policy else 0.0, {"mix": _mix(shapes)}))
    profile = Profile("openb", tuple(uses))
    return Scheduler(profile, build(profile, PluginContext()), fleet)


def _mix(shapes: list[Shape]) -> list[dict[str, Any]]:
    """The most popular tasks that make up 95 % of all."""
    popular = Counter((shape.cpu, shape.gpu) for shape in shapes).most_common()
    mix, seen = [], 0
    for (cpu, gpu), count in popular:
        if seen >= TYPICAL * len(shapes):
            break
        mix.append({"cpu": cpu, "gpu": gpu, "share": count})
        seen += count
    return mix


def _fleet() -> FleetState:
    fleet = FleetState(now=1000.0)
    fleet.set_cluster("openb", ready=True, synced=True)
    for row in _rows(TRACE / "gpu_nodes.csv"):
        room = {
            "cpu": int(row["cpu_milli"]),
            "memory": int(row["memory_mib"]) * 2**20,
            "pods": 10_000,
        }
        room[GPU_MILLI] = 1000 * int(row["gpu"])
        fleet.put_node(
            "openb", Node(row["sn"], row["sn"], {MODEL: row["model"]}, ready=True, allocatable=room)
        )
    return fleet


def read_pods(file: Path) -> list[Shape]:
    """What the pods of a file ask for; PodsFileError if it cannot be read, or if none asks for a
    GPU.
    """
    try:
        rows = _rows(file)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise PodsFileError(f"{file}: {error}") from None
    missing = [column for column in _COLUMNS if not rows or column not in rows[0]]
    if missing:
        raise PodsFileError(f"{file}: columns {', '.join(missing)} are missing, or it has no rows")
    shapes = [_shape(row, f"{file}:{line}") for line, row in enumerate(rows, start=2)]
    if not any(shape.gpu for shape in shapes):
        raise PodsFileError(f"{file}: no pod asks for a GPU, so that there is nothing to measure")
    return shapes


def _shape(row: dict[str, str], where: str) -> Shape:
    bad = next((column for column in _COLUMNS if not (row[column] or "0").isdecimal()), None)
    if bad is not None:
        raise PodsFileError(f"{where}: {bad} is {row[bad]!r}: write a whole number")
    cpu, memory, count, milli = (int(row[column] or 0) for column in _COLUMNS)
    models = tuple(model for model in (row.get("gpu_spec") or "").split("|") if model)
    return Shape(cpu, memory * 2**20, count * milli, models)


def _pod(number: int, shape: Shape) -> Pod:
    requests = {"cpu": shape.cpu, "memory": shape.memory, GPU_MILLI: shape.gpu}
    terms = (NodeSelectorTerm((Requirement(MODEL, "In", shape.models),)),)
    return Pod(
        f"uid-{number}",
        "default",
        f"openb-{number}",
        requests={name: amount for name, amount in requests.items() if amount},
        scheduler_name=SCHEDULER_NAME,
        affinity=Affinity(terms) if shape.models else None,
    )


def _rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8-sig") as file:
        return list(csv.DictReader(file))


CASES = (fragmentation,)
