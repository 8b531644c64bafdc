"""Real control planes for tests, as pytest's own things. A conftest takes them by name:

    from tests.controlplane.fixtures import control_plane, pytest_collection_finish, pytest_runtest_makereport

Programs are built before the first test (a test's time limit does not count it), or the tests that need them are
skipped with one line that says what is missing. `KUBERNETES_MINOR=1.35` selects another Kubernetes for all planes.
"""

import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from localfleet.controlplane import binaries
from localfleet.controlplane.binaries import selected_minor
from localfleet.controlplane.components import PlaneSpec
from localfleet.controlplane.plane import ControlPlane
from tests.controlplane import realnode_host

FIXTURE = "control_plane"
_SECTION = "control planes"
_FOLDED = (binaries.UNAVAILABLE, realnode_host.UNAVAILABLE)
_RUNNING: list[ControlPlane] = []
_KEPT: set[Path] = set()


class ControlPlanes:
    """Starts planes that live until the end of the module, or until their `stop`."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._planes: list[ControlPlane] = []

    def __call__(self, name: str, **options: Any) -> ControlPlane:
        """One plane with the fields of PlaneSpec: `nodes`, `scheduler`, `minor`, ..."""
        return self.together(PlaneSpec(name, **{"minor": selected_minor(), **options}))[0]

    def together(self, *specs: PlaneSpec) -> list[ControlPlane]:
        """Several planes, started at once."""
        started = [ControlPlane(spec, self._directory / spec.name) for spec in specs]
        self._planes += started
        _RUNNING.extend(started)
        with ThreadPoolExecutor(len(started)) as pool:
            list(pool.map(ControlPlane.start, started))
        return started

    def close(self) -> None:
        """Stop all; remove their files, or after a failed test keep the logs."""
        for plane in self._planes:
            plane.stop()
            _RUNNING.remove(plane)
            shutil.rmtree(plane.directory / "etcd" if plane.directory in _KEPT else plane.directory, ignore_errors=True)


@pytest.fixture(scope="module")
def control_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlanes]:
    """Starts real control planes: `control_plane("east", nodes=100, scheduler=True)`."""
    if reason := binaries.unavailable(minor=selected_minor()):
        pytest.skip(reason)
    planes = ControlPlanes(tmp_path_factory.mktemp("planes"))
    yield planes
    planes.close()


def pytest_collection_finish(session: pytest.Session) -> None:
    """Build what the selected tests need, with a line before and after each build; a failure is told by the fixture."""
    wanted = any(FIXTURE in getattr(item, "fixturenames", ()) for item in session.items)
    if wanted and not session.config.option.collectonly:
        reporter = session.config.pluginmanager.get_plugin("terminalreporter")
        with suppress(binaries.BinariesUnavailableError, binaries.BuildFailedError, ValueError):
            binaries.ensure(minor=selected_minor(), progress=reporter.write_line if reporter else None)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Any:
    """A failed test shows the ends of the logs of the planes that run, and their files are kept.

    Skips for want of programs, or of leave to run containers, are all placed here: the summary makes one line of them.
    """
    report: pytest.TestReport = yield
    if report.skipped and isinstance(report.longrepr, tuple) and any(why in report.longrepr[2] for why in _FOLDED):
        report.longrepr = (__file__, 0, report.longrepr[2])
    if report.failed and _RUNNING and _SECTION not in dict(report.sections):
        _KEPT.update(plane.directory for plane in _RUNNING)
        report.sections.append((_SECTION, "\n".join(f"== {plane.name} ==\n{plane.tails()}" for plane in _RUNNING)))
    return report
