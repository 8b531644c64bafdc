"""An executor that may not write for want of its Lease writes nothing, and answers so that nothing follows from it."""

import asyncio
from collections.abc import Callable
from typing import Any

from agents.executor.trust import state
from shared.kube.http import Request, Response
from shared.messages import BOUND, UNKNOWN, Peer, Peers
from tests.agents.executor.one_executor import Executor, stored, world
from tests.agents.executor.world import keys_of, pod_object

WAITS = "this executor waits: another holds the lease"


class Lease:
    """A Lease that a test takes away, and gives back."""

    def __init__(self) -> None:
        self.problem, self.holdings = "", 1

    def permit(self) -> Callable[[], str]:
        began = self.holdings
        return lambda: self.problem or ("" if began == self.holdings else "it was another's meanwhile")

    def come_back(self) -> None:
        self.holdings += 1


class Stage(Executor):
    """An executor with such a Lease. `at_answer` is called with each answer, before the executor has it; so many
    bindings are `lost` on their way.
    """

    def __init__(self) -> None:
        super().__init__(world())
        self.lease, self.lost = Lease(), 0
        self.at_answer: Callable[[Request], None] = lambda _: None
        lease: Any = self.lease
        self.loop.lease = lease

    async def send(self, request: Request) -> Response:
        if self.lost and request.path.endswith("/binding"):
            self.lost -= 1
            self.asked.append(request)
            answer = Response(0)
        else:
            answer = await super().send(request)
        self.at_answer(request)
        return answer

    @property
    def writes(self) -> list[str]:
        """Of all but its own state."""
        return [f"{one.method} {one.path}" for one in self.asked if one.method != "GET" and "/leases" not in one.path]


async def test_orders_to_an_executor_that_waits_are_unknown_and_nothing_is_asked_of_the_server() -> None:
    it = Stage()
    it.lease.problem = WAITS
    answer = await it.bind(it.world.submit(), 1)
    assert [(one.verdict, one.message) for one in answer.outcomes] == [(UNKNOWN, WAITS)]
    assert it.asked == []


async def test_an_order_whose_turn_comes_after_the_lease_was_lost_is_unknown_though_nothing_was_sent() -> None:
    it = Stage()

    def lost(request: Request) -> None:
        it.lease.problem = WAITS  # with the answer that says whom it obeys

    it.at_answer = lost
    (outcome,) = (await it.bind(it.world.submit(), 1)).outcomes
    assert (outcome.verdict, outcome.message, it.writes) == (UNKNOWN, WAITS, [])


async def test_an_order_that_began_before_another_acted_does_not_go_on_after_it() -> None:
    it = Stage()
    ref = it.world.submit()

    def slept(request: Request) -> None:
        if request.path.endswith("/binding"):
            it.lease.come_back()

    it.at_answer = slept
    it.lost = 1
    (outcome,) = (await it.bind(ref, 1)).outcomes
    assert (outcome.verdict, outcome.message) == (UNKNOWN, "it was another's meanwhile")
    assert len(it.writes) == 1
    (outcome,) = (await it.bind(ref, 2)).outcomes
    assert outcome.verdict == BOUND


async def test_local_duties_and_events_wait_for_the_lease() -> None:
    it = Stage()
    await it.loop.set_peers(Peers("life-1", 1, (Peer("b", ready=True),), lease_s=120.0))
    await _settle()
    it.loop.warn_foreign(it.world.submit(pod_object("foreign")), "default-scheduler")
    it.lease.problem = WAITS
    for wanted in (False, True):
        await it.loop.tend()
        await it.loop._events.write()
        await _settle()
        assert any("/nodes" in one for one in it.writes) == wanted
        assert any("/events" in one for one in it.writes) == wanted
        it.lease.problem = ""
    await it.loop.stop()


async def test_whom_an_executor_obeys_it_stores_without_a_lease_for_versions_guard_that() -> None:
    it = Stage()
    it.lease.problem = WAITS
    heard = await it.loop.set_peers(Peers("life-7", 7, ()))
    assert heard.problem == WAITS  # its observer, where that is a process of its own, does not know
    await _settle()
    assert it.world.api.objects[state.PATH]["spec"]["leaseTransitions"] == 7


async def test_keys_of_other_clusters_are_stored_by_the_holder_alone() -> None:
    it = Stage()
    told = Peers("life-1", 1, (Peer("b", ready=True, uid="b-uid", keys=keys_of("b").endorsed_keys()),))
    for problem in (WAITS, ""):
        it.lease.problem = problem
        await it.loop.set_peers(told)
        await _settle()
        assert ("b" in stored(it.world.api)[2].get(state.KEYS, "")) == (not problem)
    await it.loop.stop()


async def _settle() -> None:
    for _ in range(40):
        await asyncio.sleep(0)
