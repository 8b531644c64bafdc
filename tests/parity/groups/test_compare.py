"""What the comparison of groups finds, and that our core agrees with an oracle of kube-scheduler's algorithm."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.parity.case import Case
from tests.parity.groups.case import Gang, GroupCase, GroupVerdict
from tests.parity.groups.compare import DOMAIN, NARROWER, TIES, WHOM, GroupReport, examine
from tests.parity.groups.generate import gangs_case
from tests.parity.groups.generate_full import full_case
from tests.parity.groups.oracle import after, oracle_verdict
from tests.parity.oracle.defaulting import defaulted
from tests.parity.seeds import SEED


def read(case: GroupCase) -> tuple[Case, list[Gang]]:
    """As an API server makes it."""
    pods = [pod for gang in case.gangs for pod in gang.members]
    made = defaulted(replace(case.fleet, pending=pods))
    pending = iter(made.pending)
    gangs = [Gang(gang.group, [next(pending) for _ in gang.members], gang.placed) for gang in case.gangs]
    return replace(made, pending=[]), gangs


def told(case: GroupCase) -> tuple[Case, list[GroupVerdict]]:
    """What the oracle says of its gangs, one after the other."""
    fleet, gangs = read(case)
    now, verdicts = fleet, list[GroupVerdict]()
    groups = [*case.running, *(gang.group for gang in gangs)]
    for gang in gangs:
        of_group = gang.members[0]["spec"]["schedulingGroup"]
        gang.placed = [pod["spec"]["nodeName"] for pod in now.bound if pod["spec"].get("schedulingGroup") == of_group]
        verdicts.append(oracle_verdict(now, gang, groups))
        now = after(now, verdicts[-1])
    return fleet, verdicts


def test_our_core_agrees_with_the_oracle_of_groups() -> None:
    report = GroupReport()
    for index in range(2):
        examine(*told(gangs_case(SEED, f"u{index}")), report)
    assert not report.found, report.differing()
    assert set(report.rows) <= {DOMAIN, NARROWER, TIES}
    assert report.counts["whole"] > 3
    assert report.counts["waiting"] > 0


def test_our_core_agrees_with_the_oracle_of_evictions() -> None:
    report = GroupReport()
    for index in range(2):
        case = full_case(SEED, f"v{index}")
        examine(*told(case), report, case.running)
    assert not report.found, report.differing()
    assert set(report.rows) <= {DOMAIN, NARROWER, TIES, WHOM}
    assert report.counts["evict others"] > 1


def _fewer(verdict: GroupVerdict) -> None:
    verdict.victims -= {min(verdict.victims)}


def _nobody(verdict: GroupVerdict) -> None:
    verdict.placed, verdict.shares, verdict.victims, verdict.chosen = {}, {}, frozenset(), None


@pytest.mark.parametrize(("changed", "what"), [(_fewer, "victims by the rule of kube-scheduler"), (_nobody, "shares")])
def test_other_evictions_are_found(changed: Callable[[GroupVerdict], None], what: str) -> None:
    case = full_case("parity", "v0")
    fleet, verdicts = told(case)
    first = next(one for one in verdicts if one.emptied and one.emptied.victims)
    assert first.emptied is not None
    changed(first.emptied)
    report = GroupReport()
    examine(fleet, verdicts, report, case.running)
    assert what in {one.what for one in report.found if one.pod == first.gang.key}


def _share(verdict: GroupVerdict) -> None:
    verdict.shares = dict.fromkeys(verdict.shares, 50)


def _refusal(verdict: GroupVerdict) -> None:
    verdict.placed, verdict.shares, verdict.chosen = {}, {}, None


def _score(verdict: GroupVerdict) -> None:
    first = next(one for one in verdict.tables[verdict.chosen or ""] if one.totals)
    assert first.totals is not None
    first.totals[next(iter(first.totals))] += 1


def _node(verdict: GroupVerdict) -> None:
    first = next(one for one in verdict.tables[verdict.chosen or ""] if one.totals)
    assert first.totals is not None
    verdict.placed[first.pod] = min(first.totals, key=lambda node: (first.totals or {})[node])


@pytest.mark.parametrize(
    ("changed", "what"), [(_share, "shares"), (_refusal, "shares"), (_score, "total"), (_node, "node")]
)
def test_what_differs_is_found(changed: Callable[[GroupVerdict], None], what: str) -> None:
    fleet, verdicts = told(gangs_case("parity", "u0"))
    first = next(one for one in verdicts if len(one.shares) > 1 and any(t.totals for t in one.tables[one.chosen or ""]))
    changed(first)
    report = GroupReport()
    examine(fleet, verdicts[: verdicts.index(first) + 1], report)
    assert what in {one.what for one in report.found}
