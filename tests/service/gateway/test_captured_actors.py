"""What a captured gateway actor says costs a dispatcher little: it is bounded, and leaves few and short log lines."""

import asyncio
import secrets
import tracemalloc
from collections.abc import Callable, Iterable

import msgspec
import pytest
from structlog.testing import capture_logs

from dispatcher.service.gateway.batches import (
    ANSWER,
    DIED,
    FAULT,
    MAX_ANSWERS,
    MISFIT,
    WAY,
    Answered,
    Collected,
    RelayWay,
    Served,
    decode_collected,
    encode_any,
)
from dispatcher.service.gateway.certificates import Named
from dispatcher.service.gateway.remote import AT_ONCE, MESSAGE, MOST_HELD, GatewaySite, RemoteGateway, RemoteLine
from dispatcher.service.link import AgentDied, LinkError
from shared.model.bounds import MAX_NAMES, MAX_ROWS
from shared.model.token_buckets import Allowance
from shared.streams.calls import HELLO, Call
from tests.service.gateway.test_gateway import eventually

CLUSTERS = ("east", "west")
NO_ANSWERS: tuple[Answered, ...] = ()
SERVED = (Served("east", "observer", 1, 1.0), Served("west", "observer", 2, 1.0))
BEYOND = {
    "answers": Collected("life", 1, (Answered(0, 0, b""),) * (MAX_ANSWERS + 1), 1),
    "who serves": Collected("life", 1, NO_ANSWERS, 1, (SERVED[0],) * (MAX_ROWS + 1)),
    "a cluster's name": Collected("life", 1, NO_ANSWERS, 1, (Served("x" * 513, "observer"),)),
    "a reason": Collected("life", 1, NO_ANSWERS, 1, (Served("east", "observer", reason="x" * 20_000),)),
    "counts": Collected("life", 1, NO_ANSWERS, 1, None, {f"{at:x}": 1 for at in range(MAX_ROWS + 1)}),
    "a count's name": Collected("life", 1, NO_ANSWERS, 1, None, {"x" * 513: 1}),
    "a count below nothing": Collected("life", 1, NO_ANSWERS, 1, None, {"east": -1}),
    "a life": Collected("x" * 513, 1, NO_ANSWERS, 1),
    "a build": Collected("life", 1, NO_ANSWERS, 1, None, {}, "x" * 513),
    "settings": Collected("life", 1, NO_ANSWERS, 1, None, {}, "", ("x",) * (MAX_NAMES + 1)),
    "a setting": Collected("life", 1, NO_ANSWERS, 1, None, {}, "", ("x" * 513,)),
}


class Says:
    """An actor that takes batches and forgets them, or hangs, and answers what it is given to say."""

    def __init__(self, says: Callable[[], bytes], *, hangs: bool = False) -> None:
        self.says, self.hangs, self.asked = says, hangs, 0

    async def send(self, session: str, batch: bytes) -> None:
        if self.hangs:
            await asyncio.Event().wait()

    async def collect(self, since: bytes, wait_s: float) -> bytes:
        await asyncio.sleep(0)
        self.asked += 1
        return self.says()


def site_of(actor: Says) -> tuple[GatewaySite, RemoteGateway]:
    site = GatewaySite({"gateway-0": actor}, CLUSTERS)
    return site, site._gateways[0]


def after(told: Iterable[Collected]) -> RemoteGateway:
    """A dispatcher that has heard this, as it comes off the wire."""
    _, gateway = site_of(Says(lambda: b""))
    for one in told:
        gateway._take(one)
    return gateway


@pytest.mark.parametrize("what", BEYOND)
async def test_what_is_beyond_a_limit_ends_the_calls_of_that_actor_with_the_reason(what: str) -> None:
    honest = encode_any(Collected("life", 1, NO_ANSWERS, 1, SERVED))
    actor = Says(lambda: honest)
    site, gateway = site_of(actor)
    with capture_logs() as lines:
        async with site.serving():
            await eventually(lambda: isinstance(gateway.served[Named("east", "observer")], RemoteLine))
            line = gateway.served[Named("east", "observer")]
            assert isinstance(line, RemoteLine)
            call = asyncio.create_task(line.call(Call(HELLO)))
            await asyncio.sleep(0)
            actor.says = lambda: encode_any(BEYOND[what])
            with pytest.raises(AgentDied, match=r"gateway-0 does not answer: .* beyond its limits"):
                await asyncio.wait_for(call, 10)
            actor.says = lambda: honest
            await eventually(lambda: isinstance(gateway.served[Named("east", "observer")], RemoteLine))
    assert max(len(str(one)) for one in lines) < 500


