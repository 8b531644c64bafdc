"""An operator's word that nothing runs in a cluster any more: what the core makes of it, and how fast."""

from collections.abc import Sequence

import msgspec

from dispatcher.scheduling.core import CoreTiming, SchedulerCore
from dispatcher.scheduling.events import ClusterChanged, ClusterSilent, Effect, OperatorWarning, SendIntents, Tick
from dispatcher.scheduling.views import clusters_view, source_of, whole
from shared.messages import Bind, Changes, Claim, DeleteDelegate, FinishSource
from shared.model import names
from shared.model.names import SCHEDULER_NAME, proxy_node_name
from shared.model.node import Node
from shared.model.pod import Claim as PodClaim
from shared.model.pod import Pod, SourceRef
from tests.laws.cores import make_core

NODE = Node("w1", ready=True, allocatable={"cpu": 4000, "memory": 2**33, "pods": 50})


def proxy(cluster: str, *, fenced: bool = False, cordoned: bool = False) -> Node:
    labels = {names.PROXY_LABEL: cluster, **({names.FENCED: "true"} if fenced else {})}
    return Node(proxy_node_name(cluster), labels=labels, unschedulable=cordoned, ready=True, proxy_for=cluster)


def remote(name: str, cluster: str = "west") -> Pod:
    claim = PodClaim(cluster, "w1", 5)
    fields = {"requests": {"cpu": 100}, "scheduler_name": SCHEDULER_NAME, "claim": claim, "has_finalizer": True}
    return Pod(f"uid-{name}", "default", name, node=proxy_node_name(cluster), **fields)  # type: ignore[arg-type]


def copy(name: str, home: str = "east") -> Pod:
    source = SourceRef(home, f"{home}-uid", "default", name, f"uid-{name}", 5)
    return Pod(f"d-{name}", "default", f"{name}-d", node="w1", requests={"cpu": 100}, source=source, phase="Running")


def tell(core: SchedulerCore, cluster: str, pods: Sequence[Pod], nodes: Sequence[Node], now: float) -> list[Effect]:
    since = core.clusters[cluster].revision
    seen = {"full": True, "nodes": tuple(nodes), "pods": tuple(pods)}
    told = Changes(cluster, f"{cluster}-uid", "life", 0, since + 1, **seen)  # type: ignore[arg-type]
    return core.handle(ClusterChanged(told), now)


def sent(effects: Sequence[Effect], *kinds: type) -> list[str]:
    posted = [one for effect in effects if isinstance(effect, SendIntents) for one in effect.intents]
    return [one.pod.name for one in posted if isinstance(one, kinds)]


def lost_world(pods: int, per_s: float) -> SchedulerCore:
    core = make_core(("east", "west"), timing=CoreTiming(fenced_per_s=per_s))
    many = [f"p{number}" for number in range(pods)]
    tell(core, "east", [remote(name) for name in many], [proxy("west")], 1.0)
    tell(core, "west", [copy(name) for name in many], [NODE], 1.0)
    core.handle(ClusterSilent("west", "gone"), 2.0)
    return core


def test_the_pods_of_a_fenced_cluster_are_let_go_at_the_pace_that_is_set() -> None:
    core = lost_world(7, per_s=3)
    effects = tell(core, "east", [remote(f"p{number}") for number in range(7)], [proxy("west", fenced=True)], 10.0)
    gone = [len(sent(effects, FinishSource))]
    gone += [len(sent(core.handle(Tick(), now), FinishSource)) for now in (11.5, 13.0, 14.5)]
    assert gone == [3, 3, 1, 0]


def test_a_lost_cluster_that_nobody_fenced_costs_no_pod() -> None:
    core = lost_world(3, per_s=3)
    assert not any(sent(core.handle(Tick(), now), FinishSource) for now in (10.0, 100.0, 1000.0))


def test_the_fence_of_one_cluster_of_submission_is_none_for_the_pods_of_another() -> None:
    core = make_core(("east", "north", "west"))
    tell(core, "west", [copy("a"), copy("b", "north")], [NODE], 1.0)
    tell(core, "north", [remote("b")], [proxy("west")], 1.0)
    core.handle(ClusterSilent("west", "gone"), 2.0)
    assert sent(tell(core, "east", [remote("a")], [proxy("west", fenced=True)], 3.0), FinishSource) == ["a"]
    assert not sent(core.handle(Tick(), 60.0), FinishSource)


def test_a_label_on_a_node_that_is_no_proxy_is_no_fence() -> None:
    core = lost_world(1, per_s=3)
    fake = Node("w2", labels={names.PROXY_LABEL: "west", names.FENCED: "true"}, ready=True, proxy_for="west")
    assert not sent(tell(core, "east", [remote("p0")], [proxy("west"), fake], 10.0), FinishSource)


