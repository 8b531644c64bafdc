"""The closed loop: the same days again, the peers' formulas, and the core of the product in the same world."""

from dataclasses import replace

import numpy as np
import pytest

from benchmarks.closed_loop.case import closed_loop
from benchmarks.closed_loop.measure import Measure, goal, report, runs
from benchmarks.closed_loop.policies import BEST_OF_TWO, BY_ONE_SCORE, OURS, POLICIES
from benchmarks.closed_loop.readings import Quality, Readings
from benchmarks.closed_loop.traces import Table, generated
from benchmarks.closed_loop.workload import CPU, MINUTES, RESOURCES, Guesses, Size, Workload, make
from benchmarks.closed_loop.world import Figures, World

TRACES = generated(np.random.default_rng(0), 300)
SMALL = Size(clusters=3, nodes=10, pods=300)
TINY = Size(clusters=3, nodes=6, pods=150)
SELDOM = Quality(shortest_s=120.0, longest_s=180.0)  # readings: `ours` is busy with nothing else
KEYS = {"hot_minutes", "overload", "p99", "deviation", "unserved", "moves"}


def measured(*policies: str, seeds: int = 1, size: Size = TINY) -> Measure:
    return Measure(TRACES, "generated", seeds, size, SELDOM, policies=policies or tuple(POLICIES))


def quietly(measure: Measure) -> dict[str, dict[str, dict[str, float]]]:
    return report(measure, list(runs(measure, lambda text: None)))


@pytest.fixture(scope="module")
def all_policies() -> dict[str, dict[str, dict[str, float]]]:
    return quietly(measured())


# --- the whole -------------------------------------------------------------------------------------------------------


def test_the_report_has_six_figures_of_each_policy(all_policies: dict[str, dict[str, dict[str, float]]]) -> None:
    assert list(all_policies["policies"]) == list(POLICIES)
    for resource in ("policies", "memory", "network"):
        assert {frozenset(figures) for figures in all_policies[resource].values()} == {frozenset(KEYS)}


def test_the_oracle_beats_requests() -> None:
    found = quietly(measured("oracle", "requests", size=SMALL))
    oracle, requests = (found["policies"][name] for name in ("oracle", "requests"))
    assert requests["hot_minutes"] > 0
    assert oracle["hot_minutes"] < requests["hot_minutes"] / 2
    assert oracle["deviation"] < requests["deviation"]


@pytest.mark.parametrize("policy", POLICIES)
def test_the_same_seed_gives_the_same_day(policy: str, all_policies: dict[str, dict[str, dict[str, float]]]) -> None:
    again = quietly(measured(policy))  # alone: it does not matter which others run
    assert again["policies"][policy] == all_policies["policies"][policy]
    assert again["memory"][policy] == all_policies["memory"][policy]


def test_other_seeds_are_other_days() -> None:
    first, second = runs(measured("requests", seeds=2), lambda text: None)
    assert first.figures != second.figures


@pytest.mark.parametrize("policy", POLICIES)
def test_nothing_is_unserved_where_capacity_is_ample(policy: str) -> None:
    found = quietly(measured(policy, size=replace(TINY, load=0.05)))
    for resource in ("policies", "memory", "network"):
        assert found[resource][policy]["overload"] == 0
        assert found[resource][policy]["unserved"] == 0


def test_ours_learns_of_load_by_readings_alone() -> None:
    seen = Measure(TRACES, "generated", 1, SMALL, replace(SELDOM, lost=0.0), (OURS,))
    blind = Measure(TRACES, "generated", 1, SMALL, replace(SELDOM, lost=1.0), (OURS,))
    assert quietly(seen)["policies"][OURS]["hot_minutes"] < quietly(blind)["policies"][OURS]["hot_minutes"]


def test_the_goal_is_half_of_the_best_of_the_others_and_four_fifths_of_the_best_of_two() -> None:
    hot = dict.fromkeys((*BY_ONE_SCORE, OURS), 1000.0) | {BEST_OF_TWO: 700.0}
    of = {name: {"hot_minutes": value} for name, value in hot.items()}
    assert goal(of) == 500.0
    assert goal(of | {BEST_OF_TWO: {"hot_minutes": 500.0}}) == 400.0
    assert goal({OURS: of[OURS]}) is None


@pytest.mark.system
def test_the_row_says_that_its_traces_are_generated_and_has_the_best_of_the_others_beside_it() -> None:
    (row,) = closed_loop(10)
    assert (row.name, row.nodes, row.pods, row.unit) == ("closed_loop_hot_minutes", 10, 320, "min")
    assert "generated" in row.counts
    assert row.baseline is not None
    assert row.target is not None
    assert row.target <= row.baseline / 2
    assert not row.more_is_better


# --- pods ------------------------------------------------------------------------------------------------------------


def test_pods_of_one_app_ask_for_the_same_and_use_nearly_the_same() -> None:
    workload = make(TRACES, SMALL, 1)
    use = workload.use[CPU].mean(axis=1)
    within = [use[workload.app == app].std() for app in np.unique(workload.app)]
    assert np.mean(within) < use.std() / 10
    for app in np.unique(workload.app):
        assert len(np.unique(workload.requests[:, workload.app == app], axis=1).T) == 1


