"""Several clusters as processes: started together, broken one by one."""

import ssl
import stat
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from localfleet.embedded import kubeconfig
from localfleet.embedded.fleet import ClusterSpec, EmbeddedFleet, FleetError


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedFleet]:
    """Two small clusters."""
    specs = [ClusterSpec(name, nodes=1) for name in ("east", "west")]
    with EmbeddedFleet.start(specs, tmp_path_factory.mktemp("fleet")) as found:
        yield found


def healthy(fleet: EmbeddedFleet, name: str, timeout_s: float = 10.0) -> bool:
    """Whether a cluster's API answers."""
    trust = ssl._create_unverified_context()
    try:
        with urllib.request.urlopen(fleet.server(name) + "/readyz", timeout=timeout_s, context=trust) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, TimeoutError):
        return False


def test_there_is_one_private_kubeconfig_with_a_context_a_cluster(fleet: EmbeddedFleet) -> None:
    config = kubeconfig.read(fleet.kubeconfig)
    assert fleet.contexts == ["east", "west"]
    assert [entry["name"] for entry in config["contexts"]] == ["east", "west"]
    assert len({entry["cluster"]["server"] for entry in config["clusters"]}) == 2
    assert stat.S_IMODE(fleet.kubeconfig.stat().st_mode) == 0o600


def test_a_killed_cluster_leaves_the_others_alone_and_comes_back(fleet: EmbeddedFleet) -> None:
    server = fleet.server("west")
    fleet.kill("west")
    assert fleet.pid("west") is None
    assert (healthy(fleet, "west"), healthy(fleet, "east")) == (False, True)
    fleet.restart("west")
    assert healthy(fleet, "west")
    assert fleet.server("west") == server


def test_a_paused_cluster_hangs_until_it_is_resumed(fleet: EmbeddedFleet) -> None:
    fleet.pause("west")
    assert not healthy(fleet, "west", timeout_s=0.3)
    fleet.resume("west")
    assert healthy(fleet, "west")


def test_restarting_a_running_cluster_replaces_its_process(fleet: EmbeddedFleet) -> None:
    before = fleet.pid("east")
    fleet.restart("east")
    assert fleet.pid("east") not in (None, before)
    assert healthy(fleet, "east")


def test_a_cluster_that_cannot_start_is_named_with_the_end_of_its_log_and_none_is_left(tmp_path: Path) -> None:
    specs = [ClusterSpec("good", nodes=1), ClusterSpec("bad", options=("--node-shape", "cpus=1"))]
    with pytest.raises(FleetError, match=r"cluster bad ended with code 2[\s\S]*'cpus=1' is not KEY=VALUE"):
        EmbeddedFleet.start(specs, tmp_path)
    with EmbeddedFleet.start([ClusterSpec("good", nodes=1)], tmp_path) as again:
        assert healthy(again, "good")


@pytest.mark.parametrize("names", [[], ["twin", "twin"]])
def test_cluster_names_must_differ(tmp_path: Path, names: list[str]) -> None:
    with pytest.raises(FleetError, match="cluster names must differ"):
        EmbeddedFleet.start([ClusterSpec(name) for name in names], tmp_path)


def test_stopping_twice_is_harmless(tmp_path: Path) -> None:
    fleet = EmbeddedFleet.start([ClusterSpec("brief", nodes=1)], tmp_path)
    fleet.stop()
    fleet.stop()
    assert fleet.pid("brief") is None
