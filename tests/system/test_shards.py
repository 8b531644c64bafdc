"""Shards as real Ray actors: the decisions of one process, also while shards are killed, hang and come back."""

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from dispatcher.config import DispatcherConfig
from dispatcher.plugins.registry import PluginContext, build
from dispatcher.scheduling.cycle.cycle import Scheduler
from dispatcher.scheduling.fleet.fleet import FleetState
from dispatcher.scheduling.profile import DEFAULT_PROFILE
from dispatcher.scheduling.shards.coordinator import Shards
from dispatcher.service.descendants import descendants
from dispatcher.service.ray_runtime import RayOptions, RayRuntime
from dispatcher.service.shards.link import RayShard
from dispatcher.service.shards.policy import name_of, policy_of
from tests.builders import node, pod, reading
from tests.system.cluster_api import eventually
from tests.system.harness import System, specs

CLUSTERS, NODES = ("a", "b"), 400


@pytest.fixture(scope="module")
def ray() -> Iterator[RayRuntime]:
    """A Ray of this test's own, with room for two shards."""
    runtime = RayRuntime.start([], RayOptions(shards=2))
    yield runtime
    runtime.stop()


@pytest.fixture(scope="module")
def links(ray: RayRuntime) -> list[RayShard]:
    """Two shards that are up."""
    made = ray.shards(2, policy_of(DispatcherConfig()))
    eventually(lambda: all(link.up for link in made), 60)
    return made


class Side:
    """A fleet and its scheduler, with these shards or none."""

    def __init__(self, links: list[RayShard]) -> None:
        self.fleet = FleetState(now=1000.0)
        self.shards = Shards(self.fleet, links, policy=name_of(policy_of(DispatcherConfig())), least_rows=1)
        parallel_scan = self.shards.parallel_scan(DEFAULT_PROFILE.scheduler_name) if links else None
        plugins = build(DEFAULT_PROFILE, PluginContext())
        self.scheduler = Scheduler(DEFAULT_PROFILE, plugins, self.fleet, parallel_scan=parallel_scan)
        self.told: list[Any] = []
        for at, name in enumerate(CLUSTERS):
            self.fleet.set_cluster(name, ready=True, synced=True)
            for number in range(NODES):
                labels = {"zone": f"{name}{number % 3}", "disk": ("ssd", "hdd")[number % 2]}
                self.fleet.put_node(name, node(f"n{number}").cpu(2 + number % 7).labels(**labels).build())
                load = ((number * 7919 + at) % 100) / 250
                self.fleet.put_reading(name, reading(f"n{number}", cpu=load, memory=load / 2, net=load / 3))

    def work(self, step: int) -> None:
        """Some pods of kinds of their own, and a fleet that moves on."""
        dice = np.random.default_rng(step)
        self.fleet.now = 1000.0 + step
        kinds = (
            pod("plain").cpu(f"{100 + step}m"),
            pod("zoned").cpu(f"{50 + step}m").spread("zone"),
            pod("picky").cpu(f"{70 + step}m").node_selector({"disk": "ssd"}),
            pod("port").cpu(f"{30 + step}m").port(80),
            pod("great").cpu("40"),
        )
        for number, kind in enumerate(kinds):
            pods = [(("a", f"{step}-{number}-{at}"), kind.placed("a")) for at in range(1 + 3 * (number % 2))]
            self.told += [result.record() for result in self.scheduler.schedule_class(pods)]
        for at in dice.integers(0, NODES, 20).tolist():
            self.fleet.put_reading("b", reading(f"n{at}", cpu=float(dice.random()), memory=0.1, net=0.1))
        self.fleet.remove_node("a", f"n{step}")

    def answered(self) -> list[int]:
        """Questions that each shard has answered."""
        return [counts.answered for counts in self.shards.counts_of_each]


def shard_processes() -> list[int]:
    """The processes of shards below this one."""
    return sorted(process.pid for process in descendants("ray::ShardActor"))


def text(system: System, path: str) -> str:
    """A page of the dispatcher's HTTP API."""
    return httpx.get(f"http://127.0.0.1:{system.port}{path}", timeout=10, trust_env=False).text


def same(step: int, alone: Side, shared: Side) -> None:
    """Both do the same work; all that they say of it is equal."""
    for side in (alone, shared):
        side.work(step)
    assert alone.told == shared.told


def test_two_shards_decide_what_one_process_decides_while_they_are_killed_and_hang(links: list[RayShard]) -> None:
    alone, shared = Side([]), Side(links)
    for step in range(10):
        same(step, alone, shared)
    assert min(shared.answered()) >= 5
    assert {one["outcome"] for one in alone.told} == {"scheduled", "unschedulable"}

    lives = [link.life for link in links]
    os.kill(shard_processes()[0], signal.SIGKILL)
    for step in range(10, 20):
        same(step, alone, shared)
    eventually(_came_back(links, lives, shared), 20)
    before = shared.answered()
    for step in range(20, 25):
        same(step, alone, shared)
    assert all(after > once for after, once in zip(shared.answered(), before, strict=True))

    stopped = shard_processes()[0]
    os.kill(stopped, signal.SIGSTOP)
    try:
        same(25, alone, shared)
        assert sorted(link.state for link in links) == ["late", "up"]
    finally:
        os.kill(stopped, signal.SIGCONT)
    eventually(lambda: all(link.ready for link in links), 30)
    before = shared.answered()
    same(26, alone, shared)
    assert all(after > once for after, once in zip(shared.answered(), before, strict=True))


def _came_back(links: list[RayShard], lives: list[int], side: Side) -> Callable[[], bool]:
    def check() -> bool:
        side.shards.follow()
        return all(link.ready for link in links) and [link.life for link in links] != lives

    return check


def test_a_dispatcher_with_shards_brings_them_up_and_says_so(tmp_path: Path) -> None:
    with System(tmp_path, specs(nodes=2), {"scheduling": {"shards": 2}}) as system:
        system.wait_ready()
        up = ('global_dispatcher_shard_up{shard="0"} 1.0', 'global_dispatcher_shard_up{shard="1"} 1.0')
        eventually(lambda: all(line in text(system, "/metrics") for line in up), 60, lambda: system.log)
        assert text(system, "/readyz") == "ok"
