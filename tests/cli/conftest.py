"""Fixtures of the tests that operate on clusters."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from localfleet.embedded.fleet import ClusterSpec, EmbeddedFleet
from tests.charts.fixtures import helm
from tests.cli.cluster_world import World

__all__ = ["helm"]


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedFleet]:
    specs = [ClusterSpec(name, nodes=1) for name in ("east", "west")]
    with EmbeddedFleet.start(specs, tmp_path_factory.mktemp("fleet")) as found:
        yield found


@pytest.fixture
def world(fleet: EmbeddedFleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    for module in ("drain", "actions", "executor_words"):
        monkeypatch.setattr(f"dispatcher.cli.operate.{module}.POLL_S", 0.05)
    monkeypatch.setattr("dispatcher.cli.operate.drain.AGAIN_S", 0.2)
    made = World(fleet, tmp_path)
    yield made
    made.wipe()
    for api in made.apis.values():
        api.close()
