"""Sets of pods: names, members, and an index that never misses a member."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dispatcher.model.labels import LabelSelector, Requirement
from dispatcher.model.pod import PodAffinityTerm
from dispatcher.scheduling.framework.pod_sets import PodSet, PodSetIndex, pods_beside, pods_of_terms
from tests.builders import pod, selector

LABELS = {"t": {"team": "t"}, "u": {"team": "u"}}
KEYS, VALUES = "ab", "xy"


def labels_of(cluster: str, namespace: str) -> dict[str, str]:
    return LABELS.get(namespace, {})


requirements = st.one_of(
    st.builds(Requirement, st.sampled_from(KEYS), st.sampled_from(("Exists", "DoesNotExist"))),
    st.builds(
        Requirement,
        st.sampled_from(KEYS),
        st.sampled_from(("In", "NotIn")),
        st.lists(st.sampled_from(VALUES), min_size=1, max_size=3).map(tuple),
    ),
)
selectors = st.builds(
    LabelSelector,
    st.dictionaries(st.sampled_from(KEYS), st.sampled_from(VALUES), max_size=2),
    st.lists(requirements, max_size=2).map(tuple),
)
spaces = st.sampled_from((None, None, selector(), selector(team="t")))
terms = st.builds(
    PodAffinityTerm,
    st.just("zone"),
    st.one_of(st.none(), selectors),
    st.lists(st.sampled_from("tun"), max_size=2).map(tuple),
    spaces,
)
pods = st.builds(
    lambda labels, namespace: pod("p").labels(**labels).namespace(namespace).build(),
    st.dictionaries(st.sampled_from(KEYS), st.sampled_from(VALUES), max_size=2),
    st.sampled_from("tunm"),
)


def means(term: PodAffinityTerm, one: Any) -> bool:
    """The documented rule, once more."""
    where = term.namespace_selector
    near = one.namespace in term.namespaces or (where is not None and where.matches(labels_of("", one.namespace)))
    return near and term.selector is not None and term.selector.matches(one.labels)


@settings(max_examples=300, deadline=None)
@given(st.lists(st.lists(terms, min_size=1, max_size=3), max_size=6), pods)
def test_an_index_leads_to_every_set_that_holds_a_pod(groups: list[list[PodAffinityTerm]], one: Any) -> None:
    index: PodSetIndex[int] = PodSetIndex()
    sets = [pods_of_terms(group) for group in groups]
    for number, found in enumerate(sets):
        index.put(number, found)
    near = list(index.near(one))
    assert len(near) == len(set(near))
    members = [number for number in near if sets[number].matches(one, "a", labels_of)]
    assert sorted(members) == [number for number, group in enumerate(groups) if all(means(term, one) for term in group)]
    for number, found in enumerate(sets):
        index.drop(number, found)
    assert list(index.near(one)) == []


def term(one: LabelSelector | None = None, *namespaces: str, where: LabelSelector | None = None) -> PodAffinityTerm:
    return PodAffinityTerm("zone", one, namespaces, where)


A, B = selector(a="x"), selector(b="x")


@pytest.mark.parametrize(
    ("one", "other", "equal"),
    [
        ([term(A, "t")], [term(A, "t"), term(A, "t")], True),
        ([term(A, "t", "u")], [term(A, "u", "t")], True),
        ([term(A, "t"), term(B, "t")], [term(B, "t"), term(A, "t")], True),
        ([PodAffinityTerm("host", A, ("t",))], [term(A, "t")], True),
        ([term(A, "t")], [term(A, "u")], False),
        ([term(A, "t")], [term(B, "t")], False),
        ([term(A, "t")], [term(A, "t", where=selector())], False),
        ([term(selector(), "t")], [term(None, "t")], False),
    ],
    ids=["twice", "order of namespaces", "order of terms", "topology", "namespace", "labels", "selector", "nothing"],
)
def test_equal_sets_have_equal_names(one: list[PodAffinityTerm], other: list[PodAffinityTerm], equal: bool) -> None:
    assert (pods_of_terms(one).name == pods_of_terms(other).name) is equal


@pytest.mark.parametrize(
    ("found", "asks"),
    [
        (pods_of_terms([term(A, "t")]), False),
        (pods_of_terms([term(A, where=selector())]), False),
        (pods_of_terms([term(A, where=selector(team="t"))]), True),
        (pods_of_terms([term(A, "t"), term(A, where=selector(team="t"))]), True),
        (pods_beside(pod("p").build(), A), False),
    ],
    ids=["named", "all namespaces", "selected", "one of two", "beside"],
)
def test_it_is_known_whether_labels_of_namespaces_matter(found: PodSet, asks: bool) -> None:
    assert found.asks_namespaces is asks


def test_pods_beside_a_pod_are_live_ones_of_its_app_or_selector() -> None:
    asking = pod("p").labels(app="web", **{"pod-template-hash": "1"}).build()
    brother = pod("q").labels(app="web", **{"pod-template-hash": "2"}).build()
    stranger = pod("r").labels(app="web", tier="x").build()
    same_app, selected = pods_beside(asking, None), pods_beside(asking, selector(app="web"))
    assert [same_app.matches(one, "a", labels_of) for one in (brother, stranger)] == [True, False]
    assert [selected.matches(one, "a", labels_of) for one in (brother, stranger)] == [True, True]
    assert [same_app.terminating, selected.terminating] == [False, False]


def test_a_set_that_names_very_many_namespaces_and_labels_is_still_found() -> None:
    many = tuple(f"v{number}" for number in range(100))
    wide = pods_of_terms([term(LabelSelector({}, (Requirement("a", "In", many),)), *many)])
    index: PodSetIndex[str] = PodSetIndex()
    index.put("wide", wide)
    assert list(index.near(pod("p").labels(a="v7").namespace("v8").build())) == ["wide"]
    index.drop("wide", wide)
    assert list(index.near(pod("p").labels(a="v7").namespace("v8").build())) == []
