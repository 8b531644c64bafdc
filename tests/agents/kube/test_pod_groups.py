"""Pods that name a PodGroup of Kubernetes' own API: what is told of their group, and why they wait for it."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.kube.convert import pod_seen
from agents.kube.pod_groups import FOREIGN, KUBERNETES
from agents.observer.cache import ClusterCache
from agents.observer.changes import ChangeLog
from agents.observer.seen import NODES, PODS, GroupSeen, PodSeen
from shared.model.group_kinds import POD_GROUPS
from shared.model.pod import Group
from tests.agents.kube.objects import Object, pod_object, raw, read_pod
from tests.agents.kube.test_convert import JSON, json_bytes

BASIC: Object = {"schedulingPolicy": {"basic": {}}}
GANG: Object = {"schedulingPolicy": {"gang": {"minCount": 4}}}
ANEW = "make the pod anew with "
OR_ELSE = ", or with a spec.schedulerName that serves groups"


def group(spec: Any, version: int = 1, name: str = "train") -> GroupSeen:
    meta = {"name": name, "namespace": "default", "uid": "g1", "resourceVersion": str(version)}
    seen = KUBERNETES.seen(raw({"metadata": meta, "spec": spec}))
    assert seen is not None
    return seen


def member(name: str = "p", **fields: Any) -> PodSeen:
    seen = pod_seen(raw(pod_object(name, **{"schedulingGroup": {"podGroupName": "train"}, **fields})))
    assert seen is not None
    return seen


class World:
    """The cache of an observer that has listed `seen`."""

    def __init__(self, *seen: GroupSeen | PodSeen) -> None:
        self.log = ChangeLog()
        self.cache = ClusterCache(self.log, groups=True)
        for kind in (NODES, PODS, POD_GROUPS):
            self.cache.begin(kind)
            self.cache.end(kind)
        for one in seen:
            self.cache.apply(one)

    def problems(self, name: str = "p") -> tuple[str, ...]:
        pod = self.cache.pod_by_name("default", name)
        assert pod is not None
        return pod.problems

    def group(self, name: str = "p") -> Group | None:
        pod = self.cache.pod_by_name("default", name)
        assert pod is not None
        return pod.group

    def told(self) -> set[str]:
        """What crosses the wire."""
        return {kind for kind, _ in self.log.changed(0)}


@pytest.mark.parametrize(
    "spec",
    [
        BASIC,
        {**BASIC, "disruptionMode": {"single": {}}},
        {**BASIC, "disruptionMode": "Pod"},
        {**BASIC, "schedulingConstraints": {"topology": []}, "priority": 5, "workloadRef": {"workloadName": "w"}},
    ],
    ids=["v1beta1", "v1beta1, as defaulted", "v1alpha2, as defaulted", "what changes nothing"],
)
def test_pods_of_a_basic_group_are_as_any_other(spec: Object) -> None:
    world = World(group(spec), member())
    assert world.cache.pod_by_name("default", "p") == read_pod(pod_object("p"))
    assert world.told() == {PODS}


RACK = "topology.kubernetes.io/rack"
ALL: Object = {"disruptionMode": {"all": {}}}
ALPHA_ALL: Object = {"disruptionMode": "PodGroup"}


def topology(*keys: str) -> Object:
    return {"schedulingConstraints": {"topology": [{"key": key} for key in keys]}}


def gang(least: int = 4, within: str = "cluster", *, whole: bool = False) -> Group:
    return Group(POD_GROUPS, "train", "g1", least, within, whole)


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        (GANG, gang()),
        ({**GANG, "disruptionMode": {"single": {}}}, gang()),
        ({**GANG, "disruptionMode": "Pod"}, gang()),
        ({**GANG, **ALL}, gang(whole=True)),
        ({**GANG, **ALPHA_ALL}, gang(whole=True)),
        ({**GANG, **topology(RACK)}, gang(within="rack")),
        ({**GANG, **topology("zone")}, gang(within="label:zone")),
        ({**GANG, **topology("example.com/block"), **ALL}, gang(within="example.com/block", whole=True)),
        ({**BASIC, **topology(RACK)}, gang(1, "rack")),
        ({**GANG, "podGroupTemplateRef": {"workload": {"workloadName": "w"}}, "priority": 9}, gang()),
    ],
    ids=[
        *("a gang", "disrupted singly", "v1alpha2, singly", "disrupted whole", "v1alpha2, whole"),
        *("in a rack", "a label that is called as a level", "another label", "basic in a rack", "what changes nothing"),
    ],
)
def test_a_group_is_told_with_its_members(spec: Object, told: Group) -> None:
    for world in (World(group(spec), member()), World(member(), group(spec))):
        assert world.group() == told
        assert world.problems() == ()
        assert world.told() == {PODS}


@pytest.mark.parametrize("fields", [{"nodeName": "n1"}, {"status": {"phase": "Running"}, "nodeName": "n1"}])
def test_a_member_that_has_its_place_is_told_with_its_group_too(fields: dict[str, Any]) -> None:
    assert World(group(GANG), member(**fields)).group() == gang()


def test_the_least_number_of_a_group_may_change() -> None:
    world = World(group(GANG), member(), member("q", nodeName="n1"))
    world.cache.apply(group({"schedulingPolicy": {"gang": {"minCount": 6}}}, version=2))
    assert (world.group("p"), world.group("q")) == (gang(6), gang(6))


def test_of_a_group_that_is_not_known_its_name_is_told() -> None:
    assert World(member()).group() == Group(POD_GROUPS, "train")
    assert World(member(nodeName="n1")).group() == Group(POD_GROUPS, "train")


@pytest.mark.parametrize(
    ("spec", "says", "instead"),
    [
        ({}, "has no spec.schedulingPolicy that is known here", "a group with the policy basic or gang"),
        ({"schedulingPolicy": {"newer": {}}}, "has no spec.schedulingPolicy that is known", "a group with the policy"),
        (
            {**GANG, **topology("a", "b")},
            "sets 2 spec.schedulingConstraints.topology, of which one",
            "a group with one",
        ),
        (
            {**GANG, "parentCompositePodGroupName": "all"},
            "sets spec.parentCompositePodGroupName",
            "a group without it",
        ),
        (
            {**BASIC, **ALL},
            "sets spec.disruptionMode all, which is heeded of gangs alone",
            "a group with the policy gang",
        ),
        (
            {**GANG, "disruptionMode": {"newer": {}}},
            "sets a spec.disruptionMode that is not known",
            "a group without it",
        ),
    ],
)
def test_a_group_that_asks_for_what_is_not_heeded_holds_its_pods_and_names_the_remedy(
    spec: Object, says: str, instead: str
) -> None:
    (problem,) = World(group(spec), member()).problems()
    assert problem.startswith(f"spec.schedulingGroup: PodGroup 'train' {says}")
    assert ANEW + instead in problem
    assert problem.endswith(OR_ELSE)


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ({"schedulingPolicy": {"gang": {}}}, "has no spec.schedulingPolicy.gang.minCount from 1 to 100000"),
        ({"schedulingPolicy": {"gang": {"minCount": 0}}}, "has no spec.schedulingPolicy.gang.minCount from 1"),
        (
            {**GANG, **topology("no key")},
            "has 'no key' as spec.schedulingConstraints.topology[0].key",
        ),
    ],
)
def test_a_value_that_cannot_be_meant_holds_its_pods(spec: Object, says: str) -> None:
    (problem,) = World(group(spec), member()).problems()
    assert f"PodGroup 'train' {says}" in problem


def test_a_missing_group_is_told_and_its_pods_go_on_when_it_appears_and_wait_when_it_goes() -> None:
    world = World(member(), member("q"), group(BASIC, name="other"))
    for name in "pq":
        (problem,) = world.problems(name)
        assert problem.startswith("spec.schedulingGroup: PodGroup 'train' is missing, or the agent may not list ")
    before = world.log.revision
    world.cache.apply(group(BASIC))
    assert (world.problems("p"), world.problems("q")) == ((), ())
    assert world.log.urgent > before
    world.cache.forget(POD_GROUPS, "default/train")
    assert len(world.problems()) == 1


def test_a_group_of_that_name_in_another_namespace_is_another_one() -> None:
    pod = member(metadata={"namespace": "team"})
    found = World(group(BASIC), pod).cache.pod(pod.uid)
    assert found is not None
    assert "PodGroup 'train' is missing" in found.problems[0]


def test_a_group_that_is_listed_no_more_is_missing() -> None:
    world = World(group(BASIC), member())
    world.cache.begin(POD_GROUPS)
    world.cache.end(POD_GROUPS)
    assert len(world.problems()) == 1


def test_nothing_is_told_before_the_groups_are_listed_or_known_not_to_be_served() -> None:
    cache = ClusterCache(ChangeLog(), groups=True)
    cache.absent(NODES)
    cache.absent(PODS)
    assert not cache.synced
    cache.absent(POD_GROUPS)
    assert cache.synced


@pytest.mark.parametrize(
    "fields", [{"nodeName": "n1"}, {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}], ids=["bound", "going"]
)
def test_a_pod_that_has_its_place_or_goes_has_no_problem_with_its_group(fields: dict[str, Any]) -> None:
    assert World(member(**fields)).problems() == ()


def test_a_pod_that_went_is_not_judged_again() -> None:
    gone = member()
    world = World(gone)
    world.cache.forget(PODS, gone.uid)
    world.cache.apply(group(BASIC))
    assert world.cache.pod(gone.uid) is None


def test_an_executor_alone_watches_no_groups_and_judges_no_member() -> None:
    cache = ClusterCache(ChangeLog())
    cache.apply(member())
    assert cache.pod(member().uid) is not None


def test_a_group_that_cannot_be_read_holds_its_pods() -> None:
    (problem,) = World(group({"schedulingPolicy": []}), member()).problems()
    assert "PodGroup 'train' cannot be read: " in problem


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ({"schedulingGroup": {"podGroupName": None}}, "spec.schedulingGroup names no PodGroup; make the pod anew "),
        ({"workloadRef": {"name": "job", "podGroup": "g"}}, "spec.workloadRef: Workload 'job' is not read here, "),
    ],
)
def test_what_names_no_pod_group_is_told(spec: dict[str, Any], says: str) -> None:
    (problem,) = read_pod(pod_object(**spec)).problems
    assert problem.startswith(says)
    assert "without this field" in problem


@given(st.dictionaries(st.sampled_from(("metadata", "spec")), JSON, max_size=2) | JSON)
def test_any_group_is_read_or_dropped(thing: Any) -> None:
    for api in (KUBERNETES, *FOREIGN):
        seen = api.seen(json_bytes(thing))
        assert seen is None or (seen.name and (seen.holds or seen.group is None or seen.group.name == seen.name))
