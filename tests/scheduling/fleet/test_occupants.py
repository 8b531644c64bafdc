"""Who sits where: what is kept of pods by their node, and by their app."""

from dispatcher.scheduling.fleet.occupants import Apps, Occupant, PodsByNode
from dispatcher.scheduling.framework.pod_sets import pods_beside
from tests.builders import pod


def occupant(name: str) -> Occupant:
    placed = pod(name).labels(app="web").placed()
    return Occupant(("a", name), placed, "a", "n1", assumed=False, placed_at=0.0)


def test_the_last_pod_that_leaves_a_node_leaves_nothing_behind() -> None:
    by_node, one, other = PodsByNode(), occupant("p1"), occupant("p2")
    for row in (2, None):
        by_node.put(one, row)
        by_node.put(other, row)
        by_node.drop(one, row)
        by_node.drop(other, row)
    assert (by_node._on, by_node._awaiting) == ([None] * 3, {})


def test_pods_that_come_together_are_all_of_their_app() -> None:
    apps, pods = Apps(), [occupant(f"p{at}") for at in range(3)]
    apps.put_all(pods)
    assert list(apps.holding(pods_beside(pods[0].pod_info.pod, None)) or ()) == pods
