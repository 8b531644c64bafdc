"""The TLS server of the kubelet endpoint: its certificate, whom it asks for one, and both renewed
as they change.
"""

import asyncio
import contextlib
import datetime as dt
import ipaddress
import re
import socket
import ssl
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import structlog
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from agents.executor.relayed.relay import Refusal
from agents.runtime.relay.callers import caller_of
from agents.runtime.relay.serving import ServingCertificate
from agents.runtime.relay.settings import RelaySettings
from shared.kube.memory import memory_file

LOG = structlog.get_logger("relay")
REFRESH_S = 30.0
_LOOK_S = 5.0  # while a certificate is waited for
_HANDSHAKE_S = 10.0
# of a self-signed certificate: it is made anew with each start, and nobody verifies it
_DAYS = 3650
_BACKLOG = 64
MAX_OPEN = 256  # connections
# of these, of who has no certificate to ask by: anybody may open one. Beyond, the oldest ends
MAX_STRANGERS = 64
MAX_HANDSHAKES = 128  # at once; beyond, the oldest ends: an honest one takes a fraction of a second
_PAUSE_S = 1.0  # after the system could not give a connection, for example for want of open files
_CERTIFICATE = re.compile(r"-----BEGIN CERTIFICATE-----[A-Za-z0-9+/=\s]+-----END CERTIFICATE-----")

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class _Material(NamedTuple):
    certificate: bytes
    key: bytes
    authorities: str


