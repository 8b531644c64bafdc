"""Whatever comes and goes: inter-pod affinity judges as its rules say pod by pod, and a batch decides as one by one."""

from collections.abc import Callable
from itertools import groupby
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dispatcher.plugins.registry import PluginContext, build
from dispatcher.scheduling.fleet.view import view_of
from dispatcher.scheduling.framework import Plugin, PluginUse, PodInfo, Profile, Skip
from dispatcher.scheduling.profile import DEFAULT_PROFILE
from shared.model.labels import LabelSelector, Requirement
from shared.model.names import AFFINITY_FROM_OTHERS, DOMAIN_SCOPE
from tests.builders import PodBuilder, node, pod, selector
from tests.laws import affinity_rules as rules
from tests.laws import oracle
from tests.laws.examples import examples
from tests.laws.pairs import CLUSTERS, Pair

ALONE = Profile("global-dispatcher", (PluginUse("PrioritySort"), PluginUse("InterPodAffinity", 2)))
KEYS = ("zone", "host", "cluster", "rack")
SELECTORS = (None, selector(app="u"), selector(), LabelSelector({}, (Requirement("app", "In", ("v", "w")),)))
SPACES = (None, None, selector(team="t"), selector())

clusters, node_names = st.sampled_from(CLUSTERS), st.sampled_from(("n1", "n2", "n3"))


@st.composite
def nodes(draw: st.DrawFn) -> tuple[Any, ...]:
    built = node(draw(node_names)).pods(draw(st.sampled_from((2, 110))))
    for key in ("zone", "rack"):
        value = draw(st.sampled_from(("", "x", "y")))
        built = built.labels(**{key: value}) if value else built
    return ("node", draw(clusters), built.build())


@st.composite
def pods(draw: st.DrawFn) -> PodInfo:
    one: PodBuilder = pod("p").namespace(draw(st.sampled_from("mn"))).labels(app=draw(st.sampled_from("uvw")))
    if draw(st.integers(0, 4)) == 0:
        one = one.annotation(DOMAIN_SCOPE, "cluster")
    for _ in range(draw(st.sampled_from((0, 1, 1, 2, 3)))):
        how: Callable[..., PodBuilder] = draw(st.sampled_from((one.near, one.away)))
        weight, key = draw(st.sampled_from((0, 0, 1, 29))), draw(st.sampled_from(KEYS))
        how(key, draw(st.sampled_from(SELECTORS)), weight=weight, namespace_selector=draw(st.sampled_from(SPACES)))
    return one.placed(draw(clusters))


@st.composite
def crowds(draw: st.DrawFn) -> list[PodInfo]:
    """Pods of one set of terms, with labels and namespaces of their own."""
    like = draw(pods()).pod
    return [
        PodInfo(msgspec.structs.replace(like, labels={"app": app}, namespace=namespace), draw(clusters))
        for app, namespace in draw(st.lists(st.tuples(st.sampled_from("uvw"), st.sampled_from("mn")), max_size=8))
    ]


NAMESPACE_LABELS: tuple[dict[str, str], ...] = ({}, {"team": "t"}, {AFFINITY_FROM_OTHERS: "true"})
events = st.one_of(
    nodes(),
    st.tuples(st.just("gone"), clusters, node_names),
    st.tuples(st.just("namespace"), clusters, st.sampled_from("mn"), st.sampled_from(NAMESPACE_LABELS)),
    st.tuples(st.just("pods"), pods(), st.integers(1, 6)),
    st.tuples(st.just("pods"), pods(), st.integers(1, 6)),
    st.tuples(st.just("crowd"), st.lists(pods(), min_size=1, max_size=6)),
    st.tuples(st.just("crowd"), crowds()),
    st.tuples(st.just("end"), st.integers(0, 20)),
)
scripts = st.lists(events, min_size=3, max_size=14)


class ByTheRules(Pair):
    """Also holds every answer of the plugin, for every node, against the rules in plain words."""

    def crowd(self, pod_info: list[PodInfo]) -> None:
        """Pods one after another, those of one class together, as the queue hands them out."""
        first = len(self.results)
        items = [oracle.numbered(one, first + index) for index, one in enumerate(pod_info)]
        for _, group in groupby(items, lambda item: self.scheduler.classify(item[1])):
            self.decide(list(group))

    def expect(self, pod_info: PodInfo, pod_id: tuple[str, str]) -> tuple[str, str] | None:
        fleet = self.world.columns()
        plugin: Any = next(one for one in self.naive() if one.name == "InterPodAffinity")
        state = plugin.pre_filter(pod_info, view_of(fleet))
        everything = slice(0, fleet.n)
        silent = isinstance(state, Skip)
        codes = [0] * fleet.n if silent else plugin.filter(state, view_of(fleet), everything).tolist()
        scores = [0.0] * fleet.n if silent else plugin.score(state, view_of(fleet), everything).tolist()
        for row in range(fleet.n):
            where = fleet.name_of(row)
            told = fleet.reasons.why(codes[row]).text if codes[row] else ""
            assert told == rules.refusal(self.world, pod_info, where)
            assert scores[row] == rules.raw_score(self.world, pod_info, where)
        return super().expect(pod_info, pod_id)


def plugins(profile: Profile) -> Callable[[], Callable[[], list[Plugin]]]:
    return lambda: lambda: build(profile, PluginContext())


def begin(profile: Profile, *, batched: bool) -> ByTheRules:
    pair = ByTheRules(profile, plugins(profile), batched=batched)
    for cluster in CLUSTERS:
        for name, zone in (("n1", "x"), ("n2", "y")):
            pair.node(cluster, node(name).labels(zone=zone).build())
    return pair


@pytest.mark.parametrize("batched", [True, False], ids=["a batch", "one by one"])
@settings(max_examples=examples(60), deadline=None)
@given(script=scripts)
def test_affinity_alone_decides_as_its_rules_say(batched: bool, script: list[tuple[Any, ...]]) -> None:
    pair = begin(ALONE, batched=batched)
    for event in script:
        pair.apply(event)


@pytest.mark.parametrize("batched", [True, False], ids=["a batch", "one by one"])
@settings(max_examples=examples(30), deadline=None)
@given(script=scripts)
def test_affinity_among_all_policies_decides_what_the_oracle_decides(
    batched: bool, script: list[tuple[Any, ...]]
) -> None:
    pair = begin(DEFAULT_PROFILE, batched=batched)
    for event in script:
        pair.apply(event)


def test_pods_of_one_queue_class_part_when_a_placed_pod_tells_them_apart() -> None:
    pair = begin(ALONE, batched=True)
    pair.pods(pod("a").namespace("m").labels(app="x").away("cluster", selector(app="v")).placed("a"), 2)
    pair.crowd([pod("q").namespace("m").labels(app="uv"[number % 2]).placed("a") for number in range(8)])
    assert len({pair.scheduler.classify(one.pod_info) for one in pair.results[2:]}) == 1
