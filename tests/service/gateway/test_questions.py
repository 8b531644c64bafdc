"""Questions of a gateway actor whether streams are relayed: none piles up for dispatchers that are gone or slow."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from dispatcher.model.messages.relay import RelayOpen
from dispatcher.service.gateway import exchange
from dispatcher.service.gateway.batches import ANSWER, Answered
from dispatcher.service.gateway.exchange import Exchange


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