def test_what_is_beyond_a_limit_is_not_decoded() -> None:
    data = encode_any(BEYOND["answers"])
    tracemalloc.start()
    try:
        with pytest.raises(msgspec.ValidationError):
            decode_collected(data)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 2**20, "100,001 answers take 6 MB and more"


def test_counts_of_clusters_that_nobody_has_configured_are_not_kept() -> None:
    names = {secrets.token_hex(4): 1 for _ in range(1000)}
    told = Collected("captured", 1, NO_ANSWERS, 0, None, {**names, "east": 2})
    gateway = after((told, Collected("honest", 1, NO_ANSWERS, 0, None, {"east": 3})))
    assert gateway.refused == {"east": 5}
    assert set(gateway._refused_before) == {"east"}


async def test_what_waits_to_be_sent_to_an_actor_that_hangs_is_bounded() -> None:
    question = Answered(1, WAY, encode_any(RelayWay("east", "west", "uid")))
    asks = encode_any(Collected("life", 1, (question,) * 9_000, 0))
    actor = Says(lambda: asks, hangs=True)
    site, gateway = site_of(actor)
    async with site.serving():
        await eventually(lambda: actor.asked > 5)
        assert len(gateway._ways) == MOST_HELD
        for number in range(MOST_HELD + 1):
            gateway.replace(number)
        assert len(gateway._replaced) == MOST_HELD


NEWS = Collected("life", 1, NO_ANSWERS, 1, SERVED)
FLOODS = {
    "questions": Collected("life", 1, (Answered(1, WAY, encode_any(RelayWay("east", "west", "uid"))),) * 30_000, 0),
    "answers that nobody waits for": Collected("life", 1, (Answered(1, 0, b""),) * 30_000, 0),
    "long answers that nobody waits for": Collected("life", 1, (Answered(1, 0, bytes(30 * 2**20)),), 0),
    "who serves": Collected("life", 1, NO_ANSWERS, 1, SERVED[:1] * 10_000),
    "reasons": Collected("life", 1, NO_ANSWERS, 1, (Served("east", "observer", reason="x" * 16_000),) * 2_000),
    "nothing, at once": Collected("life", 1, NO_ANSWERS, 1),
}


@pytest.mark.parametrize("what", FLOODS)
async def test_an_actor_that_tells_much_that_nobody_waits_for_is_heard_more_slowly(what: str) -> None:
    told = encode_any(FLOODS[what])
    actor = Says(lambda: told)
    site, gateway = site_of(actor)
    gateway._allowance = Allowance(AT_ONCE, per_s=0.001, longest_s=60.0)
    with capture_logs() as lines:
        async with site.serving():
            await eventually(lambda: bool([one for one in lines if "more slowly" in one["event"]]))
            heard = actor.asked
            for _ in range(1_000):
                await asyncio.sleep(0)
            assert actor.asked == heard
    assert heard <= AT_ONCE // MESSAGE + 1
    assert [one["actor"] for one in lines if "more slowly" in one["event"]] == ["gateway-0"]


async def test_what_is_beyond_the_limits_counts_as_heard_in_vain_also_between_honest_words() -> None:
    says = [encode_any(Collected("life", 1, (Answered(0, 0, b"x" * 2**20),) * 30, 1, SERVED, {"x" * 513: 1}))]
    actor = Says(lambda: says[actor.asked % 2])
    says.append(encode_any(NEWS))
    site, gateway = site_of(actor)
    gateway._allowance = Allowance(AT_ONCE, per_s=0.001, longest_s=60.0)
    with capture_logs() as lines:
        async with site.serving():
            await eventually(lambda: bool([one for one in lines if "more slowly" in one["event"]]))
    assert actor.asked <= 12


async def test_answers_that_are_waited_for_are_heard_as_fast_as_they_come() -> None:
    gateway = after((NEWS,))
    line = gateway.served[Named("east", "observer")]
    assert isinstance(line, RemoteLine)
    for number in range(1, 100):
        calls = [asyncio.create_task(line.call(Call(HELLO))) for _ in range(100)]
        await asyncio.sleep(0)
        numbers = [*gateway._waiting]
        answers = tuple(Answered(one, 0, bytes(10_000)) for one in numbers)
        told = Collected("life", number, answers, 1)
        assert gateway._take(told, len(encode_any(told))) <= 1
        assert await asyncio.gather(*calls) == [bytes(10_000)] * 100


