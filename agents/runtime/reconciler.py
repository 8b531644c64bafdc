"""Reconciles what needs no dispatcher: proxy nodes, pods on them, shadow budgets, expired leases,
leftovers, empty namespaces, copies and Services, events.
"""

import asyncio
from collections.abc import Callable
from itertools import chain

import structlog

from agents.executor.context.local import Local, Moment
from agents.executor.context.reconcile_task import ReconcileTask
from agents.executor.duties import (
    copy_upkeep,
    empty_namespaces,
    lease_expiry,
    orphan_delegates,
    proxy_pods,
    service_upkeep,
    shadows,
)
from agents.executor.duties.proxy import ProxyNodes
from agents.runtime.driver import ApiClient, Driver, Execution
from agents.runtime.slot_queue import SlotQueue
from agents.runtime.task_places import TaskPlaces
from shared.kube.http import TOO_BUSY, Request, Response
from shared.model.backoff import Backoff

_log = structlog.get_logger()
_MAX_PODS = 512  # tasks about pods and budgets at once; the rest waits for a later tick
_PATIENCE_S = 20.0  # with a server that is too busy; then a task is begun anew
_AGAIN_S = 10.0  # before a task that could not be done is begun anew: about a pod
# and about a proxy node, doubling up to the same: its heartbeat is worth more tries
_FIRST_AGAIN_S = 1.0


class Reconciler:
    """Begins what is due. Proxy nodes wait for nobody: a namespace that hangs must not cost a
    cluster its Lease. Tasks about pods and budgets wait for places that namespaces share, so that
    none holds up another's.
    """

    def __init__(self, local: Local, driver: Driver, clock: Callable[[], Moment]) -> None:
        self._local = local
        self._driver = driver
        self._clock = clock
        self._proxies = ProxyNodes(local)
        self._places = TaskPlaces(_MAX_PODS)
        self._running: dict[str, asyncio.Task[None]] = {}
        self._problems: dict[str, str] = {}
        self._again: dict[str, float] = {}  # not before, by name
        self._failed: dict[str, int] = {}  # how often in a row
        self._lapsed = ""

    @property
    def tasks(self) -> list[asyncio.Task[None]]:
        """Those under way."""
        return list(self._running.values())

    def begin(self) -> None:
        """Begin what is due now and not under way."""
        now = self._clock()
        rested = [name for name, at in self._again.items() if at <= now.mono]
        for name in rested:
            del self._again[name]
        for task in self._proxies.due(now):
            if self._may_begin(task):
                self._begin(task, now)
        self._tell_lapse(self._local.renewals.lapsed(now.mono))
        local = self._local
        found = chain(
            lease_expiry.reconcile_tasks(local, now),
            proxy_pods.reconcile_tasks(local, now),
            shadows.reconcile_tasks(local, now),
            orphan_delegates.reconcile_tasks(local, now),
            empty_namespaces.reconcile_tasks(local, now),
            copy_upkeep.reconcile_tasks(local, now),
            service_upkeep.reconcile_tasks(local, now),
        )
        due: dict[str, list[ReconcileTask]] = {}
        for task in found:
            waiting = due.setdefault(task.lane or "", [])
            if len(waiting) < self._places.limit and self._may_begin(task):
                waiting.append(task)
        for ticket, task in self._places.grant(due, now.mono):
            if self._may_begin(task):  # two of a name may be due
                self._begin(task, now, ticket)
            else:
                self._places.give_back(ticket, now.mono)
        for name in rested:
            if (
                name not in self._running
            ):  # nothing is due any more: the pod, or the node, is gone or as it should be
                self._failed.pop(name, None)
                self._problems.pop(name, None)

    def _tell_lapse(self, why: str) -> None:
        if why and not self._lapsed:
            _log.warning(
                "lease lapsed: delegates of failover mode lease are stopped",
                cluster=self._local.cluster,
                reason=why,
            )
        self._lapsed = why

    def _may_begin(self, task: ReconcileTask) -> bool:
        return task.name not in self._running and task.name not in self._again

    def _begin(self, task: ReconcileTask, now: Moment, ticket: int | None = None) -> None:
        self._running[task.name] = asyncio.create_task(self._carry_out(task, now, ticket))

    async def _carry_out(self, task: ReconcileTask, now: Moment, ticket: int | None) -> None:
        execution = Execution(now.mono + _PATIENCE_S, task.lane)
        try:
            await self._driver.begin(execution)
            problem = await self._driver.drive(task.procedure, execution)
        except Exception as error:
            problem = f"{type(error).__name__}: {error}"
        finally:
            self._driver.end(execution)
            del self._running[task.name]
            if ticket is not None:
                self._places.give_back(ticket, self._clock().mono)
        self.note(task.name, problem)
        if not problem:
            self._failed.pop(task.name, None)
            return
        times = self._failed[task.name] = self._failed.get(task.name, 0) + 1
        pause = (
            _AGAIN_S if task.lane is not None else Backoff(_FIRST_AGAIN_S, _AGAIN_S).after(times)
        )
        self._again[task.name] = self._clock().mono + pause

    def note(self, name: str, problem: str) -> None:
        """Say what goes wrong with something once, and when it goes well again."""
        cluster = self._local.cluster
        if problem and self._problems.get(name) != problem:
            _log.warning("local reconcile failed", cluster=cluster, object=name, problem=problem)
        if problem:
            self._problems[name] = problem
        elif self._problems.pop(name, None):
            _log.info("local reconcile works again", cluster=cluster, object=name)


class Events:
    """Writes the events that wait. What one costs the server, a bind would have to wait for: binds
    go first, though not for ever.
    """

    def __init__(
        self, local: Local, client: ApiClient, slot_queue: SlotQueue, seconds: Callable[[], float]
    ) -> None:
        self.at_once = 4
        self.series = 16
        self.patience_s = 5.0
        self.barred: Callable[[], str] = lambda: ""  # why none may be written, '' while they may
        self._waiting = local.events
        self._client = client
        self._slot_queue = slot_queue
        self._seconds = seconds
        self._full_since: float | None = None  # since when binds wait for their turn

    async def write(self) -> None:
        """Write until none waits, or the server is in trouble: events are the last that it needs
        then.
        """
        while self._waiting and not self.barred() and (at_once := self._series_at_once()):
            series = [some for _ in range(at_once) if (some := self._next())]
            answers = await asyncio.gather(*map(self._client.send_all, series))
            said = [
                (one, answer)
                for events, all_ in zip(series, answers, strict=True)
                for one, answer in zip(events, all_, strict=True)
            ]
            if self._trouble(said):
                return

    def _trouble(self, said: list[tuple[Request, Response]]) -> bool:
        """Whether to stop for now; events that the server turned away wait again."""
        left = [event for event, answer in said if answer.status == TOO_BUSY]
        self._waiting.extendleft(reversed(left))
        if left:
            self._slot_queue.refused()
        return bool(left) or any(answer.unknown for _, answer in said)

    def _series_at_once(self) -> int:
        if not self._slot_queue.full:
            self._full_since = None
            return self.at_once
        now = self._seconds()
        self._full_since = now if self._full_since is None else self._full_since
        return int(now - self._full_since >= self.patience_s)

    def _next(self) -> list[Request]:
        return [self._waiting.popleft() for _ in range(min(len(self._waiting), self.series))]
