"""What a kubeconfig holds inline is in no file of a dispatcher and its agents; a clean end leaves no file at all."""

import os
import shutil
import signal
import tempfile
from base64 import b64encode
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
import trustme

from localfleet.embedded import kubeconfig
from tests.system.harness import Embedded, System, specs


@pytest.fixture
def temporary() -> Iterator[Path]:
    """For temporary files of the dispatcher; short, since Ray's sockets lie there."""
    path = tempfile.mkdtemp(prefix="keys-")
    yield Path(path)
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture
def alone(tmp_path: Path, temporary: Path) -> Iterator[System]:
    """One cluster, whose user has a client certificate in the kubeconfig, and a dispatcher."""
    fleet = Embedded.start(specs(2)[:1], tmp_path / "fleet")
    config, made = kubeconfig.read(fleet.kubeconfig), trustme.CA().issue_cert("operator")
    for user in config["users"]:
        user["user"]["client-certificate-data"] = b64encode(made.cert_chain_pems[0].bytes()).decode()
        user["user"]["client-key-data"] = b64encode(made.private_key_pem.bytes()).decode()
    kubeconfig.write(fleet.kubeconfig, config)
    with System(tmp_path, fleet, env={"TMPDIR": str(temporary)}) as system:
        system.wait_ready()
        yield system


def with_certificates_or_keys(folder: Path) -> list[Path]:
    found = []
    for place, _, names in os.walk(folder):
        for path in (Path(place) / name for name in names):
            with suppress(OSError):  # a socket, or gone by now
                if path.read_bytes().startswith(b"-----BEGIN"):
                    found.append(path)
    return found


def test_no_key_is_in_a_file_while_it_runs_after_an_end_and_after_a_kill(alone: System, temporary: Path) -> None:
    assert list(temporary.glob("gd-ray-*"))
    assert with_certificates_or_keys(temporary) == []
    alone.dispatcher.send_signal(signal.SIGTERM)
    alone.wait_ended()
    assert os.listdir(temporary) == []
    alone.start_again()
    alone.wait_ready()
    alone.dispatcher.kill()
    alone.dispatcher.wait(timeout=10)
    assert with_certificates_or_keys(temporary) == []
