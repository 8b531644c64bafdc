"""Pressure (PSI) is a signal like others: what docs/telemetry.md says of ExpectedLoad and LiveHeadroom over it."""

import pytest

from dispatcher.scheduling.fleet.fleet import FleetState
from tests.builders import fleet, node, pod, put, reading
from tests.plugins.asking import make, scores

NOTHING = pod().set(expected=(0, 0))
BY_ALL = {"cpu": 2, "memory": 1, "network": 1, "pressure_cpu": 1, "pressure_memory": 2, "pressure_io": 2}


def pressed(**nodes: float | None) -> FleetState:
    """Nodes, half of each requested and in use, under that pressure of I/O; None: it is not told."""
    state = fleet(a=[node(name).cpu(10).memory("10Gi") for name in nodes])
    for name, pressure in nodes.items():
        put(state, pod(f"on-{name}").cpu(5).memory("5Gi").set(phase="Running"), "a", name)
        more = {} if pressure is None else {"pressure_io": (pressure, 0.0)}
        state.put_reading("a", reading(name, cpu=0.5, memory=0.5, net=0.1, more=more))
    return state


def test_expected_load_avoids_pressure_more_than_in_proportion() -> None:
    found = scores(make("ExpectedLoad", signals=BY_ALL), NOTHING, pressed(calm=0.0, little=0.1, much=0.6))
    assert found["calm"] > found["little"] > found["much"]
    assert found["little"] - found["much"] > 5 * (found["calm"] - found["little"])


def test_expected_load_takes_pressure_that_is_not_told_for_what_others_show_by_request() -> None:
    state = pressed(told=0.2, silent=None, calm=0.0)
    state.put_reading("a", reading("calm", more={"pressure_io": (0.2, 0.0)}, age=-1.0))
    state.learn_usual()
    found = scores(make("ExpectedLoad", signals={"pressure_io": 1}), NOTHING, state)
    assert found["silent"] == pytest.approx(found["told"], abs=5)


def test_live_headroom_with_a_low_knee_is_a_dead_zone() -> None:
    plugin = make("LiveHeadroom", signals=["pressure_io"], hot_above=0.05, hot_steepness=20)
    found = scores(plugin, NOTHING, pressed(calm=0.0, dead=0.05, pressed=0.3, full=1.0))
    assert found == {
        "calm": 100,
        "dead": pytest.approx(99.74, abs=0.01),
        "pressed": pytest.approx(73.49, abs=0.01),
        "full": 0,
    }
