"""A fleet of agents that dial, and two gateway actors at one port."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from dispatcher.service.gateway.authority import ensure
from tests.service.gateway.actors import CLUSTERS, Fleet, held_port


@pytest.fixture(scope="module")
def fleet_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("certificates")
    ensure(folder, ["localhost"], CLUSTERS)
    return folder


@pytest.fixture
def port() -> Iterator[int]:
    with held_port() as port:
        yield port


@pytest.fixture
def other_port() -> Iterator[int]:
    with held_port() as port:
        yield port


@pytest.fixture
async def fleet(fleet_folder: Path, port: int) -> AsyncIterator[Fleet]:
    fleet = Fleet(fleet_folder, port)
    for actor in fleet.actors.values():
        await actor.begin()
    yield fleet
    for actor in fleet.actors.values():
        await actor.kill()
