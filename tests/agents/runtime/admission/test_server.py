"""The webhook as a process: TLS, what it serves, and a certificate that is renewed."""

import asyncio
import json
import signal
import ssl
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
import trustme
from aiohttp.test_utils import TestClient, TestServer
from trustme import KeyType

from agents.runtime.admission import server
from agents.runtime.admission.server import LARGEST, MOST_LARGE, Certificate, application
from tests.agents.runtime.admission.cases import ASKS, pod


def write(authority: trustme.CA, folder: Path, kind: KeyType = KeyType.ECDSA) -> tuple[Path, Path]:
    pair = authority.issue_cert("127.0.0.1", key_type=kind)
    certificate, key = folder / "tls.crt", folder / "tls.key"
    pair.cert_chain_pems[0].write_to_path(certificate)
    pair.private_key_pem.write_to_path(key)
    return certificate, key


@pytest.fixture
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def served(authority: trustme.CA, tmp_path: Path) -> Iterator[str]:
    certificate, key = write(authority, tmp_path)
    files = (f"--cert-file={certificate}", f"--key-file={key}", "--port=0")
    process = subprocess.Popen(
        [sys.executable, "-m", "dispatcher.cli.main", "admit", *files], stderr=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    yield json.loads(process.stderr.readline())["address"]
    process.send_signal(signal.SIGTERM)
    assert process.wait(10) == 0
    process.stderr.close()


def test_it_answers_over_tls_and_ends_at_a_signal(served: str, authority: trustme.CA) -> None:
    context = ssl.create_default_context()
    authority.configure_trust(context)
    with httpx.Client(verify=context, trust_env=False) as client:
        review = {"request": {"uid": "u", "kind": {"kind": "Pod"}, "object": pod(ASKS)}}
        assert client.post(served, json=review).json()["response"]["patchType"] == "JSONPatch"
        assert client.post(served, content=b"nothing").status_code == 400
        assert client.get(served.replace("/admit", "/livez")).text == "ok"
        assert client.get(served).status_code == 405


async def test_what_is_larger_than_any_pod_is_not_taken_in() -> None:
    async with TestClient(TestServer(application())) as client:
        answered = await client.post("/admit", data=b"x" * (LARGEST + 1))
        assert answered.status == 413


def serial(certificate: Certificate, authority: trustme.CA) -> str:
    """The serial number that a new connection sees."""
    trusting = ssl.create_default_context()
    authority.configure_trust(trusting)
    to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = trusting.wrap_bio(to_client, to_server, server_hostname="127.0.0.1")
    server = certificate.context.wrap_bio(to_server, to_client, server_side=True)
    for _ in range(3):
        for side in (client, server):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
    found = client.getpeercert()
    assert found
    return str(found["serialNumber"])


def test_a_renewed_certificate_is_served_to_the_next_connection(authority: trustme.CA, tmp_path: Path) -> None:
    certificate = Certificate(*write(authority, tmp_path))
    before = serial(certificate, authority)
    assert not certificate.refresh()
    write(authority, tmp_path)
    assert certificate.refresh()
    assert serial(certificate, authority) != before


def test_half_a_renewal_leaves_what_was_served(authority: trustme.CA, tmp_path: Path) -> None:
    certificate = Certificate(*write(authority, tmp_path))
    before = serial(certificate, authority)
    authority.issue_cert("127.0.0.1").private_key_pem.write_to_path(tmp_path / "tls.key")
    with pytest.raises(ssl.SSLError):
        certificate.refresh()
    assert serial(certificate, authority) == before
    write(authority, tmp_path)
    assert certificate.refresh()
    assert serial(certificate, authority) != before


def test_the_command_says_which_file_is_missing(tmp_path: Path) -> None:
    words = ("admit", f"--cert-file={tmp_path / 'none.crt'}", f"--key-file={tmp_path / 'none.key'}")
    done = subprocess.run(
        [sys.executable, "-m", "dispatcher.cli.main", *words], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "none.crt" in done.stderr


async def test_large_reviews_that_never_end_take_little_memory_and_keep_small_ones_from_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(server, "READ_S", 1_000.0)
    head = f"POST /admit HTTP/1.1\r\nHost: x\r\nContent-Length: {LARGEST}\r\n\r\n".encode()
    async with TestClient(TestServer(application())) as client:
        port = client.server.port
        held = [await asyncio.open_connection("127.0.0.1", port) for _ in range(2 * MOST_LARGE)]
        for _, writer in held:
            writer.write(head)
        refused = {asyncio.create_task(reader.readline()) for reader, _ in held}
        async with asyncio.timeout(10):
            while sum(task.done() for task in refused) < MOST_LARGE:  # noqa: ASYNC110 - it has no event
                await asyncio.sleep(0.01)
        assert {task.result() for task in refused if task.done()} == {b"HTTP/1.1 503 Service Unavailable\r\n"}
        small = await client.post(
            "/admit", json={"request": {"uid": "u", "kind": {"kind": "Pod"}, "object": pod(ASKS)}}
        )
        assert small.status == 200
        for _, writer in held:
            writer.close()
        await asyncio.gather(*refused, return_exceptions=True)


async def test_a_review_that_does_not_come_to_its_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "READ_S", 0.05)
    async with TestClient(TestServer(application())) as client:
        reader, writer = await asyncio.open_connection("127.0.0.1", client.server.port)
        writer.write(b"POST /admit HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n{")
        assert await asyncio.wait_for(reader.readline(), 10) == b"HTTP/1.1 408 Request Timeout\r\n"
        writer.close()


@pytest.mark.parametrize("kinds", [(KeyType.ECDSA, KeyType.RSA), (KeyType.RSA, KeyType.ECDSA)])
def test_a_certificate_with_another_kind_of_key_replaces_the_one_before(
    kinds: tuple[KeyType, KeyType], authority: trustme.CA, tmp_path: Path
) -> None:
    certificate = Certificate(*write(authority, tmp_path, kinds[0]))
    before = serial(certificate, authority)
    write(authority, tmp_path, kinds[1])
    assert certificate.refresh()
    assert serial(certificate, authority) != before
