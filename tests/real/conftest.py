"""Every test here needs real control planes: three as a fleet, its agents with the rights of the chart alone."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.charts.fixtures import build_helm, helm
from tests.charts.rendering import Helm
from tests.controlplane import fixtures
from tests.controlplane.fixtures import ControlPlanes, control_plane, pytest_runtest_makereport
from tests.real.fleet import RealFleet, start
from tests.saying import say
from tests.system.harness import System

__all__ = ["control_plane", "helm", "pytest_runtest_makereport", "say"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.real)
            if item.get_closest_marker("timeout") is None:
                item.add_marker(pytest.mark.timeout(3600))


def pytest_collection_finish(session: pytest.Session) -> None:
    """Helm is built with the planes: it renders the rights of the agents."""
    fixtures.pytest_collection_finish(session)
    wanted = any(fixtures.FIXTURE in getattr(item, "fixturenames", ()) for item in session.items)
    if wanted and not session.config.option.collectonly:
        build_helm(session)


@pytest.fixture(scope="module")
def fleet(control_plane: ControlPlanes, helm: Helm, tmp_path_factory: pytest.TempPathFactory) -> RealFleet:
    """Three planes of 100 nodes; on each, our rights and admission policies as the chart has them."""
    return start(control_plane, helm, tmp_path_factory.mktemp("fleet"))


@pytest.fixture(scope="module")
def system(fleet: RealFleet, tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    """The fleet with a dispatcher."""
    with System(tmp_path_factory.mktemp("dispatcher"), fleet, readings=False) as started:
        started.wait_ready()
        yield started
