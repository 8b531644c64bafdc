"""What an executor must not forget: stored before it is acted upon, and never lower than it was."""

import asyncio
import copy
from collections.abc import Callable, Sequence
from hashlib import sha256
from typing import Any

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from agents.executor import state
from agents.executor.http import MERGE_PATCH, Procedure, Request, Response
from agents.executor.keys import MAX_CLUSTERS, OwnKeys
from agents.executor.local import Moment
from agents.executor.state import CLUSTER, OWN_KEYS, ExecutorState
from agents.runtime import accepted_leader
from agents.runtime.accepted_leader import BELIEVED_S
from agents.runtime.executor_loop import ExecutorLoop, ExecutorSettings
from dispatcher.model.messages import BOUND, UNKNOWN, Bind, IntentBatch, OutcomeBatch, Peer, Peers, PodRef
from dispatcher.model.names import CONFIRM_RESTORED, FORGET_KEYS
from tests.agents.executor.world import ApiModel, World, keys_of, lost_reply, node_object, pod_object, run, scripted

Answer = Callable[[Request], Response]


def stored(api: ApiModel) -> tuple[int, str, dict[str, str]]:
    lease = api.objects[state.PATH]
    values = msgspec.json.decode(lease["metadata"]["annotations"][state.VALUES])
    return lease["spec"]["leaseTransitions"], lease["spec"].get("holderIdentity", ""), values


def test_whom_it_obeys_outlives_the_executor() -> None:
    api = ApiModel()
    assert run(ExecutorState().obey(7, "one"), api.answer) == ""
    later = ExecutorState()
    assert run(later.load(), api.answer) == ""
    assert (later.known, later.epoch, later.dispatcher) == (True, 7, "one")


def test_a_lower_epoch_is_not_written_and_the_fields_say_who_is_obeyed() -> None:
    api = ApiModel()
    run(ExecutorState().obey(7, "one"), api.answer)
    later = ExecutorState()
    assert run(later.obey(6, "old"), api.answer) == ""
    assert (later.epoch, later.dispatcher, stored(api)[:2]) == (7, "one", (7, "one"))


def test_the_same_dispatcher_again_costs_no_write() -> None:
    api, known = ApiModel(), ExecutorState()
    run(known.obey(7, "one"), api.answer)
    run(known.obey(7, "one"), api.answer)
    assert (api.count("create"), api.count("patch")) == (1, 0)


@pytest.mark.parametrize("method", ["POST", "PATCH"])
def test_a_lost_reply_to_the_write_is_cleared_up_by_reading(method: str) -> None:
    api, known = ApiModel(), ExecutorState()
    if method == "PATCH":
        run(known.obey(1, "first"), api.answer)
    assert run(known.obey(7, "one"), lost_reply(api.answer, method)) == ""
    assert (known.epoch, stored(api)[:2]) == (7, (7, "one"))


@pytest.mark.parametrize("method", ["POST", "PATCH"])
def test_of_two_executors_that_write_at_once_the_one_that_knows_less_learns_of_the_other(method: str) -> None:
    api, mine = ApiModel(), ExecutorState()
    if method == "PATCH":
        run(mine.obey(1, "first"), api.answer)

    def race(request: Request) -> Response:
        if request.method == method and state.PATH.startswith(request.path):
            run(ExecutorState().obey(8, "newer"), api.answer)
        return api.answer(request)

    assert run(mine.obey(7, "one"), race) == ""
    assert (mine.epoch, mine.dispatcher, stored(api)[:2]) == (8, "newer", (8, "newer"))


@pytest.mark.parametrize("status", [0, 500, 403, 429])
def test_without_an_answer_nobody_is_obeyed(status: int) -> None:
    known = ExecutorState()
    problem = run(known.obey(7, "one"), lambda _: Response(status))
    assert "cannot be read" in problem
    assert (known.known, known.epoch) == (False, 0)


