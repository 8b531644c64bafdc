"""An operator's words on the Lease of an executor: each counts once, and only as an answer to what was asked."""

import copy

import pytest

from agents.executor.trust import state
from shared.model.names import CONFIRM_RESTORED, FORGET_KEYS
from tests.agents.executor.one_executor import Executor, answer, hear, insist, say, stored, words_of, world
from tests.agents.executor.world import keys_of


async def test_the_next_keys_are_believed_once_an_operator_of_the_cluster_had_the_old_ones_forgotten() -> None:
    it = Executor(world())
    trusted = it.loop._local.trusted
    await hear(it, "old")
    await hear(it, "new")
    assert trusted.of("ub") == keys_of("old").public
    await insist(it, f"{FORGET_KEYS}b")
    await hear(it, "new")
    assert trusted.of("ub") == keys_of("new").public
    assert words_of(it.world.api) == set()
    assert stored(it.world.api)[2][state.KEYS] == trusted.text().text
    await hear(it, "other")
    assert trusted.of("ub") == keys_of("new").public


async def test_keys_that_an_earlier_life_has_stored_are_forgotten_by_the_next_one() -> None:
    first = Executor(world())
    await hear(first, "old")
    say(first.world.api, f"{FORGET_KEYS}b")
    later = Executor(first.world)
    await insist(later, f"{FORGET_KEYS}b")
    await hear(later, "new")
    assert later.loop._local.trusted.of("ub") == keys_of("new").public


async def test_keys_of_one_cluster_are_forgotten_and_no_others() -> None:
    it = Executor(world())
    await hear(it, "old")
    await insist(it, f"{FORGET_KEYS}c")
    await hear(it, "new")
    assert it.loop._local.trusted.of("ub") == keys_of("old").public
    assert words_of(it.world.api) == set()


async def test_an_operators_word_that_a_restored_cluster_is_meant_is_passed_on_once() -> None:
    it = Executor(world())
    confirmed = []
    it.loop.accepted_leader.confirm_restored = lambda: confirmed.append(it.now)
    await hear(it, "old")
    await insist(it, CONFIRM_RESTORED)
    for _ in range(3):
        await hear(it, "old")
    assert len(confirmed) == 1
    assert words_of(it.world.api) == set()


@pytest.mark.parametrize("lives", [1, 2], ids=["the same life", "the next life"])
@pytest.mark.parametrize("caught", ["said", "asked", "answered"])
async def test_a_word_that_a_restored_backup_brings_back_does_not_count_again(caught: str, lives: int) -> None:
    it = Executor(world())
    await hear(it, "old")
    backups = {}
    lease = it.world.api.objects
    say(it.world.api, f"{FORGET_KEYS}b")
    backups["said"] = copy.deepcopy(lease[state.PATH])
    await hear(it, "old")
    backups["asked"] = copy.deepcopy(lease[state.PATH])
    answer(it.world.api, f"{FORGET_KEYS}b")
    backups["answered"] = copy.deepcopy(lease[state.PATH])
    await hear(it, "new")
    assert it.loop._local.trusted.of("ub") == keys_of("new").public
    kept = lease[state.PATH]["metadata"]["annotations"][state.VALUES]
    lease[state.PATH] = backups[caught]
    lease[state.PATH]["metadata"]["annotations"][state.VALUES] = kept  # else it knows no better than to believe
    now = it if lives == 1 else Executor(it.world)
    for _ in range(3):
        await hear(now, "other")
    assert now.loop._local.trusted.of("ub") == keys_of("new").public


async def test_annotations_of_others_on_the_lease_are_no_words_and_stay() -> None:
    it = Executor(world())
    await hear(it, "old")
    say(it.world.api, "example.com/note")
    await hear(it, "new")
    assert words_of(it.world.api) == {"example.com/note"}
    assert it.loop._local.trusted.of("ub") == keys_of("old").public
