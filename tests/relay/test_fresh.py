"""Answers that several ask for: when each is asked for, and how old it gets."""

import asyncio

import pytest

from agents.executor.relayed.relay import Refusal
from agents.runtime.relay.fresh import Fresh


async def test_a_question_that_fails_is_asked_anew_and_one_that_is_given_up_goes_on_for_others() -> None:
    fresh, asked, go_on = Fresh[int](10.0), [], asyncio.Event()

    async def fail() -> int:
        asked.append("fail")
        raise Refusal(500, "no")

    async def slow() -> int:
        asked.append("slow")
        await go_on.wait()
        return 7

    for _ in range(2):
        with pytest.raises(Refusal):
            await fresh.get("a", fail)
    given_up, patient = (asyncio.create_task(fresh.get("a", slow)) for _ in range(2))
    await asyncio.sleep(0)
    given_up.cancel()
    go_on.set()
    assert (await patient, await fresh.get("a", fail)) == (7, 7)
    assert asked == ["fail", "fail", "slow"]


async def test_an_answer_is_as_old_as_it_is_since_it_came() -> None:
    now, asked = [0.0], []
    fresh = Fresh[int](0.3, clock=lambda: now[0])

    async def slow() -> int:
        asked.append(1)
        now[0] += 0.4
        return 7

    assert [await fresh.get("a", slow), await fresh.get("a", slow), len(asked)] == [7, 7, 1]
