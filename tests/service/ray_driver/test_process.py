"""The Ray driver's process, where something in it hangs or its node ends."""

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from dispatcher.service.errors import CommandError
from dispatcher.service.ray_driver.process import _empty, _serve, run_ray_driver

_HANGS = """
import asyncio, sys, time
from pathlib import Path
from dispatcher.service.ray_driver import process
process._HANGS_S = 0.2
asyncio.run(process._serve(Path(sys.argv[1]), lambda: time.sleep(60)))
"""


def test_one_that_hangs_ends_and_says_in_what(tmp_path: Path) -> None:
    command = [sys.executable, "-c", _HANGS, str(tmp_path / "s")]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=50)
    assert (ended.returncode, "Timeout" in ended.stderr, "in <lambda>" in ended.stderr) == (1, True, True)


def test_it_ends_when_its_node_has(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="the Ray node ended with 1"):
        asyncio.run(_serve(tmp_path / "s", lambda: "the Ray node ended with 1"))


def test_what_an_earlier_life_has_left_in_its_folder_is_deleted_first(tmp_path: Path) -> None:
    own, other = tmp_path / "ray", tmp_path / "other"
    (own / "session" / "logs").mkdir(parents=True)
    other.mkdir()
    kept = other / "kept"
    kept.write_text("")
    (own / "session" / "logs" / "raylet.out").write_text("old")
    (own / "file").write_text("old")
    (own / "link").symlink_to(other)
    _empty(own)
    assert (list(own.iterdir()), kept.exists()) == ([], True)
    _empty(tmp_path / "none")


def test_a_socket_in_no_folder_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="--socket /nowhere/s: there is no folder /nowhere: make it"):
        run_ray_driver(Path("/nowhere/s"), "127.0.0.1:6379", [])


@pytest.mark.parametrize("address", ["nohost", "nohost:", ":6379", "nohost:gcs", ""])
def test_an_address_without_host_or_port_is_refused_by_its_option(tmp_path: Path, address: str) -> None:
    with pytest.raises(CommandError, match=f"^--address {address!r} is not HOST:PORT: say where Ray's head is"):
        run_ray_driver(tmp_path / "s", address, [])


def test_a_ray_on_another_host_is_joined_with_token_and_tls_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("RAY_AUTH_MODE", raising=False)
    with pytest.raises(CommandError, match=r"^--address head:6379 is not on loopback, and RAY_AUTH_MODE is not set"):
        run_ray_driver(tmp_path / "s", "head:6379", [])