def test_copies_in_a_fenced_cluster_that_answers_are_deleted_before_their_sources_go() -> None:
    core = make_core(("east", "west"))
    tell(core, "west", [copy("a")], [NODE], 1.0)
    effects = tell(core, "east", [remote("a")], [proxy("west", fenced=True)], 2.0)
    assert sent(effects, DeleteDelegate) == ["a-d"]
    assert not sent(effects, FinishSource)
    assert core.fleet.occupant(("east", "uid-a")) is None  # what runs there by mistake is charged to nobody


def test_new_pods_keep_away_from_a_fenced_or_cordoned_cluster_and_come_when_it_is_open_again() -> None:
    for closed in (proxy("west", fenced=True), proxy("west", cordoned=True)):
        core = make_core(("east", "west"))
        fresh = Pod("uid-a", "default", "a", requests={"cpu": 100}, scheduler_name=SCHEDULER_NAME)
        tell(core, "west", [], [NODE], 1.0)
        tell(core, "east", [fresh], [closed], 1.0)
        assert not sent(core.handle(Tick(), 2.0), Bind, Claim)
        tell(core, "east", [fresh], [proxy("west")], 3.0)
        assert sent(core.handle(Tick(), 20.0), Claim) == ["a"]


def test_pods_of_clusters_that_are_not_ours_are_told_with_the_command_and_left_alone() -> None:
    core = make_core(("east",))
    tell(core, "east", [remote("a", "old"), remote("b", "old"), copy("c", "older")], [NODE], 1.0)
    troubles = [one.text for one in core.handle(Tick(), 1.0) if isinstance(one, OperatorWarning)]
    assert len(troubles) == 2
    assert "2 pods went there and 0 of its pods run here" in troubles[0]
    assert "global-dispatcher cluster leave old --lost" in troubles[0]
    assert "0 pods went there and 1 of its pods run here" in troubles[1]
    assert not sent(core.handle(Tick(), 500.0), FinishSource, DeleteDelegate)
    rows = {row["name"]: row for row in whole(clusters_view(core))}
    assert list(rows) == ["east", "old", "older"]
    assert not rows["old"]["ready"]
    assert "cluster leave old --lost" in rows["old"]["problem"]


def test_the_view_of_clusters_says_who_is_cordoned_and_fenced_for_whom_and_how_many_copies_are_left_there() -> None:
    core = make_core(("east", "north", "west"))
    tell(core, "west", [copy("a"), copy("b", "north")], [NODE], 1.0)
    tell(core, "north", [remote("b")], [proxy("west", cordoned=True), proxy("east")], 1.0)
    tell(core, "east", [remote("a")], [proxy("west", fenced=True, cordoned=True)], 1.0)
    rows = {row["name"]: row for row in whole(clusters_view(core))}
    assert [
        (rows[name]["cordoned_in"], rows[name]["fenced_in"], rows[name]["remote"]) for name in ("east", "west")
    ] == [
        ([], [], 0),
        (["east", "north"], ["east"], 2),
    ]
    assert not any(row["name_taken_in"] for row in rows.values())


def test_pods_on_a_machine_that_is_named_as_proxy_nodes_are_fill_it_and_are_left_to_its_kubelet() -> None:
    core = make_core(("east", "west"))
    machine = msgspec.structs.replace(NODE, name=proxy_node_name("west"))
    there = Pod("u", "default", "p", requests={"cpu": 3000}, node=machine.name, phase="Running", at_home=True)
    going = msgspec.structs.replace(there, uid="v", name="q", requests={"cpu": 100}, terminating=True)
    ours = tuple(msgspec.structs.replace(one, scheduler_name=SCHEDULER_NAME) for one in (there, going))
    waiting = Pod("w", "default", "r", requests={"cpu": 2000}, scheduler_name=SCHEDULER_NAME)
    small = msgspec.structs.replace(waiting, uid="s", name="s", requests={"cpu": 500})
    effects = tell(core, "east", [*ours, waiting, small], [machine], 1.0)
    effects += tell(core, "west", [], [], 1.0)
    effects += [effect for now in range(2, 120) for effect in core.handle(Tick(), float(now))]
    sends = [one for effect in effects if isinstance(effect, SendIntents) for one in effect.intents]
    binds = {(one.pod.name, one.node) for one in sends if isinstance(one, Bind)}
    assert binds == {("s", machine.name)}
    assert {one.pod.name for one in sends} <= {"r", "s"}
    rows = {row["name"]: row for row in whole(clusters_view(core))}
    assert (rows["east"]["nodes"], rows["west"]["name_taken_in"], rows["east"]["name_taken_in"]) == (1, ["east"], [])


def test_a_copy_names_its_source() -> None:
    core = make_core(("east", "west"))
    tell(core, "west", [copy("a")], [NODE], 1.0)
    tell(core, "east", [remote("a")], [proxy("west")], 1.0)
    assert source_of(core, "default", "a-d") == {
        "cluster": "west",
        "home": "east",
        "namespace": "default",
        "name": "a",
    }
    assert source_of(core, "default", "a") is None
