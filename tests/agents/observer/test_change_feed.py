"""Numbered changes: whoever follows them, with whatever gaps, ends with what the cache holds."""

from collections.abc import Callable
from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from agents.observer.cache import ClusterCache
from agents.observer.change_feed import ChangeFeed, Health, Identity
from agents.observer.changes import ChangeLog
from agents.observer.loads import Loads, Measure, Sample
from agents.observer.node_groups import NodeGroupWatch
from agents.observer.owner_uses import OwnerUses
from agents.observer.seen import NODES, PODS, NodeGroupSeen, NodeSeen, NodeTarget, ObjectSeen, PodSeen
from shared.messages import Changes
from shared.model.bounds import MAX_NAMES
from shared.model.names import EPOCH
from shared.model.node import Node, Reading
from shared.model.node_group import NodeGroup, NodeGroups
from shared.model.objects import AnyObject, Namespace, ObjectRef, PodDisruptionBudget, PriorityClass, RuntimeClass
from shared.model.pod import Pod, SourceRef

KINDS = ("Namespace", "PodDisruptionBudget", "PriorityClass", "RuntimeClass")
WHO = Identity("east", "uid", "life-1")
WELL = Health(api_ok=True)


@dataclass
class Follower:
    """A dispatcher's side of the conversation."""

    incarnation: str = ""
    revision: int = 0
    nodes: dict[str, Node] = field(default_factory=dict)
    pods: dict[str, Pod] = field(default_factory=dict)
    readings: dict[str, Reading] = field(default_factory=dict)
    objects: dict[tuple[str, str], AnyObject] = field(default_factory=dict)

    def take(self, changes: Changes) -> None:
        if changes.full:
            self.nodes, self.pods, self.readings, self.objects = {}, {}, {}, {}
        else:
            assert (changes.incarnation, changes.since) == (self.incarnation, self.revision)
        self.nodes.update({node.name: node for node in changes.nodes})
        self.pods.update({pod.uid: pod for pod in changes.pods})
        for name in changes.nodes_gone:
            self.nodes.pop(name, None)
        for uid in changes.pods_gone:
            self.pods.pop(uid, None)
        self.objects.update({(type(one).__name__, one.key): one for one in changes.objects})
        for ref in changes.objects_gone:
            self.objects.pop((ref.kind, ref.key), None)
        self.incarnation, self.revision = changes.incarnation, changes.revision


class World:
    """A cache with its follow, and versions that grow."""

    def __init__(self, *, max_graves: int = 100, synced: bool = True) -> None:
        self.log = ChangeLog(max_graves=max_graves)
        self.cache = ClusterCache(self.log, KINDS)
        self.loads = Loads(self.log, tau_s=0)
        self.follow = ChangeFeed(self.cache, self.loads, OwnerUses(self.log, self.cache.pod_by_name))
        self.version = 0
        for kind in (NODES, PODS, *KINDS) if synced else ():
            self.empty_list(kind)

    def empty_list(self, kind: str) -> None:
        self.cache.begin(kind)
        self.cache.end(kind)

    def node(self, name: str, *, ready: bool = True) -> None:
        self.version += 1
        self.cache.apply(NodeSeen(Node(name, ready=ready), self.version))

    def pod(self, uid: str, priority: int = 0) -> None:
        self.version += 1
        self.cache.apply(PodSeen(uid, self.version, Pod(uid, "d", uid, priority=priority)))

    def bound(self, uid: str) -> None:
        self.version += 1
        self.cache.apply(PodSeen(uid, self.version, Pod(uid, "d", uid, node="n1", annotations={EPOCH: "1"})))

    def space(self, name: str, **labels: str) -> None:
        self.version += 1
        self.cache.apply(ObjectSeen(Namespace(name, labels), self.version))

    def budget(self, name: str, allowed: int) -> None:
        self.version += 1
        self.cache.apply(ObjectSeen(PodDisruptionBudget("d", name, allowed=allowed), self.version))

    def priority_class(self, name: str, value: int) -> None:
        self.version += 1
        self.cache.apply(ObjectSeen(PriorityClass(name, value), self.version))

    def runtime_class(self, name: str) -> None:
        self.version += 1
        self.cache.apply(ObjectSeen(RuntimeClass(name), self.version))

    def ask(self, follower: Follower, who: Identity = WHO) -> Changes:
        changes = self.follow.since(who, follower.incarnation, follower.revision, WELL, 0.0)
        follower.take(changes)
        return changes

    def agrees(self, follower: Follower) -> bool:
        mine = {node.name: node for node in self.cache.nodes()}, {pod.uid: pod for pod in self.cache.pods()}
        objects = {(type(one).__name__, one.key): one for one in self.cache.objects()}
        return mine == (follower.nodes, follower.pods) and objects == follower.objects


