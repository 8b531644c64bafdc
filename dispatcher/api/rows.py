"""Lists of rows as JSON, made and sent piece by piece: with decisions in between, and no list is held whole."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import TypeVar

import msgspec
import structlog
from aiohttp import web

from dispatcher.scheduling.views import Pieces, Row

ENCODER = msgspec.json.Encoder(enc_hook=str)
log = structlog.get_logger("http")
ONE_AT_A_TIME: web.AppKey[asyncio.Lock] = web.AppKey("one_at_a_time")
_T = TypeVar("_T")


async def in_turns(request: web.Request, pieces: Iterator[_T]) -> AsyncIterator[_T]:
    """The pieces. All requests together make one at a time, and after each decisions have their turn."""
    while True:
        async with request.app[ONE_AT_A_TIME]:
            piece = next(pieces, None)
            await asyncio.sleep(0)
        if piece is None:
            return
        yield piece


async def send_rows(request: web.Request, name: str, pieces: Pieces, keys: Sequence[str]) -> web.StreamResponse | None:
    """Answer with `{name: [rows]}`; None, and nothing is sent, if there is no row. The query may name values of `keys`.

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
    await response.prepare(request)
    try:
        await response.write(b'{"%s":[%s' % (name.encode(), first))
        async for text in texts:
            await response.write(b"," + text)
        await response.write_eof(b"]}")
    except ConnectionError:
        pass  # who asked has gone
    except Exception:
        log.exception("request failed", path=request.path[:200])
        if request.transport is not None:
            request.transport.abort()
    return response


async def _texts(request: web.Request, pieces: Pieces, wanted: Row) -> AsyncIterator[bytes]:
    """The wanted rows of each piece as JSON, with commas between them; nothing of a piece that has none."""
    async for piece in in_turns(request, pieces):
        rows = [row for row in piece if all(row.get(key) == value for key, value in wanted.items())]
        if rows:
            yield ENCODER.encode(rows)[1:-1]
