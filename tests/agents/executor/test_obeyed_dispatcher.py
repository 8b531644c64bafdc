"""Whom an executor obeys, and what it has heard of other clusters: stored before it is acted upon."""

import asyncio

import msgspec
import pytest

from agents.executor.trust import state
from agents.executor.trust.state import CLUSTER, OWN_KEYS
from agents.runtime import accepted_leader
from agents.runtime.accepted_leader import BELIEVED_S, LASTS_S
from shared.messages import BOUND, UNKNOWN, IntentBatch, Peer, Peers
from shared.security.keys import MAX_CLUSTERS
from tests.agents.executor.one_executor import Executor, stored, world
from tests.agents.executor.world import keys_of, pod_object


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


async def test_an_executor_that_cannot_read_whom_it_obeys_tells_so_until_it_can() -> None:
    """Else its cluster looks well, and pods that are placed there wait for ever."""
    it = Executor(world())
    ref = it.world.submit()
    it.world.api.objects[state.PATH] = {"metadata": {"annotations": {state.VALUES: '{"cluster":"a"'}}, "spec": {}}
    told = [await heard(it) for _ in range(1 + int(LASTS_S / 5.0))]
    assert told[0] == ""  # a read that fails once is no news
    assert "kubectl -n kube-node-lease delete lease global-dispatcher-agent.state" in told[-1]
    assert (await it.bind(ref, 1)).outcomes[0].verdict == UNKNOWN
    del it.world.api.objects[state.PATH]
    await heard(it)
    assert await heard(it) == ""
    assert (await it.bind(ref, 1)).outcomes[0].verdict == BOUND


async def heard(it: Executor) -> str:
    """What it answers to what it is told every five seconds."""
    answer = await it.loop.set_peers(Peers("life-1", 1, ()))
    for _ in range(20):
        await asyncio.sleep(0)
    it.now += 5.0
    return answer.problem
