"""Sets of pods: names, members, and an index that never misses a member."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dispatcher.scheduling.framework.pod_sets import PodSet, PodSetIndex, pods_beside, pods_of_terms
from shared.model.labels import LabelSelector, Requirement
from shared.model.names import AFFINITY_FROM_OTHERS
from shared.model.pod import Pod, PodAffinityTerm
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
    st.dictionaries(st.sampled_from((*KEYS, "job-name")), st.sampled_from(VALUES), max_size=3),
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
    near = list(index.near(one, "a", labels_of))
    assert len(near) == len(set(near))
    members = [number for number in near if sets[number].matches(one, "a", labels_of)]
    assert sorted(members) == [number for number, group in enumerate(groups) if all(means(term, one) for term in group)]
    for number, found in enumerate(sets):
        index.drop(number, found)
    assert list(index.near(one, "a", labels_of)) == []


owners = st.tuples(st.sampled_from(("a", "b")), st.sampled_from("tun"))


@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(owners, terms), max_size=6), pods, st.sampled_from(("a", "b")), st.booleans())
def test_an_index_leads_to_every_set_held_to_a_cluster_that_holds_a_pod(
    held: list[tuple[tuple[str, str], PodAffinityTerm]], one: Any, home: str, opened: bool
) -> None:
    def labels(cluster: str, namespace: str) -> dict[str, str]:
        return {**labels_of(cluster, namespace), **({AFFINITY_FROM_OTHERS: "true"} if opened else {})}

    index: PodSetIndex[int] = PodSetIndex()
    sets = [pods_of_terms([term], owner) for owner, term in held]
    for number, found in enumerate(sets):
        index.put(number, found)
    near = list(index.near(one, home, labels))
    assert len(near) == len(set(near))
    members = [number for number, found in enumerate(sets) if found.matches(one, home, labels)]
    assert set(members) <= set(near)
    for number, found in enumerate(sets):
        index.drop(number, found)
    assert list(index.near(one, home, labels)) == []


def test_sets_that_are_held_to_a_cluster_are_not_tried_for_pods_of_another() -> None:
    index: PodSetIndex[str] = PodSetIndex()
    index.put("wide", pods_of_terms([term(selector(), where=selector())], ("a", "t")))
    asked = {(home, where): pod("p").namespace(where).build() for home in "ab" for where in "tu"}
    found = {name: list(index.near(one, name[0], labels_of)) for name, one in asked.items()}
    assert found == {("a", "t"): ["wide"], ("a", "u"): ["wide"], ("b", "t"): ["wide"], ("b", "u"): []}


def _beside(asking: Any, selected: LabelSelector | None, one: Any) -> bool:
    """The documented rule, once more."""
    if asking.namespace != one.namespace:
        return False
    return selected.matches(one.labels) if selected is not None else asking.app_labels == one.app_labels


@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(pods, st.one_of(st.none(), st.none(), selectors)), max_size=8), pods, st.data())
def test_an_index_leads_to_every_set_of_pods_beside_another_while_sets_come_and_go(
    asking: list[tuple[Any, LabelSelector | None]], one: Any, data: st.DataObject
) -> None:
    index: PodSetIndex[int] = PodSetIndex()
    sets = [pods_beside(*asked) for asked in asking]
    for number, found in enumerate(sets):
        index.put(number, found)
    gone = set[int]()
    for number in data.draw(st.permutations(range(len(sets)))):
        index.drop(number, sets[number])
        if data.draw(st.booleans()):
            index.put(number, sets[number])
        else:
            gone.add(number)
    near = list(index.near(one, "a", labels_of))
    assert len(near) == len(set(near))
    members = [number for number in near if sets[number].matches(one, "a", labels_of)]
    meant = [number for number, asked in enumerate(asking) if _beside(*asked, one)]
    assert sorted(members) == [number for number in meant if number not in gone]


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
    assert list(index.near(pod("p").labels(a="v7").namespace("v8").build(), "a", labels_of)) == ["wide"]
    index.drop("wide", wide)
    assert list(index.near(pod("p").labels(a="v7").namespace("v8").build(), "a", labels_of)) == []


ONE_OF_MANY = {
    "its own app": lambda one: pods_beside(one, None),
    "labels": lambda one: pods_beside(one, LabelSelector(dict(one.labels))),
    "a label and an expression": lambda one: pods_beside(
        one, selector_with(Requirement("idx", "In", (one.labels["idx"],)))
    ),
    "a term": lambda one: pods_of_terms([term(LabelSelector(dict(one.labels)), "default")]),
    "a term for all namespaces": lambda one: pods_of_terms([term(LabelSelector(dict(one.labels)), where=selector())]),
    "two terms": lambda one: pods_of_terms([term(A, "default"), term(selector(idx=one.labels["idx"]), "default")]),
}


def selector_with(*clauses: Requirement) -> LabelSelector:
    return LabelSelector({"a": "x"}, clauses)


@pytest.mark.parametrize("meant_by", ONE_OF_MANY.values(), ids=ONE_OF_MANY)
def test_of_sets_that_share_a_label_and_differ_in_another_few_are_tried(meant_by: Callable[[Pod], PodSet]) -> None:
    pods_of_all = [pod(f"p{at}").labels(a="x", idx=str(at)).build() for at in range(100)]
    index: PodSetIndex[int] = PodSetIndex()
    sets = [meant_by(one) for one in pods_of_all]
    for number, found in enumerate(sets):
        index.put(number, found)
    for number, one in enumerate(pods_of_all):
        near = list(index.near(one, "a", labels_of))
        assert number in near
        assert len(near) <= 2, "its own set, and the one that came first"


def test_a_pod_finds_its_app_by_one_look_up_however_common_each_label_is() -> None:
    grid = [pod("p").labels(a=str(at % 10), b=str(at // 10)).build() for at in range(100)]
    index: PodSetIndex[int] = PodSetIndex()
    for number, one in enumerate(grid):
        index.put(number, pods_beside(one, None))
    assert [list(index.near(one, "a", labels_of)) for one in grid] == [[number] for number in range(100)]


def test_pods_without_labels_that_tell_an_app_are_of_one_app_in_each_namespace() -> None:
    index: PodSetIndex[str] = PodSetIndex()
    for namespace in "tu":
        index.put(namespace, pods_beside(pod("p").namespace(namespace).build(), None))
    generated = pod("q").labels(**{"job-name": "1"}).namespace("t").build()
    assert list(index.near(generated, "a", labels_of)) == ["t"]
    assert list(index.near(pod("r").labels(a="x").namespace("t").build(), "a", labels_of)) == []
