"""An executor's own keys: it is served with the one that its cluster signed with last, and with no other."""

import asyncio
import copy
from hashlib import sha256
from typing import Any

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from agents.executor.trust import state
from agents.executor.trust.state import OWN_KEYS, ExecutorState
from agents.runtime.accepted_leader import BELIEVED_S
from shared.kube.http import MERGE_PATCH, Procedure, Request
from shared.messages import BOUND, UNKNOWN, Peer, Peers
from shared.model.names import FORGET_KEYS
from shared.security.keys import OwnKeys
from tests.agents.executor.one_executor import Executor, answer, say, stored, words_of, world
from tests.agents.executor.world import World


def pairs(*names: str) -> OwnKeys:
    """A key file with these keys, the one to sign with first."""
    return OwnKeys([Ed25519PrivateKey.from_private_bytes(sha256(name.encode()).digest()) for name in names])


async def served(it: Executor, epoch: int = 5) -> str:
    """'' if a dispatcher is obeyed some seconds later, else why not."""
    it.now += BELIEVED_S + 1
    return await it.loop.accepted_leader.late("one", epoch)


async def starts(world: World, *names: str) -> str:
    """'' if an executor with these keys is served, else why not."""
    return await served(Executor(world, keys=pairs(*names)))


@pytest.mark.parametrize(
    ("lives", "refused", "signs"),
    [
        pytest.param([["old"], ["old"]], False, "old", id="the same file again"),
        pytest.param([["old"], ["new"]], True, "old", id="another file"),
        pytest.param([["old"], ["new", "old"]], False, "new", id="a rotation"),
        pytest.param([["old"], ["new", "old"], ["new"]], False, "new", id="a rotation to its end"),
        pytest.param([["old"], ["new", "old"], ["old"]], True, "new", id="the file from before a rotation"),
        pytest.param([["old"], ["new", "old"], ["other", "old"]], True, "new", id="another rotation of the same file"),
        pytest.param([["old"], ["new", "old"], ["old", "new"]], False, "old", id="a rotation taken back"),
    ],
)
async def test_an_executor_is_served_if_its_file_holds_the_key_that_was_signed_with_last(
    lives: list[list[str]], refused: bool, signs: str
) -> None:
    it = world()
    *earlier, last = lives
    assert [await starts(it, *names) for names in earlier] == [""] * len(earlier)
    assert bool(await starts(it, *last)) == refused
    assert stored(it.api)[2][OWN_KEYS].split()[0] == pairs(signs).public[0]


async def test_an_executor_with_another_key_binds_nothing_writes_nothing_and_says_what_to_do() -> None:
    one = Executor(world(), keys=pairs("old"))
    ref = one.world.submit()
    await served(one, 5)
    before = one.world.api.objects[state.PATH]
    stranger = Executor(one.world, keys=pairs("new"))
    answer = (await stranger.bind(ref, 6)).outcomes[0]
    assert (answer.verdict, one.world.api.count("bind")) == (UNKNOWN, 0)
    for told in ('cluster "a"', pairs("old").public[0], "key_file", "cluster forget-keys a"):
        assert told in answer.message
    assert stranger.loop.accepted_leader.not_ours == answer.message
    assert one.world.api.objects[state.PATH] == before
    assert (await one.bind(ref, 5, "one")).outcomes[0].verdict == BOUND


async def test_a_running_executor_stops_once_the_cluster_signs_with_another_key() -> None:
    one = Executor(world(), keys=pairs("old"))
    assert await served(one) == ""
    assert await starts(one.world, "new", "old") == ""
    assert pairs("new").public[0] in await served(one)


async def test_one_that_learnt_of_another_key_by_a_write_of_its_own_looks_whether_that_still_signs() -> None:
    one = Executor(world(), keys=pairs("old"))
    await served(one)
    ours = copy.deepcopy(one.world.api.objects[state.PATH])
    assert await starts(one.world, "new", "old") == ""
    await one.loop.accepted_leader.remember("any", "thing")
    assert (one.loop.accepted_leader.problem, bool(one.loop.accepted_leader.not_ours)) == ("", True)
    one.world.api.objects[state.PATH] = ours
    await one.loop.accepted_leader.recall()
    assert one.loop.accepted_leader.not_ours == ""


async def test_of_two_executors_that_start_at_once_with_different_keys_one_is_served() -> None:
    it = world()
    both = [Executor(it, keys=pairs(name)) for name in ("one", "two")]
    answers = await asyncio.gather(*map(served, both))
    assert sorted(map(bool, answers)) == [False, True]


