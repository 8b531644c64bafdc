"""The plain loop keeps the rules that the cases use: a baseline that cheats is none."""

import msgspec

from benchmarks.plain_loop import Place, _place, plain_rate
from benchmarks.scheduler_perf import _read
from benchmarks.workloads.cases import Pods
from shared.model.names import HOSTNAME, ZONE
from shared.model.node import Node
from shared.model.pod import Pod


def nodes(count: int, zones: int = 1, cpu: int = 4000) -> list[Place]:
    room = {"cpu": cpu, "memory": 2**35, "pods": 110}
    labels = [{HOSTNAME: f"n{at}", ZONE: f"z{at % zones}"} for at in range(count)]
    return [Place(Node(f"n{at}", labels=labels[at], ready=True, allocatable=room)) for at in range(count)]


def pods(template: str, count: int, namespace: str = "sched-1") -> list[Pod]:
    first = _read(Pods(template, 1), namespace)
    return [msgspec.structs.replace(first, uid=f"{template}-{at}", name=f"{template}-{at}") for at in range(count)]


def placed(places: list[Place], wanted: list[Pod]) -> int:
    return sum(_place(places, pod) for pod in wanted)


def test_pods_that_shun_each_other_get_a_node_each() -> None:
    places = nodes(3)
    assert placed(places, pods("pod-with-pod-anti-affinity", 5)) == 3
    assert [len(place.pods) for place in places] == [1, 1, 1]


def test_a_placed_pod_that_shuns_keeps_others_away() -> None:
    places = nodes(2)
    places[0].put(pods("pod-with-pod-anti-affinity", 1, "sched-0")[0])
    assert placed(places, pods("pod-with-pod-anti-affinity-label", 4)) == 4
    assert [len(place.pods) for place in places] == [1, 4]


def test_pods_that_want_each_other_share_a_zone() -> None:
    places = nodes(4, zones=2)
    assert placed(places, pods("pod-with-pod-affinity", 6)) == 6
    assert len({place.node.labels[ZONE] for place in places if place.pods}) == 1


def test_spread_pods_stay_within_their_skew() -> None:
    places = nodes(4, zones=2, cpu=400)
    places[0].put(pods("pod-default", 1)[0])
    assert placed(places, pods("pod-with-topology-spreading", 15)) == 15
    by_zone = [sum(len(place.pods) for place in places[at::2]) for at in (0, 1)]
    assert by_zone == [8, 8]


def test_room_is_made_where_the_fewest_have_to_go() -> None:
    places = nodes(2)
    for place, count in zip(places, (4, 2), strict=True):
        for pod in pods("pod-low-priority", count):
            place.put(pod)
    assert placed(places, pods("pod-high-priority", 1)) == 1
    assert [[pod.priority for pod in place.pods] for place in places] == [[0, 0, 0, 0], [0, 10]]


def test_the_rate_is_none_where_a_pod_finds_no_place() -> None:
    node = nodes(1)[0].node
    assert plain_rate([node], [], pods("pod-high-priority-large-cpu", 1)) is None
    rate = plain_rate([node], [], pods("pod-default", 3))
    assert rate is not None
    assert rate > 0
