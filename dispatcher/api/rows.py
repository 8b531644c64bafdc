"""Lists of rows as JSON, made and sent piece by piece: with decisions in between, and no list is
held whole.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AbstractAsyncContextManager
from time import thread_time
from typing import TypeVar

import msgspec
import structlog
from aiohttp import HttpVersion11, web

from dispatcher.scheduling.views import Pieces, Row

TURN_S = 0.005  # of CPU, beyond which a piece may go
READER_S = 60.0  # so long the reader of a list may take nothing
ENCODER = msgspec.json.Encoder(enc_hook=str)
log = structlog.get_logger("http")
ONE_AT_A_TIME: web.AppKey[asyncio.Lock] = web.AppKey("one_at_a_time")
_T = TypeVar("_T")


async def in_turns(
    pieces: Iterator[_T], turn: AbstractAsyncContextManager[None]
) -> AsyncIterator[_T]:
    """The pieces. In a turn as many are made as fit into `TURN_S`; after that decisions have
    theirs.

    `turn`: one at a time of all who wait for it, as `ONE_AT_A_TIME` for lists.
    """
    ended = False
    while not ended:
        async with turn:
            made = _some(pieces)
            await asyncio.sleep(0)
        ended = not made
        for piece in made:
            yield piece


def _some(pieces: Iterator[_T]) -> list[_T]:
    """The next ones, at least one; none: that is all."""
    until = thread_time() + TURN_S
    made = list[_T]()
    for piece in pieces:
        made.append(piece)
        if thread_time() > until:
            break
    return made


async def send_rows(
    request: web.Request, name: str, pieces: Pieces, keys: Sequence[str]
) -> web.StreamResponse | None:
    """Answer with `{name: [rows]}`; None, and nothing is sent, if there is no row. The query may
    name values of `keys`.

    What fails in the middle of it ends the connection, as a status cannot be told any more.
    """
    wanted = {key: request.query[key] for key in keys if key in request.query}
    texts = _texts(request, pieces, wanted)
    first = await anext(texts, None)
    if first is None:
        return None
    if request.method == "HEAD":
        return web.Response(content_type="application/json")
    response = web.StreamResponse(headers={"Content-Type": "application/json; charset=utf-8"})
    if request.version < HttpVersion11:
        response.force_close()  # its only way to see where the list ends
    await response.prepare(request)
    try:
        await _write(response, b'{"%s":[%s' % (name.encode(), first))
        async for text in texts:
            await _write(response, b"," + text)
        await _write(response, b"]}")
        await response.write_eof()
    except ConnectionError:
        pass  # who asked has gone
    except Exception as error:
        if not isinstance(error, TimeoutError):
            log.exception("request failed", path=request.path[:200])
        if request.transport is not None:
            request.transport.abort()
    return response


async def _write(response: web.StreamResponse, text: bytes) -> None:
    """TimeoutError: who asked does not read."""
    async with asyncio.timeout(READER_S):
        await response.write(text)


async def _texts(request: web.Request, pieces: Pieces, wanted: Row) -> AsyncIterator[bytes]:
    """The wanted rows of each piece as JSON, with commas between them; nothing of a piece that has
    none.
    """
    turn = request.app[ONE_AT_A_TIME]
    async for piece in in_turns(pieces, turn):
        rows = [row for row in piece if all(row.get(key) == value for key, value in wanted.items())]
        if rows:
            yield ENCODER.encode(rows)[1:-1]
