"""A captured observer tells the leader lies, and the leader signs what follows: executors place nothing by it.

It holds neither the leader's key nor its cluster's, so all that it can do is to be believed. Each case is an order that
an honest leader would give then, well signed; the executor of the cluster that is to carry it out sees for itself.
"""

from collections.abc import Callable

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from structlog.testing import capture_logs

from agents.runtime.executor_loop import ExecutorLoop
from agents.runtime.refused_orders import AT_ONCE, EVERY_S
from shared.messages import (
    BOUND,
    CLAIMED,
    DONE,
    REFUSED,
    STALE,
    AnyIntent,
    Bind,
    Claim,
    ConfirmNoSource,
    CreateDelegate,
    DeleteDelegate,
    Evict,
    PodRef,
)
from shared.security.keys import OwnKeys
from shared.security.signatures import SignedClaim, digest_of
from tests.agents.executor.test_loop import Clock, SlowApi, batch, stage
from tests.agents.executor.world import World, keys_of, node_object, order_for, pod_object, source_of

GHOST = PodRef("default", "ghost", "ghost-uid")
MANIFEST = msgspec.json.encode(pod_object("ghost"))

Lie = Callable[[World], AnyIntent]


def _bound_pod(world: World) -> PodRef:
    """A user's pod that runs here, of another scheduler."""
    return world.submit(pod_object("theirs", schedulerName="default-scheduler", nodeName="n1"))


HOME: dict[str, Lie] = {
    "a pod that is not there waits": lambda world: Bind("i", GHOST, 1, "n1"),
    "a pod that is there has another UID": lambda world: Bind(
        "i", msgspec.structs.replace(world.submit(), uid="another"), 1, "n1"
    ),
    "a node that is not there is free": lambda world: Bind("i", world.submit(), 1, "n9"),
    "a full node is free": lambda world: Bind("i", world.submit(pod_object(cpu="800")), 1, "n1"),
    "a pod of another scheduler is ours": lambda world: Bind(
        "i", world.submit(pod_object(schedulerName="default-scheduler")), 1, "n1"
    ),
    "a pod with scheduling gates has none": lambda world: Bind(
        "i", world.submit(pod_object(schedulingGates=[{"name": "wait"}])), 1, "n1"
    ),
    "a pod that is not there goes to another cluster": lambda world: Claim("i", GHOST, 1, "b", "n1", "b-cluster-uid"),
    "a user's pod is a delegate that nobody wants": lambda world: DeleteDelegate("i", _bound_pod(world), 1),
    "a pod that is not there may preempt others elsewhere": lambda world: ConfirmNoSource("i", GHOST, 1, "b"),
    "a user's pod is of low priority": lambda world: Evict("i", _bound_pod(world), 1, "n1", 1_000, "default/vip"),
}


def _forged() -> CreateDelegate:
    """With a claim that is signed by a key of its own."""
    keys = OwnKeys([Ed25519PrivateKey.generate()])
    source = source_of(GHOST, 1)
    claim = SignedClaim(source, "b", "b-cluster-uid", "n1", digest_of(MANIFEST))
    return CreateDelegate("i", GHOST, 1, source, "n1", MANIFEST, record=keys.sign_claim(claim))


def _of_another_pod() -> CreateDelegate:
    """With the claim of a pod that its cluster has really sent away."""
    real = order_for(PodRef("default", "web", "source-uid"), 1, "n1", msgspec.json.encode(pod_object()))
    return msgspec.structs.replace(_forged(), record=real.record)


ABROAD: dict[str, Callable[[], CreateDelegate]] = {
    "without a claim": lambda: msgspec.structs.replace(_forged(), record=""),
    "with a claim that its cluster has not signed": _forged,
    "with the claim of another pod": _of_another_pod,
    "with a claim for another cluster": lambda: order_for(GHOST, 1, "n1", MANIFEST, target="c"),
    "with another manifest than was claimed": lambda: msgspec.structs.replace(
        order_for(GHOST, 1, "n1", MANIFEST), manifest=msgspec.json.encode(pod_object("ghost", hostNetwork=True))
    ),
}


