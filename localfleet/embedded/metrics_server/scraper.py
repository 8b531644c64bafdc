"""Asks the kubelets of nodes that are no part of this process what their pods use, again and again."""

import asyncio
import logging
import ssl
from collections.abc import Callable

import aiohttp
from yarl import URL

from localfleet.embedded.api import Api
from localfleet.embedded.apiserver.status import ApiError, Object
from localfleet.embedded.kubelet.shapes import EMBEDDED_LABEL
from localfleet.embedded.meta import annotations_of, labels_of
from localfleet.embedded.metrics_server.points import Batch, Points, read_page
from localfleet.embedded.rest.location import kubelet_of

_PAGE = "/metrics/resource"
_PAGE_ANNOTATION = "metrics.k8s.io/resource-metrics-path"
_MOST_WAIT_S = 10.0
_MOST_BYTES = 16 * 2**20  # some 30,000 containers
_LOG = logging.getLogger(__name__)


class Scraper:
    """`points` has what it found. `context` has the client certificate; kubelets are not verified
    (as with --kubelet-insecure-tls).
    """

    def __init__(
        self,
        api: Api,
        context: Callable[[], ssl.SSLContext],
        resolution_s: float,
        clock: Callable[[], float],
    ):
        self.points = Points(resolution_s)
        self._api = api
        self._context = context
        self._resolution_s = resolution_s
        self._clock = clock

    async def run(self) -> None:
        """Until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            due = loop.time() + self._resolution_s
            await self._round()
            await asyncio.sleep(due - loop.time())

    async def _round(self) -> None:
        nodes = [
            node
            for node in self._api.list("nodes")
            if labels_of(node).get(EMBEDDED_LABEL) != "true"
        ]
        timeout = aiohttp.ClientTimeout(total=min(_MOST_WAIT_S, self._resolution_s))
        async with aiohttp.ClientSession(timeout=timeout) as session:
            batches = await asyncio.gather(*(self._page(session, node) for node in nodes))
        whole = Batch({}, {})
        for batch in batches:
            whole.nodes.update(batch.nodes)
            whole.pods.update(batch.pods)
        self.points.store(whole)

    async def _page(self, session: aiohttp.ClientSession, node: Object) -> Batch:
        name = node["metadata"]["name"]
        now = self._clock()
        try:
            path = annotations_of(node).get(_PAGE_ANNOTATION) or _PAGE
            kubelet = kubelet_of(node)
            url = URL.build(scheme="https", host=kubelet.address, port=kubelet.port, path=path)
            asked = session.get(
                url, ssl=self._context(), raise_for_status=True, allow_redirects=False
            )
            async with asked as answer:
                page = await _text(answer)
                return await asyncio.to_thread(
                    read_page, page, name, now
                )  # of some megabytes it takes seconds
        except (ApiError, aiohttp.ClientError, TimeoutError) as error:
            _LOG.info("node %s does not tell what its pods use: %s", name, error)
        except Exception as error:  # whatever a page holds, the others count
            _LOG.warning("node %s does not tell what its pods use: %s", name, error)
        return Batch({}, {})


async def _text(answer: aiohttp.ClientResponse) -> str:
    """ValueError: it is too long, or no text."""
    found = bytearray()
    async for data in answer.content.iter_any():
        found += data
        if len(found) > _MOST_BYTES:
            raise ValueError(f"its page is longer than {_MOST_BYTES} bytes")
    return found.decode()
