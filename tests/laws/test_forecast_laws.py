"""A profile that goes by forecasts: bounds hold, kernels equal NumPy, and kept classes follow each step."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from dispatcher.plugins.registry import PluginContext, build
from dispatcher.scheduling.equivalence.cache import EquivalenceCache
from dispatcher.scheduling.fleet.fleet import FleetState
from dispatcher.scheduling.fleet.forecast import HORIZON, STEP_S
from dispatcher.scheduling.framework import kernels
from dispatcher.scheduling.framework.points import Plan
from dispatcher.scheduling.profile import DEFAULT_PROFILE
from shared.model.node import Reading
from tests.builders import fleet, node, pod, put
from tests.laws.test_one_pass_laws import some_fleet

FORESEEING = replace(
    DEFAULT_PROFILE,
    plugins=tuple(
        replace(use, args={**use.args, "forecast": 1.0}) if use.name == "ExpectedLoad" else use
        for use in DEFAULT_PROFILE.plugins
    ),
)


@pytest.fixture(params=["numpy", "kernels"])
def form(request: pytest.FixtureRequest) -> Iterator[None]:
    if request.param == "kernels":
        pytest.importorskip("numba")
        assert kernels.compile_all()
    yield
    kernels.use_numpy()


def plan() -> Plan:
    return Plan.of(FORESEEING, build(FORESEEING, PluginContext()))


def foretell(state: FleetState, seed: np.random.Generator) -> None:
    """Any forecasts, of three nodes in four."""
    state._store.forecast[:, : state.n] = seed.uniform(-1.5, 1.0, state.forecast.shape)
    state._store.forecast[:, : state.n][seed.random(state.forecast.shape) < 0.25] = np.nan


def totals(cache: EquivalenceCache, made: Plan, one: object, state: FleetState) -> bytes:
    placed = one.placed("a")  # type: ignore[attr-defined]
    kept = cache.get(made.class_key(placed))
    kept.refresh(placed)
    return kept.rows.total[: state.n].tobytes()


def test_kernels_score_bit_for_bit_as_numpy_does() -> None:
    pytest.importorskip("numba")
    seed, made = np.random.default_rng(3), plan()
    state = some_fleet(seed)
    foretell(state, seed)
    assert kernels.compile_all()
    fast = totals(EquivalenceCache(made, state, 2**26), made, pod().cpu(1), state)
    kernels.use_numpy()
    assert totals(EquivalenceCache(made, state, 2**26), made, pod().cpu(1), state) == fast


def test_a_kept_class_follows_each_step_of_the_forecasts() -> None:
    seed, made, names = np.random.default_rng(4), plan(), [f"n{at}" for at in range(20)]
    state = fleet(a=[node(name).cpu(10).memory("10Gi") for name in names])
    for name in names:
        put(state, pod(f"on-{name}").cpu(int(seed.integers(0, 8))).on(name), "a", name)
    cache, seen = EquivalenceCache(made, state, 2**26), set()
    for _ in range(2 * HORIZON):
        state.now += STEP_S
        state.put_readings("a", [Reading(name, float(seed.random()), 0.5, 0.1) for name in names])
        totals(cache, made, pod().cpu(1), state)
        state.learn_forecast(wanted=made.forecasts)
        kept = totals(cache, made, pod().cpu(1), state)
        assert kept == totals(EquivalenceCache(made, state, 2**26), made, pod().cpu(1), state)
        seen.add(kept)
    assert np.isfinite(state.forecast).any()
    assert len(seen) == 2 * HORIZON