def test_the_largest_honest_fleet_says_less_than_is_heard_at_once() -> None:
    """As many streams are asked about as 200 clusters may open at once, and the agents of 1,000 have just connected."""
    served = tuple(Served(f"{number}", role, number) for number in range(1000) for role in ("observer", "executor"))
    question = Answered(1, WAY, encode_any(RelayWay("east", "west", "5d0f4b3e-7c2f-4a0e-9a55-0e6a3a2f8f11")))
    told = Collected("life", 1, (question,) * 51_200, 1, served)
    assert after(())._take(told, len(encode_any(told))) < AT_ONCE


def test_a_question_with_long_names_is_not_answered() -> None:
    long = Answered(1, WAY, encode_any(RelayWay("east", "x" * 513, "uid")))
    plain = Answered(2, WAY, encode_any(RelayWay("east", "west", "uid")))
    gateway = after((Collected("life", 1, (long, plain), 0),))
    assert [way.number for way in gateway._ways] == [2]


async def test_a_call_that_fails_has_a_short_reason() -> None:
    gateway = after((Collected("life", 1, NO_ANSWERS, 1, SERVED),))
    line = gateway.served[Named("east", "observer")]
    assert isinstance(line, RemoteLine)
    call = asyncio.create_task(line.call(Call(HELLO)))
    await asyncio.sleep(0)
    gateway._take(Collected("life", 2, (Answered(1, DIED, b"x" * 1_000_000),), 1))
    with pytest.raises(AgentDied) as died:
        await call
    assert len(str(died.value)) == 4_000


def test_lives_without_end_leave_few_and_short_log_lines() -> None:
    def life(number: int) -> Collected:
        served = SERVED[number % 2 :]  # one that lists a cluster less now and then
        return Collected(f"{number}", 1, NO_ANSWERS, 1, served, {}, "v" * 500, ("x" * 500,) * 500)

    with capture_logs() as lines:
        gateway = after(map(life, range(100)))
        for number in range(100):
            gateway._lost(f"why {number}")
            gateway._take(life(99))
    assert len({line["event"] for line in lines}) == 5
    assert len(lines) < 100, "of some 500: 10 of a kind, and one more each 6 s"
    assert max(len(str(line)) for line in lines) < 6_000


async def test_the_largest_honest_fleet_is_heard() -> None:
    """1,000 clusters with two agents each, five times those of docs/scale.md, as all of them open streams."""
    clusters = [f"cluster-{number:04d}.{'region' * 20}" for number in range(1000)]
    why = "the connection of its agent ended: " + "x" * 900
    served = tuple(Served(one, role, reason=why) for one in clusters for role in ("observer", "executor"))
    answers = (Answered(0, 0, b"x"),) * 60_000
    told = Collected("life", 1, answers, 1, served, dict.fromkeys(clusters, 9), "0.1.0+abcdef", ("gateway.next",) * 50)
    actor = Says(lambda: encode_any(told))
    site = GatewaySite({"gateway-0": actor}, clusters)
    async with site.serving():
        await eventually(lambda: site.link(clusters[-1])._find("observer") == why)
        assert site.link(clusters[-1]).streams_refused() == 9


@pytest.mark.parametrize("verdict", [ANSWER, FAULT, MISFIT])
async def test_what_is_refused_of_an_agent_names_the_actor_that_it_came_through(verdict: int) -> None:
    site, gateway = site_of(Says(lambda: b""))
    gateway._take(Collected("life", 1, NO_ANSWERS, 1, SERVED))
    asked = asyncio.create_task(site.link("east").hello(timeout_s=10.0))
    await eventually(lambda: bool(gateway._calls))
    gateway._take(Collected("life", 2, (Answered(gateway._calls[0].number, verdict, b"junk"),), 1))
    with pytest.raises(LinkError, match=r"\(through gateway actor gateway-0\)$"):
        await asked


async def test_what_names_the_actor_already_does_not_name_it_twice() -> None:
    site, gateway = site_of(Says(lambda: b""))
    gateway._take(Collected("life", 1, NO_ANSWERS, 1, SERVED))
    asked = asyncio.create_task(site.link("east").hello(timeout_s=10.0))
    await eventually(lambda: bool(gateway._calls))
    gateway._take(Collected("another life", 1, NO_ANSWERS, 1, SERVED))
    with pytest.raises(AgentDied, match=r"^gateway actor gateway-0 has restarted$"):
        await asked


def test_a_link_knows_through_which_actor_its_executor_is_reached() -> None:
    site, gateway = site_of(Says(lambda: b""))
    assert site.link("east").actor == ""
    gateway._take(Collected("life", 1, NO_ANSWERS, 1, (*SERVED, Served("east", "executor", 3, 1.0))))
    assert [site.link(cluster).actor for cluster in CLUSTERS] == ["gateway-0", ""]
