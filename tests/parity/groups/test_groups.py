"""Of generated fleets and gangs, the same start here as under a real kube-scheduler with its gates for groups; and on
full fleets the same may evict others.
"""

from collections.abc import Iterator

import pytest

from localfleet.controlplane import binaries
from localfleet.controlplane.binaries import release, selected_minor
from tests.parity.groups.case import GroupCase
from tests.parity.groups.compare import DOMAIN, NARROWER, TIES, WHOM, GroupReport, examine
from tests.parity.groups.generate import gangs_case
from tests.parity.groups.generate_full import full_case
from tests.parity.groups.kube import KubeGroups, kube_groups
from tests.parity.seeds import SEED

pytestmark = [
    pytest.mark.real,
    pytest.mark.parity,
    pytest.mark.timeout(900),
    pytest.mark.skipif(release(selected_minor()) < (1, 37), reason="Kubernetes has PodGroups of v1beta1 since 1.37"),
]
FLEETS = 12
STARTING = [gangs_case(SEED, f"g{index}") for index in range(FLEETS)]
EVICTING = [full_case(SEED, f"e{index}") for index in range(FLEETS)]


@pytest.fixture(scope="module")
def scheduler() -> Iterator[KubeGroups]:
    if reason := binaries.unavailable():
        pytest.skip(reason)
    with kube_groups([*STARTING, *EVICTING]) as found:
        yield found


def compared(scheduler: KubeGroups, cases: list[GroupCase], capsys: pytest.CaptureFixture[str]) -> GroupReport:
    """Nothing differs but by the rows of docs/parity.md."""
    report = GroupReport()
    for case in cases:
        examine(*scheduler.play(case), report, case.running)
    with capsys.disabled():
        print(f"\ngangs before kube-scheduler, seed {SEED}: {report.summary()}")
    assert not report.found, f"seed {SEED}: our core differs:\n{report.differing()}"
    return report


def test_gangs_of_twelve_fleets_start_as_under_kube_scheduler(
    scheduler: KubeGroups, capsys: pytest.CaptureFixture[str]
) -> None:
    """In each domain: the same members, nodes and scores; all of min_count or nobody, and no fewer than there."""
    report = compared(scheduler, STARTING, capsys)
    assert set(report.rows) <= {DOMAIN, NARROWER, TIES}
    assert report.counts["whole"] > FLEETS
    assert report.counts["waiting"] > FLEETS
    assert min(report.counts[one] for one in ("basic", "beside members that run")) > FLEETS / 2
    assert report.counts["tables"] > 10 * FLEETS


def test_gangs_of_twelve_full_fleets_evict_as_under_kube_scheduler(
    scheduler: KubeGroups, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same gangs find places once all of lower priority are gone; each side evicts whom its rule says."""
    report = compared(scheduler, EVICTING, capsys)
    assert set(report.rows) <= {DOMAIN, NARROWER, TIES, WHOM}
    assert report.counts["evict others"] > FLEETS
    assert report.counts["victims"] > 4 * FLEETS
    assert report.counts["waiting"] - report.counts["evict others"] > FLEETS / 2
