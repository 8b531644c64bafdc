"""Every test here is a system test, with a fleet of its own module."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from localfleet.embedded.fleet import ClusterSpec, EmbeddedFleet
from tests.charts.fixtures import helm
from tests.saying import say
from tests.system.dialled import CLUSTERS
from tests.system.harness import QUICK_NODES, System, specs

__all__ = ["fleet", "helm", "say", "system"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.system)
            item.add_marker(pytest.mark.timeout(1800))


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    """Three Ready clusters and a dispatcher, shared by a module's tests."""
    with System(tmp_path_factory.mktemp("fleet"), specs(options=QUICK_NODES)) as fleet:
        fleet.wait_ready()
        yield fleet


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[EmbeddedFleet]:
    """The embedded clusters of `dialled`, of two nodes each."""
    fleet = EmbeddedFleet.start([ClusterSpec(name, nodes=2) for name in CLUSTERS], tmp_path / "fleet")
    yield fleet
    fleet.stop()