def test_a_write_that_is_forbidden_is_not_acted_upon() -> None:
    api, known = ApiModel(), ExecutorState()
    problem = run(known.obey(7, "one"), scripted(404, 403, then=api.answer))
    assert "cannot be written" in problem
    assert (known.epoch, known.dispatcher) == (0, "")


@pytest.mark.parametrize("lost", ["deleted", "restored"])
def test_a_server_that_lost_its_past_is_told_again(lost: str) -> None:
    api, known = ApiModel(), ExecutorState()
    run(known.obey(3, "early"), api.answer)
    backup = msgspec.json.decode(msgspec.json.encode(api.objects[state.PATH]))
    run(known.obey(7, "one"), api.answer)
    del api.objects[state.PATH]
    if lost == "restored":
        api.objects[state.PATH] = backup
    assert run(known.obey(7, "one"), api.answer) == ""
    assert (known.epoch, known.dispatcher, stored(api)[:2]) == (7, "one", (7, "one"))


@pytest.mark.parametrize("text", ["{", "[1]", '{"a": 1}'])
def test_what_cannot_be_read_is_told_with_the_way_out(text: str) -> None:
    api = ApiModel()
    api.put(state.PATH, {"metadata": {"name": state.NAME, "annotations": {state.VALUES: text}}})
    assert f"delete lease {state.NAME}" in run(ExecutorState().load(), api.answer)


def test_values_are_kept_beside_each_other_and_by_two_executors() -> None:
    api, one, other = ApiModel(), ExecutorState(), ExecutorState()
    run(one.obey(7, "one"), api.answer)
    assert run(one.remember("a", "1"), api.answer) == ""
    assert run(other.remember("b", "2"), api.answer) == ""
    assert run(one.remember("c", "3"), api.answer) == ""
    assert stored(api) == (7, "one", {"a": "1", "b": "2", "c": "3"})
    assert run(other.remember("a", ""), api.answer) == ""
    assert other.values == {"b": "2", "c": "3"}


def test_values_are_bounded() -> None:
    api, known = ApiModel(), ExecutorState()
    assert f"more than {state.MAX_VALUES // 1024} KiB" in run(known.remember("a", "x" * state.MAX_VALUES), api.answer)
    assert (known.values, api.objects) == ({}, {})


def test_a_cluster_has_one_name_until_that_is_given_up() -> None:
    api, north, twin = ApiModel(), ExecutorState(), ExecutorState()
    assert run(north.be_called("north"), api.answer) == ""
    assert '"north"' in run(twin.be_called("north2"), api.answer)
    assert run(twin.be_called("north2", before="north"), api.answer) == ""
    assert stored(api)[2] == {CLUSTER: "north2"}


# --- the loop that obeys ---------------------------------------------------------------------------------------------


class Executor:
    """One executor on a model cluster; `down` loses every request, `loses_replies` every answer."""

    def __init__(self, world: World, name: str = "a", rename_from: str = "", keys: OwnKeys | None = None) -> None:
        self.world, self.now, self.down = world, 100.0, False
        self.loses_replies = False
        self.asked: list[Request] = []
        settings = ExecutorSettings(rename_from=rename_from)
        clock = lambda: Moment(self.now, self.now)  # noqa: E731
        self.loop = ExecutorLoop(
            self, world.cache, name, "a-cluster-uid", settings, keys=keys or keys_of("a"), clock=clock
        )

    async def send(self, request: Request) -> Response:
        self.asked.append(request)
        await asyncio.sleep(0)
        if self.down:
            return Response(0)
        answer = self.world.api.answer(request)
        return Response(0) if self.loses_replies and request.method != "GET" else answer

    async def send_all(self, requests: Sequence[Request]) -> list[Response]:
        return [await self.send(request) for request in requests]

    async def bind(self, ref: PodRef, epoch: int, dispatcher: str = "") -> OutcomeBatch:
        intent = Bind("i", ref, epoch, "n1")
        return await self.loop.execute(IntentBatch(dispatcher or f"life-{epoch}", epoch, (intent,)))


def world() -> World:
    return World(node_object(cpu="100", pods="100"))


