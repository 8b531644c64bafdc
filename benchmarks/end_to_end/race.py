"""One contestant's run of one case: pods come, are bound, and what that took.

As scheduler_perf counts: the scheduler runs and has seen the nodes; then the measured pods are made
as fast as the API server takes them, and the time goes from there to the last of them bound. CPU is
that of all processes of the scheduler over that time, and until it is calm again (events, status).
"""

import asyncio
import itertools
import ssl
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from urllib.error import URLError
from urllib.request import urlopen

from prometheus_client.parser import text_string_to_metric_families

from benchmarks.end_to_end.audit_tail import Tail
from benchmarks.end_to_end.bulk import Bulk, bulk
from benchmarks.end_to_end.contestants import Contestant
from benchmarks.end_to_end.processes import cpu_seconds
from benchmarks.end_to_end.seeded_plane import WARM_UP, order
from benchmarks.workloads.cases import Case, Pods
from localfleet.controlplane.plane import ControlPlane

MEASURED = "measured"
_WARM = Pods("light-pod", 20, WARM_UP)
_READY_S = 120.0
_CALM_CPU = 0.15  # of one core
_CALM_STEP_S, _CALM_S = 1.0, 30.0
_AFTER_S = 6.0  # for events and status after the last binding
_CHURN_S = 0.2
_POLL_S = 0.05


@dataclass(frozen=True)
class Run:
    """What one contestant did. `made_s`: until the last measured pod was made; `seconds`: until the
    last was bound.
    """

    bound: int
    wanted: int
    seconds: float
    made_s: float
    cpu_s: float
    attempts: int
    refused: int

    @property
    def rate(self) -> float:
        """Pods bound a second."""
        return self.bound / self.seconds

    @property
    def cpu_ms(self) -> float:
        """CPU milliseconds a bound pod."""
        return 1000 * self.cpu_s / max(1, self.bound)

    @property
    def tries(self) -> float:
        """Attempts a bound pod, those for pods of the churn included."""
        return self.attempts / max(1, self.bound)


def race(plane: ControlPlane, case: Case, contestant: Contestant, limit_s: float) -> Run:
    """Start, warm up, measure, stop. What is not bound after `limit_s` is left."""
    contestant.start()
    try:
        return asyncio.run(_race(plane, case, contestant, limit_s))
    finally:
        contestant.stop()


async def _race(plane: ControlPlane, case: Case, contestant: Contestant, limit_s: float) -> Run:
    async with bulk(plane) as api:
        await _warm_up(plane, api, contestant)
        tail = Tail(plane.audit, MEASURED)
        attempts, cpu, begun = _attempts(contestant), cpu_seconds(contestant.pids()), time.time()
        making = asyncio.create_task(_make(api, case.measured, contestant))
        churning = asyncio.create_task(_churn(api, case.churn, contestant))
        wanted = case.measured.total
        await _until_bound(tail, wanted, begun + limit_s)
        churning.cancel()
        made_s = (await making) - begun
        await _calm(contestant, _AFTER_S)
        spent = cpu_seconds(contestant.pids()) - cpu
        attempts = _attempts(contestant) - attempts
        tail.close()
    bound = len(tail.bindings)
    seconds = (max(tail.bindings) if bound >= wanted else begun + limit_s) - begun
    return Run(bound, wanted, seconds, made_s, spent, attempts, tail.refused)


async def _warm_up(plane: ControlPlane, api: Bulk, contestant: Contestant) -> None:
    """Until it has bound some pods, so that it knows all nodes, and has done what it does at its
    start.
    """
    tail = Tail(plane.audit, WARM_UP)
    await api.create_all(_orders(_WARM, WARM_UP, contestant))
    await _until_bound(tail, _WARM.total, time.time() + _READY_S)
    tail.close()
    if len(tail.bindings) < _WARM.total:
        raise RuntimeError(
            f"{contestant.pods_of} bound {len(tail.bindings)} of {_WARM.total} pods in "
            f"{_READY_S:.0f} s"
        )
    await _calm(contestant, _CALM_S)


async def _make(api: Bulk, pods: Pods, contestant: Contestant) -> float:
    """Make the measured pods; answers when that was done."""
    await api.create_all(_orders(pods, MEASURED, contestant))
    return time.time()


def _orders(
    pods: Pods, prefix: str, contestant: Contestant
) -> Iterable[tuple[str, dict[str, object]]]:
    for namespace, name in pods.places(prefix):
        path, body = order(pods, namespace, name, contestant.pods_of)
        yield path, dict(body)


async def _churn(api: Bulk, template: str, contestant: Contestant) -> None:
    """Five pods a second, until it is cancelled."""
    if not template:
        return
    for number in itertools.count():
        await api.create(
            *order(Pods(template, 1), "default", f"churn-{number:05d}", contestant.pods_of)
        )
        await asyncio.sleep(_CHURN_S)


async def _until_bound(tail: Tail, wanted: int, deadline: float) -> None:
    while len(tail.bindings) < wanted and time.time() < deadline:
        await asyncio.sleep(_POLL_S)
        tail.read()


async def _calm(contestant: Contestant, limit_s: float) -> None:
    """Until it uses next to no CPU."""
    deadline, before = time.monotonic() + limit_s, cpu_seconds(contestant.pids())
    while time.monotonic() < deadline:
        await asyncio.sleep(_CALM_STEP_S)
        now = cpu_seconds(contestant.pids())
        if now - before < _CALM_CPU * _CALM_STEP_S:
            return
        before = now


def _attempts(contestant: Contestant) -> int:
    """Decisions so far, by its own metrics; 0 when it does not say."""
    context = ssl._create_unverified_context()  # its serving certificate is one it has made itself
    with suppress(URLError), urlopen(contestant.metrics_url, timeout=5, context=context) as answer:
        families = text_string_to_metric_families(answer.read().decode())
        samples = (one for family in families for one in family.samples)
        return int(
            sum(one.value for one in samples if one.name == "scheduler_schedule_attempts_total")
        )
    return 0
