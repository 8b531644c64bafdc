"""What the agents are told of each other, and what a cordon of a proxy node means."""

from collections.abc import Sequence
from typing import cast

import msgspec
import pytest

from dispatcher.scheduling.core import SchedulerCore
from dispatcher.scheduling.delegation.timing import CoreTiming
from dispatcher.scheduling.events import ClusterChanged, ClusterSilent, Effect, SendIntents, SendPeers, Tick
from shared.messages import Bind, Changes, Claim, Peer, Peers, decode, encode
from shared.model import names
from shared.model.names import CLUSTERS, PROXY_LABEL, SCHEDULER_NAME, proxy_node_name
from shared.model.node import Node
from shared.model.pod import Pod
from tests.laws.cores import make_core

LOST_S = CoreTiming().cluster_lost_s
NODE = Node("n1", ready=True, allocatable={"cpu": 4000, "memory": 2**33, "pods": 20}, labels={names.ZONE: "z"})


def proxy(cluster: str, *, cordoned: bool = False) -> Node:
    return Node(
        proxy_node_name(cluster), labels={PROXY_LABEL: cluster}, proxy_for=cluster, ready=True, unschedulable=cordoned
    )


def tell(core: SchedulerCore, cluster: str, *nodes: Node, pods: tuple[Pod, ...] = (), now: float = 1.0) -> None:
    changes = Changes(cluster, f"{cluster}-uid", "life-1", 0, 1, full=True, nodes=(NODE, *nodes), pods=pods)
    core.handle(ClusterChanged(changes), now)


def said(effects: Sequence[Effect], to: str = "east") -> dict[str, Peer]:
    """The last word to one cluster."""
    words = [one.peers for one in effects if isinstance(one, SendPeers) and one.cluster == to]
    return {peer.cluster: peer for peer in words[-1]}


def test_a_peer_is_named_with_its_uid_its_room_and_its_labels() -> None:
    core = make_core(("east", "west"))
    tell(core, "east")
    tell(core, "west")
    (west,) = said(core.handle(Tick(), 2.0)).values()
    assert (west.cluster, west.ready, west.labels, west.uid) == ("west", True, {names.ZONE: "z"}, "west-uid")
    assert west.allocatable == {"cpu": 4000, "memory": 2**33, "pods": 20, "ephemeral-storage": 0}


@pytest.mark.parametrize("value", ["x" * 64, "no label's value!"])
def test_a_label_that_no_api_server_takes_is_told_to_nobody(value: str) -> None:
    core = make_core(("east", "west"))
    tell(core, "east")
    odd = msgspec.structs.replace(NODE, labels={names.ZONE: "z", names.REGION: value})
    core.handle(ClusterChanged(Changes("west", "west-uid", "life-1", 0, 1, full=True, nodes=(odd,))), 1.0)
    assert said(core.handle(Tick(), 2.0))["west"].labels == {names.ZONE: "z"}


def test_each_peer_is_encoded_once_for_all_who_are_told_of_it() -> None:
    names = ("east", "north", "west")
    core = make_core(names)
    for name in names:
        tell(core, name)
    told = {one.cluster: one for one in core.handle(Tick(), 2.0) if isinstance(one, SendPeers)}
    assert set(told) == set(names)
    assert told["east"].encoded[1] is told["north"].encoded[1], "west, to both of them"
    for one in told.values():
        sent = decode(Peers, encode(Peers("d", 1, cast("tuple[Peer, ...]", one.encoded))))
        assert [peer.cluster for peer in sent.peers] == [name for name in names if name != one.cluster]
        assert sent.peers == one.peers


def test_a_lost_cluster_is_not_ready_after_a_while_and_at_once_ready_when_it_is_back() -> None:
    core = make_core(("east", "west"))
    tell(core, "east")
    tell(core, "west")
    core.handle(ClusterSilent("west", "no answer"), 10.0)
    assert said(core.handle(Tick(), 9.0 + LOST_S))["west"].ready
    assert not said(core.handle(Tick(), 14.0 + LOST_S))["west"].ready
    tell(core, "west", now=60.0)
    assert said(core.handle(Tick(), 60.1))["west"].ready