class Endpoint:
    """Listens at the address of the settings. `authorities` gives the certificates (PEM) that sign
    clients'; `requested`, where there is one, our own once it is issued.
    """

    def __init__(
        self,
        settings: RelaySettings,
        authorities: Callable[[], Awaitable[str]],
        serve: Serve,
        requested: ServingCertificate | None = None,
    ) -> None:
        self._settings = settings
        self._authorities = authorities
        self._serve = serve
        self._requested = requested
        self._own: tuple[bytes, bytes] | None = None
        self._tls: ssl.SSLContext | None = None  # of new connections
        self._accepting: list[asyncio.Task[None]] = []
        self._handshakes: dict[asyncio.Task[None], None] = {}  # the oldest first
        self._open: dict[asyncio.Task[None] | None, bool] = {}  # whether it is a stranger's
        self.port = 0  # while it listens

    async def run(self, listening: Callable[[int], None]) -> None:
        """Until cancelled; `listening` is told of the port once it is open."""
        known: _Material | None = None
        said = ""
        try:
            while True:
                try:
                    found = await self._material()
                    if found != known:
                        self._tls = _context(found)
                        known = found
                    if not self._accepting:
                        await self._listen()
                        listening(self.port)
                    problem = ""
                except Exception as error:
                    problem = str(error) or repr(error)
                if problem and problem != said:
                    LOG.error(
                        "the kubelet endpoint of proxy nodes: no logs of remote pods",
                        problem=problem,
                    )
                said = problem
                waits = self._requested is not None and self._requested.waits
                await asyncio.sleep(_LOOK_S if waits else REFRESH_S)
        finally:
            for task in (*self._accepting, *self._handshakes, *filter(None, self._open)):
                task.cancel()

    async def _listen(self) -> None:
        loop = asyncio.get_running_loop()
        host = self._settings.host
        port = self._settings.port
        infos = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        with contextlib.ExitStack() as opened:
            found = [
                opened.enter_context(
                    socket.create_server(address[:2], family=family, backlog=_BACKLOG)
                )
                for family, _, _, _, address in dict.fromkeys(infos)
            ]
            opened.pop_all()
        self._accepting = [
            asyncio.create_task(self._accept(one), name="kubelet endpoint accepts") for one in found
        ]
        self.port = found[0].getsockname()[1]
        LOG.info("kubelet endpoint of proxy nodes", host=host, port=self.port)

    async def _accept(self, listening: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        listening.setblocking(False)
        with listening:
            while True:
                try:
                    connection, _ = await loop.sock_accept(listening)
                except OSError as error:
                    LOG.error(
                        "a connection cannot be accepted", problem=error.strerror or str(error)
                    )
                    await asyncio.sleep(_PAUSE_S)
                    continue
                task = asyncio.create_task(
                    self._let_in(connection), name="kubelet endpoint handshake"
                )
                self._handshakes[task] = None
                task.add_done_callback(lambda done: self._handshakes.pop(done, None))
                if len(self._handshakes) > MAX_HANDSHAKES:
                    oldest = next(iter(self._handshakes))
                    del self._handshakes[oldest]
                    oldest.cancel()

    async def _let_in(self, connection: socket.socket) -> None:
        def protocol() -> asyncio.StreamReaderProtocol:
            return asyncio.StreamReaderProtocol(asyncio.StreamReader(), self._take)

        with suppress(OSError):  # of who does not finish, or has a certificate of somebody else
            await asyncio.get_running_loop().connect_accepted_socket(
                protocol, connection, ssl=self._tls, ssl_handshake_timeout=_HANDSHAKE_S
            )

    async def _take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        stranger = not self._known(writer)
        if (
            stranger and sum(self._open.values()) >= MAX_STRANGERS
        ):  # metrics-server comes as one, too
            oldest = next(task for task, strange in self._open.items() if strange)
            del self._open[oldest]
            if oldest is not None:
                oldest.cancel()
        if len(self._open) >= MAX_OPEN:
            writer.transport.abort()
            return
        task = asyncio.current_task()
        self._open[task] = stranger
        try:
            await self._serve(reader, writer)
        except asyncio.CancelledError:
            return  # the end of all: asyncio would log it
        finally:
            self._open.pop(task, None)

    def admitted(self) -> None:
        """The connection that is being served is no stranger's: it has shown a token."""
        if (task := asyncio.current_task()) in self._open:
            self._open[task] = False

    def _known(self, writer: asyncio.StreamWriter) -> bool:
        """Whether the certificate is of those who may ask; the others are told so, a few at a time."""
        try:
            name = caller_of(writer.get_extra_info("peercert")).name
        except Refusal:
            return False
        return not self._settings.client_names or name in self._settings.client_names

    async def _material(self) -> _Material:
        authorities = await self._authorities()
        if self._settings.cert_file:
            return _Material(*await asyncio.to_thread(self._read), authorities)
        pair = await self._requested.pair() if self._requested is not None else None
        if pair is None:
            pair = self._own = self._own or _self_signed(self._settings.address)
        return _Material(*pair, authorities)

    def _read(self) -> tuple[bytes, bytes]:
        return Path(self._settings.cert_file).read_bytes(), Path(
            self._settings.key_file
        ).read_bytes()


def _context(material: _Material) -> ssl.SSLContext:
    trusted = _CERTIFICATE.findall(
        material.authorities
    )  # what is written between them may be in any language
    if not trusted:
        raise ValueError("among the authorities of client certificates is no certificate (PEM)")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cadata="\n".join(trusted))
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    # without one the answer is 401; one of others ends the handshake
    context.verify_mode = ssl.CERT_OPTIONAL
    with memory_file(material.key + b"\n" + material.certificate) as pair:
        context.load_cert_chain(pair)
    return context


def _self_signed(address: str) -> tuple[bytes, bytes]:
    key = ec.generate_private_key(ec.SECP256R1())
    now = dt.datetime.now(dt.UTC)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "global-dispatcher proxy nodes")])
    builder = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(minutes=5))
        .not_valid_after(now + dt.timedelta(days=_DAYS))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(address))]),
            critical=False,
        )
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
    )
    pem = serialization.Encoding.PEM
    private = key.private_bytes(
        pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return builder.sign(key, hashes.SHA256()).public_bytes(pem), private