async def test_an_executor_without_the_key_is_served_once_an_operator_had_the_old_one_forgotten() -> None:
    it = world()
    assert await starts(it, "old") == ""
    stranger = Executor(it, keys=pairs("new"))
    await stranger.loop.accepted_leader.recall()  # no dispatcher has spoken yet
    assert stranger.loop.accepted_leader.not_ours
    say(it.api, f"{FORGET_KEYS}b")
    await stranger.loop.accepted_leader.recall()
    assert stranger.loop.accepted_leader.not_ours
    say(it.api, f"{FORGET_KEYS}a")
    await stranger.loop.accepted_leader.recall()
    assert stranger.loop.accepted_leader.not_ours  # the word may come out of a backup: it asks first
    answer(it.api, f"{FORGET_KEYS}a")
    await stranger.loop.accepted_leader.recall()
    assert (stranger.loop.accepted_leader.not_ours, await served(stranger)) == ("", "")
    assert words_of(it.api) == {f"{FORGET_KEYS}b"}
    assert pairs("new").public[0] in await starts(it, "old")


async def test_an_answer_that_comes_right_before_the_write_that_it_lifts_counts_once_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    it, word, hold_keys = world(), f"{FORGET_KEYS}a", ExecutorState.hold_keys
    assert await starts(it, "old") == ""
    stranger = Executor(it, keys=pairs("new"))
    await stranger.loop.accepted_leader.recall()
    say(it.api, word)
    await stranger.loop.accepted_leader.recall()  # our question is written
    backup: dict[str, Any] = {}

    def answered_late(self: ExecutorState, *args: Any) -> Procedure[str]:
        """What the executor has read so far showed the question alone."""
        answer(it.api, word)
        backup.update(copy.deepcopy(it.api.objects[state.PATH]))
        return hold_keys(self, *args)

    with monkeypatch.context() as late:
        late.setattr(ExecutorState, "hold_keys", answered_late)
        await stranger.loop.accepted_leader.recall()
    assert (stranger.loop.accepted_leader.not_ours, words_of(it.api)) == ("", set())
    it.api.objects[state.PATH] = backup
    assert pairs("old").public[0] in await served(stranger)


async def test_an_executor_that_has_the_key_takes_the_word_off_and_goes_on() -> None:
    one = Executor(world(), keys=pairs("old"))
    await served(one)
    say(one.world.api, f"{FORGET_KEYS}a")
    assert await served(one) == ""
    answer(one.world.api, f"{FORGET_KEYS}a")
    one.now += 60
    assert await served(one) == ""
    assert words_of(one.world.api) == set()
    assert await starts(one.world, "new")


@pytest.mark.parametrize("lost", ["deleted", "restored from before the rotation"])
async def test_a_lease_that_lost_the_keys_is_told_them_again(lost: str) -> None:
    it = world()
    assert await starts(it, "old") == ""
    backup = msgspec.json.decode(msgspec.json.encode(it.api.objects[state.PATH]))
    one = Executor(it, keys=pairs("new", "old"))
    assert await served(one) == ""
    del it.api.objects[state.PATH]
    if lost != "deleted":
        it.api.objects[state.PATH] = backup
    assert await served(one) == ""
    assert stored(it.api)[2][OWN_KEYS] == pairs("new", "old").text


async def test_stored_keys_are_compared_and_never_believed() -> None:
    one = Executor(world(), keys=pairs("old"))
    await served(one)
    values = msgspec.json.encode({**stored(one.world.api)[2], OWN_KEYS: f"{pairs('old').public[0]} FORGED"}).decode()
    patch = msgspec.json.encode({"metadata": {"annotations": {state.VALUES: values}}})
    assert one.world.api.answer(Request("PATCH", state.PATH, patch, MERGE_PATCH)).ok
    assert await served(one) == ""
    assert one.loop._local.keys.public == pairs("old").public


async def test_an_executor_with_another_key_does_no_local_duties() -> None:
    it = world()
    assert await starts(it, "old") == ""
    stranger = Executor(it, keys=pairs("new"))
    await stranger.loop.set_peers(Peers("one", 5, (Peer("b", ready=True),)))
    stranger.loop._local.peers.update((Peer("b", ready=True),), stranger.now, 120.0)  # as one that was served has it
    for _ in range(50):
        await asyncio.sleep(0)
    await stranger.loop.tend()
    for _ in range(50):
        await asyncio.sleep(0)
    assert not [path for path in it.api.objects if "nodes/global-dispatcher-" in path]
    await stranger.loop.stop()
