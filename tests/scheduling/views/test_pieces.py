"""Lists of rows in pieces: nothing long at once, and nothing told twice or left out while the world goes on."""

from itertools import chain

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from dispatcher.scheduling.core import SchedulerCore
from dispatcher.scheduling.events import ClusterChanged, FoldOn
from dispatcher.scheduling.views import cluster_names, clusters_view, count_pods, explain, nodes_view, pods_view, whole
from dispatcher.scheduling.views.pieces import AT_ONCE, in_order
from shared.messages import Changes
from shared.model.names import SCHEDULER_NAME, proxy_node_name
from shared.model.node import Node
from shared.model.pod import Pod
from tests.laws.cores import make_core

MANY = 5_000  # more than are sorted at once
NAMES = [f"web-{number:04}" for number in range(MANY)]


def pod(name: str, node: str = "n1") -> Pod:
    return Pod(f"uid-{name}", "default", name, requests={"cpu": 1}, scheduler_name=SCHEDULER_NAME, node=node)


def node(name: str) -> Node:
    return Node(name, ready=True, allocatable={"cpu": 10**6, "memory": 2**33, "pods": 10**5})


def fleet(*pods: Pod, nodes: tuple[Node, ...] = (node("n1"),)) -> SchedulerCore:
    core = make_core(("east",))
    core.handle(ClusterChanged(Changes("east", "uid", "life", 0, 1, full=True, nodes=nodes, pods=pods)), 1.0)
    while core.folding:
        core.handle(FoldOn(next(iter(core.folding))), 1.0)
    return core


def change(core: SchedulerCore, **what: object) -> None:
    core.handle(ClusterChanged(Changes("east", "uid", "life", 1, 2, **what)), 2.0)  # type: ignore[arg-type]


@given(st.lists(st.integers(0, 9), max_size=50).map(lambda few: few * (1 + 200 * len(few) // 4)))
def test_keys_come_in_order_and_few_at_a_time(keys: list[int]) -> None:
    pieces = list(in_order(keys))
    assert list(chain.from_iterable(pieces)) == sorted(keys)
    assert all(len(piece) <= AT_ONCE for piece in pieces)


def test_pods_come_in_order_and_few_at_a_time() -> None:
    pieces = list(pods_view(fleet(*map(pod, reversed(NAMES)))))
    assert [row["name"] for row in chain.from_iterable(pieces)] == NAMES
    assert max(map(len, pieces)) == AT_ONCE


def test_nodes_come_in_order_and_few_at_a_time() -> None:
    pieces = list(nodes_view(fleet(nodes=tuple(map(node, reversed(NAMES))))))
    assert [row["name"] for row in chain.from_iterable(pieces)] == NAMES
    assert max(map(len, pieces)) == AT_ONCE


def test_of_one_namespace_or_cluster_the_others_are_left_out() -> None:
    core = fleet(pod("a"), msgspec.structs.replace(pod("b"), namespace="shop"))
    assert [row["name"] for row in whole(pods_view(core, "shop"))] == ["b"]
    assert [count_pods(core, namespace) for namespace in ("", "shop", "nowhere")] == [2, 1, 0]
    assert [row["name"] for row in whole(nodes_view(core, "east"))] == ["n1"]
    assert whole(nodes_view(core, "west")) == []
    assert cluster_names(core) == [row["name"] for row in whole(clusters_view(core))] == ["east"]


def test_a_pod_that_others_put_on_a_proxy_node_counts_nowhere() -> None:
    proxy = Node(proxy_node_name("west"), ready=True, proxy_for="west")
    daemon = Pod("u", "default", "logs", requests={"cpu": 1}, node=proxy.name, owner="DaemonSet/logs/x")
    core = fleet(pod("a"), daemon, nodes=(node("n1"), proxy))
    (cluster,) = whole(clusters_view(core))
    assert (cluster["pods"], cluster["nodes"]) == (1, 1)
    (shown,) = whole(nodes_view(core))
    (alone,) = whole(nodes_view(fleet(pod("a"))))
    assert shown == alone


def test_what_goes_after_the_list_was_begun_is_not_in_it() -> None:
    core = fleet(*map(pod, NAMES), nodes=tuple(map(node, ("n1", *NAMES))))
    pods, nodes = pods_view(core), nodes_view(core)
    assert (next(pods), next(nodes)) == ([], [])
    change(core, pods_gone=(f"uid-{NAMES[-1]}",), nodes_gone=(NAMES[-1],))
    assert [row["name"] for row in whole(pods)] == NAMES[:-1]
    assert [row["name"] for row in whole(nodes)] == ["n1", *NAMES[:-1]]


def test_a_pod_that_settles_or_is_looked_at_after_the_list_was_begun_is_in_it_once() -> None:
    core = fleet(*map(pod, NAMES))
    settled, looked_at = ("east", f"uid-{NAMES[0]}"), ("east", f"uid-{NAMES[1]}")
    while core.tracked.active:
        core.tracked.compact_all()
    tracked = core.tracked[settled]
    pods = pods_view(core)
    assert next(pods) == []
    assert core.tracked.get(looked_at) is core.tracked.active[looked_at]
    core.tracked.compact(tracked)
    assert settled not in core.tracked.active
    assert [row["name"] for row in whole(pods)] == NAMES


def test_a_pod_is_explained_whether_it_has_settled_or_not() -> None:
    core = fleet(*map(pod, NAMES[:2]))
    core.tracked.compact_all()
    assert core.tracked.get(("east", f"uid-{NAMES[0]}")) is not None
    assert len(core.tracked.active) == 1
    assert [(explain(core, "default", name) or {})["uid"] for name in NAMES[:2]] == [f"uid-{n}" for n in NAMES[:2]]
    assert explain(core, "default", NAMES[2]) is None
    assert explain(core, "other", NAMES[0]) is None


def test_of_two_clusters_with_a_pod_of_one_name_either_is_explained_and_the_other_named() -> None:
    core = make_core(("east", "north", "west"))
    for home in ("west", "north"):
        one = msgspec.structs.replace(pod("web"), uid=f"of-{home}")
        core.handle(ClusterChanged(Changes(home, f"{home}-uid", "life", 0, 1, full=True, pods=(one,))), 1.0)
    told = [explain(core, "default", "web", cluster) or {} for cluster in ("", "north", "west")]
    assert [row["uid"] for row in told] == ["of-north", "of-north", "of-west"]
    assert [row["also_in"] for row in told] == [["west"], [], []]
    assert explain(core, "default", "web", "east") is None