@pytest.mark.parametrize("lie", HOME)
def test_its_own_cluster_does_nothing_that_is_not_so(lie: str) -> None:
    world = World(node_object(cpu="1"))
    order = HOME[lie](world)
    before = world.api.pods()
    outcome = world.do(order)
    assert outcome.verdict in (STALE, REFUSED), outcome
    assert outcome.message
    assert world.api.pods() == before


@pytest.mark.parametrize("how", ABROAD)
def test_no_other_cluster_runs_a_pod_that_was_made_up(how: str) -> None:
    world = World(cluster="b")
    outcome = world.do(ABROAD[how]())
    assert outcome.verdict not in (BOUND, CLAIMED, DONE), outcome
    assert outcome.message
    assert world.api.pods() == []


@pytest.mark.parametrize("lie", HOME)
async def test_what_it_was_ordered_by_a_lie_and_did_not_do_is_audited(lie: str) -> None:
    async with stage() as it:
        order = HOME[lie](it.world)
        with capture_logs() as lines:
            (found,) = (await it.loop.execute(batch(order))).outcomes
    told = [one for one in lines if one["event"] == "an order was not carried out"]
    assert [(one["order"], one["uid"], one["verdict"], one["problem"]) for one in told] == [
        (type(order).__name__, order.pod.uid, found.verdict, found.message)
    ]


@pytest.mark.parametrize("how", ABROAD)
async def test_what_another_cluster_was_ordered_by_a_lie_is_audited_with_whom_it_names_as_source(how: str) -> None:
    world = World(cluster="b")
    loop = ExecutorLoop(SlowApi(world), world.cache, "b", "b-cluster-uid", clock=Clock())
    loop.local.trusted.trust("a", "a-cluster-uid", keys_of("a").endorsed_keys())
    with capture_logs() as lines:
        await loop.execute(batch(ABROAD[how]()))
    await loop.stop()
    told = [one for one in lines if one["event"] == "an order was not carried out"]
    assert [(one["order"], one["source"], bool(one["problem"])) for one in told] == [("CreateDelegate", "a", True)]


async def test_many_refused_orders_take_few_lines_and_those_left_out_are_counted() -> None:
    async with stage() as it:
        ghosts = [Bind(f"i{at}", PodRef("default", f"g{at}", f"u{at}"), 1, "n1") for at in range(3 * AT_ONCE)]
        with capture_logs() as lines:
            await it.loop.execute(batch(*ghosts))
            it.clock.forward(EVERY_S)
            await it.loop.execute(batch(Bind("late", GHOST, 1, "n1")))
    told = [one for one in lines if one["event"] == "an order was not carried out"]
    assert [one["unsaid"] for one in told] == [0] * AT_ONCE + [2 * AT_ONCE]


async def test_many_refused_orders_of_one_kind_do_not_hide_another() -> None:
    async with stage() as it:
        ghosts = [Bind(f"i{at}", PodRef("default", f"g{at}", f"u{at}"), 1, "n1") for at in range(2 * AT_ONCE)]
        with capture_logs() as lines:
            await it.loop.execute(batch(*ghosts))
            await it.loop.execute(batch(Claim("late", GHOST, 1, "b", "n9")))
    assert [one["order"] for one in lines if one["event"] == "an order was not carried out"][AT_ONCE:] == ["Claim"]


async def test_names_of_any_length_in_a_refused_order_make_no_long_line() -> None:
    async with stage() as it:
        with capture_logs() as lines:
            await it.loop.execute(batch(Bind("i", PodRef("d" * 9999, "n" * 9999, "u" * 9999), 1, "n" * 9999)))
    (told,) = [one for one in lines if one["event"] == "an order was not carried out"]
    assert len(str(told)) < 2000


def test_the_same_orders_are_carried_out_where_they_are_true() -> None:
    world, target = World(node_object(cpu="1")), World(cluster="b")
    assert world.do(Bind("i", world.submit(), 1, "n1")).verdict == BOUND
    assert target.do(order_for(GHOST, 1, "n1", MANIFEST)).verdict == BOUND
