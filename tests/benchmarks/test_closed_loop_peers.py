"""The formulas of the peers, by hand, on three nodes of 4 CPU and 64 GiB."""

import numpy as np
import pytest

from benchmarks.closed_loop.ours import Ours, read_profile
from benchmarks.closed_loop.peers import (
    BestOfTwo,
    LoadVariation,
    Oracle,
    Requests,
    Seed,
    TargetLoadPacking,
)
from benchmarks.closed_loop.policies import POLICIES
from benchmarks.closed_loop.policy import Policy, Setting
from benchmarks.closed_loop.readings import Batch
from benchmarks.closed_loop.workload import CPU, MINUTES, NODE_MEMORY, Size, Workload
from benchmarks.closed_loop.world import World

NODES, NOW = 3, 3600.0


def workload(pods: int = 8, cpu: int = 400) -> Workload:
    return Workload(
        size=Size(clusters=1, nodes=NODES, pods=pods),
        node_cpu=4000,
        app=np.zeros(pods, dtype=np.int64),
        home=np.zeros(pods, dtype=np.int64),
        arrives=np.full(pods, NOW),
        ends=np.full(pods, NOW + 7200.0),
        requests=np.asarray([[cpu] * pods, [NODE_MEMORY // 10] * pods]),
        use=np.full((3, pods, MINUTES), 0.1, dtype=np.float32),
    )


def setting(pods: Workload | None = None) -> Setting:
    made = pods or workload()
    return Setting(made, World(made), np.random.default_rng(0), read_profile())


def read(policy: Policy, *cpu: float, at: float = NOW) -> None:
    """A reading of each node; memory and network are idle."""
    shares = np.zeros((3, len(cpu)), dtype=np.float32)
    shares[CPU] = cpu
    policy.read(Batch(np.arange(len(cpu)), np.full(len(cpu), at), shares), at)


def test_requests_is_least_allocated_and_balanced() -> None:
    policy = Requests(setting())
    assert policy.score(0, NOW) == pytest.approx([90 + 100] * NODES)
    node = policy.place(0, NOW)
    assert node is not None
    assert policy.score(1, NOW)[node] == pytest.approx(80 + 100)


def test_seed_is_the_share_of_the_highest_reading_and_an_unknown_node_is_the_worst() -> None:
    policy = Seed(setting())
    read(policy, 0.2, 0.8)
    assert policy.score(0, NOW) == pytest.approx([75, 0, 0], abs=1e-4)


def test_target_load_packing_fills_up_to_its_target_and_counts_what_no_reading_shows() -> None:
    policy = TargetLoadPacking(setting())
    read(policy, 0.05, 0.25, 0.9)
    # With 1.5 times the pod's tenth of a node: 20, 40 and 105 percent.
    assert policy.score(0, NOW).tolist() == [70, 100, 0]
    assert policy.place(0, NOW) == 1
    assert policy.score(1, NOW).tolist() == [70, 30, 0]
    read(policy, 0.05, 0.25, 0.9, at=NOW + 61)
    assert policy.score(1, NOW + 61).tolist() == [70, 100, 0]


def test_load_variation_prefers_the_steady_one_of_two_equally_loaded_nodes() -> None:
    policy = LoadVariation(setting())
    read(policy, 0.2, 0.4, at=NOW - 60)
    read(policy, 0.6, 0.4, at=NOW)
    # Mean 0.4 and the pod's 0.1; a deviation of 0.2, and of none.
    assert policy.score(0, NOW).tolist() == [65, 75, 0]


def test_best_of_two_takes_the_lesser_of_two_and_not_always_the_least_of_all() -> None:
    policy = BestOfTwo(setting(workload(pods=24, cpu=10)))
    read(policy, 0.1, 0.5, 0.9)
    taken = {policy.place(pod, NOW) for pod in range(6)}
    assert taken == {0, 1}


def test_the_oracle_knows_what_is_to_come() -> None:
    made = setting()
    made.world.load[CPU, :, :] = np.asarray([0.1, 0.3, 0.5])[:, None]
    made.world.load[CPU, 0, 120:] = 0.9
    assert Oracle(made).place(0, NOW) == 1


@pytest.mark.parametrize("policy", POLICIES)
def test_all_refuse_by_requests_what_has_no_room_and_take_it_once_there_is(policy: str) -> None:
    made = setting(workload(cpu=3000))
    ours = POLICIES[policy](made)
    read(ours, 0.0, 0.0, 0.0)
    taken = [ours.place(pod, NOW) for pod in range(4)]
    assert set(taken[:3]) == {0, 1, 2}
    assert taken[3] is None
    ours.ended(1, NOW + 1)
    assert ours.place(3, NOW + 1) == taken[1]


def test_ours_is_told_the_age_of_a_reading() -> None:
    policy = Ours(setting())
    read(policy, 0.9, 0.0, 0.9, at=NOW)
    assert policy.place(0, NOW + 1) == 1
    for pod, late, nodes in ((1, 30.0, {1}), (2, 1000.0, {0, 2})):  # by then requests alone count: the empty ones
        assert policy.place(pod, NOW + late) in nodes


def test_ours_learns_what_pods_of_an_app_use_as_agents_tell_it() -> None:
    policy = Ours(setting(workload(cpu=100)))  # of 4000, and each uses 0.1 of the node
    for pod in range(4):
        policy.place(pod, NOW)
    for minute in range(1, 30):
        read(policy, 0.2, 0.2, 0.2, at=NOW + 60 * minute)
    policy.place(4, NOW + 1800)
    found = policy._fleet.occupant(("cluster-0", "uid-4"))
    assert found is not None
    assert found.counts_as is not None
    assert found.counts_as[0] > 200, "as much as nobody is believed more than"
