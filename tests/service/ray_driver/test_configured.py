"""Where Ray is by the configuration: in the dispatcher's process, or apart."""

from contextlib import ExitStack
from pathlib import Path
from unittest import mock

import pytest
from structlog.testing import capture_logs

from dispatcher.config import ConfigError, load_config
from dispatcher.service import run
from dispatcher.service.ray_runtime import RayRuntime

CLUSTERS = "clusters: [{name: east}, {name: west}]\n"


def written(folder: Path, text: str) -> Path:
    file = folder / "dispatcher.yaml"
    file.write_text(CLUSTERS + text)
    return file


def test_a_driver_joins_in_the_dispatchers_place_and_not_beside_it(tmp_path: Path) -> None:
    both = written(tmp_path, 'ray: {address: "127.0.0.1:6379", driver: /run/gd/socket}')
    with pytest.raises(ConfigError, match="address and driver exclude each other: it is the driver that joins Ray"):
        load_config(both)


def test_the_path_of_the_driver_is_relative_to_the_file(tmp_path: Path) -> None:
    config = load_config(written(tmp_path, "ray: {driver: socket}"))
    assert config.ray.driver == str(tmp_path / "socket")


@pytest.mark.parametrize(
    ("ray", "warns"), [('{address: "127.0.0.1:6379"}', True), ("{}", False)], ids=["joined", "ours"]
)
def test_a_dispatcher_that_joins_ray_itself_says_what_that_means(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ray: str, warns: bool
) -> None:
    monkeypatch.setattr(RayRuntime, "start", mock.Mock())
    with capture_logs() as lines, ExitStack() as cleanup:
        run._start_ray(load_config(written(tmp_path, f"ray: {ray}")), cleanup)
    told = [line for line in lines if "read its signing key" in line["event"] and "via: gateway" in line["fix"]]
    assert bool(told) == warns
