"""Compares each watch with its server: does it show an older version than it did, or another number
of objects?

The server is asked by a list of one with quorum: such a list is never older than anything seen
before it was asked for, unless the server went back in time (etcd restored from a backup). A watch
does not show that: the server takes a version of the future without a word. So:

- `RESTORED_AFTER` answers in a row that are older than what was seen of the same kind (other kinds
  may be stored elsewhere), not one: an API server may lag against all rules. Then every kind is
  listed anew, and what it shows taken.
- A watch that differs from the server's count again and again is listed anew, at growing distances
  if that is no help.
"""

import asyncio
import random
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial

import structlog

from agents.kube import wire
from agents.kube.convert import version_of
from agents.kube.listwatch import RESTORED_AFTER, ListWatch
from agents.observer.watch_count import ServerCount
from agents.runtime.settings import ApiSettings
from shared.kube.client import KubeClient
from shared.kube.http import Request

LOG = structlog.get_logger("agent.truth")


class WatchVerifier:
    """Asks one API server about all its watches every `truth_s`, sooner where there is doubt.

    `reopen` ends a watch's run and begins it again. `went_back` is told the version known and the
    one found, before anything is taken over from a server that went back.
    """

    def __init__(
        self,
        client: KubeClient,
        watches: Sequence[ListWatch],
        settings: ApiSettings,
        reopen: Callable[[ListWatch], None],
        went_back: Callable[[int, int], None],
    ) -> None:
        self._client = client
        self._watches = watches
        self._settings = settings
        self._reopen = reopen
        self._told = went_back
        self._older: dict[
            str, list[int]
        ] = {}  # versions in a row that were older than known, by kind
        # kinds that already show the older world, once one has found it
        self._following: set[str] | None = None
        self._wake = asyncio.Event()
        for watch in watches:
            watch.on_back = partial(self._found, watch)
            watch.on_return = self._wake.set

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            self._wake.clear()
            self._follow()
            soon = await asyncio.gather(*map(self._look, self._watches))
            self._conclude()
            await self._pause(min(soon, default=1.0))

    def remember(self, seen: Mapping[str, int]) -> None:
        """Versions that were seen earlier, by kind."""
        for watch in self._watches:
            watch.highest = max(watch.highest, seen.get(watch.kind, 0))

    async def _pause(self, share: float) -> None:
        """Part of the time between two looks; a watch that is back after a lost connection ends it
        early.
        """
        period = self._settings.truth_s
        await asyncio.sleep(period * 0.1)
        with suppress(TimeoutError):
            async with asyncio.timeout(period * max(0.0, share - 0.1) * random.uniform(0.9, 1.0)):
                await self._wake.wait()

    # --- looking
    # ----------------------------------------------------------------------------------------------

    async def _look(self, watch: ListWatch) -> float:
        """Ask about one kind. The share of the period after which to ask again."""
        seen = watch.highest
        if not seen or (watch.optional and watch.broken_since is not None):
            return 1.0
        server = await self._ask(watch.path)
        if (
            server is None or watch.highest < seen
        ):  # no answer, or one from before it was known to have gone back
            return 1.0
        if server.version and server.version < seen:
            self._older.setdefault(watch.kind, []).append(server.version)
            return 0.1
        self._older.pop(watch.kind, None)
        return 0.5 if watch.compare(server) else 1.0

    async def _ask(self, path: str) -> ServerCount | None:
        timeout = self._settings.probe_timeout_s
        with suppress(TimeoutError):
            async with asyncio.timeout(2 * timeout):  # however often it is told to come back later
                answer = await self._client.send(
                    Request("GET", path, params={"limit": "1"}), timeout_s=timeout
                )
                return read_server_count(answer.body) if answer.ok else None
        return None

    # --- concluding
    # ----------------------------------------------------------------------------------------------

    def _conclude(self) -> None:
        for watch in self._watches:
            older = self._older.get(watch.kind, [])
            if len(older) >= RESTORED_AFTER:
                LOG.warning(
                    "the API server went back in time",
                    kind=watch.kind,
                    known=watch.highest,
                    found=older[-1],
                )
                self._told(watch.highest, older[-1])
                self._following = set()
                break
        self._follow()
        now = time.monotonic()
        for watch in self._watches:
            if watch.counted.wants_list(now):
                LOG.warning(
                    "the API server has another number of objects than its watch showed",
                    kind=watch.kind,
                )
                watch.counted.rest(now, random.uniform(0.5, 1.0))
                watch.start_over(went_back=False)
                self._reopen(watch)

    def _found(self, watch: ListWatch, known: int, found: int) -> None:
        """A list of `watch` shows the older world: the others are listed anew with the next look."""
        self._told(known, found)
        self._following = (self._following or set()) | {watch.kind}
        self._wake.set()

    def _follow(self) -> None:
        """Every other kind is listed anew, too."""
        following = self._following
        self._following = None
        if following is None:
            return
        self._older.clear()
        for watch in self._watches:
            if watch.kind not in following:
                watch.start_over(went_back=True)
                self._reopen(watch)


def read_server_count(body: bytes) -> ServerCount | None:
    """Version and count of a list of one; None for what is no list."""
    try:
        raw = wire.read_list(body)
    except wire.BROKEN:
        return None
    shown = len(raw.items or ())
    more = raw.metadata.remaining_item_count
    count = shown + more if more is not None else None if raw.metadata.continue_ else shown
    return ServerCount(version_of(raw.metadata.resource_version), count)
