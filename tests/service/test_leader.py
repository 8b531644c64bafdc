"""Leader election under virtual time: never two at once, epochs only grow, no clock is compared with another."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from shared.kube.elector import LeaderTiming, new_identity
from shared.kube.http import Request, Response
from tests.service.leases import Candidate, Server, Time

TEN_YEARS = 10 * 365 * 86_400.0


class TermRunner:
    """Some candidates; after every second at most one of them may think that it leads."""

    def __init__(self) -> None:
        self.time, self.server = Time(), Server()
        self.candidates: list[Candidate] = []

    def candidate(self, name: str, *, behind: float = 0.0) -> Candidate:
        self.candidates.append(Candidate(name, self.time, self.server, behind=behind))
        return self.candidates[-1]

    async def passes(self, seconds: float) -> None:
        for _ in range(round(seconds * 4)):
            await self.time.passes(0.25)
            assert len(self.leading()) <= 1, self.leading()

    def leading(self) -> list[str]:
        return [one.name for one in self.candidates if one.elector.valid() and one.asleep is None]


@asynccontextmanager
async def stage() -> AsyncIterator[TermRunner]:
    built = TermRunner()
    try:
        yield built
    finally:
        await asyncio.gather(*(one.die() for one in built.candidates))


async def test_the_first_leads_and_the_second_stands_by_and_knows_who_leads() -> None:
    async with stage() as it:
        it.candidate("a")
        await it.passes(1)
        b = it.candidate("b")
        await it.passes(120)
        assert it.leading() == ["a"]
        assert (b.terms, b.elector.leader) == ([], "a")


async def test_a_dead_leader_is_followed_once_its_lease_has_run_out_and_the_epoch_grows() -> None:
    async with stage() as it:
        a = it.candidate("a")
        await it.passes(1)
        b = it.candidate("b")
        await it.passes(30)
        await a.die()
        died = it.time.now
        await it.passes(14)
        assert b.terms == []
        while not b.terms:
            await it.passes(0.25)
        assert it.time.now - died < 15 + 2.2 * 2 + 1
        assert (a.terms, b.terms) == ([1], [2])


async def test_a_standby_asks_again_the_moment_the_lease_it_saw_runs_out() -> None:
    async with stage() as it:
        asked: list[tuple[str, float]] = []

        def note(request: Request, answer: Callable[[], Response]) -> Response:
            asked.append((request.method, it.time.now))
            return answer()

        it.server.fault = note
        a = it.candidate("a")
        await it.passes(1)
        b = it.candidate("b")
        await it.passes(10)
        await a.die()
        renewed = max(at for method, at in asked if method != "GET")
        while not b.terms:
            await it.passes(0.25)
        seen = min(at for method, at in asked if method == "GET" and at > renewed)
        acquired = max(at for method, at in asked if method != "GET")
        assert acquired - seen == pytest.approx(15, abs=0.2)


async def test_a_leader_that_gives_up_its_lease_is_followed_within_seconds() -> None:
    async with stage() as it:
        a = it.candidate("a")
        await it.passes(1)
        b = it.candidate("b")
        await it.passes(10)
        await a.die()
        await a.elector.release()
        await it.passes(6)
        assert b.terms == [2]
        assert not a.elector.valid()


async def test_a_leader_that_was_stopped_beyond_its_lease_knows_at_once_that_it_leads_no_more() -> None:
    async with stage() as it:
        a = it.candidate("a")
        await it.passes(1)
        b = it.candidate("b")
        await it.passes(10)
        a.stop()
        await it.passes(40)
        assert it.leading() == ["b"]
        assert not a.elector.valid()  # before it did anything: nothing that waited to be sent may leave
        a.go_on()
        await it.passes(60)
        assert it.leading() == ["b"]
        assert len(a.ended) == 1
        assert b.terms == [2]


async def test_a_leader_that_cannot_reach_the_lease_stops_before_another_may_begin() -> None:
    async with stage() as it:
        a = it.candidate("a")
        await it.passes(1)
        b = it.candidate("b")
        await it.passes(20)
        a.cut_off = True
        cut = it.time.now
        while a.elector.valid():
            await it.passes(0.25)
        assert it.time.now - cut <= 10.5
        assert b.terms == []
        await it.passes(20)
        assert it.leading() == ["b"]
        assert "was not renewed for 10 s" in a.ended[0]
        a.cut_off = False
        await it.passes(60)
        assert (a.terms, b.terms) == ([1], [2])


@pytest.mark.parametrize("behind", [TEN_YEARS, -TEN_YEARS], ids=["behind", "ahead"])
async def test_a_clock_that_is_ten_years_off_changes_nothing(behind: float) -> None:
    async with stage() as it:
        a = it.candidate("a")
        await it.passes(1)
        b = it.candidate("b", behind=behind)
        await it.passes(120)
        assert it.leading() == ["a"]
        await a.die()
        await it.passes(25)
        assert (it.leading(), b.terms) == (["b"], [2])
        it.candidate("c")
        await it.passes(120)
        assert it.leading() == ["b"]


async def test_a_deleted_lease_costs_no_epoch() -> None:
    async with stage() as it:
        for name in ("a", "b", "c"):
            it.candidate(name)
        await it.passes(5)
        (first,) = it.leading()
        await it.candidates[[one.name for one in it.candidates].index(first)].die()
        await it.passes(30)
        epoch = it.server.transitions
        it.server.lease = None
        await it.passes(60)
        assert len(it.leading()) == 1
        assert it.server.transitions > epoch


async def test_a_lease_that_was_restored_from_a_backup_costs_no_epoch() -> None:
    async with stage() as it:
        a = it.candidate("a")
        await it.passes(5)
        backup, version = it.server.lease, it.server.version
        await a.die()
        b = it.candidate("b")
        await it.passes(30)
        await b.die()
        c = it.candidate("c")
        await it.passes(30)
        assert c.terms == [3]
        it.server.lease, it.server.version = backup, version
        await it.passes(60)
        assert c.terms[-1] >= 3
        assert it.server.transitions >= 3


Answer = Callable[[], Response]


def refused(status: int) -> Callable[[Request, Answer], Response]:
    return lambda request, answer: Response(status, b'{"message":"on order"}')


def lost_replies(request: Request, answer: Answer) -> Response:
    done = answer()
    return Response(0, b"reset") if request.method != "GET" else done


@pytest.mark.parametrize("status", [0, 403, 404, 409, 429, 500, 503])
async def test_while_the_server_refuses_nobody_begins_to_lead_and_it_is_told_why(status: int) -> None:
    async with stage() as it:
        a = it.candidate("a")
        it.server.fault = refused(status)
        await it.passes(30)
        assert (it.leading(), a.terms) == ([], [])
        assert "lease kube-node-lease/global-dispatcher" in a.elector.problem
        it.server.fault = lambda _, answer: answer()
        await it.passes(6)
        assert it.leading() == ["a"]
        assert a.elector.problem == ""


async def test_a_namespace_that_is_not_there_is_told_with_the_key_that_names_it() -> None:
    async with stage() as it:
        a = it.candidate("a")
        it.server.fault = refused(404)
        await it.passes(3)
        want = "make the namespace, or set leader_election.namespace to one that is there, not kube-node-lease"
        assert a.elector.problem.endswith(want)


async def test_a_short_trouble_of_the_server_ends_no_term() -> None:
    async with stage() as it:
        a = it.candidate("a")
        await it.passes(10)
        it.server.fault = refused(500)
        await it.passes(7)
        it.server.fault = lambda _, answer: answer()
        await it.passes(20)
        assert (a.terms, a.ended) == ([1], [])


async def test_lost_replies_to_writes_make_no_second_term() -> None:
    async with stage() as it:
        it.server.fault = lost_replies
        a = it.candidate("a")
        await it.passes(20)
        it.server.fault = lambda _, answer: answer()
        await it.passes(20)
        assert it.leading() == ["a"]
        assert {epoch for _, epoch in it.server.writes} == {1}
        assert a.terms == [1]


@pytest.mark.parametrize("body", [b"", b"[]", b'{"spec":1}', b'{"spec":{"leaseTransitions":"x"}}'])
async def test_a_lease_that_cannot_be_read_makes_nobody_leader(body: bytes) -> None:
    async with stage() as it:
        a = it.candidate("a")
        it.server.fault = lambda request, answer: Response(200, body)
        await it.passes(30)
        assert (it.leading(), a.terms) == ([], [])


async def test_the_count_is_raised_above_what_was_obeyed() -> None:
    async with stage() as it:
        a = it.candidate("a")
        await it.passes(1)
        raising = asyncio.create_task(a.elector.raise_to(41))
        await it.passes(1)
        assert await raising
        await a.die()
        b = it.candidate("b")
        await it.passes(30)
        assert b.terms == [42]


async def test_what_others_wrote_on_the_lease_stays() -> None:
    async with stage() as it:
        it.candidate("a")
        await it.passes(1)
        assert it.server.lease is not None
        it.server.lease["metadata"]["labels"] = {"team": "platform"}
        await it.passes(10)
        assert it.server.lease["metadata"]["labels"] == {"team": "platform"}


def test_each_life_is_another_candidate_and_the_times_are_kube_schedulers() -> None:
    assert new_identity() != new_identity()
    assert LeaderTiming() == LeaderTiming(lease_s=15.0, renew_deadline_s=10.0, retry_s=2.0)
