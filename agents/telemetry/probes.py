"""Probes of other clusters' agents, and the answers to theirs: one TCP connection, 16 bytes there
and 32 back.

Who is probed learns nothing but that somebody is there. The answer shows that it comes from the
cluster that was meant: BLAKE2b of the bytes, keyed by the UID of its kube-system namespace, which
is not sent itself; so an address that leads elsewhere (another cluster's, a load balancer that
echoes) measures nothing. It is no proof of identity: whoever knows the UID can answer. Nobody can
make the answering side send more than 32 bytes, or to anybody else.
"""

import asyncio
import hashlib
import os
import secrets
import socket
import sys
import time
from collections.abc import Callable
from contextlib import suppress

from agents.observer.peer_links import Trip
from shared.model.probe_address import ProbeAddress

# bytes
ASKED = 16
ANSWERED = 32
PATIENCE_S = 5.0
_TCPI_RTT = 68  # offset of tcpi_rtt, microseconds, in struct tcp_info (linux/tcp.h)
_MOST_AT_ONCE = 64  # connections that are answered at a time
Clock = Callable[[], float]


def answer(nonce: bytes, cluster_uid: str) -> bytes:
    """What an agent of a cluster answers."""
    key = hashlib.blake2b(cluster_uid.encode(), digest_size=32).digest()
    return hashlib.blake2b(nonce, key=key, digest_size=ANSWERED, person=b"gd-probe").digest()


async def probe(address: ProbeAddress, cluster_uid: str, patience_s: float = PATIENCE_S) -> Trip:
    """One probe; what did not come back in time, or was not that cluster's answer, is None."""
    family = socket.AF_INET6 if address.ip.version == 6 else socket.AF_INET
    loop = asyncio.get_running_loop()
    nonce = secrets.token_bytes(ASKED)
    connect_s = echo_s = kernel_s = None
    with suppress(OSError, TimeoutError), socket.socket(family, socket.SOCK_STREAM) as way:
        way.setblocking(False)
        way.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        async with asyncio.timeout(patience_s):
            began = time.perf_counter()
            await loop.sock_connect(way, (str(address.ip), address.port))
            connect_s = time.perf_counter() - began
            kernel_s = _kernel_rtt(way)
            began = time.perf_counter()
            await loop.sock_sendall(way, nonce)
            found = await _received(loop, way)
            took = time.perf_counter() - began
            echo_s = took if found == answer(nonce, cluster_uid) else None
    return Trip(
        connect_s, echo_s, kernel_s if kernel_s and connect_s and kernel_s < connect_s else None
    )


async def reach(address: ProbeAddress, cluster_uid: str, patience_s: float = PATIENCE_S) -> str:
    """Why the agent of that cluster does not answer there; '' if it does."""
    nonce = secrets.token_bytes(ASKED)
    writer = None
    try:
        async with asyncio.timeout(patience_s):
            reader, writer = await asyncio.open_connection(str(address.ip), address.port)
            writer.write(nonce)
            found = await reader.readexactly(ANSWERED)
    except TimeoutError:
        return "connection timed out" if writer is None else "it was connected, and nothing came"
    except (asyncio.IncompleteReadError, ConnectionResetError):
        return "it was connected, and closed without the answer of that cluster's agent"
    except OSError as error:
        return os.strerror(error.errno).lower() if error.errno else "no connection"
    finally:
        if writer is not None:
            writer.transport.abort()
    return "" if found == answer(nonce, cluster_uid) else "something else answers there"


def _kernel_rtt(way: socket.socket) -> float | None:
    """Seconds of the round trip that made the connection, as the kernel (Linux) measured it; None
    unknown.
    """
    if not hasattr(socket, "TCP_INFO"):
        return None
    told = way.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCPI_RTT + 4)
    return int.from_bytes(told[_TCPI_RTT : _TCPI_RTT + 4], sys.byteorder) / 1e6


async def _received(loop: asyncio.AbstractEventLoop, way: socket.socket) -> bytes:
    found = b""
    while len(found) < ANSWERED and (more := await loop.sock_recv(way, ANSWERED - len(found))):
        found += more
    return found


class Answering:
    """Answers probes. Who sends too little or too slowly is left; beyond 64 at once connections are
    closed.
    """

    def __init__(self, cluster_uid: Callable[[], str], patience_s: float = PATIENCE_S) -> None:
        self._cluster_uid = cluster_uid
        self._patience_s = patience_s
        self._server: asyncio.Server | None = None
        self._at_once = 0

    async def start(self, address: ProbeAddress) -> None:
        """Listen; OSError where that is not possible."""
        self._server = await asyncio.start_server(
            self._answer, str(address.ip), address.port, limit=ASKED * 2
        )

    async def close(self) -> None:
        """Answer nobody any more."""
        if self._server is not None:
            self._server.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._at_once += 1
        try:
            if self._at_once <= _MOST_AT_ONCE and (uid := self._cluster_uid()):
                async with asyncio.timeout(self._patience_s):
                    writer.write(answer(await reader.readexactly(ASKED), uid))
                    await writer.drain()
        except (OSError, EOFError, TimeoutError):
            pass
        finally:
            self._at_once -= 1
            writer.close()
