"""Groups that pods are marked with: our annotations, and the marks of other projects with their PodGroups."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.kube.convert import pod_seen
from agents.kube.pod_groups import FOREIGN, KUBERNETES
from agents.observer.cache import ClusterCache
from agents.observer.changes import ChangeLog
from agents.observer.seen import NODES, PODS, GroupSeen, PodSeen
from shared.model import names
from shared.model.group_kinds import (
    COSCHEDULING,
    COSCHEDULING_OF_OLD,
    KAI,
    KOORDINATOR,
    LIGHTWEIGHT,
    OURS,
    POD_GROUPS,
    VOLCANO,
)
from shared.model.pod import Group
from tests.agents.kube.objects import Object, pod_object, raw

GANG = "gang.scheduling.koordinator.sh/"
LWS = "leaderworkerset.sigs.k8s.io/"
# by kind: where its mark is, and how a spec of 4 pods looks
MARKS = {
    COSCHEDULING: ("labels", "scheduling.x-k8s.io/pod-group"),
    COSCHEDULING_OF_OLD: ("labels", "pod-group.scheduling.sigs.k8s.io"),
    VOLCANO: ("annotations", "scheduling.k8s.io/group-name"),
    KAI: ("annotations", "pod-group-name"),
}
APIS = {api.kind: api for api in (KUBERNETES, *FOREIGN)}


def member(name: str = "p", annotations: Object | None = None, labels: Object | None = None, **spec: Any) -> PodSeen:
    metadata = {"annotations": annotations or {}, "labels": labels or {}}
    seen = pod_seen(raw(pod_object(name, metadata=metadata, **spec)))
    assert seen is not None
    return seen


def marked(kind: str, name: str = "p", group: str = "train", **spec: Any) -> PodSeen:
    where, key = MARKS[kind]
    return member(name, **{where: {key: group}, **spec})


def ours(name: str = "p", least: str = "4", within: str = "", group: str = "train", **more: Any) -> PodSeen:
    told = {names.GROUP: group, names.GROUP_MIN: least, **({names.GROUP_WITHIN: within} if within else {})}
    return member(name, {**told, **more.pop("annotations", {})}, **more)


def pod_group(kind: str, spec: Object, name: str = "train", version: int = 1, **metadata: Any) -> GroupSeen:
    meta = {"name": name, "namespace": "default", "uid": "g1", "resourceVersion": str(version), **metadata}
    seen = APIS[kind].seen(raw({"metadata": meta, "spec": spec}))
    assert seen is not None
    return seen


class World:
    """The cache of an observer that has seen these, in this order."""

    def __init__(self, *seen: GroupSeen | PodSeen) -> None:
        self.log = ChangeLog()
        self.cache = ClusterCache(self.log, groups=True)
        for one in seen:
            self.cache.apply(one)

    def group(self, name: str = "p") -> Group | None:
        pod = self.cache.pod_by_name("default", name)
        assert pod is not None
        return pod.group

    def problems(self, name: str = "p") -> tuple[str, ...]:
        pod = self.cache.pod_by_name("default", name)
        assert pod is not None
        return pod.problems


# --- our annotations
# --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("within", "told"),
    [
        ("", "cluster"),
        ("rack", "rack"),
        ("topology.kubernetes.io/zone", "zone"),
        ("cluster", "cluster"),
        ("fleet", "fleet"),
        ("example.com/block", "example.com/block"),
    ],
)
def test_our_annotations_make_a_group(within: str, told: str) -> None:
    world = World(ours(within=within))
    assert world.group() == Group(OURS, "train", "", 4, told)
    assert world.problems() == ()


@pytest.mark.parametrize(
    ("annotations", "says"),
    [
        ({"group": "train"}, "group]: how many members start together is not said; add global-dispatcher.io/group-min"),
        ({"group-min": "4"}, "group-min]: means nothing without global-dispatcher.io/group; name the group there"),
        ({"group-within": "rack"}, "group-within]: means nothing without global-dispatcher.io/group"),
        ({"group": "", "group-min": "4"}, "group]: '' is no name of a group"),
        ({"group": "a b", "group-min": "4"}, "group]: 'a b' is no name of a group"),
        ({"group": "x" * 254, "group-min": "4"}, "group]: 'xxx"),
        *(
            ({"group": "train", "group-min": wrong}, f"group-min]: {wrong!r} is no number of pods from 1 to 100000")
            for wrong in ("", "0", "-1", "four", "1e3", "100001", "٤")
        ),
        ({"group": "g", "group-min": "4", "group-within": ""}, "group-within]: '' is no level and no node label"),
        ({"group": "g", "group-min": "4", "group-within": "a rack"}, "group-within]: 'a rack' is no level and no node"),
        ({"group": "g", "group-min": "4", "group-within": "zone@cluster"}, "group-within]: 'zone@cluster' is no level"),
        (
            {"group": "g-$(nobody)", "group-min": "4"},
            "group]: the pod has no label and no annotation 'nobody'; correct",
        ),
        ({"groups": "train"}, "groups]: is not known; did you mean global-dispatcher.io/group? Rename or remove it"),
        ({"group-minimum": "4"}, "group-minimum]: is not known; did you mean global-dispatcher.io/group-min?"),
    ],
)
def test_an_annotation_that_makes_no_group_holds_the_pod_and_says_so(annotations: Object, says: str) -> None:
    world = World(member("p", {names.PREFIX + key: value for key, value in annotations.items()}))
    assert world.problems()[0].startswith(f"metadata.annotations[{names.PREFIX}{says}")
    assert all(len(line) <= 300 for line in world.problems())


def test_a_label_in_place_of_the_annotation_holds_the_pod() -> None:
    (problem,) = World(member(labels={names.GROUP: "train"})).problems()
    assert problem.startswith(f"metadata.labels[{names.GROUP}]: is a label and means nothing")


def test_controllers_that_make_several_groups_of_one_template_name_each_by_a_label_of_it() -> None:
    labels = {LWS + "name": "serve", LWS + "group-index": "3"}
    pod = ours(
        group=f"$({LWS}name)-$({LWS}group-index)",
        least=f"$({LWS}size)",
        annotations={LWS + "size": "8"},
        labels=labels,
    )
    assert World(pod).group() == Group(OURS, "serve-3", "", 8)


def test_what_a_label_holds_is_no_template_again() -> None:
    pod = ours(group="g-$(a)", labels={"a": "b"}, annotations={"b": "$(a)", "long": "x" * 9000})
    assert World(pod).group() == Group(OURS, "g-b", "", 4)
    (problem,) = World(ours(group="$(long)" * 100, annotations={"long": "x" * 9000})).problems()
    assert "is no name of a group" in problem


@pytest.mark.parametrize(
    ("other", "says"),
    [
        (ours("q", "6"), "the least number 4 here and 6 of pod 'q'"),
        (ours("q", within="rack"), "the domain cluster here and rack of pod 'q'"),
    ],
)
def test_members_that_wait_and_do_not_agree_hold_each_other_and_name_each_other(other: PodSeen, says: str) -> None:
    world = World(ours(), other)
    (problem,) = world.problems("p")
    assert problem == (
        f"metadata.annotations[{names.GROUP}]: members of group 'train' do not agree: {says}; write the same on all"
    )
    assert "of pod 'p'" in world.problems("q")[0]
    world.cache.forget(PODS, other.uid)
    assert world.problems("p") == ()


def test_a_member_that_has_its_place_may_say_another_number_than_those_that_come_after_it() -> None:
    before = ours("q", "6", nodeName="n1")
    world = World(before, ours())
    assert world.problems() == ()
    assert (world.group("p"), world.group("q")) == (Group(OURS, "train", "", 4), Group(OURS, "train", "", 6))


def test_a_member_that_gets_its_place_or_is_corrected_lets_the_others_go_on() -> None:
    for cleared in (ours("q", "6", nodeName="n1"), ours("q")):
        world = World(ours(), ours("q", "6"))
        assert world.problems("p")
        world.cache.apply(cleared)
        assert (world.problems("p"), world.problems("q")) == ((), ())


def test_a_group_of_another_namespace_is_another_one() -> None:
    other = pod_object("q", metadata={"namespace": "team", "annotations": {names.GROUP: "train", names.GROUP_MIN: "9"}})
    seen = pod_seen(raw(other))
    assert seen is not None
    assert World(ours(), seen).problems() == ()


@given(
    st.lists(st.tuples(st.integers(0, 4), st.sampled_from(("2", "3", "bound", "gone"))), max_size=12),
    st.sampled_from((None, 1, 2)),
)
def test_a_member_has_a_problem_exactly_while_two_that_wait_do_not_agree(
    steps: list[tuple[int, str]], at_once: int | None
) -> None:
    world, said = World(), dict[str, str]()
    world.cache = ClusterCache(world.log, groups=True, judged_at_once=at_once)
    for number, what in steps:
        name = f"p{number}"
        if what == "gone":
            world.cache.forget(PODS, f"uid-{name}")
            said.pop(name, None)
            continue
        world.cache.apply(ours(name, **({"nodeName": "n1"} if what == "bound" else {"least": what})))
        said[name] = what
    for _ in said:
        world.cache.judge_late()
    waiting = {name: what for name, what in said.items() if what != "bound"}
    differ = len(set(waiting.values())) > 1
    assert {name: bool(world.problems(name)) for name in said} == {name: differ and name in waiting for name in said}


def test_one_write_takes_no_more_time_than_is_left_and_the_rest_is_judged_late() -> None:
    world = World()
    world.cache = ClusterCache(world.log, groups=True, judged_at_once=10)
    many = [f"p{number}" for number in range(25)]
    for name in many:
        world.cache.apply(ours(name))
    held: list[int] = []

    def look() -> None:
        held.append(sum(bool(world.problems(name)) for name in many))

    world.cache.apply(ours("odd", "9"))
    look()
    for _ in range(3):
        world.cache.judge_late()
        look()
    assert held == [10, 20, 25, 25]
    world.cache.apply(ours("odd", "4", nodeName="n1"))
    world.cache.forget(PODS, "uid-p24")
    assert sum(bool(world.problems(name)) for name in many[:-1]) == 14
    world.cache.judge_late()
    world.cache.judge_late()
    assert not any(world.problems(name) for name in many[:-1])


# --- other projects
# --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", MARKS)
def test_the_pod_group_of_another_project_makes_a_group(kind: str) -> None:
    for seen in ((marked(kind), pod_group(kind, {"minMember": 4})), (pod_group(kind, {"minMember": 4}), marked(kind))):
        world = World(*seen)
        assert world.group() == Group(kind, "train", "g1", 4)
        assert world.problems() == ()


@pytest.mark.parametrize("kind", MARKS)
@pytest.mark.parametrize("spec", [{}, {"minMember": None}, {"minMember": 0}, {"minMember": 1}])
def test_one_that_names_no_number_is_of_one_pod(kind: str, spec: Object) -> None:
    assert World(marked(kind), pod_group(kind, spec)).group() == Group(kind, "train", "g1", 1)


@pytest.mark.parametrize("kind", MARKS)
def test_a_pod_whose_group_is_not_there_waits_and_is_told_what_to_do(kind: str) -> None:
    world = World(marked(kind), pod_group(kind, {"minMember": 4}, name="other"))
    (problem,) = world.problems()
    where, key = MARKS[kind]
    assert problem == (
        f"metadata.{where}[{key}]: PodGroup 'train' is missing, or this cluster does not serve {kind}, or the agent "
        "may not list them; make the group, and the pod goes on, or take this mark off"
    )
    world.cache.apply(pod_group(kind, {"minMember": 4}))
    assert world.problems() == ()
    world.cache.forget(kind, "default/train")
    assert len(world.problems()) == 1
    world.cache.apply(member())
    assert (world.problems(), world.group()) == ((), None)


def test_an_agent_is_in_sync_before_the_groups_of_other_projects_are_listed() -> None:
    cache = ClusterCache(ChangeLog(), groups=True)
    for kind in (NODES, PODS, POD_GROUPS):
        assert not cache.synced
        cache.absent(kind)
    assert cache.synced


def test_both_keys_of_volcano_name_one_group() -> None:
    both = {"scheduling.k8s.io/group-name": "train", "scheduling.volcano.sh/group-name": "train"}
    world = World(member(annotations=both), pod_group(VOLCANO, {"minMember": 2}))
    assert (world.group(), world.problems()) == (Group(VOLCANO, "train", "g1", 2), ())


def test_a_pod_of_two_groups_waits_and_both_are_named() -> None:
    both = {names.GROUP: "ours", names.GROUP_MIN: "2", "scheduling.k8s.io/group-name": "theirs"}
    world = World(member(annotations=both), pod_group(VOLCANO, {"minMember": 2}, name="theirs"))
    (problem,) = world.problems()
    assert problem.startswith("metadata.annotations[scheduling.k8s.io/group-name]: names group 'theirs', and ")
    assert f"metadata.annotations[{names.GROUP}] group 'ours'; a pod is of one group" in problem


def test_the_basic_group_that_a_controller_gives_each_job_leaves_our_annotations_their_say() -> None:
    basic = pod_group(POD_GROUPS, {"schedulingPolicy": {"basic": {}}}, name="job")
    world = World(ours(schedulingGroup={"podGroupName": "job"}), basic)
    assert (world.group(), world.problems()) == (Group(OURS, "train", "", 4), ())


@pytest.mark.parametrize(
    ("kind", "spec", "metadata", "says"),
    [
        (VOLCANO, {"minMember": 4, "subGroupPolicy": [{"name": "a"}]}, {}, "sets spec.subGroupPolicy, which is not"),
        (VOLCANO, {"minMember": 4, "networkTopology": {"highestTierAllowed": 1}}, {}, "sets spec.networkTopology of "),
        (KAI, {"minMember": 4, "subGroups": [{"name": "a"}]}, {}, "sets spec.subGroups, which is not heeded here"),
        (KAI, {"topologyConstraint": {"requiredTopologyLevel": "no key"}}, {}, "has 'no key' as spec.topologyConst"),
        (COSCHEDULING, {"minMember": 200_000}, {}, "has no spec.minMember from 1 to 100000"),
        (COSCHEDULING, {"minMember": "four"}, {}, "cannot be read: "),
        (COSCHEDULING_OF_OLD, {}, {"annotations": {GANG + "groups": '["default/train", "default/b"]'}}, "has the anno"),
        (COSCHEDULING_OF_OLD, {}, {"annotations": {GANG + "network-topology-spec": "{}"}}, "has the annotation gang"),
    ],
)
def test_what_of_a_group_is_not_heeded_holds_its_pods(kind: str, spec: Object, metadata: Object, says: str) -> None:
    (problem,) = World(marked(kind), pod_group(kind, spec, **metadata)).problems()
    assert f"PodGroup 'train' {says}" in problem


@pytest.mark.parametrize(
    ("kind", "spec", "within"),
    [
        (VOLCANO, {"minMember": 4, "networkTopology": {"mode": "soft"}}, "cluster"),
        (KAI, {"minMember": 4, "topologyConstraint": {"requiredTopologyLevel": "rack"}}, "label:rack"),
        (KAI, {"minMember": 4, "topologyConstraint": {"requiredTopologyLevel": "topology.kubernetes.io/rack"}}, "rack"),
        (KAI, {"minMember": 4, "topologyConstraint": {"preferredTopologyLevel": "rack"}}, "cluster"),
    ],
)
def test_where_a_group_goes_is_told_if_it_must(kind: str, spec: Object, within: str) -> None:
    world = World(marked(kind), pod_group(kind, spec))
    assert (world.group(), world.problems()) == (Group(kind, "train", "g1", 4, within), ())


def test_tasks_of_a_volcano_job_are_right_while_all_of_its_pods_start_together() -> None:
    """As CheckTaskReady of Volcano: they count unless they are more than the whole."""
    by_task: Object = {"minMember": 2, "minTaskMember": {"master": 1, "worker": 1}}
    world = World(pod_group(VOLCANO, by_task), marked(VOLCANO, "master"), marked(VOLCANO, "w1"))
    assert (world.problems("master"), world.problems("w1")) == ((), ())
    world.cache.apply(marked(VOLCANO, "w2"))
    for name in ("master", "w1", "w2"):
        assert "has more pods than spec.minMember, and spec.minTaskMember" in world.problems(name)[0]
        assert len(world.problems(name)[0]) < 300
    world.cache.forget(PODS, "uid-w1")
    assert (world.problems("master"), world.problems("w2")) == ((), ())
    for without_say in (
        {"minMember": 2, "minTaskMember": {"a": 2, "b": 1}},
        {"minMember": 2, "minTaskMember": {"a": 2}},
    ):
        world.cache.apply(pod_group(VOLCANO, without_say, version=2))
        world.cache.apply(marked(VOLCANO, "w3"))
        assert world.problems("w3") == ()


# --- groups that the members themselves define
# --------------------------------------------------------------------------------------------------


def koordinators(**more: str) -> PodSeen:
    told = {GANG + key.replace("_", "-"): value for key, value in more.items()}
    return member(annotations={KOORDINATOR: "train", **told})


def test_koordinators_annotations_make_a_group() -> None:
    own = koordinators(min_available="4", mode="NonStrict", groups='["default/train"]', total_number="5")
    assert World(own).group() == Group(KOORDINATOR, "train", "", 4)
    assert World(own).problems() == ()


def test_the_labels_of_lightweight_coscheduling_make_a_group() -> None:
    of = "pod-group.scheduling.sigs.k8s.io/"
    world = World(member(labels={of + "name": "train", of + "min-available": "4"}))
    assert (world.group(), world.problems()) == (Group(LIGHTWEIGHT, "train", "", 4), ())
    (problem,) = World(member(labels={of + "name": "train"})).problems()
    assert problem == f"metadata.labels[{of}name]: how many members start together is not said; add {of}min-available"


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({}, "name]: how many members start together is not said; add gang.scheduling.koordinator.sh/min-available"),
        ({"min_available": "x"}, "min-available]: 'x' is no number of pods from 1 to 100000"),
        ({"min_available": "2", "groups": '["default/train","default/b"]'}, "groups]: is not heeded here; take it off"),
        ({"min_available": "2", "groups": "["}, "groups]: is not heeded here; take it off"),
        ({"min_available": "2", "network_topology_spec": "{}"}, "network-topology-spec]: is not heeded here; take it"),
    ],
)
def test_what_koordinator_would_heed_and_is_not_heeded_here_holds_the_pod(more: dict[str, str], says: str) -> None:
    (problem,) = World(koordinators(**more)).problems()
    assert problem.startswith(f"metadata.annotations[{GANG}{says}")


@pytest.mark.parametrize("kind", ["labels", "annotations"])
def test_a_name_that_no_object_can_have_is_a_problem_and_crosses_no_wire(kind: str) -> None:
    key = {"labels": "scheduling.x-k8s.io/pod-group", "annotations": "pod-group-name"}[kind]
    marks: dict[str, Any] = {kind: {key: "x" * 5000}}
    world = World(member(**marks))
    assert world.group() is None
    assert "no PodGroup has a name of more than 253 characters" in world.problems()[0]


def test_marks_of_pods_of_other_schedulers_mean_nothing_here() -> None:
    seen = marked(VOLCANO, schedulerName="volcano", nodeName="n1")
    assert seen.marks == ()
    assert World(seen).group() is None
