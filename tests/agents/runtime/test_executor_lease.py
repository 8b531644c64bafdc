"""One of a cluster's executors acts at a time: who, from when on, and what the others say meanwhile."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from agents.runtime.executor_lease import (
    ASKS_S,
    PLACE,
    RENEW_DEADLINE_S,
    RETRY_S,
    UNREACHED_S,
    ExecutorLease,
)
from shared.kube.http import Request, Response
from tests.service.leases import Server
from tests.simulation.world.loop import live

CALL_S = 10.0
LONGEST_PAUSE_S = RETRY_S * 2.2  # between two attempts
UNREADABLE = "the API server is too busy to tell what is stored"


class Leader:
    """What an executor knows of whom it obeys, and whose it is."""

    def __init__(self) -> None:
        self.problem = self.not_ours = self.becomes = ""
        self.read_anew = 0
        self.reads_for_s = 0.0
        self.unreadable = 0  # so many times, when it is read anew
        self.reads = 0

    async def recall(self, *, anew: bool = False) -> None:
        self.reads += 1
        self.problem = self.problem.replace(UNREADABLE, "")
        if anew:
            await asyncio.sleep(self.reads_for_s)
            self.not_ours = self.becomes
            if self.unreadable:
                self.unreadable -= 1
                self.problem = UNREADABLE
        self.read_anew += anew


class Candidate:
    """An executor, and its way to the API server."""

    def __init__(self, server: Server, call_s: float = CALL_S) -> None:
        self._server, self.cut_off, self.leader, self.held = server, False, Leader(), 0
        self.loses_answers = self.lost_one = False
        leader: Any = self.leader
        self.lease = ExecutorLease(self, leader, call_s)
        self.lease.on_held = self._count
        self._let_in_until = float("inf")  # by a gateway
        self.lease.unreached_s = lambda: max(0.0, asyncio.get_running_loop().time() - self._let_in_until)
        self._task = asyncio.create_task(self.lease.run())

    def _count(self) -> None:
        self.held += 1

    @property
    def let_in(self) -> bool:
        return self._let_in_until == float("inf")

    @let_in.setter
    def let_in(self, let_in: bool) -> None:
        if let_in != self.let_in:
            self._let_in_until = float("inf") if let_in else asyncio.get_running_loop().time()

    async def send(self, request: Request, *, timeout_s: float) -> Response:
        if self.cut_off:
            await asyncio.sleep(timeout_s)
            return Response(0, b"no route")
        answer = await self._server.send(request, timeout_s=timeout_s)
        if self.loses_answers and request.method != "GET":
            self.lost_one = True
            await asyncio.sleep(timeout_s)
        return answer

    async def die(self) -> None:
        """SIGKILL."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def leave(self) -> None:
        """SIGTERM."""
        await self.die()
        await self.lease.release()

    @property
    def acts(self) -> bool:
        return not self.lease.problem


Story = Callable[[Candidate, Candidate], Coroutine[Any, Any, None]]


def told(story: Story) -> None:
    """With a first candidate that acts, and a second that waits."""

    async def tell() -> None:
        server = Server()
        first = Candidate(server)
        await asyncio.sleep(1.0)
        second = Candidate(server)
        await asyncio.sleep(1.0)
        assert (first.acts, second.acts) == (True, False)
        await story(first, second)
        await asyncio.gather(first.die(), second.die())

    live(tell, 1)


async def until_it_acts(waits: Candidate, other: Candidate | None = None) -> float:
    """Seconds; `other` must have stopped by then."""
    seconds = 0.0
    while not waits.acts:
        await asyncio.sleep(0.1)
        seconds += 0.1
        assert seconds < 120.0, waits.lease.problem
        assert other is None or not other.acts or waits.lease.problem
    return seconds


def test_who_waits_says_for_whom_and_what_to_do() -> None:
    async def story(first: Candidate, second: Candidate) -> None:
        holder = first.lease._elector.identity
        assert second.lease.another
        assert (
            f"this executor waits: {holder} holds lease {PLACE.namespace}/{PLACE.name}; a cluster has one"
            in second.lease.problem
        )

    told(story)


def test_one_that_is_stopped_in_good_order_is_followed_within_one_pause() -> None:
    async def story(first: Candidate, second: Candidate) -> None:
        await first.leave()
        assert await until_it_acts(second) <= LONGEST_PAUSE_S + 0.2
        assert (second.held, second.leader.read_anew) == (1, 1)

    told(story)


