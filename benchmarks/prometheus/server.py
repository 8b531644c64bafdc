"""A process that answers as Prometheus does for many nodes, with other numbers each time; it may be
told to hang.

No real one: filling it with 5,000 nodes takes a minute, and what it takes to answer is not ours.
"""

import asyncio
import json
import multiprocessing
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from random import Random
from typing import Any

from aiohttp import web

HANG, ANSWER, ASKED, STOP = "hang", "answer", "asked", "stop"


@dataclass(frozen=True)
class Server:
    """What its owner sees of it."""

    url: str
    pipe: Connection

    def tell(self, what: str) -> None:
        """`HANG`: accept questions and say nothing; `ANSWER`: go on, also with those."""
        self.pipe.send(what)
        self.pipe.recv()

    def asked(self) -> Counter[str]:
        """How often each query was asked for since this was called before."""
        self.pipe.send(ASKED)
        return Counter(self.pipe.recv())


@contextmanager
def serving(nodes: list[str], seed: int = 1) -> Iterator[Server]:
    """The process; it ends with the block."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_run, args=(theirs, nodes, seed), daemon=True)
    process.start()
    theirs.close()
    try:
        yield Server(f"http://127.0.0.1:{ours.recv()}", ours)
        ours.send(STOP)
        process.join(10)
    finally:
        process.kill()


class _Answers:
    """An instant vector for every query: shares of 1, or when their samples were taken, two seconds
    ago.
    """

    def __init__(self, nodes: list[str], seed: int) -> None:
        metrics = (
            {"instance": f"{node}:9100", "job": "node-exporter", "node": node} for node in nodes
        )
        self._metrics = [json.dumps(metric).encode() for metric in metrics]
        self._chance, self.asked, self.answers = Random(seed), Counter[str](), asyncio.Event()
        self.answers.set()

    async def handle(self, request: web.Request) -> web.Response:
        query = request.query["query"]
        self.asked[query] += 1
        await self.answers.wait()
        return web.Response(
            body=self._vector(sampled="timestamp(" in query), content_type="application/json"
        )

    def _vector(self, *, sampled: bool) -> bytes:
        now = time.time()
        told = (
            f"{now - 2:.3f}" if sampled else f"{self._chance.random() / 2:.6f}"
            for _ in self._metrics
        )
        rows = (
            b'{"metric":%b,"value":[%.3f,"%b"]}' % (metric, now, text.encode())
            for metric, text in zip(self._metrics, told, strict=True)
        )
        return b'{"status":"success","data":{"resultType":"vector","result":[%b]}}' % b",".join(
            rows
        )


def _run(parent: Connection, nodes: list[str], seed: int) -> None:
    asyncio.run(_serve(parent, nodes, seed))


async def _serve(parent: Connection, nodes: list[str], seed: int) -> None:
    answers = _Answers(nodes, seed)
    app = web.Application()
    app.router.add_get("/api/v1/query", answers.handle)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    parent.send(runner.addresses[0][1])
    while (word := await asyncio.to_thread(parent.recv)) != STOP:
        said: dict[str, Any] = {}
        if word == ASKED:
            said, answers.asked = dict(answers.asked), Counter()
        else:
            (answers.answers.clear if word == HANG else answers.answers.set)()
        parent.send(said)
    await runner.cleanup()