async def test_the_epoch_is_stored_before_the_first_order_is_carried_out() -> None:
    it = Executor(world())
    ref = it.world.submit()
    assert (await it.bind(ref, 5)).outcomes[0].verdict == BOUND
    done = [verb for verb, _, _ in it.world.api.done]
    assert done == ["create", "patch", "patch", "bind"]  # name, keys, epoch, pod
    assert stored(it.world.api) == (5, "life-5", {CLUSTER: "a", OWN_KEYS: keys_of("a").text})


async def test_an_executor_that_cannot_store_whom_it_obeys_does_nothing_for_it() -> None:
    it = Executor(world())
    ref = it.world.submit()
    it.down = True
    answer = await it.bind(ref, 5)
    assert (answer.outcomes[0].verdict, answer.obeys) == (UNKNOWN, 0)
    it.down = False
    assert (await it.bind(ref, 5)).outcomes[0].verdict == BOUND


@pytest.mark.parametrize("written", [False, True], ids=["before the write", "after it"])
async def test_an_executor_that_dies_beside_the_write_obeys_the_old_dispatcher_only_if_it_did_not_write(
    written: bool,
) -> None:
    one = Executor(world())
    ref = one.world.submit()
    await one.bind(ref, 5)
    one.down, one.loses_replies = not written, written
    await one.loop.execute(IntentBatch("life-6", 6, ()))
    next_life = Executor(one.world)
    other = next_life.world.submit(pod_object("other"))
    answer = await next_life.bind(other, 5)
    assert (answer.outcomes[0].verdict, answer.obeys) == ((UNKNOWN, 6) if written else (BOUND, 5))


async def test_a_dispatcher_that_slept_finds_another_executor_of_the_cluster_that_obeys_it_no_more() -> None:
    one = Executor(world())
    other = Executor(one.world)
    ref = one.world.submit()
    await one.loop.execute(IntentBatch("old", 5, ()))
    await other.loop.execute(IntentBatch("new", 6, ()))
    one.now += BELIEVED_S + 1
    answer = await one.bind(ref, 5, "old")
    assert (answer.outcomes[0].verdict, answer.obeys, answer.leader) == (UNKNOWN, 6, "new")
    assert one.world.api.count("bind") == 0


async def test_what_was_read_a_moment_ago_is_not_read_again() -> None:
    it = Executor(world())
    refs = [it.world.submit(pod_object(f"p{number}")) for number in range(20)]
    await it.loop.execute(IntentBatch("one", 5, ()))
    it.asked.clear()
    for ref in refs:
        await it.bind(ref, 5, "one")
    assert not [request for request in it.asked if request.path == state.PATH]


async def test_peers_of_a_superseded_dispatcher_are_not_shown() -> None:
    it = Executor(world())
    await it.loop.set_peers(Peers("new", 6, (Peer("b", ready=True),)))
    await it.loop.set_peers(Peers("old", 5, (Peer("c", ready=True),)))
    for _ in range(50):
        await asyncio.sleep(0)
    await it.loop.tend()
    for _ in range(50):
        await asyncio.sleep(0)
    made = [path for path in it.world.api.objects if "nodes/global-dispatcher-" in path]
    assert made == ["/api/v1/nodes/global-dispatcher-b"]
    await it.loop.stop()


async def test_another_cluster_under_a_known_name_is_not_believed_by_the_next_life_either() -> None:
    one = Executor(world())
    await tell(one, Peer("b", ready=True, uid="b-uid", keys=keys_of("b").endorsed_keys()))
    next_life = Executor(one.world)
    await tell(next_life, Peer("b", ready=True, uid="rebuilt-uid", keys=keys_of("c").endorsed_keys()))
    assert set(msgspec.json.decode(stored(one.world.api)[2]["keys"])) == {"b-uid"}


async def test_keys_of_a_thousand_clusters_are_stored() -> None:
    one = Executor(world())
    await tell(one, *(peer(number) for number in range(MAX_CLUSTERS)))
    assert len(msgspec.json.decode(stored(one.world.api)[2]["keys"])) == MAX_CLUSTERS
    assert await one.loop.accepted_leader.keep_keys() == ""