def test_one_that_is_stopped_in_the_middle_of_a_renewal_gives_the_lease_up_all_the_same() -> None:
    async def story(first: Candidate, second: Candidate) -> None:
        first.loses_answers = True
        while not first.lost_one:  # noqa: ASYNC110 - what is asked has no event
            await asyncio.sleep(0.1)
        first.loses_answers = False
        await first.leave()
        assert await until_it_acts(second) <= LONGEST_PAUSE_S + 0.2

    told(story)


def test_one_that_is_killed_is_followed_when_its_last_call_may_have_ended() -> None:
    async def story(first: Candidate, second: Candidate) -> None:
        await first.die()
        seconds = await until_it_acts(second)
        assert RENEW_DEADLINE_S + CALL_S - LONGEST_PAUSE_S <= seconds <= RENEW_DEADLINE_S + CALL_S + RETRY_S

    told(story)


def test_one_that_is_cut_off_stops_before_another_acts_by_as_long_as_a_call_may_take() -> None:
    async def story(first: Candidate, second: Candidate) -> None:
        first.cut_off = True
        stopped = 0.0
        while first.acts:
            await asyncio.sleep(0.1)
            stopped += 0.1
        assert RENEW_DEADLINE_S - RETRY_S - 0.2 <= stopped <= RENEW_DEADLINE_S + 0.2
        assert await until_it_acts(second, first) >= CALL_S - 0.2
        first.cut_off = False
        await asyncio.sleep(2 * LONGEST_PAUSE_S)
        assert (first.acts, second.acts) == (False, True)

    told(story)


def test_a_server_that_was_away_costs_one_pause_and_nothing_is_read_anew_if_nobody_else_has_acted() -> None:
    async def story(first: Candidate, second: Candidate) -> None:
        await second.die()
        permit = first.lease.permit()
        first.cut_off = True
        await asyncio.sleep(40.0)
        assert not first.acts
        first.cut_off = False
        assert await until_it_acts(first) <= RENEW_DEADLINE_S / 2 + LONGEST_PAUSE_S + 0.2
        assert (first.held, permit()) == (1, "")

    told(story)


def test_what_began_before_another_acted_may_not_go_on() -> None:
    async def story(first: Candidate, second: Candidate) -> None:
        permit = first.lease.permit()
        assert permit() == ""
        first.cut_off = True
        await until_it_acts(second, first)
        first.cut_off = False
        await second.leave()
        await until_it_acts(first)
        assert "was another's meanwhile" in permit()
        assert first.lease.permit()() == ""
        assert first.held == 2

    told(story)


def test_one_that_has_the_lease_acts_when_it_has_read_what_another_has_stored() -> None:
    async def story(first: Candidate, second: Candidate) -> None:
        second.leader.reads_for_s = 5.0
        await first.leave()
        while not second.leader.read_anew:
            assert not second.acts
            await asyncio.sleep(0.1)
            if second.lease._elector.valid() and not second.acts:
                assert "is not read yet" in second.lease.problem
        assert second.acts

    told(story)


def test_one_that_cannot_read_what_another_has_stored_keeps_the_lease_and_waits_until_it_can() -> None:
    async def story(first: Candidate, second: Candidate) -> None:
        second.leader.unreadable = 4
        await first.leave()
        said = set[str]()
        while second.leader.unreadable or second.leader.problem:
            assert not second.acts
            said.add(second.lease.problem)
            await asyncio.sleep(0.1)
        assert f"lease {PLACE.namespace}/{PLACE.name} is held, but what another may have stored is not read yet: " in {
            one.removesuffix(UNREADABLE) for one in said
        }
        assert await until_it_acts(second) <= RETRY_S
        assert (second.held, second.leader.read_anew) == (1, 5)
        assert second.lease._elector.transitions == 2

    told(story)


def test_one_that_cannot_read_what_is_stored_asks_no_more_than_once_a_pause() -> None:
    async def story(first: Candidate, second: Candidate) -> None:
        second.leader.unreadable = 1000
        await first.leave()
        await asyncio.sleep(LONGEST_PAUSE_S)
        before = second.leader.reads
        await asyncio.sleep(60.0)
        assert not second.acts
        assert second.leader.reads - before <= 2 * 60.0 / RETRY_S + 2

    told(story)


