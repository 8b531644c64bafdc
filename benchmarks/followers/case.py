"""Pods that name ConfigMaps and run in other clusters, beside the same pods without.

One by one: from the moment that a pod is made until it is shown Running at home, with two
ConfigMaps that its target has never had, and without, by turns. All at once: pods that share
ConfigMaps, in several clusters: CPU of the dispatcher, and how often each object's content crosses
to a cluster.
"""

import asyncio
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from time import monotonic
from typing import Any

from benchmarks.followers.stage import Stage, stage
from benchmarks.report.rows import Row

TARGETS = ("one", "two", "three")
_PODS = "/api/v1/namespaces/default/pods"
_MAPS = "/api/v1/namespaces/default/configmaps"
_OF_EACH_NODE = 100
_AT_ONCE = 16  # requests that make or delete
_LOOK_S = 0.02
_LOOK_AT_ALL_S = 0.5
_PATIENCE_S = 900.0
_WARM_UP = 3  # pods of each kind before
_TEXT = "x" * 1024
_BESIDE = "the same pods without ConfigMaps in the same run"


@dataclass(frozen=True)
class Size:
    """So many pods at once that share so many objects, two each; and so many one by one."""

    pods: int = 5_000
    objects: int = 50
    singles: int = 20

    @property
    def nodes(self) -> int:
        """Of each cluster."""
        return 1 + self.pods // len(TARGETS) // _OF_EACH_NODE


@dataclass(frozen=True)
class Cost:
    """Of pods that came all at once: seconds until all were shown Running, CPU of the dispatcher."""

    seconds: float
    cpu_s: float


