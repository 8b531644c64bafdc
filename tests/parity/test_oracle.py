"""Our core agrees with the oracle of kube-scheduler's documented rules on every generated pod and fleet."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings

from tests.parity.case import Case
from tests.parity.generate import Size, cases, preemption_case, seeded_case
from tests.parity.intended import GATES
from tests.parity.oracle.defaulting import defaulted
from tests.parity.ours import OurSide
from tests.parity.run import Report, examine, oracle_answers
from tests.parity.seeds import SEED
from tests.parity.shrink import shrink

pytestmark = pytest.mark.timeout(1800)  # what takes ten seconds alone takes minutes beside other work


def compared(case: Case, report: Report) -> Report:
    examine(OurSide(case), case, oracle_answers(case), report)
    return report


def run(fleets: int, folder: Path) -> Report:
    """So many fleets of the seed, until the first that differs: that one is made small and kept."""
    report = Report(folder)
    for index in range(fleets):
        case = defaulted(seeded_case(SEED, f"f{index}", Size()))
        compared(case, report)
        if report.found:
            small = shrink(case, lambda one: bool(compared(one, Report(folder / "tries")).found))
            pytest.fail(f"seed {SEED}, fleet {index}: {compared(small, Report(folder / 'small')).differing()}")
    # The oracle has the other rows of docs/parity.md built in, so that what they explain is checked, too.
    assert set(report.rows) <= {GATES}
    return report


def test_our_core_agrees_with_the_oracle_on_generated_fleets(tmp_path: Path) -> None:
    report = run(90, tmp_path)
    assert report.counts["placed"] > 200
    assert report.counts["pending"] > 100
    assert report.counts["scores"] > 3000


def preempted(first: int, cases: int, folder: Path) -> Report:
    """Full nodes, budgets, and one pod that may evict: who goes, where, and what is said where nobody does."""
    report = Report(folder)
    for index in range(first, first + cases):
        case = defaulted(preemption_case(SEED, f"e{index}"))
        compared(case, report)
        assert not report.found, f"seed {SEED}, preemption {index}: {report.differing()}"
    assert set(report.rows) <= {GATES, "ties of victims"}
    return report


def test_our_core_evicts_as_the_oracle_does(tmp_path: Path) -> None:
    report = preempted(0, 60, tmp_path)
    assert report.counts["pending"] > 25


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(case=cases())
def test_our_core_agrees_with_the_oracle_on_what_hypothesis_finds(case: Case, tmp_path: Path) -> None:
    report = compared(defaulted(case), Report(tmp_path))
    assert not report.found, report.differing()


@pytest.mark.real
@pytest.mark.parity
@pytest.mark.timeout(1800)
def test_our_core_agrees_with_the_oracle_on_twenty_thousand_pods(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report = run(2300, tmp_path)
    evictions = preempted(60, 1000, tmp_path)
    with capsys.disabled():
        print(f"\nevictions as the oracle has them, seed {SEED}: {evictions.summary()}")
        print(f"\nparity with the oracle, seed {SEED}: {report.summary()}")
    assert report.counts["cases"] >= 20_000