def test_one_whose_lease_was_deleted_or_lost_with_a_backup_reads_what_is_stored_and_acts_on() -> None:
    async def story(first: Candidate, second: Candidate) -> None:
        await second.die()
        first._server.lease = None
        before = first.leader.read_anew
        await asyncio.sleep(4 * LONGEST_PAUSE_S)
        assert (first.leader.read_anew, first.acts) == (before + 1, True)

    told(story)


def test_one_that_finds_the_lease_deleted_leaves_time_for_a_holder_that_it_may_not_have_seen() -> None:
    async def story(first: Candidate, second: Candidate) -> None:
        first.cut_off = True
        await until_it_acts(second, first)
        first.cut_off = False
        second.cut_off = True
        first._server.lease = None
        stopped = 0.0
        while second.acts:
            assert not first.acts
            await asyncio.sleep(0.1)
            stopped += 0.1
        assert f"lease {PLACE.namespace}/{PLACE.name} was deleted" in first.lease.problem
        assert CALL_S - 0.2 <= await until_it_acts(first, second) <= CALL_S + RETRY_S + LONGEST_PAUSE_S

    told(story)


def test_a_holder_that_was_taken_off_the_lease_by_hand_has_the_time_to_stop() -> None:
    async def story(first: Candidate, second: Candidate) -> None:
        lease = first._server.lease
        assert lease is not None
        first.cut_off = True
        lease["spec"]["holderIdentity"] = ""
        while first.acts:
            assert not second.acts
            await asyncio.sleep(0.1)
        assert await until_it_acts(second, first) >= CALL_S - 0.2

    told(story)


def test_one_that_finds_the_cluster_to_be_anothers_never_acts_and_gives_the_lease_up() -> None:
    async def story(first: Candidate, second: Candidate) -> None:
        second.leader.becomes = "it signs with another key"
        await first.leave()
        for _ in range(100):
            await asyncio.sleep(0.1)
            assert not second.acts
        assert second.leader.read_anew == 1
        assert second.lease._elector.leader == ""

    told(story)


def test_one_that_is_not_the_clusters_gives_the_lease_up_and_stands_for_it_no_more() -> None:
    async def story(first: Candidate, second: Candidate) -> None:
        first.leader.not_ours = "it signs with another key"
        assert await until_it_acts(second, first) <= RETRY_S + LONGEST_PAUSE_S + 0.2
        await second.leave()
        await asyncio.sleep(60.0)
        assert not first.acts

    told(story)


@pytest.mark.parametrize(("of", "words"), [("GET", "get and update of it"), ("POST", "create of leases")])
def test_a_right_that_is_lacking_is_named(of: str, words: str) -> None:
    async def tell() -> None:
        server = Server()
        denied = Response(403, b'{"kind":"Status","message":"leases is forbidden"}')
        server.fault = lambda request, answer: denied if request.method == of else answer()
        one = Candidate(server)
        await asyncio.sleep(5.0)
        assert "leases is forbidden (HTTP 403): give the agent's account" in one.lease.problem
        assert words in one.lease.problem
        assert one.lease.keeps_away(replaced=False) == ""  # a dispatcher has to learn of it
        await one.die()

    live(tell, 1)


@pytest.mark.parametrize("what", ["problem", "not_ours"])
def test_why_it_does_not_stand_for_the_lease_is_what_it_says(what: str) -> None:
    async def tell() -> None:
        one = Candidate(Server())
        setattr(one.leader, what, "what this executor has obeyed cannot be read")
        await asyncio.sleep(5.0)
        assert one.lease.problem == "what this executor has obeyed cannot be read"
        await one.die()

    live(tell, 1)


def test_who_waits_keeps_away_from_gateways_and_who_acts_or_knows_nothing_of_another_does_not() -> None:
    async def story(first: Candidate, second: Candidate) -> None:
        assert first.lease.keeps_away(replaced=False) == first.lease.keeps_away(replaced=True) == ""
        assert "this executor waits" in second.lease.keeps_away(replaced=False)
        first.cut_off = True
        await asyncio.sleep(RENEW_DEADLINE_S + 1.0)
        assert first.lease.keeps_away(replaced=False) == ""  # it cannot know
        assert first.lease.keeps_away(replaced=True)  # it does now
        await until_it_acts(second)
        assert second.lease.keeps_away(replaced=False) == ""

    told(story)


