"""Few at once: who waits is patient as long as others get on."""

import asyncio

import pytest

from dispatcher.service.turns import Turns


async def test_however_many_wait_only_few_have_a_turn_while_turns_end(monkeypatch: pytest.MonkeyPatch) -> None:
    now, there, most = [0.0], 0, 0
    monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: now[0])
    turns = Turns(2, patience_s=5.0)

    async def one() -> None:
        nonlocal there, most
        async with turns.turn():
            there, now[0] = there + 1, now[0] + 3.0
            most = max(most, there)
            for _ in range(5):
                await asyncio.sleep(0)
            there -= 1

    await asyncio.gather(*(one() for _ in range(20)))
    assert (most, there) == (2, 0)


async def test_who_waits_goes_without_a_turn_once_all_that_have_one_hang(monkeypatch: pytest.MonkeyPatch) -> None:
    now, passed, hung = [0.0], list[str](), asyncio.Event()
    monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: now[0])
    turns = Turns(1, patience_s=5.0)

    async def one(name: str, until: asyncio.Event) -> None:
        async with turns.turn():
            passed.append(name)
            await until.wait()

    over = asyncio.Event()
    over.set()
    tasks = [asyncio.create_task(one("hangs", hung)), asyncio.create_task(one("waits", over))]
    await asyncio.sleep(0)
    assert passed == ["hangs"]
    now[0] = 5.0
    await tasks[1]
    assert passed == ["hangs", "waits"]
    hung.set()
    await tasks[0]
    async with turns.turn():
        assert now == [5.0]


async def test_turns_that_end_without_an_answer_keep_nobody_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    now, passed = [0.0], list[str]()
    monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: now[0])
    turns, given_up = Turns(1, patience_s=5.0), {name: asyncio.Event() for name in ("hangs", "hangs, too")}

    async def one(name: str) -> None:
        async with turns.turn():
            passed.append(name)
            if name in given_up:
                await given_up[name].wait()
                raise TimeoutError

    tasks = [asyncio.create_task(one(name)) for name in (*given_up, "answers")]
    await asyncio.sleep(0)
    now[0] = 4.0
    given_up["hangs"].set()
    await asyncio.wait(tasks[:1])
    for _ in range(5):
        await asyncio.sleep(0)
    assert passed == ["hangs", "hangs, too"]
    now[0] = 5.0
    for _ in range(5):
        await asyncio.sleep(0)
    assert passed == ["hangs", "hangs, too", "answers"]
    given_up["hangs, too"].set()
    assert [type(one) for one in await asyncio.gather(*tasks, return_exceptions=True)] == [
        *(TimeoutError, TimeoutError),
        type(None),
    ]