def test_pods_of_an_app_come_together_once_or_several_times() -> None:
    def bursts(count: int) -> float:
        """Of an app's pods, in the mean, those that come within two minutes of the first."""
        workload = make(TRACES, replace(SMALL, bursts=count), 1)
        times = [workload.arrives[workload.app == app] for app in np.unique(workload.app)]
        return float(np.mean([np.mean(one < one.min() + 120) for one in times if len(one) > 3]))

    assert bursts(4) < 0.6 * bursts(1)


def test_bad_guesses_are_far_from_what_is_used_and_good_ones_near() -> None:
    off = {}
    for guesses in Guesses:
        workload = make(TRACES, Size(nodes=12, pods=2000, guesses=guesses), 1)
        level = np.percentile(workload.use[CPU], 90, axis=1) * workload.node_cpu
        off[guesses] = np.log(workload.requests[CPU] / level).std()
    assert off[Guesses.BAD] == pytest.approx(1.2, abs=0.25)
    assert off[Guesses.GOOD] < 0.3


def test_the_fleet_is_as_full_at_the_peak_as_asked_for() -> None:
    workload = make(TRACES, SMALL, 1)
    wanted = np.zeros(MINUTES)
    for pod, since in enumerate(workload.arrives):
        life = workload.life(pod, float(since))
        wanted[life] += workload.use[CPU, pod, life]
    assert wanted.max() / SMALL.nodes == pytest.approx(SMALL.load, rel=0.05)


# --- readings --------------------------------------------------------------------------------------------------------


def load_of(shares: float) -> Table:
    return np.full((len(RESOURCES), 4, MINUTES), shares, dtype=np.float32)


def test_readings_come_in_their_interval_and_show_the_load_between_two_minutes() -> None:
    load = np.broadcast_to((np.arange(MINUTES) / MINUTES).astype(np.float32), (3, 4, MINUTES))
    readings = Readings(Quality(late_s=0.0, noise=0.0, lost=0.0), 4, 1)
    batch = readings.until(36_000.0, load)
    assert batch is not None
    for node in range(4):
        gaps = np.diff(batch.sampled_at[batch.node == node])
        assert np.allclose(gaps, gaps[0])
        assert 15 <= gaps[0] <= 60
    assert np.allclose(batch.shares[0], batch.sampled_at / 60 / MINUTES, atol=1e-4)


def test_a_late_reading_is_told_when_it_arrives_with_the_time_of_its_sample() -> None:
    readings = Readings(Quality(late_s=100.0, noise=0.0, lost=0.0), 4, 1)
    ages: list[float] = []
    for now in np.arange(10.0, 7200.0, 10.0):
        batch = readings.until(float(now), load_of(0.5))
        ages += [] if batch is None else (now - batch.sampled_at).tolist()
    assert min(ages) >= 0
    assert np.mean(ages) == pytest.approx(105.0, rel=0.2)


def test_readings_are_lost_and_noisy_as_told_and_never_outside_of_0_to_1() -> None:
    every = Readings(Quality(lost=0.0), 4, 1).until(80_000.0, load_of(0.5))
    some = Readings(Quality(lost=0.5, noise=0.1), 4, 1).until(80_000.0, load_of(0.5))
    full = Readings(Quality(noise=0.5), 4, 1).until(80_000.0, load_of(1.4))
    assert every is not None
    assert some is not None
    assert full is not None
    assert len(some.node) == pytest.approx(len(every.node) / 2, rel=0.05)
    assert some.shares.std() == pytest.approx(0.1, rel=0.1)
    assert full.shares.min() >= 0.0
    assert full.shares.max() == 1.0


# --- the world -------------------------------------------------------------------------------------------------------


def one_pod(use: float) -> Workload:
    """A pod that comes at 10:00 and ends at 11:00, on nodes of 4 CPU; it uses that share of a node all day long."""
    return Workload(
        size=Size(clusters=1, nodes=2, pods=1),
        node_cpu=4000,
        app=np.zeros(1, dtype=np.int64),
        home=np.zeros(1, dtype=np.int64),
        arrives=np.asarray([36_000.0]),
        ends=np.asarray([39_600.0]),
        requests=np.asarray([[1000], [2**30]]),
        use=np.full((3, 1, MINUTES), use, dtype=np.float32),
    )


def of_cpu(world: World) -> Figures:
    return world.figures()[CPU]


def test_what_is_wanted_beyond_a_node_is_overload_and_unserved() -> None:
    world = World(one_pod(1.25))
    world.start(0, 0, 36_000.0)
    found = of_cpu(world)
    assert found.hot_minutes == 58  # it starts up for two minutes
    assert found.overload == pytest.approx(58 * 0.25)
    assert found.unserved == pytest.approx(20.0)


def test_a_pod_that_waits_is_unserved_meanwhile() -> None:
    world = World(one_pod(0.5))
    world.start(0, 0, 36_000.0 + 29 * 60)
    assert of_cpu(world).unserved == pytest.approx(50.0)
    assert of_cpu(World(one_pod(0.5))).unserved == 100.0


def test_a_moved_pod_loads_its_new_node_and_gets_nothing_in_between() -> None:
    world = World(one_pod(0.5))
    world.start(0, 0, 36_000.0)
    world.move(0, 1, 36_000.0 + 30 * 60)
    assert world.load[CPU, 0].sum() == pytest.approx(29 * 0.5)
    assert world.load[CPU, 1].sum() == pytest.approx(28 * 0.5)
    assert of_cpu(world).moves == 1
    assert of_cpu(world).unserved == pytest.approx(100 / 58)
