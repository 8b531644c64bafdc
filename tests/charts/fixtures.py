"""The real Helm as a fixture; a conftest that imports `helm` has it built in `pytest_collection_finish`."""

from contextlib import suppress

import pytest

from localfleet.controlplane import binaries
from tests.charts.rendering import MISSING, Helm
from tests.controlplane import programs


def build_helm(session: pytest.Session) -> None:
    """With a line of progress; what cannot be built is skipped later."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    with suppress(binaries.BinariesUnavailableError, binaries.BuildFailedError):
        binaries.ensure(("helm",), progress=reporter.write_line if reporter else None)


@pytest.fixture(scope="module")
def helm(tmp_path_factory: pytest.TempPathFactory) -> Helm:
    """The real Helm, or a skip."""
    program = programs.find("helm")
    if program is None:
        pytest.skip(MISSING)
    return Helm(program, tmp_path_factory.mktemp("helm"))