def followers(share: int) -> list[Row]:
    """5,000 pods that share 50 ConfigMaps into 3 clusters; `share` 10: a tenth of the pods."""
    return asyncio.run(measure(Size(5_000 // share, singles=20 if share == 1 else 5)))


async def measure(size: Size) -> list[Row]:
    """All rows."""
    with tempfile.TemporaryDirectory() as folder:
        async with stage(Path(folder), TARGETS, size.nodes) as fleet:
            bare, named = await _one_by_one(fleet, size)
            _say(f"one by one: {named:.3f} s with two ConfigMaps, {bare:.3f} s without")
            shared = [f"shared-{number}" for number in range(size.objects)]
            await _each(fleet, [("POST", _MAPS, _config_map(name)) for name in shared])
            without = await _all_at_once(fleet, size, ())
            before = fleet.crossed
            together = await _all_at_once(fleet, size, shared)
            crossed = fleet.crossed - before
            to_cross = {
                (number % len(TARGETS), name)
                for number in range(size.pods)
                for name in _two_of(shared, number)
            }
            times = crossed / len(to_cross)
            return _rows(size, (bare, named), (without, together), times)


def _say(text: str) -> None:
    print(f"  {text}", file=sys.stderr, flush=True)


async def _one_by_one(fleet: Stage, size: Size) -> tuple[float, float]:
    """Medians, without and with ConfigMaps of its own: seconds."""
    taken: tuple[list[float], list[float]] = ([], [])
    for number in range(_WARM_UP + size.singles):
        for named, found in enumerate(taken):
            names = [f"own-{number}-{one}" for one in "ab"] if named else []
            await _each(fleet, [("POST", _MAPS, _config_map(name)) for name in names])
            pod = _pod(f"single-{number}-{named}", number, names)
            began = monotonic()
            await fleet.ask("POST", _PODS, pod)
            while not await _runs(fleet, pod["metadata"]["name"]):
                _not_for_ever(began)
                await asyncio.sleep(_LOOK_S)
            if number >= _WARM_UP:
                found.append(monotonic() - began)
    await _none_left(fleet)
    return median(taken[0]), median(taken[1])


async def _runs(fleet: Stage, name: str) -> bool:
    pod = await fleet.ask("GET", f"{_PODS}/{name}")
    return bool(pod["status"].get("phase") == "Running")


async def _all_at_once(fleet: Stage, size: Size, shared: Sequence[str]) -> Cost:
    await fleet.calm()
    began, cpu_s = monotonic(), fleet.cpu_s
    pods = [_pod(f"p{number}", number, _two_of(shared, number)) for number in range(size.pods)]
    await _each(fleet, [("POST", _PODS, pod) for pod in pods])
    while True:
        found = (await fleet.ask("GET", _PODS))["items"]
        if sum(one["status"].get("phase") == "Running" for one in found) == size.pods:
            break
        _not_for_ever(began)
        await asyncio.sleep(_LOOK_AT_ALL_S)
    seconds = monotonic() - began
    await fleet.calm()
    cost = Cost(seconds, fleet.cpu_s - cpu_s)
    _say(f"{size.pods} pods, {len(shared)} ConfigMaps: {seconds:.1f} s, CPU {cost.cpu_s:.2f} s")
    await _none_left(fleet)
    return cost


def _two_of(shared: Sequence[str], number: int) -> list[str]:
    count = len(shared)
    return [shared[number % count], shared[(number // 2 + 1) % count]] if count else []


async def _none_left(fleet: Stage) -> None:
    """Delete all pods."""
    began = monotonic()
    while found := (await fleet.ask("GET", _PODS))["items"]:
        names = [
            one["metadata"]["name"] for one in found if "deletionTimestamp" not in one["metadata"]
        ]
        await _each(fleet, [("DELETE", f"{_PODS}/{name}", None) for name in names])
        _not_for_ever(began)
        await asyncio.sleep(_LOOK_AT_ALL_S)


def _not_for_ever(began: float) -> None:
    if monotonic() - began > _PATIENCE_S:
        raise RuntimeError(f"it has not happened within {_PATIENCE_S:g} s")


async def _each(fleet: Stage, asks: Sequence[tuple[str, str, Any]]) -> None:
    rest = iter(asks)

    async def work() -> None:
        for ask in rest:
            await fleet.ask(*ask)

    async with asyncio.TaskGroup() as group:
        for _ in range(_AT_ONCE):
            group.create_task(work())


def _config_map(name: str) -> dict[str, Any]:
    return {"metadata": {"name": name}, "data": {"text": _TEXT}}


def _pod(name: str, number: int, names: Sequence[str]) -> dict[str, Any]:
    """One that goes to one of the targets."""
    target = TARGETS[number % len(TARGETS)]
    container = {
        "name": "main",
        "image": "example.invalid/app:1",
        "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}},
        "envFrom": [{"configMapRef": {"name": one}} for one in names],
    }
    return {
        "metadata": {"name": name, "annotations": {"global-dispatcher.io/clusters": target}},
        "spec": {
            "schedulerName": "global-dispatcher",
            "terminationGracePeriodSeconds": 0,
            "containers": [container],
        },
    }


def _rows(
    size: Size, alone: tuple[float, float], together: tuple[Cost, Cost], crossed: float
) -> list[Row]:
    nodes = size.nodes * (len(TARGETS) + 1)
    bare, named = alone
    without, shared = together
    each = 1000 / size.pods
    later = "from made to shown Running at home, median: so much later with two ConfigMaps"
    rate = "first pod made to last one shown Running at home"
    cpu = "CPU of the dispatcher a remote pod"
    times = "how often the content of an object crossed to a cluster where pods name it"
    return [
        Row("followers_later", nodes, size.singles, named - bare, "s", 0.2, None, later),
        Row("followers_shown", nodes, size.singles, named, "s", None, bare, later, _BESIDE),
        Row(
            "followers_rate",
            nodes,
            size.pods,
            size.pods / shared.seconds,
            "pods/s",
            None,
            size.pods / without.seconds,
            rate,
            _BESIDE,
        ),
        Row(
            "followers_cpu",
            nodes,
            size.pods,
            (shared.cpu_s - without.cpu_s) * each,
            "ms",
            0.3,
            None,
            f"{cpu}, so much more with ConfigMaps",
        ),
        Row(
            "followers_cpu_in_all",
            nodes,
            size.pods,
            shared.cpu_s * each,
            "ms",
            None,
            without.cpu_s * each,
            cpu,
            _BESIDE,
        ),
        Row("followers_crossed", nodes, size.pods, crossed, "times", 1.0, None, times),
    ]


CASES = (followers,)
