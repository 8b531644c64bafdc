"""Class keys that are found once for a template are those that every plugin would give for every pod."""

import itertools
from collections.abc import Hashable
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dispatcher.kit.edge_case_fleet import another_of_its_template
from dispatcher.plugins.registry import PluginContext, build
from dispatcher.scheduling.batch.pod_variants import variants_of
from dispatcher.scheduling.framework import Plugin, PodInfo, class_keys
from dispatcher.scheduling.framework.class_keys import keyed_by_template
from dispatcher.scheduling.framework.points import Plan
from dispatcher.scheduling.profile import DEFAULT_PROFILE
from shared.model.pod import OWN_FIELDS, Pod, Toleration, Volume, template_of
from shared.model.refusal import ClusterRefusal
from tests.builders import pod
from tests.laws.examples import examples
from tests.scheduling.tiny_plugins import Fit, profile

CHANGES: dict[str, list[Any]] = {
    "labels": [{"app": "a"}, {"app": "b"}],
    "requests": [{"cpu": 1}, {"cpu": 2}],
    "annotations": [{}, {"global-dispatcher.io/clusters": "a"}],
    "owner": ["one", "two", ""],
    "namespace": ["x", "y"],
    "tolerations": [(), (Toleration("dedicated", "Exists"),)],
    "volumes": [
        (),
        (Volume("claim", "data"),),
        (Volume("claim", "data-1"),),
        (Volume("claim", "data", read_only=True),),
        (Volume("claim", "scratch", ephemeral=True),),
        (Volume("gcePersistentDisk", "data"),),
    ],
    "name": ["n1", "n2"],
    "uid": ["u1", "u2"],
}
pods = st.fixed_dictionaries({field: st.sampled_from(values) for field, values in CHANGES.items()})
placed = st.builds(
    lambda fields, home, refused, counts_as: PodInfo(
        msgspec.structs.replace(pod("p").build(), **fields), home, refused, counts_as
    ),
    pods,
    st.sampled_from(["a", "b"]),
    st.sampled_from([(), (ClusterRefusal("b", "no", 0.0, 9.0),)]),
    st.sampled_from([None, (1, 2)]),
)


class ByName(Fit):
    """What it says of a pod is the pod's own; it inherits from one that goes by the template."""

    name = "Fit"
    keyed_by_template = True


class Overriding(ByName):
    def class_key(self, pod_info: PodInfo) -> Any:
        return pod_info.pod.name


def asked_of_each(plan: Plan, pod_info: PodInfo) -> tuple[Any, ...]:
    return (*[plugin.class_key(pod_info) for plugin in plan.looks], pod_info.counts_as, plan.profile)


@settings(max_examples=examples(200))
@given(st.lists(placed, max_size=30))
def test_keys_are_those_that_each_pod_would_get(met: list[PodInfo]) -> None:
    plan = Plan.of(DEFAULT_PROFILE, build(DEFAULT_PROFILE, PluginContext()))
    for one in met:
        key = plan.class_key(one)
        assert key == asked_of_each(plan, one)
        assert hash(key) == hash(asked_of_each(plan, one))


@pytest.mark.parametrize("field", CHANGES)
def test_pods_of_the_very_same_key_are_of_one_kind(field: str) -> None:
    plan = Plan.of(DEFAULT_PROFILE, build(DEFAULT_PROFILE, PluginContext()))
    base = pod("p").set(owner="one").build()
    changed = [PodInfo(msgspec.structs.replace(base, **{field: value}), "a") for value in CHANGES[field]]
    met = [(plan.class_key(one), one) for one in (*changed, PodInfo(base, "a"), PodInfo(base, "b"))]
    for (key, one), (other_key, other) in itertools.combinations(met, 2):
        items = [(("a", "1"), one), (("a", "2"), other)]
        if key is other_key:
            assert variants_of(items, alike=True).ats == variants_of(items).ats


@pytest.mark.parametrize(
    ("plugin", "want"), [(Fit(), False), (ByName(), True), (Overriding(), False)], ids=["silent", "says", "replaced"]
)
def test_who_does_not_say_so_is_asked_of_every_pod(plugin: Plugin, want: bool) -> None:
    assert keyed_by_template(plugin) is want
    plan = Plan.of(profile(Fit=1), [plugin])
    first, second = (pod(name).placed() for name in ("one", "two"))
    assert (plan.class_key(first) == plan.class_key(second)) is (plugin.class_key(first) == plugin.class_key(second))


def test_plugins_are_asked_once_for_a_template(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def noted(self: Fit, pod_info: PodInfo) -> Hashable:
        asked.append(pod_info.pod.name)
        return Fit.class_key(self, pod_info)

    monkeypatch.setattr(ByName, "class_key", noted)
    plan = Plan.of(profile(Fit=1), [ByName()])
    for name in ("one", "two", "three"):
        plan.class_key(pod(name).placed())
        plan.class_key(pod(f"{name}-b").labels(app="b").placed())
    assert asked == ["one", "one-b"], "also of pods without a controller that come by turns"


def test_of_templates_that_come_by_turns_pods_of_each_have_the_very_same_key() -> None:
    plan = Plan.of(DEFAULT_PROFILE, build(DEFAULT_PROFILE, PluginContext()))
    keys = [plan.class_key(pod(f"p{at}").labels(app="abc"[at % 3]).placed()) for at in range(30)]
    assert len({id(key) for key in keys}) == 3


def test_never_more_than_some_templates_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(class_keys, "_MOST_KNOWN", 5)
    plan = Plan.of(DEFAULT_PROFILE, build(DEFAULT_PROFILE, PluginContext()))
    for at in range(1000):
        plan.class_key(pod(f"p{at}").labels(app=f"a{at}").set(owner=f"o{at % 7}").placed())
        assert sum(len(some) for some, _ in plan.keys._known._kept.values()) <= 5 * class_keys._TEMPLATES


def test_what_is_a_pods_own_is_no_part_of_its_template() -> None:
    one = pod("one").build()
    other = another_of_its_template(PodInfo(one, "a")).pod
    assert template_of(one) == template_of(other)
    assert {name for name in Pod.__struct_fields__ if getattr(one, name) != getattr(other, name)} == set(OWN_FIELDS)


def test_the_names_of_claims_are_no_part_of_a_template_and_those_of_disks_are() -> None:
    def using(*volumes: Volume) -> object:
        return template_of(pod("one").set(volumes=volumes).build())

    assert using(Volume("claim", "data-0")) == using(Volume("claim", "data-1"))
    assert using(Volume("claim", "data-0")) != using(Volume("claim", "data-0", ephemeral=True))
    assert using(Volume("claim", "data-0")) != using(Volume("claim", "data-0"), Volume("claim", "data-1"))
    assert using(Volume("gcePersistentDisk", "one")) != using(Volume("gcePersistentDisk", "two"))