def test_the_first_answer_is_everything_and_the_second_nothing() -> None:
    world, follower = World(), Follower()
    world.node("n1")
    first = world.ask(follower)
    assert (first.full, first.synced, first.api_ok, [node.name for node in first.nodes]) == (True, True, True, ["n1"])
    assert not world.follow.has_news(WHO, follower.incarnation, follower.revision)
    second = world.ask(follower)
    assert (second.full, second.nodes, second.pods) == (False, (), ())


def test_news_are_mere_confirmations_while_pods_show_where_they_were_bound_to_and_nothing_else_changes() -> None:
    world, follower = World(), Follower()
    world.pod("a")
    world.pod("b")

    def only_confirms(asked: str = "life-1") -> bool:
        return world.follow.only_confirms(WHO, asked, follower.revision)

    assert not only_confirms()  # all is news
    world.ask(follower)
    assert not only_confirms()  # nothing is
    world.bound("a")
    world.bound("b")
    assert only_confirms()
    assert not only_confirms("an earlier life")
    world.pod("c")
    assert not only_confirms()
    world.ask(follower)
    world.bound("c")
    assert only_confirms()


def test_priority_classes_are_told_all_together_and_apart_from_objects_that_older_peers_know() -> None:
    world, follower = World(), Follower()
    world.space("team")
    world.priority_class("low", 1)
    assert world.ask(follower).priority_classes == (PriorityClass("low", 1),)
    world.priority_class("high", 5)
    assert world.follow.has_news(WHO, follower.incarnation, follower.revision)
    both = (PriorityClass("high", 5), PriorityClass("low", 1))
    assert world.ask(follower).priority_classes == both
    world.node("n1")
    assert world.ask(follower).priority_classes == both
    world.cache.forget("PriorityClass", "low")
    last = world.ask(follower)
    assert (last.priority_classes, last.objects_gone) == (both[:1], ())
    assert list(follower.objects) == [("Namespace", "team")]


def test_more_priority_classes_than_a_message_may_hold_are_told_as_unknown() -> None:
    world, follower = World(), Follower()
    for number in range(MAX_NAMES + 1):
        world.priority_class(f"class-{number}", number)
    assert world.ask(follower).priority_classes == ()
    world.cache.forget("PriorityClass", "class-0")
    assert len(world.ask(follower).priority_classes) == MAX_NAMES


def test_runtime_classes_are_told_by_name_while_they_are_shown() -> None:
    world, follower = World(), Follower()
    world.cache.absent("RuntimeClass")
    assert world.ask(follower).runtime_classes is None
    world.empty_list("RuntimeClass")
    assert world.ask(follower).runtime_classes == ()
    for name in ("kata", "gvisor"):
        world.runtime_class(name)
    assert world.follow.has_news(WHO, follower.incarnation, follower.revision)
    told = world.ask(follower)
    assert (told.runtime_classes, told.objects) == (("gvisor", "kata"), ())
    world.cache.forget("RuntimeClass", "kata")
    told = world.ask(follower)
    assert (told.runtime_classes, told.objects_gone) == (("gvisor",), ())
    world.cache.absent("RuntimeClass")
    assert world.ask(follower).runtime_classes is None


def test_more_runtime_classes_than_a_message_may_hold_are_told_as_unknown() -> None:
    world, follower = World(), Follower()
    for number in range(MAX_NAMES + 1):
        world.runtime_class(f"class-{number}")
    assert world.ask(follower).runtime_classes is None


