"""Faults of the ways: to API servers, of watches, and between dispatchers and agents."""

import random
from typing import Any

from tests.simulation.acts.table import ACTS, Act, Do, Stage, act
from tests.simulation.faults import Fault
from tests.simulation.world.fleet import Cluster
from tests.simulation.world.net import Weather
from tests.simulation.world.processes import LinkWeather


def _weather(**changes: Any) -> Do:
    def do(stage: Stage, fault: Fault, cluster: Cluster, dice: random.Random) -> Act:
        weather, calm = cluster.wire.weather, Weather()
        for name, value in changes.items():
            setattr(weather, name, value(dice) if callable(value) else value)
        yield
        for name in changes:
            setattr(weather, name, getattr(calm, name))

    return do


def _link(**changes: Any) -> Do:
    def do(stage: Stage, fault: Fault, cluster: Cluster, dice: random.Random) -> Act:
        for weather in stage.links(fault.cluster):
            for name, value in changes.items():
                setattr(weather, name, value)
        yield
        for weather in stage.links(fault.cluster):
            for name in changes:
                setattr(weather, name, getattr(LinkWeather(), name))

    return do


ACTS |= {
    "server-down": _weather(down=True),
    "server-refuses": _weather(answers=lambda dice: {dice.choice((429, 500, 503, 403)): dice.choice((0.3, 0.8, 1.0))}),
    "server-fails": _weather(failing=lambda dice: {dice.choice((500, 504)): dice.choice((0.2, 0.5))}),
    "others-write": _weather(conflicts=lambda dice: dice.choice((0.3, 0.6))),
    "server-slow": _weather(late_s=lambda dice: dice.choice((1.0, 4.0))),
    "requests-lost": _weather(lose_requests=lambda dice: dice.choice((0.2, 0.5))),
    "replies-lost": _weather(lose_replies=lambda dice: dice.choice((0.2, 0.5, 0.8))),
    "cut-there": _weather(cut_there=True),
    "cut-back": _weather(cut_back=True),
    "watch-late": _weather(watch_late_s=lambda dice: dice.choice((2.0, 6.0, 11.0))),
    "link-there": _link(cut_there=True),
    "link-back": _link(cut_back=True),
    "link-loses": _link(lose=0.4),
    "link-twice": _link(twice=0.5),
}


@act("watch-frozen")
def _freeze(stage: Stage, fault: Fault, cluster: Cluster, dice: random.Random) -> Act:
    cluster.wire.weather.frozen = True
    yield
    cluster.wire.thaw()


@act("watch-cut")
def _cut(stage: Stage, fault: Fault, cluster: Cluster, dice: random.Random) -> Act:
    cluster.wire.cut()
    yield


@act("watch-expired")
def _expire(stage: Stage, fault: Fault, cluster: Cluster, dice: random.Random) -> Act:
    cluster.wire.cut(compacted=True)
    yield


@act("watch-dead")
def _dead(stage: Stage, fault: Fault, cluster: Cluster, dice: random.Random) -> Act:
    """Half-open connections: what is open now never brings anything again."""
    for stream in list(cluster.wire.streams):
        stream.die()
    yield


@act("stale-frontend")
def _stale(stage: Stage, fault: Fault, cluster: Cluster, dice: random.Random) -> Act:
    """One of several API servers, whose cache stands still: it answers who allows any version."""
    cluster.wire.stand_still()
    yield
    cluster.wire.weather.lagging = False
