"""The observer of one cluster: live load beside what the watches show, told as numbered changes."""

import asyncio
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

from agents.observer.change_feed import ChangeFeed, Health, Identity
from agents.observer.loads import Loads
from agents.observer.owner_uses import OwnerUses
from agents.runtime.coalescing import coalesce_changes
from agents.runtime.readings import Readings
from agents.runtime.settings import AgentSettings
from agents.runtime.telemetry_report import report
from agents.runtime.watching import Watching
from agents.telemetry.source import Status
from shared.kube.client import KubeClient
from shared.messages import Changes, Telemetry

MAX_WAIT_S = 60.0


class Observing:
    """`news` is set with every change of what is watched; `who` and `health` say whose changes
    these are, and how far they can be trusted.
    """

    def __init__(
        self,
        client: KubeClient,
        watching: Watching,
        settings: AgentSettings,
        news: asyncio.Event,
        who: Callable[[], Identity],
        health: Callable[[], Health],
    ) -> None:
        self._settings = settings
        self._watching = watching
        self._news = news
        self._who = who
        self._health = health
        self._loads = Loads(
            watching.log,
            tau_s=settings.kubelet.smoothing_s,
            signals=settings.all_signals(),
            preference=settings.telemetry.preference(),
        )
        self.uses = OwnerUses(watching.log, watching.cache.pod_by_name)
        self._loads.on_pods = self.uses.add
        self._follow = ChangeFeed(watching.cache, self._loads, self.uses, watching.node_groups)
        self._readings = Readings(client, watching.cache.targets, self._loads, settings)
        # the last report of sources, or the one in the making
        self._telemetry: asyncio.Task[Telemetry] | None = None
        self.heard_at: float | None = None

    def work(self) -> tuple[Coroutine[Any, Any, None], str]:
        """What is to run all the time, and its name."""
        return self._readings.run(), "readings"

    async def close(self) -> None:
        """Close the connections to sources."""
        await self._readings.close()

    @property
    def sources(self) -> dict[str, Status]:
        """How each source of readings does."""
        return self._readings.status

    async def telemetry(self) -> Telemetry:
        """The same for whoever asks from afar, with what each source tells of which nodes."""
        if (
            self._telemetry is None or self._telemetry.done()
        ):  # one at a time, however many ask: it takes a while
            targets = self._watching.cache.targets
            made = report(
                self._settings, self.sources, self._loads, targets.keys(), time.monotonic()
            )
            self._telemetry = asyncio.create_task(made)
        return await asyncio.shield(self._telemetry)

    async def changes(self, incarnation: str, since: int, wait_s: float) -> Changes:
        """Long poll: what changed after `since` as soon as there is any, else nothing new after
        `wait_s` seconds.
        """
        self.heard_at = time.monotonic()
        deadline = self.heard_at + max(0.0, min(wait_s, MAX_WAIT_S))
        with suppress(TimeoutError):
            async with asyncio.timeout(deadline - time.monotonic()):
                if self._follow.only_confirms(self._who(), incarnation, since):
                    await self._coalesce(since)
                while not self._follow.has_news(self._who(), incarnation, since):
                    self._news.clear()
                    await self._news.wait()
                    await self._coalesce(since)
        return self._follow.since(self._who(), incarnation, since, self._health(), time.monotonic())

    async def _coalesce(self, since: int) -> None:
        log = self._watching.log
        await coalesce_changes(
            lambda: log.revision,
            lambda: asyncio.sleep(self._settings.coalesce_s),
            lambda: log.urgent > since,
            lambda: log.unexpected > since,
        )
