"""Terms of placed pods: their numbers hold while somebody has them, and those that nobody has are bounded."""

from dispatcher.scheduling.fleet.terms import TermCounts
from dispatcher.scheduling.framework import Placed
from dispatcher.scheduling.framework.pod_sets import TermKind
from tests.builders import pod, selector

WEB = pod("asks").labels(app="web").placed()


def holder(key: str = "zone", weight: int = 0) -> Placed:
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