def test_before_the_lease_was_looked_at_nobody_is_replaced_at_a_gateway() -> None:
    async def tell() -> None:
        one = Candidate(Server())
        assert "is not held yet" in one.lease.keeps_away(replaced=False)
        one.leader.problem = "the API server does not answer"
        assert one.lease.keeps_away(replaced=False) == ""
        await one.die()

    live(tell, 1)


async def until_it_stops(acts: Candidate, most_s: float) -> None:
    async with asyncio.timeout(most_s):
        while acts.acts:  # noqa: ASYNC110 - what is asked has no event
            await asyncio.sleep(0.1)


def test_one_that_no_gateway_lets_in_gives_way_to_one_that_waits_as_if_it_had_died() -> None:
    async def story(first: Candidate, second: Candidate) -> None:
        first.let_in = False
        began = asyncio.get_running_loop().time()
        await until_it_stops(first, UNREACHED_S + ASKS_S + RENEW_DEADLINE_S)
        assert asyncio.get_running_loop().time() - began >= UNREACHED_S
        assert "no gateway lets this executor in" in first.lease.problem
        assert await until_it_acts(second, first) >= CALL_S - 0.2
        await asyncio.sleep(600.0)
        assert (first.acts, second.acts) == (False, True)

    told(story)


@pytest.mark.parametrize("let_in", [True, False])
def test_one_keeps_the_lease_for_as_long_as_nobody_waits_or_a_gateway_lets_it_in(let_in: bool) -> None:
    async def story(first: Candidate, second: Candidate) -> None:
        first.let_in = let_in
        if not let_in:
            await asyncio.sleep(1.2 * ASKS_S)
            await second.die()  # its word is on the Lease
        for _ in range(3600):
            await asyncio.sleep(1.0)
            assert first.acts

    told(story)


def test_two_that_no_gateway_lets_in_take_turns_ever_less_often_and_never_act_together() -> None:
    async def story(first: Candidate, second: Candidate) -> None:
        first.let_in = second.let_in = False
        idle = 0
        for _ in range(6 * 3600):
            await asyncio.sleep(1.0)
            assert not (first.acts and second.acts)
            idle += not (first.acts or second.acts)
        turns = second.lease._elector.transitions
        assert 4 <= turns <= 20
        assert idle <= turns * (CALL_S + 2 * LONGEST_PAUSE_S)

    told(story)


def test_one_that_was_let_in_again_has_its_whole_time_when_it_is_cut_off_the_next_time() -> None:
    async def story(first: Candidate, second: Candidate) -> None:
        for _ in range(20):
            first.let_in = False
            await asyncio.sleep(UNREACHED_S - 2 * RETRY_S)
            assert first.acts
            first.let_in = True
            await asyncio.sleep(2 * RETRY_S)
        assert first.acts

    told(story)


def test_one_that_loses_its_api_server_now_and_then_gives_way_as_soon_as_any_other() -> None:
    async def story(first: Candidate, second: Candidate) -> None:
        first.let_in = False
        lost = 0
        for _ in range(6):
            await asyncio.sleep(UNREACHED_S / 2)
            first.cut_off = True
            await asyncio.sleep(RENEW_DEADLINE_S + 0.1)
            lost += not first.acts
            first.cut_off = False
        assert lost
        assert second.acts

    told(story)


def test_that_it_is_asked_whether_to_give_way_changes_nothing() -> None:
    async def story(first: Candidate, second: Candidate) -> None:
        first.let_in = False
        asked = set[bool]()
        while first.acts:
            before = dict(vars(first.lease))
            asked.add(first.lease._held_up())
            assert vars(first.lease) == before
            await asyncio.sleep(0.1)
        assert asked == {False, True}

    told(story)


@pytest.mark.parametrize("call_s", [0.5, 2.5, 10.0])
def test_the_lease_says_to_wait_for_as_long_as_its_holder_may_write_and_never_shorter(call_s: float) -> None:
    async def tell() -> None:
        server = Server()
        one = Candidate(server, call_s)
        await asyncio.sleep(1.0)
        assert server.lease is not None
        assert server.lease["spec"]["leaseDurationSeconds"] >= RENEW_DEADLINE_S + call_s
        await one.die()

    live(tell, 1)
