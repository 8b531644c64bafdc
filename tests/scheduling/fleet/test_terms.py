"""Terms of placed pods: their numbers hold while somebody has them, and those that nobody has are bounded."""

import random
from collections.abc import Mapping

import msgspec
import pytest

from dispatcher.scheduling.fleet.crowded_terms import LiveSums, TermSum
from dispatcher.scheduling.fleet.terms import TermCounts
from dispatcher.scheduling.framework import PodInfo
from dispatcher.scheduling.framework.pod_sets import TermKind
from shared.model.labels import LabelSelector, Requirement
from shared.model.names import AFFINITY_FROM_OTHERS
from shared.model.pod import PodAffinity, PodAffinityTerm, WeightedPodAffinityTerm
from tests.builders import pod, selector

WEB = pod("asks").labels(app="web").placed()


def holder(key: str = "zone", weight: int = 0) -> PodInfo:
    return pod("p").away(key, selector(app="web"), weight=weight).placed()


def domain_of(level: str, row: int) -> int:
    return row


def terms(idle: int = 10, limit: int = 10) -> TermCounts:
    return TermCounts(lambda cluster, namespace: {}, idle_limit=idle, limit=limit)


def counted(found: TermCounts) -> dict[tuple[TermKind, str], list[int]]:
    return {(term.kind, term.key): found.count(term).window(3).tolist() for term in found.about(WEB)}


def test_equal_terms_of_many_pods_are_one() -> None:
    found = terms()
    for row in (0, 2, 2):
        found.shift(holder(), row, domain_of, 1)
    assert counted(found) == {(TermKind.REPELLING, "zone"): [1, 0, 2]}


def test_preferred_terms_of_any_weight_are_one_and_add_up() -> None:
    found = terms()
    for weight in (3, 5):
        found.shift(holder(weight=weight), 1, domain_of, 1)
    assert counted(found) == {(TermKind.PREFERRED, "zone"): [0, -8, 0]}


def test_a_term_keeps_its_number_while_it_is_remembered() -> None:
    found = terms()
    found.shift(holder(), 0, domain_of, 1)
    before = found.about(WEB)
    found.shift(holder(), 0, domain_of, -1)
    assert counted(found) == {(TermKind.REPELLING, "zone"): [0, 0, 0]}
    found.shift(holder(), 1, domain_of, 1)
    assert found.about(WEB) == before
    assert counted(found) == {(TermKind.REPELLING, "zone"): [0, 1, 0]}


def test_of_the_terms_that_nobody_has_the_oldest_goes_and_no_number_comes_back() -> None:
    found = terms(idle=1)
    for key in ("zone", "host"):
        found.shift(holder(key), 0, domain_of, 1)
    zone, host = found.about(WEB)
    stale, seen = found.count(zone), found.count(zone).version
    for key in ("zone", "host"):
        found.shift(holder(key), 0, domain_of, -1)
    assert found.about(WEB) == (host,)
    assert stale.version != seen
    found.shift(holder("zone"), 0, domain_of, 1)
    assert [term.number for term in found.about(WEB)] == [1, 2]


def test_a_term_that_somebody_has_is_never_dropped() -> None:
    found = terms(idle=0)
    found.shift(holder("zone"), 0, domain_of, 1)
    found.shift(holder("host"), 0, domain_of, 1)
    found.shift(holder("host"), 0, domain_of, -1)
    assert counted(found) == {(TermKind.REPELLING, "zone"): [1, 0, 0]}


def test_counts_that_were_folded_away_are_the_same_when_asked_for_again() -> None:
    found = terms(limit=1)
    for row in (0, 2):
        found.shift(holder("zone"), row, domain_of, 1)
        found.shift(holder("host"), row, domain_of, 1)
    want = {(TermKind.REPELLING, "zone"): [1, 0, 1], (TermKind.REPELLING, "host"): [1, 0, 1]}
    assert counted(found) == counted(found) == want
    found.shift(holder("zone"), 1, domain_of, 1)
    found.shift(holder("host"), 0, domain_of, -1)
    assert counted(found) == {(TermKind.REPELLING, "zone"): [1, 1, 1], (TermKind.REPELLING, "host"): [0, 0, 1]}


def test_a_change_shows_in_the_version_whether_anybody_asked_or_not() -> None:
    found = terms()
    found.shift(holder(), 0, domain_of, 1)
    (term,) = found.about(WEB)
    versions = [found.count(term).version]
    found.shift(holder(), 1, domain_of, 1)
    versions.append(found.count(term).version)
    found.count(term).window(3)
    found.shift(holder(), 1, domain_of, -1)
    versions.append(found.count(term).version)
    assert len(set(versions)) == 3


