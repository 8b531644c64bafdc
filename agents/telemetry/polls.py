"""Asks a source that knows all nodes at once: every interval, less often while it fails, and nobody
waits for it.
"""

import asyncio
import random
import time
from collections.abc import Mapping

import structlog

from agents.observer.loads import Loads
from agents.observer.seen import NodeTarget
from agents.telemetry.source import Answer, FleetSource, SourceError, Status, pause_s

LOG = structlog.get_logger("agent.telemetry")


class Polls:
    """One source, whose samples go into `loads` as what the source `name` says. `targets` is read
    anew each time.
    """

    def __init__(
        self,
        name: str,
        source: FleetSource,
        targets: Mapping[str, NodeTarget],
        loads: Loads,
        interval_s: float,
    ) -> None:
        self.status = Status(name)
        self._source = source
        self._targets = targets
        self._loads = loads
        self._interval = interval_s
        self._told = ""

    async def run(self) -> None:
        """Until cancelled; never raises for what a source does."""
        fails = 0
        while True:
            self._loads.keep(self._targets.keys())
            if not self._targets:  # the first list of nodes is not complete yet
                await asyncio.sleep(min(1.0, self._interval / 4))
                continue
            fails = 0 if await self._poll() else fails + 1
            await asyncio.sleep(pause_s(self._interval, fails) * random.uniform(0.9, 1.1))

    async def _poll(self) -> bool:
        """Ask once; False if there was no answer."""
        targets = dict(self._targets)
        begun = time.monotonic()
        try:
            answer = await self._source.sample_all(targets)
        except SourceError as error:
            self.status.failed(str(error), time.monotonic() - begun)
            self._tell(str(error))
            return False
        now = time.monotonic()
        self.status.answered(now, now - begun, answer)
        self._take(answer, now)
        self._tell(answer.problem)
        return True

    def _take(self, answer: Answer, now: float) -> None:
        for node, sample in answer.samples.items():
            if (target := self._targets.get(node)) is not None:
                self._loads.add(target, sample, now, self.status.name)

    def _tell(self, problem: str) -> None:
        """Log what is wrong once, and once that it is right again."""
        if problem and not self._told:
            LOG.warning(
                "a source of readings fails", source=self.status.name, problem=problem[:300]
            )
        elif self._told and not problem:
            LOG.info("a source of readings answers again", source=self.status.name)
        self._told = problem
