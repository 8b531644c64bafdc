"""Certificates and keys that a kubeconfig or its plugin holds inline are in no file, whatever ends the agent."""

import base64
import json
import os
import ssl
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp
import pytest
import trustme
from aiohttp import web
from kubernetes.aio.config import kube_config

from shared.kube.session import Access, AccessError, ApiSession

OPEN = """
import asyncio, sys
from shared.kube.session import Access, ApiSession

async def main():
    session = await ApiSession.open(Access(sys.argv[1]))
    session.kubelet_tls("", False)
    print("open", flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where temporary files of this process go."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


@dataclass
class Site:
    """A server that only speaks to those with a certificate, and answers with the certificate's name."""

    authority: trustme.CA = field(default_factory=trustme.CA)
    port: int = 0

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self.authority.issue_cert("127.0.0.1").configure_cert(context)
        self.authority.configure_trust(context)
        context.verify_mode = ssl.CERT_REQUIRED
        app = web.Application()
        app.router.add_get("/", _name)
        runner = web.AppRunner(app)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
        self.port = runner.addresses[0][1]
        try:
            yield
        finally:
            await runner.cleanup()

    def pair(self, name: str) -> tuple[bytes, bytes]:
        made = self.authority.issue_cert(name)
        return made.cert_chain_pems[0].bytes(), made.private_key_pem.bytes()

    def inline(self, name: str) -> dict[str, object]:
        certificate, key = self.pair(name)
        return {"client-certificate-data": _base64(certificate), "client-key-data": _base64(key)}

    def plugin(self, folder: Path, name: str) -> dict[str, object]:
        """A user whose program gives certificate and key; with another name, it gives others from now on."""
        certificate, key = (part.decode() for part in self.pair(name))
        status = {"clientCertificateData": certificate, "clientKeyData": key}
        said, version = folder / "said.json", "client.authentication.k8s.io/v1"
        said.write_text(json.dumps({"apiVersion": version, "kind": "ExecCredential", "status": status}))
        return {"exec": {"apiVersion": version, "command": "cat", "args": [str(said)], "interactiveMode": "Never"}}

    def kubeconfig(self, folder: Path, user: dict[str, object]) -> Access:
        path = folder / "kubeconfig"
        authority = _base64(self.authority.cert_pem.bytes())
        cluster = {"server": f"https://127.0.0.1:{self.port}", "certificate-authority-data": authority}
        config = {
            "current-context": "site",
            "clusters": [{"name": "site", "cluster": cluster}],
            "users": [{"name": "me", "user": user}],
            "contexts": [{"name": "site", "context": {"cluster": "site", "user": "me"}}],
        }
        path.write_text(json.dumps(config))
        return Access(str(path))


async def _name(request: web.Request) -> web.Response:
    assert request.transport is not None
    return web.Response(text=str(request.transport.get_extra_info("peercert")["subjectAltName"][0][1]))


def _base64(pem: bytes) -> str:
    return base64.b64encode(pem).decode()


async def names_seen(session: ApiSession) -> tuple[str, str]:
    """As whom the server knows the session, and what asks kubelets with the session's certificate."""
    async with session.http.get(session.host) as answer:
        first = await answer.text()
    connector = aiohttp.TCPConnector(ssl=session.kubelet_tls("", insecure=False))
    async with aiohttp.ClientSession(connector=connector) as kubelets, kubelets.get(session.host) as answer:
        return first, await answer.text()


async def names_known(access: Access) -> tuple[str, str]:
    session = await ApiSession.open(access)
    try:
        return await names_seen(session)
    finally:
        await session.close()