def test_an_empty_cluster_is_told_once_in_full() -> None:
    world, follower = World(), Follower()
    assert world.ask(follower).full
    assert not world.follow.has_news(WHO, follower.incarnation, follower.revision)


def test_only_the_latest_state_of_what_changed_is_told() -> None:
    world, follower = World(), Follower()
    world.pod("a")
    world.pod("b")
    world.ask(follower)
    for priority in range(1, 4):
        world.pod("a", priority)
    changes = world.ask(follower)
    assert [(pod.uid, pod.priority) for pod in changes.pods] == [("a", 3)]


def test_objects_are_told_by_kind_and_key_and_so_is_their_going() -> None:
    world, follower = World(), Follower()
    world.space("a")
    world.budget("a", 1)
    assert world.ask(follower).objects == (Namespace("a"), PodDisruptionBudget("d", "a", allowed=1))
    world.cache.forget("Namespace", "a")
    world.budget("a", 0)
    changes = world.ask(follower)
    assert changes.objects == (PodDisruptionBudget("d", "a", allowed=0),)
    assert changes.objects_gone == (ObjectRef("Namespace", "a"),)


def test_an_object_that_says_nothing_new_is_no_news() -> None:
    world, follower = World(), Follower()
    world.space("a", team="x")
    world.ask(follower)
    world.space("a", team="x")
    assert not world.follow.has_news(WHO, follower.incarnation, follower.revision)


def test_a_kind_that_is_not_shown_is_not_waited_for() -> None:
    world = World(synced=False)
    for kind in (NODES, PODS, "Namespace", "PriorityClass", "RuntimeClass"):
        world.empty_list(kind)
    assert not world.follow.ready(WHO)
    world.cache.absent("PodDisruptionBudget")
    assert world.follow.ready(WHO)


def test_another_life_is_told_everything() -> None:
    world, follower = World(), Follower()
    world.pod("a")
    world.ask(follower)
    changes = world.ask(follower, Identity("east", "uid", "life-2"))
    assert (changes.full, changes.incarnation, len(changes.pods)) == (True, "life-2", 1)


def test_a_follower_behind_the_oldest_grave_is_told_everything() -> None:
    world, follower = World(max_graves=2), Follower()
    for uid in "abcd":
        world.pod(uid)
    world.ask(follower)
    for uid in "abc":
        world.cache.forget(PODS, uid)
    assert world.ask(follower).full
    assert world.agrees(follower)


def test_a_revision_of_the_future_is_answered_in_full() -> None:
    world = World()
    assert world.follow.since(WHO, WHO.incarnation, 10_000, WELL, 0.0).full


def test_before_the_first_list_the_follower_keeps_what_it_has() -> None:
    world = World(synced=False)
    world.pod("a")
    changes = world.follow.since(WHO, "life-0", 77, Health(problem="refused"), 0.0)
    assert (changes.incarnation, changes.since, changes.revision, changes.full) == ("life-0", 77, 77, False)
    assert (changes.synced, changes.api_ok, changes.problem, changes.pods) == (False, False, "refused", ())


def test_readings_come_with_the_changes_and_age_until_they_are_asked_for() -> None:
    world, follower = World(), Follower()
    world.ask(follower)
    world.loads.add(NodeTarget("n1", cpu=4000, memory=1000), Sample("kubelet", {"cpu": Measure(1.0, 5.0)}), now=100.0)
    changes = world.follow.since(WHO, follower.incarnation, follower.revision, WELL, 103.0)
    assert [(one.node, one.cpu, one.cpu_age_s, one.memory) for one in changes.readings] == [("n1", 0.25, 3.0, None)]


OPERATIONS = st.lists(
    st.tuples(
        st.sampled_from(["pod", "node", "gone", "ask 0", "ask 1", "list", "space", "budget", "no space", "spaces"]),
        st.sampled_from("abcde"),
    ),
    max_size=60,
)


