"""By which claims pods hold room in another cluster: by those that their own cluster has signed."""

from typing import Any

import pytest

from dispatcher.scheduling.events import ClusterChanged
from shared.messages import Changes
from shared.model.names import CLAIM, PROXY_LABEL, SCHEDULER_NAME, proxy_node_name
from shared.model.node import Node
from shared.model.pod import Claim, Pod, SourceRef
from shared.security.signatures import SignedClaim
from tests.agents.executor.world import keys_of
from tests.laws.cores import make_core

NODE = Node("w1", ready=True, allocatable={"cpu": 4000, "pods": 50})
PROXY = Node(proxy_node_name("west"), labels={PROXY_LABEL: "west"}, ready=True, proxy_for="west")
PLACE = Claim("west", "w1", 5)


def mark(signer: str = "east", uid: str = "uid-web", node: str = "w1") -> str:
    source = SourceRef("east", "east-uid", "default", "web", uid, 5)
    return keys_of(signer).sign_claim(SignedClaim(source, "west", "west-uid", node, b"x" * 32))


class World:
    """A pod of east is shown as claimed for west, which shows no delegate of it."""

    def __init__(self, keys: tuple[str, ...] = keys_of("east").public) -> None:
        self.core, self.revision, self.keys = make_core(("east", "west")), 0, keys
        west = Changes("west", "west-uid", "life", 0, 1, full=True, nodes=(NODE,), keys=keys_of("west").public)
        self.core.handle(ClusterChanged(west), 1.0)

    def report(self, *pods: Pod, full: bool = False) -> None:
        since, self.revision = 0 if full else self.revision, self.revision + 1
        told: dict[str, Any] = {"full": not since, "nodes": (PROXY,), "pods": pods, "keys": self.keys}
        self.core.handle(ClusterChanged(Changes("east", "east-uid", "life", since, self.revision, **told)), 2.0)

    def room_taken(self) -> bool:
        occupant = self.core.fleet.occupant(("east", "uid-web"))
        return occupant is not None and (occupant.cluster, occupant.node) == ("west", "w1")


def claimed(annotation: str, *, bound: bool = True) -> Pod:
    fields: dict[str, Any] = {"requests": {"cpu": 4000}, "scheduler_name": SCHEDULER_NAME, "has_finalizer": True}
    fields |= {"claim": PLACE, "annotations": {CLAIM: annotation}, "node": PROXY.name if bound else ""}
    return Pod("uid-web", "default", "web", **fields)


FORGED = {
    "no mark": "",
    "another cluster's mark": mark(signer="west"),
    "another pod's mark": mark(uid="uid-other"),
    "a mark for another node": mark(node="w2"),
}


@pytest.mark.parametrize("bound", [True, False], ids=["bound", "unbound"])
def test_a_pod_holds_the_room_that_its_own_cluster_has_claimed_for_it(bound: bool) -> None:
    world = World()
    world.report(claimed(mark(), bound=bound))
    assert world.room_taken()


@pytest.mark.parametrize("bound", [True, False], ids=["bound", "unbound"])
@pytest.mark.parametrize("how", FORGED)
def test_a_pod_holds_no_room_elsewhere_by(how: str, bound: bool) -> None:
    world = World()
    world.report(claimed(FORGED[how], bound=bound))
    assert not world.room_taken()


@pytest.mark.parametrize("full", [True, False], ids=["a whole report", "changes"])
def test_claims_are_looked_at_again_when_the_keys_of_their_cluster_are_others(full: bool) -> None:
    pod = claimed(mark())
    world = World(keys=keys_of("other").public)
    world.report(pod)
    assert not world.room_taken()
    world.keys = keys_of("east").public
    world.report(*([pod] if full else []), full=full)
    assert world.room_taken()


def test_without_keys_of_a_cluster_its_agent_is_believed_until_they_are_known() -> None:
    world = World(keys=())
    world.report(claimed(FORGED["no mark"]))
    assert world.room_taken()
    world.keys = keys_of("east").public
    world.report()
    assert not world.room_taken()