@pytest.mark.parametrize("way", ["memory", "a system without"])
async def test_inline_certificates_are_used_and_never_left_in_a_file(
    way: str, tmp_path: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if way != "memory":
        monkeypatch.delattr(os, "memfd_create")
    async with (site := Site()).serving():
        access = site.kubeconfig(tmp_path, site.inline("east"))
        session = await ApiSession.open(access)
        assert os.listdir(temporary) == []
        assert await names_seen(session) == ("east", "east")
        await session.close()
        assert await names_known(access) == ("east", "east")  # the package remembers names of files by what they hold
    assert os.listdir(temporary) == []


async def test_a_plugins_certificates_are_used_and_never_left_in_a_file(tmp_path: Path, temporary: Path) -> None:
    async with (site := Site()).serving():
        access = site.kubeconfig(tmp_path, site.plugin(tmp_path, "first"))
        for _ in range(2):
            assert await names_known(access) == ("first", "first")
        site.plugin(tmp_path, "second")
        assert await names_known(access) == ("second", "second")
    assert os.listdir(temporary) == []


async def test_certificates_that_were_rotated_are_used_by_the_next_session(tmp_path: Path, temporary: Path) -> None:
    async with (site := Site()).serving():
        assert await names_known(site.kubeconfig(tmp_path, site.inline("first"))) == ("first", "first")
        assert await names_known(site.kubeconfig(tmp_path, site.inline("second"))) == ("second", "second")
    assert os.listdir(temporary) == []


async def test_files_that_were_rotated_in_place_are_other_certificates(tmp_path: Path) -> None:
    async with (site := Site()).serving():
        access = site.kubeconfig(tmp_path, {"client-certificate": "tls.crt", "client-key": "tls.key"})
        seen = []
        for name in ("first", "second"):
            for file, content in zip(("tls.crt", "tls.key"), site.pair(name), strict=True):
                (tmp_path / file).write_bytes(content)
            session = await ApiSession.open(access)
            seen.append((await names_seen(session), session.trust))
            await session.close()
    assert [names for names, _ in seen] == [("first", "first"), ("second", "second")]
    assert seen[0][1] != seen[1][1]


async def test_sessions_of_one_process_share_no_certificates(tmp_path: Path, temporary: Path) -> None:
    sites = {name: Site() for name in ("east", "west")}
    async with sites["east"].serving(), sites["west"].serving():
        sessions = {}
        for name, site in sites.items():
            sessions[name] = await ApiSession.open(site.kubeconfig(tmp_path, site.inline(name)))
        assert {name: await names_seen(session) for name, session in sessions.items()} == {
            name: (name, name) for name in sites
        }
        for session in sessions.values():
            await session.close()


async def test_no_descriptor_stays_open_for_it(tmp_path: Path) -> None:
    async with (site := Site()).serving():
        access = site.kubeconfig(tmp_path, site.inline("east"))
        await names_known(access)
        before = len(os.listdir("/proc/self/fd"))
        session = await ApiSession.open(access)
        assert len(os.listdir("/proc/self/fd")) == before
        await session.close()


async def test_what_is_no_certificate_names_the_context(tmp_path: Path, temporary: Path) -> None:
    access = Site(port=1).kubeconfig(tmp_path, {"client-certificate-data": "", "client-key-data": _base64(b"no key")})
    session = await ApiSession.open(access)  # as kubectl has it, a key alone is none
    await session.close()
    bad: dict[str, object] = {"client-certificate-data": _base64(b"none"), "client-key-data": _base64(b"none")}
    with pytest.raises(AccessError, match=r"cannot use the current context of .*kubeconfig"):
        await ApiSession.open(Site(port=1).kubeconfig(tmp_path, bad))
    assert os.listdir(temporary) == []


async def test_a_session_never_shows_its_key(tmp_path: Path) -> None:
    session = await ApiSession.open((site := Site(port=1)).kubeconfig(tmp_path, site.inline("east")))
    assert "PRIVATE" not in repr(session.trust)
    await session.close()


def test_an_agent_that_is_killed_leaves_no_key(tmp_path: Path, temporary: Path) -> None:
    access = (site := Site(port=1)).kubeconfig(tmp_path, site.inline("east"))
    command = [sys.executable, "-c", OPEN, access.kubeconfig]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env={**os.environ, "TMPDIR": str(temporary)}) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"open\n"
        process.kill()
    assert os.listdir(temporary) == []


def test_others_in_the_process_who_use_the_package_get_files_as_ever(temporary: Path) -> None:
    written = Path(kube_config._create_temp_file_with_content(b"theirs"))
    assert (written.parent, written.read_bytes()) == (temporary, b"theirs")
    kube_config._cleanup_temp_files()
