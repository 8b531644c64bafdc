"""Ends and breaks of connections: nothing is lost at an end, and a break is not taken for one."""

import asyncio
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from socket import create_server
from typing import cast

import pytest
import trustme

from agents.runtime.relay import wire
from shared.kube.pipe import Pipe, TlsPipe
from shared.streams import FrameKind, Message
from shared.streams.relayed import Stream

SIZE = 1024 * 1024
WAIT_S = 10.0


@contextmanager
def server(authority: trustme.CA, *, in_order: bool) -> Iterator[int]:
    """Says SIZE bytes to whoever comes, as a Go program does, and ends TLS or only the connection; its port."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    listening = create_server(("127.0.0.1", 0))

    def serve() -> None:
        raw, _ = listening.accept()
        raw.settimeout(WAIT_S)
        came, goes = ssl.MemoryBIO(), ssl.MemoryBIO()
        tls = context.wrap_bio(came, goes, server_side=True)
        while True:
            try:
                tls.do_handshake()
                break
            except ssl.SSLWantReadError:
                raw.sendall(goes.read())
                if not (data := raw.recv(65536)):
                    return
                came.write(data)
            except ssl.SSLError:  # it is not trusted
                return
        tls.write(b"x" * SIZE)
        if in_order:
            with suppress(ssl.SSLWantReadError):
                tls.unwrap()
        raw.sendall(goes.read())
        raw.close()

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    yield listening.getsockname()[1]
    thread.join(WAIT_S)
    listening.close()


async def connected(authority: trustme.CA, port: int) -> TlsPipe:
    context = ssl.create_default_context()
    authority.configure_trust(context)
    pipe = TlsPipe(*await asyncio.open_connection("127.0.0.1", port), context, "127.0.0.1")
    try:
        await pipe.handshake()
    except ssl.SSLError:
        pipe.abort()
        raise
    return pipe


async def whole(pipe: Pipe) -> int:
    """How much comes until the end."""
    heard = 0
    while data := await pipe.read():
        heard += len(data)
    return heard


async def test_all_that_was_said_is_heard_however_slowly() -> None:
    authority = trustme.CA()
    with server(authority, in_order=True) as port:
        pipe = await connected(authority, port)
        await asyncio.sleep(0.3)
        heard = 0
        while data := await pipe.read():
            heard += len(data)
            await asyncio.sleep(0.001)
    pipe.close()
    assert heard == SIZE


async def test_a_break_is_no_end() -> None:
    authority = trustme.CA()
    with server(authority, in_order=False) as port:
        pipe = await connected(authority, port)
        with pytest.raises(OSError, match="EOF"):
            await whole(pipe)
    pipe.abort()


async def test_who_is_not_trusted_is_not_spoken_to() -> None:
    with server(trustme.CA(), in_order=True) as port, pytest.raises(ssl.SSLCertVerificationError):
        await connected(trustme.CA(), port)


class Deaf(Pipe):
    """Says three things, and hears nothing any more."""

    def __init__(self) -> None:
        self.left = [b"one", b"two", b"three"]

    async def read(self) -> bytes:
        await asyncio.sleep(0.01)
        return self.left.pop(0) if self.left else b""

    async def write(self, data: bytes) -> None:
        raise ConnectionResetError


async def test_what_is_said_to_a_side_that_has_ended_costs_nothing_of_what_it_had_said() -> None:
    sent: list[tuple[FrameKind, bytes]] = []
    stream = Stream(lambda kind, body: sent.append((kind, body)))
    hearing = asyncio.create_task(wire._to_pipe(stream, Deaf()))

    stream.take(Message(FrameKind.DATA, 1, b"ping"))
    await wire._to_stream(b"", cast(Pipe, Deaf()), stream)
    stream.take(Message(FrameKind.FINISH, 1, b""))
    await asyncio.wait_for(hearing, WAIT_S)
    assert sent == [
        (FrameKind.DATA, b"one"),
        (FrameKind.DATA, b"two"),
        (FrameKind.DATA, b"three"),
        (FrameKind.FINISH, b""),
    ]
