"""Helm for the tests of the charts, and real control planes to install them on."""

import pytest

from tests.charts.rendering import MISSING, Helm, find_helm
from tests.controlplane.fixtures import control_plane, pytest_collection_finish, pytest_runtest_makereport

__all__ = ["control_plane", "pytest_collection_finish", "pytest_runtest_makereport"]


@pytest.fixture(scope="module")
def helm(tmp_path_factory: pytest.TempPathFactory) -> Helm:
    """The real Helm, or a skip."""
    program = find_helm()
    if program is None:
        pytest.skip(MISSING)
    return Helm(program, tmp_path_factory.mktemp("helm"))
