"""Of generated fleets and gangs, the same start here as under a real kube-scheduler with its gates for groups."""

import pytest

from localfleet.controlplane import binaries
from localfleet.controlplane.binaries import release, selected_minor
from tests.parity.groups.compare import DOMAIN, NARROWER, TIES, GroupReport, examine
from tests.parity.groups.generate import gangs_case
from tests.parity.groups.kube import kube_groups
from tests.parity.seeds import SEED

pytestmark = [
    pytest.mark.real,
    pytest.mark.parity,
    pytest.mark.timeout(900),
    pytest.mark.skipif(release(selected_minor()) < (1, 37), reason="Kubernetes has PodGroups of v1beta1 since 1.37"),
]
FLEETS = 12


def test_gangs_of_twelve_fleets_start_as_under_kube_scheduler(capsys: pytest.CaptureFixture[str]) -> None:
    """In each domain: the same members, nodes and scores; all of min_count or nobody, and no fewer than there."""
    if reason := binaries.unavailable():
        pytest.skip(reason)
    cases = [gangs_case(SEED, f"g{index}") for index in range(FLEETS)]
    with kube_groups(cases) as scheduler:
        played = [scheduler.play(case) for case in cases]
    report = GroupReport()
    for fleet, verdicts in played:
        examine(fleet, verdicts, report)
    with capsys.disabled():
        print(f"\ngangs before kube-scheduler, seed {SEED}: {report.summary()}")
    assert not report.found, f"seed {SEED}: our core differs:\n{report.differing()}"
    assert set(report.rows) <= {DOMAIN, NARROWER, TIES}
    assert report.counts["whole"] > FLEETS
    assert report.counts["waiting"] > FLEETS
    assert min(report.counts[one] for one in ("basic", "beside members that run")) > FLEETS / 2
    assert report.counts["tables"] > 10 * FLEETS
