"""Local reconciling: what one namespace has to reconcile holds up no other one's."""

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest

from agents.executor.context.local import Moment
from agents.executor.context.reconcile_task import ReconcileTask
from agents.executor.duties import proxy_pods
from agents.runtime.driver import Execution
from agents.runtime.reconciler import Reconciler
from agents.runtime.task_places import TaskPlaces
from shared.kube.http import Procedure
from tests.agents.executor.world import World

PLACES = 512


class HangingDriver:
    """Carries procedures out; those of a namespace in `hang` never come to their first request."""

    def __init__(self) -> None:
        self.hang: set[str | None] = set()
        self.begun: list[str | None] = []

    async def begin(self, execution: Execution) -> None:
        self.begun.append(execution.lane)
        if execution.lane in self.hang:
            await asyncio.Event().wait()

    async def drive(self, procedure: Procedure[str], execution: Execution) -> str:
        procedure.close()
        return ""

    def end(self, execution: Execution) -> None:
        """Nothing is held."""


def nothing() -> Procedure[str]:
    yield from ()
    return ""


class Busy:
    """A reconciler and the pods that are due, by namespace."""

    def __init__(self) -> None:
        self.now, self.due, self.driver = 100.0, dict[str, int](), HangingDriver()
        clock = lambda: Moment(self.now, self.now)  # noqa: E731
        self.reconciler = Reconciler(World().local, self.driver, clock)  # type: ignore[arg-type]

    def tasks(self, *_: object) -> Iterator[ReconcileTask]:
        for namespace, pods in self.due.items():
            for number in range(pods):
                yield ReconcileTask(f"{namespace}/{number}", namespace, nothing())

    async def tick(self) -> dict[str | None, int]:
        """A second passes; how many tasks each namespace has begun then."""
        self.now += 1.0
        before = len(self.driver.begun)
        self.reconciler.begin()
        for _ in range(5):
            await asyncio.sleep(0)
        begun = self.driver.begun[before:]
        return {namespace: begun.count(namespace) for namespace in self.due}


@pytest.fixture
async def busy(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Busy]:
    it = Busy()
    monkeypatch.setattr(proxy_pods, "reconcile_tasks", it.tasks)
    yield it
    for task in it.reconciler.tasks:
        task.cancel()
    await asyncio.gather(*it.reconciler.tasks, return_exceptions=True)


async def test_a_namespace_that_is_alone_has_all_places(busy: Busy) -> None:
    busy.due = {"a": 2_000}
    assert await busy.tick() == {"a": PLACES}


async def test_namespaces_that_are_due_at_once_share_the_places(busy: Busy) -> None:
    busy.due = {"a": 2_000, "b": 3, "c": 2_000}
    begun = await busy.tick()
    assert begun["b"] == 3
    assert sum(begun.values()) == PLACES
    assert abs(begun["a"] - begun["c"]) <= 1


async def test_a_namespace_that_comes_while_another_hangs_on_all_places_begins_at_the_next_look(busy: Busy) -> None:
    busy.driver.hang = {"a"}
    busy.due = {"a": 2_000}
    assert await busy.tick() == {"a": PLACES}
    busy.due = {"a": 2_000, "b": 200}
    assert await busy.tick() == {"a": 0, "b": 200}


async def test_what_hangs_takes_no_more_than_three_times_the_places(busy: Busy) -> None:
    busy.due = {f"n{number}": 100 for number in range(40)}
    busy.driver.hang = set(busy.due)
    begun = [sum((await busy.tick()).values()) for _ in range(8)]
    assert sum(begun) <= 3 * PLACES


def test_places_that_are_given_back_go_to_the_namespaces_in_turn() -> None:
    places, due = TaskPlaces(4), {name: [name] * 100 for name in "abc"}
    held, begun = places.grant(due, 0.0), list[str]()
    for now in range(1, 31):
        places.give_back(held.pop(0)[0], now / 10)
        held += places.grant(due, now / 10)
        begun.append(held[-1][1])
    assert {name: begun.count(name) for name in "abc"} == {"a": 10, "b": 10, "c": 10}


def test_a_namespace_in_which_nothing_is_due_any_more_waits_for_no_place() -> None:
    places = TaskPlaces(1)
    ((ticket, task),) = places.grant({"a": ["a1"], "b": ["b1"]}, 0.0)
    assert task == "a1"
    places.give_back(ticket, 0.1)
    assert places.grant({"a": ["a2"]}, 0.1)[0][1] == "a2"