_KINDS = [
    pod("p").labels(**labels).namespace(namespace).placed(home)
    for labels in (
        {},
        {"k0": "x"},
        {"k0": "x", "k1": "x"},
        {"own": "z"},
        {"k0": "no term names it"},
        {"k40": "x", "own": "y"},
    )
    for namespace in ("one", "two", "default")
    for home in ("a", "b")
]


def _namespace_labels(cluster: str, namespace: str) -> dict[str, str]:
    opened = {AFFINITY_FROM_OTHERS: "true"} if (cluster, namespace) == ("b", "two") else {}
    return {"kubernetes.io/metadata.name": namespace, "team": f"{cluster}-{namespace}", **opened}


def _both(one: PodInfo, other: PodInfo) -> PodInfo:
    """A pod with the preferred terms of two."""
    terms = (one.pod.pod_anti_affinity, other.pod.pod_anti_affinity)
    preferred = tuple(term for each in terms if each is not None for term in each.preferred)
    return PodInfo(msgspec.structs.replace(one.pod, pod_anti_affinity=PodAffinity(preferred=preferred)), "a")


def _meaning_nearly_all(at: int) -> PodInfo:
    wanted = LabelSelector({}, (Requirement(f"k{at}", "NotIn", ("x",)),))
    teams = LabelSelector({}, (Requirement("team", "NotIn", ("a-two",)),)) if at % 3 == 0 else LabelSelector()
    term = PodAffinityTerm(("zone", "host")[at % 2], wanted, ("one",) if at % 5 == 0 else (), teams)
    one = pod(f"w{at}").build()
    terms = (
        PodAffinity(required=(term,))
        if at % 4 == 0
        else PodAffinity(preferred=(WeightedPodAffinityTerm(at + 1, term),))
    )
    return PodInfo(msgspec.structs.replace(one, pod_anti_affinity=terms), "b" if at % 8 > 5 else "a")


def _sums(found: TermCounts, asking: PodInfo) -> dict[tuple[TermKind, str], list[int]]:
    total: dict[tuple[TermKind, str], list[int]] = {}
    for term in found.about(asking):
        counts = found.count(term).window(4).tolist()
        before = total.get((term.kind, term.key), [0] * 4)
        total[term.kind, term.key] = [one + other for one, other in zip(before, counts, strict=True)]
    return {name: counts for name, counts in total.items() if any(counts)}


def test_many_terms_counted_as_one_add_up_to_what_each_of_them_does_while_they_come_and_go() -> None:
    crowded, plain = (TermCounts(_namespace_labels, idle_limit=4, crowded=most) for most in (5, 10**6))
    draw, held = random.Random(7), list[tuple[PodInfo, int]]()
    for turn in range(400):
        if held and draw.random() < (0.3 if turn < 200 else 0.7):
            placed, row = held.pop(draw.randrange(len(held)))
            amount = -1
        else:
            placed, row, amount = _meaning_nearly_all(draw.randrange(60)), draw.randrange(4), 1
            held.append((placed, row))
        for one in (crowded, plain):
            one.shift(placed, row, domain_of, amount)
        asking = draw.choice(_KINDS)
        assert _sums(crowded, asking) == _sums(plain, asking)


def test_a_kind_of_pods_is_tried_once_for_many_terms_that_mean_nearly_all(monkeypatch: pytest.MonkeyPatch) -> None:
    found = TermCounts(_namespace_labels, crowded=5)
    for at in range(40):
        found.shift(_meaning_nearly_all(at), at % 4, domain_of, 1)
    found.about(pod("p").labels(own="a").placed("b"))
    tried, matches = list[LabelSelector](), LabelSelector.matches

    def noted(own: LabelSelector, labels: Mapping[str, str]) -> bool:
        tried.append(own)
        return matches(own, labels)

    monkeypatch.setattr(LabelSelector, "matches", noted)
    about = found.about(pod("p").labels(own="b").placed("b"))
    assert not tried
    assert len(about) < 20, "fewer than half of 40: those of each cluster are counted apart"
    found.shift(_meaning_nearly_all(41), 0, domain_of, 1)
    found.about(pod("p").labels(own="c").placed("b"))
    assert 0 < len(tried) <= 2


