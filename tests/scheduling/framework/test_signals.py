"""Signals are an axis: a new one is told by a source, named in configuration, and scored, and nothing else knows it."""

import math

import msgspec
import numpy as np
import pytest

from agents.observer.changes import ChangeLog
from agents.observer.loads import Loads, Measure, Sample
from agents.observer.seen import NodeTarget
from agents.observer.signals import with_base
from agents.runtime.settings import AgentSettings
from dispatcher.kit import a_fleet, a_node, a_pod, scores
from dispatcher.plugins.registry import PluginContext, build
from dispatcher.scheduling.fleet.fleet import FleetState
from dispatcher.scheduling.framework import Plugin, PluginUse, Profile
from shared.messages import Changes, decode, encode
from shared.model.node import Reading
from shared.model.pod import Record
from shared.model.signals import MAX_SIGNALS


def headroom(*signals: str) -> Plugin:
    """The generic plugin as a profile names it."""
    use = PluginUse("LiveHeadroom", 1.0, {"signals": list(signals)})
    (plugin,) = build(Profile("global-dispatcher", (use,)), PluginContext())
    return plugin


def fleet_of(*names: str) -> FleetState:
    return a_fleet({"east": [a_node(name, room={"cpu": "10", "memory": "10Gi"}) for name in names]})


def test_a_signal_that_only_a_source_and_the_configuration_know_is_seen_in_a_score() -> None:
    given = [{"name": "lathe", "of": ["spindle_turns"], "per": 50.0}]
    settings = AgentSettings.model_validate({"cluster": "east", "signals": given})
    loads = Loads(ChangeLog(), tau_s=0, signals=with_base(one.signal() for one in settings.signals))
    for name, turns in (("busy", 40.0), ("idle", 5.0)):
        sample = Sample("tachometer", {"spindle_turns": Measure(turns, time=7.0)})
        assert loads.add(NodeTarget(name), sample, now=100.0)
    readings = tuple(reading for name in ("busy", "idle") if (reading := loads.reading(name, 103.0)) is not None)
    told = decode(Changes, encode(Changes("east", "uid", "life", 0, 1, readings=readings)))
    fleet = fleet_of("busy", "idle", "silent")
    for reading in told.readings:
        fleet.put_reading("east", reading)
    assert fleet.signals.used("lathe")[:2].tolist() == pytest.approx([0.8, 0.1])
    assert (fleet.now - fleet.signals.sampled_at("lathe")[:2]).tolist() == [3.0, 3.0]
    busy, idle, silent = scores(headroom("lathe"), a_pod("p", wants={"cpu": "5"}), fleet).values()
    assert [idle, silent] == pytest.approx([100 * (1 - 0.1 / 1.6), 100 * (1 - 0.5 / 1.6)])
    assert busy < silent < idle


def test_of_several_signals_the_scarcest_counts() -> None:
    fleet = fleet_of("a", "b")
    fleet.put_reading("east", Reading.of("a", {"disk": (0.1, 0.0), "gpu": (0.7, 0.0)}))
    fleet.put_reading("east", Reading.of("b", {"disk": (0.6, 0.0), "gpu": (0.2, 0.0)}))
    both, gpu, disk = (
        list(scores(headroom(*names), a_pod("p"), fleet).values()) for names in (("disk", "gpu"), ("gpu",), ("disk",))
    )
    assert both == [gpu[0], disk[1]]


def test_headroom_of_cpu_alone_is_what_the_plugin_of_that_name_says() -> None:
    fleet = fleet_of("a", "b")
    fleet.put_reading("east", Reading("a", cpu=0.83, cpu_age_s=70.0))
    (live,) = build(Profile("global-dispatcher", (PluginUse("LiveCPU"),)), PluginContext())
    assert scores(headroom("cpu"), a_pod("p", wants={"cpu": "1"}), fleet) == scores(
        live, a_pod("p", wants={"cpu": "1"}), fleet
    )


def test_a_signal_that_nobody_tells_is_unknown_everywhere() -> None:
    fleet = fleet_of("a")
    assert math.isnan(fleet.signals.used("rumour")[0])
    assert fleet.signals.sampled_at("rumour").tolist() == [-np.inf]


def test_an_agent_cannot_fill_the_columns_with_names() -> None:
    fleet = fleet_of("a")
    made_up = {f"s{at}": (0.5, 0.0) for at in range(100)}
    fleet.put_reading("east", Reading.of("a", {"Not A Name": (0.5, 0.0), **made_up}))
    assert len(fleet.signal_axis) == len(fleet.used) == MAX_SIGNALS
    assert "Not A Name" not in fleet.signal_axis.names


class ReadingBefore(Record, frozen=True):
    """What the release before this one reads and writes."""

    node: str
    cpu: float | None = None
    memory: float | None = None
    net: float | None = None
    receive_bytes_s: float | None = None
    transmit_bytes_s: float | None = None
    cpu_age_s: float = 0.0
    memory_age_s: float = 0.0
    net_age_s: float = 0.0
    source: str = ""


TOLD = {"cpu": "kubelet", "disk": "kubelet"}


def test_readings_cross_between_this_release_and_the_one_before() -> None:
    now = Reading.of("n", {"cpu": (0.5, 1.0), "disk": (0.2, 2.0), "gpu": (None, 0.0)}, TOLD, receive_bytes_s=7.0)
    old = ReadingBefore("n", cpu=0.5, receive_bytes_s=7.0, cpu_age_s=1.0, source="kubelet")
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(now), type=ReadingBefore) == old
    read = msgspec.msgpack.decode(msgspec.msgpack.encode(old), type=Reading)
    assert list(read.signals()) == [("cpu", 0.5, 1.0)]
    assert list(now.signals()) == [("cpu", 0.5, 1.0), ("disk", 0.2, 2.0)]


@pytest.mark.parametrize("wrong", [{"name": "Disk"}, {"name": "x", "per": 0.0}, {"name": "x", "per": "wheels"}])
def test_a_signal_that_cannot_be_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"signals\.0"):
        AgentSettings.model_validate({"cluster": "east", "signals": [wrong]})