def test_of_a_cluster_that_was_never_heard_of_it_is_said_that_it_is_lost_but_not_at_once() -> None:
    core = make_core(("east", "west"))
    tell(core, "east")
    core.handle(ClusterSilent("west", "no answer"), 10.0)
    assert said(core.handle(Tick(), 9.0 + LOST_S)) == {}
    assert said(core.handle(Tick(), 14.0 + LOST_S)) == {"west": Peer("west", ready=False, unrenewed_s=4.0 + LOST_S)}


def test_nothing_is_said_of_a_cluster_about_which_nobody_has_asked_yet() -> None:
    core = make_core(("east", "west"))
    tell(core, "east")
    assert said(core.handle(Tick(), 500.0)) == {}


def test_a_cluster_that_has_not_listed_yet_after_our_start_is_not_lost_at_once() -> None:
    core = make_core(("east", "west"))
    tell(core, "east")
    core.handle(ClusterChanged(Changes("west", "west-uid", "life-1", 0, 1, full=True, synced=False)), 10.0)
    assert said(core.handle(Tick(), 11.0))["west"].ready
    assert not said(core.handle(Tick(), 11.0 + LOST_S))["west"].ready


def waiting(name: str = "a", clusters: str = "west") -> Pod:
    annotations = {CLUSTERS: clusters} if clusters else {}
    return Pod(
        f"uid-{name}", "default", name, requests={"cpu": 100}, scheduler_name=SCHEDULER_NAME, annotations=annotations
    )


def orders(effects: Sequence[Effect], kind: type) -> list[object]:
    return [one for effect in effects if isinstance(effect, SendIntents) for one in effect.intents if type(one) is kind]


def test_a_cordoned_proxy_node_keeps_new_pods_of_its_cluster_away_until_it_is_uncordoned() -> None:
    core = make_core(("east", "west"))
    tell(core, "east", proxy("west", cordoned=True), pods=(waiting(),))
    tell(core, "west")
    assert not orders(core.handle(Tick(), 2.0), Claim)
    uncordoned = Changes("east", "east-uid", "life-1", 1, 2, nodes=(proxy("west"),))
    core.handle(ClusterChanged(uncordoned), 30.0)
    assert orders(core.handle(Tick(), 40.0), Claim)


def test_a_cordon_at_one_cluster_is_none_at_another_and_none_for_those_that_are_at_home() -> None:
    core = make_core(("east", "north", "west"))
    tell(core, "east", proxy("west", cordoned=True))
    tell(core, "north", proxy("west"), pods=(waiting(),))
    tell(core, "west", proxy("east"), pods=(waiting("b", ""),))
    effects = core.handle(Tick(), 2.0)
    assert len(orders(effects, Claim)) + len(orders(effects, Bind)) == 2


def test_a_cordon_holds_for_pods_of_a_class_that_went_there_before() -> None:
    core = make_core(("east", "west"))
    tell(core, "east", proxy("west"), pods=(waiting(),))
    tell(core, "west")
    assert orders(core.handle(Tick(), 2.0), Claim)
    changes = Changes("east", "east-uid", "life-1", 1, 2, nodes=(proxy("west", cordoned=True),), pods=(waiting("b"),))
    core.handle(ClusterChanged(changes), 3.0)
    assert not orders(core.handle(Tick(), 4.0), Claim)


def test_a_cordoned_proxy_node_that_is_deleted_and_made_anew_is_open() -> None:
    core = make_core(("east", "west"))
    tell(core, "east", proxy("west", cordoned=True), pods=(waiting(),))
    tell(core, "west")
    core.handle(
        ClusterChanged(Changes("east", "east-uid", "life-1", 1, 2, nodes_gone=(proxy_node_name("west"),))), 30.0
    )
    assert orders(core.handle(Tick(), 40.0), Claim)


def test_a_node_that_only_bears_the_label_closes_nothing() -> None:
    core = make_core(("east", "west"))
    mine = Node("mine", labels={PROXY_LABEL: "west"}, proxy_for="west", ready=True, unschedulable=True)
    tell(core, "east", mine, pods=(waiting(),))
    tell(core, "west")
    assert orders(core.handle(Tick(), 2.0), Claim)
