"""What is measured of a mix of pods: what is bound, refused, preempted or let in a second, by CPU
time.
"""

import itertools
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from time import process_time
from typing import NamedTuple

import msgspec

from benchmarks.mixed.stage import Stage
from benchmarks.workloads.mixed import Mix
from dispatcher.service.files.journal import Journal
from shared.model.labels import LabelSelector
from shared.model.objects import PodDisruptionBudget
from shared.model.pod import RUNNING, Pod


class TooSmallError(RuntimeError):
    """Pods are left that the fleet has no room for."""


def bound_rate(mix: Mix, *, recorded: bool = False, burst: int | None = None) -> float:
    """Pods bound a second. `burst`: so many are submitted at once, else all. TooSmallError: not all
    can be bound.
    """
    with TemporaryDirectory() as folder:
        stage = Stage(mix, Journal(Path(folder) / "decisions") if recorded else None)
        _warm(stage, mix)
        arrivals = mix.arrivals()
        size = burst or len(arrivals)
        start = process_time()
        for at in range(0, len(arrivals), size):
            stage.arrive(arrivals[at : at + size])
            while stage.moving():
                stage.step()
        seconds = process_time() - start
    if left := stage.left():
        bound = len(arrivals) - len(left)
        one = next(filter(stage.why, left), left[0])  # records of the first may be dropped already
        text = f"{bound} of {len(arrivals)} pods are bound, {one} is not: {stage.why(one)}"
        raise TooSmallError(f"the benchmark's fleet is too small: {text}")
    return len(arrivals) / seconds


def _warm(stage: Stage, mix: Mix) -> None:
    """A few pods of another class, gone again: compiled kernels are loaded, columns of nodes known."""
    few = replace(
        mix, pods=8, classes=1, tenants=0, cpu=mix.cpu - 1 if mix.cpu else 1, interleaved=False
    )
    pods = [
        msgspec.structs.replace(pod, uid=f"warm-{pod.uid}", namespace="warm")
        for pod in few.arrivals()
    ]
    stage.arrive(pods)
    while stage.moving():
        stage.step()
    stage.withdraw([pod.uid for pod in pods])


def hopeless(mix: Mix) -> Mix:
    """The same work, none of which fits on any node."""
    return replace(mix, cpu=mix.node_cpu * 2)


class Refusals(NamedTuple):
    """Refusals a second: of pods that are pending; with the taking in of their report; of all after
    five minutes.
    """

    pending: float
    with_report: float
    again: float


def refusal_rate(mix: Mix) -> Refusals:
    """Of pods that fit nowhere. RuntimeError: some were not refused each time."""
    stage = Stage(hopeless(mix))
    arrivals = stage.mix.arrivals()
    start = process_time()
    stage.arrive(arrivals)
    stage.take_in()
    reported = process_time() - start
    stage.decide_all()
    first, before = process_time() - start, stage.refused()
    stage.now += 301.0
    start, more = process_time(), -1
    while (
        more < (more := stage.refused() - before) or not more
    ):  # a step has a thousand of them tried again
        stage.step()
        stage.decide_all()
    again = process_time() - start
    if min(before, more) < mix.pods:
        raise RuntimeError(
            f"of {mix.pods} pods {before} were refused at first, and {more} after five minutes"
        )
    return Refusals(before / (first - reported), before / first, more / again)


def ended_pod_ms(mix: Mix, *, pods_each: int, at_a_time: int, ended: int) -> float:
    """Milliseconds for each of `ended` pods, `at_a_time` of which end every fifth of a second,
    until its room is taken by one of the `mix.pods` that wait. RuntimeError: some of it is free 20
    seconds later.
    """
    full = mix.nodes * pods_each
    stage = Stage(replace(mix, pods=full + mix.pods, node_cpu=mix.cpu * pods_each))
    arrivals = stage.mix.arrivals()
    for some in (arrivals[:full], arrivals[full:]):
        stage.arrive(some)
        stage.decide_all()
    stage.step()
    stage.now += 60.0
    before, start = len(stage.left()), process_time()
    for _ in range(0, ended, at_a_time):
        stage.end(list(itertools.islice(stage.bound, at_a_time)))
        stage.step()
        stage.step()
    for _ in range(200):
        stage.step()
    seconds, taken = process_time() - start, before - len(stage.left())
    if taken < ended:
        raise RuntimeError(f"the room of {ended} pods was free, {taken} took it")
    return seconds / ended * 1000


def preemption_ms(nodes: int, pods_each: int, budgets: int, rounds: int = 5) -> float:
    """Milliseconds to decide one pod that fits nowhere while each node has `pods_each` pods of
    lower priority.
    """
    mix = Mix(nodes=nodes, node_cpu=1000 * pods_each)
    low = tuple(
        Pod(f"low-{n}-{k}", "default", f"low-{n}-{k}", {"app": f"app-{(n * pods_each + k) % max(budgets, 1)}"},
            requests={"cpu": 1000, "memory": 2**28}, node=f"n{n:05}", phase=RUNNING, started=float(k + 1),
            scheduler_name="global-dispatcher")
        for n in range(nodes) for k in range(pods_each)
    )  # fmt: skip
    kept = tuple(
        PodDisruptionBudget(
            "default", f"pdb-{one}", LabelSelector({"app": f"app-{one}"}), allowed=one % 3
        )
        for one in range(budgets)
    )
    stage = Stage(mix, objects=kept, before=low)
    seconds = []
    for at in range(rounds + 1):
        stage.arrive([Pod(f"high-{at}", "default", f"high-{at}", requests={"cpu": 1000 + at}, priority=100,
                          scheduler_name="global-dispatcher")])  # fmt: skip
        start = process_time()
        stage.step(1)
        seconds.append(process_time() - start)
    if stage.core.counters["preemption_attempts", "nominated"] < rounds:
        raise RuntimeError("the preemptor found no victims")
    return sorted(seconds[1:])[rounds // 2] * 1000
