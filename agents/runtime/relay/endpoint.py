"""The TLS server of the kubelet endpoint: its certificate, whom it asks for one, and both renewed as they change."""

import asyncio
import datetime as dt
import ipaddress
import ssl
import tempfile
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import structlog
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from agents.runtime.relay.settings import RelaySettings

LOG = structlog.get_logger("relay")
REFRESH_S = 30.0
_HANDSHAKE_S = 10.0
_DAYS = 3650  # of a self-signed certificate: it is made anew with each start, and nobody verifies it
_BACKLOG = 64
MAX_OPEN = 256  # connections: anybody in the cluster may open one

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class _Material(NamedTuple):
    certificate: bytes
    key: bytes
    authorities: str


class Endpoint:
    """Listens at the address of the settings. `authorities` gives the certificates (PEM) that sign clients'."""

    def __init__(self, settings: RelaySettings, authorities: Callable[[], Awaitable[str]], serve: Serve) -> None:
        self._settings, self._authorities, self._serve = settings, authorities, serve
        self._own: tuple[bytes, bytes] | None = None
        self._open: set[asyncio.Task[None]] = set()
        self.port = 0  # while it listens

    async def run(self, listening: Callable[[int], None]) -> None:
        """Until cancelled; `listening` is told of the port once it is open."""
        server: asyncio.Server | None = None
        known: _Material | None = None
        said = ""
        try:
            while True:
                try:
                    found = await self._material()
                    if found != known:
                        server = await self._anew(server, _context(found))
                        known = found
                        listening(self.port)
                    problem = ""
                except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
                    problem = str(error) or repr(error)
                if problem and problem != said:
                    LOG.error("the kubelet endpoint of proxy nodes: no logs of remote pods", problem=problem)
                said = problem
                await asyncio.sleep(REFRESH_S)
        finally:
            if server is not None:
                server.close()
            for task in self._open:
                task.cancel()

    async def _anew(self, server: asyncio.Server | None, context: ssl.SSLContext) -> asyncio.Server:
        """Connections that are open stay as they are; new ones are by the new certificates."""
        if server is not None:
            server.close()
        port = self.port or self._settings.port
        made = await asyncio.start_server(
            self._accept,
            self._settings.host,
            port,
            ssl=context,
            ssl_handshake_timeout=_HANDSHAKE_S,
            backlog=_BACKLOG,
            reuse_address=True,
        )
        self.port = made.sockets[0].getsockname()[1]
        LOG.info("kubelet endpoint of proxy nodes", host=self._settings.host, port=self.port)
        return made

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._open) >= MAX_OPEN:
            writer.transport.abort()
            return
        task = asyncio.current_task()
        if task is not None:
            self._open.add(task)
            task.add_done_callback(self._open.discard)
        with suppress(asyncio.CancelledError):  # the end of all: asyncio would log it
            await self._serve(reader, writer)

    async def _material(self) -> _Material:
        authorities = await self._authorities()
        if self._settings.cert_file:
            pair = await asyncio.to_thread(self._read)
        else:
            pair = self._own = self._own or _self_signed(self._settings.address)
        return _Material(*pair, authorities)

    def _read(self) -> tuple[bytes, bytes]:
        return Path(self._settings.cert_file).read_bytes(), Path(self._settings.key_file).read_bytes()


def _context(material: _Material) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cadata=material.authorities)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.verify_mode = ssl.CERT_OPTIONAL  # without one the answer is 401; one of others ends the handshake
    with tempfile.NamedTemporaryFile() as file:  # ssl reads files alone; mode 0600
        file.write(material.key + b"\n" + material.certificate)
        file.flush()
        context.load_cert_chain(file.name)
    return context


def _self_signed(address: str) -> tuple[bytes, bytes]:
    key, now = ec.generate_private_key(ec.SECP256R1()), dt.datetime.now(dt.UTC)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "global-dispatcher proxy nodes")])
    builder = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(minutes=5))
        .not_valid_after(now + dt.timedelta(days=_DAYS))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(address))]), critical=False)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
    )
    pem = serialization.Encoding.PEM
    private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return builder.sign(key, hashes.SHA256()).public_bytes(pem), private
