"""Helm for the tests of the charts, and real control planes to install them on."""

from typing import Any

import pytest

from tests.charts.fixtures import build_helm, helm
from tests.charts.rendering import MISSING
from tests.controlplane import fixtures
from tests.controlplane.fixtures import FIXTURE, control_plane

__all__ = ["control_plane", "helm"]


def pytest_collection_finish(session: pytest.Session) -> None:
    """Who installs charts on control planes has them built, and Helm too; who only renders takes the Helm there is."""
    fixtures.pytest_collection_finish(session)
    wanted = any({FIXTURE, "helm"} <= set(getattr(item, "fixturenames", ())) for item in session.items)
    if wanted and not session.config.option.collectonly:
        build_helm(session)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Any:
    """Skips for want of Helm are all placed here, so that the summary folds them into one line."""
    report: pytest.TestReport = yield from fixtures.pytest_runtest_makereport()
    if report.skipped and isinstance(report.longrepr, tuple) and MISSING in report.longrepr[2]:
        report.longrepr = (__file__, 0, report.longrepr[2])
    return report
