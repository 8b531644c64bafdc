"""Pages of kubelets, asked for over TLS: what one of them tells costs no other anything."""

import asyncio
import random
import threading
import time

import pytest
from aiohttp import web

from localfleet.embedded.api import Api
from localfleet.embedded.metrics_server import scraper
from localfleet.embedded.metrics_server.points import Batch, read_page
from localfleet.embedded.storage import Storage
from tests.embedded.test_switched import unverified
from tests.embedded.tls_server import serving

WAIT_S = 30.0


async def page(request: web.Request) -> web.Response:
    """By its path: one that is sound, much longer than any, or of numbers that are none."""
    now = time.time()
    sound = f"node_cpu_usage_seconds_total {now} {int(now * 1000)}\nnode_memory_working_set_bytes 4096\n"
    pages = {"sound": sound, "long": sound + "# " + "x" * 2**24 + "\n", "broken": sound.replace("4096", "NaN")}
    return web.Response(text=pages[request.match_info["kind"]])


async def test_a_page_that_is_too_long_or_broken_is_left_out_and_read_beside_the_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    threads: set[bool] = set()

    def noted(text: str, node: str, now: float) -> Batch:
        threads.add(threading.current_thread() is threading.main_thread())
        return read_page(text, node, now)

    monkeypatch.setattr(scraper, "read_page", noted)
    app = web.Application()
    app.router.add_get("/{kind}", page)
    async with serving(app) as port:
        api = Api(clock=time.time, storage=Storage(None), random=random.Random(7), name="test")
        for kind in ("sound", "long", "broken"):
            meta = {"name": kind, "annotations": {"metrics.k8s.io/resource-metrics-path": f"/{kind}"}}
            node = api.create("nodes", {"metadata": meta})
            status = {
                "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
                "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
            }
            api.update("nodes", {**node, "status": status}, subresource="status")
        asking = scraper.Scraper(api, unverified, 2.0, time.time)
        running = asyncio.create_task(asking.run())
        try:
            async with asyncio.timeout(WAIT_S):
                while asking.points.node("sound") is None:  # noqa: ASYNC110 - it has no event
                    await asyncio.sleep(0.05)
            assert (asking.points.node("long"), asking.points.node("broken")) == (None, None)
            assert threads == {False}
        finally:
            running.cancel()
