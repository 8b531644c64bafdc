"""Questions of a gateway actor whether streams are relayed: none piles up for dispatchers that are gone or slow."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from dispatcher.service.gateway import exchange
from dispatcher.service.gateway.batches import ANSWER, Answered
from dispatcher.service.gateway.certificates import Named
from dispatcher.service.gateway.exchange import Exchange
from shared.messages.relay import RelayOpen


@pytest.fixture
def actor(monkeypatch: pytest.MonkeyPatch) -> Exchange:
    monkeypatch.setattr(exchange, "WAY_S", 0.01)
    return Exchange(cast(Any, SimpleNamespace(lines=dict)))


async def test_a_dispatcher_that_is_gone_is_asked_nothing(actor: Exchange) -> None:
    actor._session("gone").asked_at -= exchange.FORGOTTEN_S + 1
    await actor._told(RelayOpen("west", "uid-web"), "east")
    assert actor._sessions == {}


async def test_a_question_that_is_over_waits_for_no_dispatcher_and_other_answers_do(actor: Exchange) -> None:
    slow = actor._session("slow")
    answer = Answered(1, ANSWER, b"said")
    slow.add(answer, urgent=True)
    for _ in range(3):
        await actor._told(RelayOpen("west", "uid-web"), "east")
    upto, told = slow.after(0)
    assert told == (answer,)
    assert not slow.news.is_set(), "there is nothing more to tell"
    assert slow.after(upto) == (upto, ())


def test_more_answers_than_a_message_holds_are_told_by_the_next_ones(actor: Exchange) -> None:
    slow = actor._session("slow")
    for number in range(25_000):
        slow.add(Answered(number, ANSWER, b""), urgent=True)
    upto, told = 0, list[Answered]()
    for most in (10_000, 10_000, 5_000):
        assert slow.news.is_set(), "there is more to tell"
        upto, answers = slow.after(upto)
        assert len(answers) == most
        told += answers
    assert [one.number for one in told] == list(range(25_000))
    assert not slow.news.is_set()


def test_why_nobody_serves_a_role_is_told_within_the_dispatchers_limit() -> None:
    absent = {Named("east", "observer"): "x" * 20_000}
    assert [len(one.reason) for one in Exchange(cast(Any, SimpleNamespace(lines=lambda: absent)))._served] == [1_000]
