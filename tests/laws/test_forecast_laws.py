"""A profile that goes by forecasts: bounds hold, kernels equal NumPy, and kept classes follow each step."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dispatcher.plugins.registry import PluginContext, build
from dispatcher.scheduling.equivalence.cache import EquivalenceCache
from dispatcher.scheduling.fleet.fleet import FleetState
from dispatcher.scheduling.fleet.forecast import HORIZON, STEP_S
from dispatcher.scheduling.fleet.view import view_of
from dispatcher.scheduling.framework import kernels
from dispatcher.scheduling.framework.bounds import BoundedScore
from dispatcher.scheduling.framework.points import Plan
from dispatcher.scheduling.framework.roles import roles_of
from dispatcher.scheduling.profile import DEFAULT_PROFILE
from dispatcher.scheduling.pruning.row_bounds import GroupPoints
from dispatcher.scheduling.pruning.upper_bounds import UpperBounds
from dispatcher.scheduling.rules.requests import nonzero_request
from shared.model.node import Reading
from tests.builders import fleet, node, pod, put
from tests.laws.test_pruning_laws import some_fleet

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


@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, 2**32), st.integers(1, 70_000), st.integers(0, 140_000), st.floats(0, 20))
def test_no_row_scores_higher_than_its_bound(form: None, number: int, milli: int, mebi: int, later: float) -> None:
    seed = np.random.default_rng(number)
    state = some_fleet(seed)
    foretell(state, seed)
    roles = [role for role in roles_of(plan()) if isinstance(role.plugin, BoundedScore)]
    table = UpperBounds(roles, state)
    assert table.refresh()
    state.now += later
    placed = pod("p").cpu(f"{milli}m").memory(f"{mebi}Mi").placed("a")
    nothing = GroupPoints(np.zeros(1, dtype=np.float32), np.zeros(state.n, dtype=np.int32))
    static = np.zeros(state.n, dtype=np.float32)
    bounds = table.row_bounds(static, nothing, nonzero_request(placed.pod), table.loose)
    total = np.zeros(state.n)
    for role in roles:
        view = view_of(state)
        total += role.weight * role.plugin.score(role.plugin.pre_filter(placed, view), view, slice(0, state.n))
    assert (total <= bounds._reach).all()


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
