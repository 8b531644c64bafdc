"""Helm for the tests of the charts, and real control planes to install them on."""

from contextlib import suppress
from typing import Any

import pytest

from agents.controlplane import binaries
from tests.charts.rendering import MISSING, Helm
from tests.controlplane import fixtures, programs
from tests.controlplane.fixtures import FIXTURE, control_plane

__all__ = ["control_plane"]


def pytest_collection_finish(session: pytest.Session) -> None:
    """Who installs charts on control planes has them built, and Helm too; who only renders takes the Helm there is."""
    fixtures.pytest_collection_finish(session)
    wanted = any({FIXTURE, "helm"} <= set(getattr(item, "fixturenames", ())) for item in session.items)
    if wanted and not session.config.option.collectonly:
        reporter = session.config.pluginmanager.get_plugin("terminalreporter")
        with suppress(binaries.BinariesUnavailableError, binaries.BuildFailedError):
            binaries.ensure(("helm",), progress=reporter.write_line if reporter else None)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Any:
    """Skips for want of Helm are all placed here, so that the summary folds them into one line."""
    report: pytest.TestReport = yield from fixtures.pytest_runtest_makereport()
    if report.skipped and isinstance(report.longrepr, tuple) and MISSING in report.longrepr[2]:
        report.longrepr = (__file__, 0, report.longrepr[2])
    return report


@pytest.fixture(scope="module")
def helm(tmp_path_factory: pytest.TempPathFactory) -> Helm:
    """The real Helm, or a skip."""
    program = programs.find("helm")
    if program is None:
        pytest.skip(MISSING)
    return Helm(program, tmp_path_factory.mktemp("helm"))
