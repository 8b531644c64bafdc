"""Fake clusters that several dispatchers follow, and what each of these was told."""

import asyncio
from bisect import bisect_right
from collections.abc import Callable, Mapping
from contextlib import suppress

import msgspec

from benchmarks.fleet.cluster import FakeCluster
from benchmarks.fleet.load import Load, node_of
from shared.messages import Changes, IntentBatch, OutcomeBatch


class SharedCluster(FakeCluster):
    """It remembers at which revision each pod changed last. `epoch`: the highest whose orders it
    has carried out.
    """

    epoch = 0

    def __init__(
        self,
        load: Load,
        number: int,
        others: Mapping[str, FakeCluster],
        seen: Callable[[str, str], None],
    ) -> None:
        self._changed: list[tuple[int, str]] = []  # (revision, pod), by revision
        super().__init__(load, number, others, seen)
        self._nodes = tuple(node_of(number, at) for at in range(load.nodes))

    def flip(self) -> None:
        """A bound pod's readiness changes."""
        pod = self._any_pod()
        if pod is not None and pod.node:
            self._put(msgspec.structs.replace(pod, ready=not pod.ready))

    async def changes(self, incarnation: str, since: int, wait_s: float) -> Changes:
        """A long poll of any follower."""
        if (incarnation, since) == (self._incarnation, self._revision) and wait_s > 0:
            news = self._news
            with suppress(TimeoutError):
                async with asyncio.timeout(wait_s):
                    await news.wait()
                    await asyncio.sleep(self.load.coalesce_s)
        return self.full() if incarnation != self._incarnation else self._since(since)

    def _tell(self) -> None:
        super()._tell()
        self._news, news = asyncio.Event(), self._news
        news.set()
        self._changed += [(self._revision, uid) for uid in self._fresh]
        self._fresh = {}

    def full(self) -> Changes:
        """All of it."""
        who = (self.name, self.uid, self._incarnation, 0, self._revision)
        return Changes(*who, full=True, nodes=self._nodes, pods=tuple(self.pods.values()))

    def latest(self) -> Changes:
        """Nothing new."""
        return self._since(self._revision)

    def _since(self, since: int) -> Changes:
        later = self._changed[bisect_right(self._changed, since, key=lambda one: one[0]) :]
        pods = tuple({uid: self.pods[uid] for _, uid in later}.values())
        return Changes(self.name, self.uid, self._incarnation, since, self._revision, pods=pods)

    def execute(self, batch: IntentBatch) -> OutcomeBatch:
        """Carry out all of it."""
        self.epoch = max(self.epoch, batch.dispatcher_epoch)
        return super().execute(batch)