def test_pods_that_differ_in_values_that_no_term_names_are_of_one_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    found = TermCounts(_namespace_labels, crowded=5)
    for at in range(40):
        unlike = LabelSelector({}, (Requirement("app", "NotIn", (f"v{at}",)),))
        found.shift(pod("p").away("host", unlike).placed(), at % 4, domain_of, 1)
    about = found.about(pod("p").labels(app="a").placed())
    tried, matches = list[LabelSelector](), LabelSelector.matches

    def noted(own: LabelSelector, labels: Mapping[str, str]) -> bool:
        tried.append(own)
        return matches(own, labels)

    monkeypatch.setattr(LabelSelector, "matches", noted)
    assert found.about(pod("p").labels(app="b").placed()) == about
    assert not tried
    assert [found.count(term).window(4).tolist() for term in about] == [[10] * 4]
    named = found.about(pod("p").labels(app="v1").placed())
    assert [found.count(term).window(4).tolist() for term in named] == [[10, 9, 10, 10]]


def test_terms_by_a_key_that_no_node_has_are_about_nobody_until_a_node_has_it() -> None:
    keys = {"zone"}
    found = TermCounts(lambda cluster, namespace: {}, has_domains=keys.__contains__)
    found.shift(holder("made-up"), 0, lambda key, row: -1, 1)
    assert found.about(WEB) == ()
    assert found.brought_by(holder("made-up")) is not None, "it adds to nothing"
    keys.add("made-up")
    assert found.brought_by(holder("made-up")) is None, "the next one makes it stand"
    found.shift(holder("made-up"), 1, domain_of, 1)
    assert counted(found) == {(TermKind.REPELLING, "made-up"): [0, 1, 0]}


def test_the_distinct_terms_of_a_namespace_about_others_are_told_of_whom_they_are() -> None:
    def wide(app: str, namespace: str = "t") -> PodInfo:
        return pod(app).namespace(namespace).away("host", selector(app=app), namespace_selector=selector()).placed()

    found = terms()
    for app in ("x", "x", "y"):
        found.shift(wide(app), 0, domain_of, 1)
    found.shift(pod("own").namespace("t").away("host", selector(app="own")).placed(), 0, domain_of, 1)
    seen = [found.owned_with(one) for one in (wide("x"), wide("z"), wide("z", "u"), holder("zone"), WEB)]
    assert seen == [0, 3, 1, 0, 0]
    for app in ("x", "x"):
        found.shift(wide(app), 0, domain_of, -1)
    assert [found.owned_with(wide(app)) for app in ("x", "z")] == [2, 2]


def test_a_pod_brings_to_terms_that_are_counted_as_one_what_it_brings_to_each() -> None:
    found = TermCounts(_namespace_labels, crowded=5)
    for at in range(1, 60, 4):
        found.shift(_meaning_nearly_all(at), 0, domain_of, 1)
    one = _meaning_nearly_all(1)
    brings = found.brought_by(one)
    assert brings
    assert [term.brought(brings) for term in found.about(one) if term.key == "host"] == [-2]


def test_a_pod_brings_to_terms_that_are_counted_as_one_nothing_of_what_it_brings_to_others() -> None:
    found = TermCounts(_namespace_labels, crowded=5)
    for at in (*range(1, 60, 4), *range(2, 60, 4)):
        found.shift(_meaning_nearly_all(at), 0, domain_of, 1)
    one = _both(_meaning_nearly_all(1), _meaning_nearly_all(2))
    brings = found.brought_by(one)
    assert brings
    about = [(term.key, amount) for term in found.about(one) if (amount := term.brought(brings))]
    assert sorted(about) == [("host", -2), ("zone", -3)]


def test_who_looked_at_a_sum_that_is_kept_up_to_date_no_more_looks_again() -> None:
    sums, first, second = LiveSums(limit=1), TermSum("zone", terms={}), TermSum("host", terms={})
    seen = sums.use(first).version
    assert sums.use(first).version == seen
    sums.use(second)
    assert first.version != seen


@pytest.mark.parametrize("crowded", [1, 10**6])
def test_a_pod_whose_labels_are_not_told_is_no_measure_for_one_that_has_none(crowded: int) -> None:
    """Terms by expressions mean nobody of whom it is not known which labels he has."""
    found = TermCounts(_namespace_labels, crowded=crowded)
    for key in ("zone", "host", "rack"):
        without = LabelSelector({}, (Requirement("tier", "DoesNotExist", ()),))
        found.shift(pod("p").away(key, without).placed(), 0, domain_of, 1)
    cut, bare = (pod("q").set(labels_cut=told).placed() for told in (True, False))
    assert [len(found.about(one)) for one in (cut, bare, cut)] == [0, 3, 0]