@settings(max_examples=200)
@given(OPERATIONS, st.integers(1, 6))
def test_every_follower_ends_equal_to_the_cache(operations: list[tuple[str, str]], max_graves: int) -> None:
    world, followers = World(max_graves=max_graves), (Follower(), Follower())
    happen: dict[str, Callable[[str, int], object]] = {
        "pod": lambda key, count: world.pod(key, priority=count),
        "node": lambda key, count: world.node(key, ready=bool(count % 2)),
        "space": lambda key, count: world.space(key, count=str(count)),
        "budget": world.budget,
        "gone": lambda key, _: world.cache.forget(PODS, key),
        "no space": lambda key, _: world.cache.forget("Namespace", key),
        "list": lambda *_: world.empty_list(PODS),
        "spaces": lambda *_: world.empty_list("Namespace"),
        "ask 0": lambda *_: world.ask(followers[0]),
        "ask 1": lambda *_: world.ask(followers[1]),
    }
    for count, (what, key) in enumerate(operations):
        happen[what](key, count)
    for follower in followers:
        world.ask(follower)
        assert world.agrees(follower)


def test_a_pod_that_is_absent_from_a_list_is_missing_and_one_seen_to_be_deleted_is_not() -> None:
    world, follower = World(), Follower()
    for uid in "abc":
        world.pod(uid)
    world.ask(follower)
    world.cache.forget(PODS, "a")
    world.empty_list(PODS)
    changes = world.ask(follower)
    assert set(changes.pods_gone) == {"a", "b", "c"}
    assert set(changes.pods_missing) == {"b", "c"}


def test_a_follower_far_behind_still_learns_which_pods_nobody_has_seen_go() -> None:
    world, follower, late = World(), Follower(), Follower()
    for uid in "abc":
        world.pod(uid)
    world.ask(follower)
    world.ask(late)
    world.empty_list(PODS)
    world.ask(follower)
    world.pod("a")
    world.ask(follower)
    world.cache.forget(PODS, "a")
    changes = world.ask(late)
    assert set(changes.pods_gone) == {"a", "b", "c"}
    assert set(changes.pods_missing) == {"b", "c"}


def test_a_pod_that_nobody_needs_any_more_is_gone_and_not_missing() -> None:
    world, follower = World(), Follower()
    world.pod("a")
    world.ask(follower)
    world.cache.apply(PodSeen("a", world.version + 1))
    changes = world.ask(follower)
    assert (changes.pods_gone, changes.pods_missing) == (("a",), ())


def test_a_delegate_that_is_none_any_more_is_missing_for_nobody_has_deleted_it() -> None:
    world, follower = World(), Follower()
    source = SourceRef("west", "w", "default", "a", "u", 1)
    world.version += 1
    world.cache.apply(PodSeen("d", world.version, Pod("d", "default", "a-1", node="n1", source=source)))
    world.ask(follower)
    world.cache.apply(PodSeen("d", world.version + 1))
    changes = world.ask(follower)
    assert (changes.pods_gone, changes.pods_missing) == (("d",), ("d",))


def test_that_the_server_went_back_travels_with_every_answer() -> None:
    world = World()
    held = Health(api_ok=True, problem="went back", restored=True)
    for since in (0, world.follow.revision):
        changes = world.follow.since(WHO, WHO.incarnation, since, held, 0.0)
        assert (changes.restored, changes.problem) == (True, "went back")
    assert World(synced=False).follow.since(WHO, "", 0, held, 0.0).restored


def test_node_groups_are_told_all_together_when_they_change_and_in_each_full_report() -> None:
    world, follower = World(), Follower()
    groups = NodeGroupWatch(world.log, ("MachineSet",), lambda: 0.0)
    world.follow = ChangeFeed(world.cache, world.loads, OwnerUses(world.log, world.cache.pod_by_name), groups)
    assert world.ask(follower).node_groups == NodeGroups()
    large = NodeGroup("large", 0, 9)
    groups.apply(NodeGroupSeen("MachineSet", "large", 1, large))
    assert world.ask(follower).node_groups == NodeGroups((large,))
    world.node("n1")
    assert world.ask(follower).node_groups is None
    assert world.ask(Follower()).node_groups == NodeGroups((large,))


def test_an_agent_that_looks_for_no_node_groups_tells_of_none() -> None:
    assert World().ask(Follower()).node_groups is None