async def test_keys_that_have_no_room_are_told_with_the_way_out_and_the_others_are_stored(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(accepted_leader, "MAX_KEYS", 1024)
    one = Executor(world())
    await tell(one, *(peer(number) for number in range(12)))
    kept = msgspec.json.decode(stored(one.world.api)[2]["keys"])
    assert 0 < len(kept) < 12
    said = await one.loop.accepted_leader.keep_keys()
    assert f"no room to store the keys of cluster-{len(kept):04}" in said
    assert "cluster forget-keys NAME" in said


def peer(number: int) -> Peer:
    name = f"cluster-{number:04}"
    uid = f"{number:08}-0000-4000-8000-000000000000"
    return Peer(name, ready=True, uid=uid, keys=keys_of("b").endorsed_keys())


async def tell(it: Executor, *peers: Peer) -> None:
    """A dispatcher tells of other clusters, and what follows has been done."""
    await it.loop.set_peers(Peers("one", 5, peers))
    for _ in range(50):
        await asyncio.sleep(0)
    await it.loop.stop()


async def test_a_cluster_under_a_second_name_is_served_under_the_first_alone() -> None:
    north = Executor(world(), "north")
    ref = north.world.submit()
    await north.loop.execute(IntentBatch("one", 5, ()))
    twin = Executor(north.world, "north2")
    answer = await twin.bind(ref, 5, "one")
    assert answer.outcomes[0].verdict == UNKNOWN
    assert 'served as "north", and shall be "north2"' in answer.outcomes[0].message
    assert twin.loop.accepted_leader.misnamed
    assert (await north.bind(ref, 5, "one")).outcomes[0].verdict == BOUND


@pytest.mark.parametrize(("remote", "verdict"), [(None, UNKNOWN), (2, UNKNOWN), (0, BOUND)])
async def test_a_cluster_is_renamed_on_demand_once_no_remote_pod_is_there(remote: int | None, verdict: str) -> None:
    old = Executor(world(), "north")
    ref = old.world.submit()
    await old.loop.execute(IntentBatch("one", 5, ()))
    renamed = Executor(old.world, "north-1", rename_from="north")
    renamed.loop.accepted_leader.remote_pods = lambda: remote
    answer = await renamed.bind(ref, 5, "one")
    assert answer.outcomes[0].verdict == verdict
    assert ("it has 2 remote pods" in answer.outcomes[0].message) == (remote == 2)
    assert stored(old.world.api)[2][CLUSTER] == ("north-1" if remote == 0 else "north")


def say(api: ApiModel, *words: str, said: str = "true") -> None:
    """As `kubectl annotate` does."""
    patch = msgspec.json.encode({"metadata": {"annotations": dict.fromkeys(words, said)}})
    assert api.answer(Request("PATCH", state.PATH, patch, MERGE_PATCH)).ok


async def insist(it: Executor, word: str, key: str = "old") -> None:
    """As `global-dispatcher cluster` does: say it, and answer what the executor asks."""
    say(it.world.api, word)
    await hear(it, key)
    answer(it.world.api, word)


def answer(api: ApiModel, word: str) -> None:
    asked = api.objects[state.PATH]["metadata"]["annotations"][word]
    assert asked.startswith(state.ASKS)
    say(api, word, said=asked.removeprefix(state.ASKS))


def words_of(api: ApiModel) -> set[str]:
    return set(api.objects[state.PATH]["metadata"]["annotations"]) - {state.VALUES}


async def hear(it: Executor, key: str) -> None:
    """The dispatcher tells of cluster b with this key, and some seconds pass."""
    peer = Peer("b", ready=True, uid="ub", keys=keys_of(key).endorsed_keys())
    await it.loop.set_peers(Peers("one", 5, (peer,)))
    for _ in range(100):
        await asyncio.sleep(0)
    it.now += BELIEVED_S + 1


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


# --- its own keys ----------------------------------------------------------------------------------------------------


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
