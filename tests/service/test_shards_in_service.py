"""A dispatcher with shards: they are told of changes and of changed profiles, and what is away is said."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from aiohttp.test_utils import TestClient, TestServer

from dispatcher.api.http_api import OnlyOne, make_app
from dispatcher.config import DispatcherConfig
from dispatcher.scheduling.profile import DEFAULT_PROFILE
from dispatcher.scheduling.shards.coordinator import Shards
from dispatcher.scheduling.shards.frames import REQUESTS, Frame
from dispatcher.scheduling.shards.shard import Shard
from dispatcher.service.assembly import assemble
from dispatcher.service.link import LocalLink
from dispatcher.service.shards.metrics import ShardCollector
from dispatcher.service.shards.policy import name_of, plans_of, policy_of
from tests.builders import fleet
from tests.service.fakes import FakeAgent, FakeCore, FakeViews, service


class LocalShard:
    """A shard in this process, configured as an actor is."""

    life, ready, idle, seconds = 1, True, True, 1.5

    def __init__(self) -> None:
        self.state = "up"
        self.policies: list[bytes] = []
        self.taken = asyncio.Event()
        self.shard = Shard()
        self.configure(policy_of(DispatcherConfig()))

    def configure(self, policy: bytes) -> None:
        self.policies.append(policy)
        self.shard.configure(name_of(policy), plans_of(policy))

    def send(self, order: Frame) -> None:
        self.told = self.shard.take(order)
        assert REQUESTS.decode(order.head).number == self.shard.number
        self.taken.set()

    def answer(self) -> Frame | None:
        return self.told


def shards_of(*links: LocalShard) -> Shards:
    """Over a fleet of three nodes."""
    return Shards(fleet(a=["n1", "n2", "n3"]), links, policy=name_of(links[0].policies[0]), least_rows=1)


async def test_shards_are_told_between_two_rounds() -> None:
    subject, shard = service(FakeCore()), LocalShard()
    subject.shards = shards_of(shard)
    running = asyncio.create_task(subject.run())
    await asyncio.wait_for(shard.taken.wait(), 30)
    subject.stop()
    await running
    assert shard.shard.held.n == 3


async def test_shards_that_fail_do_not_end_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    core = FakeCore()
    subject = service(core)
    subject.shards = shards_of(LocalShard())
    monkeypatch.setattr(subject.shards, "follow", lambda: 1 / 0)
    running = asyncio.create_task(subject.run())
    await core.until(lambda: core.ticks > 3)
    subject.stop()
    await running


async def test_readiness_and_metrics_tell_of_shards() -> None:
    subject, well, away = service(FakeCore(open=True)), LocalShard(), LocalShard()
    away.state = "starting"
    subject.shards = shards_of(well, away)
    subject.shards.follow()
    subject.metrics.watch(ShardCollector(subject.shards))
    app: TestClient[Any, Any] = TestClient(TestServer(make_app(OnlyOne(subject, FakeViews()))))
    async with app as client:
        ready = await client.get("/readyz")
        assert (ready.status, await ready.text()) == (200, "ok\nshard 1: starting")
        metrics = await (await client.get("/metrics")).text()
    assert 'global_dispatcher_shard_up{shard="0"} 1.0' in metrics
    assert 'global_dispatcher_shard_up{shard="1"} 0.0' in metrics
    assert 'global_dispatcher_shard_rows{shard="1"} 2.0' in metrics
    assert 'global_dispatcher_shard_busy_seconds_total{shard="0"} 1.5' in metrics
    assert 'global_dispatcher_shard_questions_total{result="answered",shard="0"} 0.0' in metrics


async def test_changed_profiles_are_the_shards_too() -> None:
    shard = LocalShard()
    dispatcher = assemble([LocalLink("east", FakeAgent("east"))], DispatcherConfig(), [shard])
    changed = DispatcherConfig(profiles=(replace(DEFAULT_PROFILE, plugins=DEFAULT_PROFILE.plugins[:-2]),))
    dispatcher.take_policies(changed)
    assert shard.policies == [policy_of(DispatcherConfig()), policy_of(changed)]
