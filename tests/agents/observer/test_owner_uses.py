"""What pods of each owner use: the histogram against a naive one, whose samples count, and that nothing grows."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.observer import owner_uses
from agents.observer.changes import ChangeLog
from agents.observer.owner_uses import (
    HALF_LIFE_S,
    KEPT_S,
    LEAST_CPU,
    LOOK_S,
    MAX_GAP_S,
    START_S,
    TELL_S,
    USES,
    Histogram,
    OwnerUses,
    PodUse,
)
from shared.model.owner_use import OwnerUse
from shared.model.pod import Pod
from tests.builders import pod

Told = list[tuple[float, float, float]]  # value, weight, time
values = st.floats(0, 1e6)
samples = st.lists(st.tuples(values, st.floats(0.1, 5), st.floats(0, 30 * HALF_LIFE_S)), min_size=1, max_size=30)


def naive(told: Told, share: float) -> float:
    """The least value of which no more than the rest is above, each counted by its weight and age."""
    now = max(at for _, _, at in told)
    counted = sorted((value, weight * 0.5 ** ((now - at) / HALF_LIFE_S)) for value, weight, at in told)
    total, found = sum(weight for _, weight in counted), 0.0
    for value, weight in counted:
        found += weight
        if found >= share * total * (1 - 1e-9):
            return value
    raise AssertionError("no weight")


def filled(told: Told) -> Histogram:
    found = Histogram(LEAST_CPU, 0.0)
    for value, weight, at in told:
        found.add(value, weight, at)
    return found


@given(samples, st.sampled_from((0.5, 0.75, 0.9, 1.0)))
def test_a_percentile_is_that_of_all_samples_within_a_bucket(
    told: list[tuple[float, float, float]], share: float
) -> None:
    found, want = filled(sorted(told, key=lambda one: one[2])).percentile(share), naive(told, share)
    assert found is not None
    assert max(want, LEAST_CPU) * (1 - 1e-6) <= found <= max(want, LEAST_CPU) * 2**0.25 * (1 + 1e-6)


@given(samples, st.randoms(use_true_random=False), st.sampled_from((0.5, 0.9)))
def test_the_order_of_samples_does_not_matter(
    told: list[tuple[float, float, float]], rng: object, share: float
) -> None:
    shuffled = list(told)
    rng.shuffle(shuffled)  # type: ignore[attr-defined]
    one, other, now = filled(told), filled(shuffled), 30 * HALF_LIFE_S
    assert one.total(now) == pytest.approx(other.total(now))
    assert one.percentile(share) in (other.percentile(share), other.percentile(share - 1e-6))


def test_weights_halve_with_every_half_life_for_years() -> None:
    found = Histogram(LEAST_CPU, 0.0)
    found.add(10.0, 8.0, 0.0)
    assert found.total(2 * HALF_LIFE_S) == pytest.approx(2.0)
    found.add(1000.0, 1.0, 3000 * HALF_LIFE_S)
    assert found.total(3000 * HALF_LIFE_S) == pytest.approx(1.0)
    assert found.percentile(0.01) == pytest.approx(1000, rel=0.2)


class Cluster:
    """Pods of a Deployment, and what an observer makes of samples of them."""

    def __init__(self) -> None:
        self.pods: dict[tuple[str, str], Pod] = {}
        self.log = ChangeLog()
        self.uses = OwnerUses(self.log, lambda namespace, name: self.pods.get((namespace, name)))
        self.now = 0.0

    def pod(self, name: str, owner: str = "web", namespace: str = "default", phase: str = "Running") -> str:
        one = pod(name).namespace(namespace).labels(**{"pod-template-hash": "5d4f8c9b7"})
        one = one.set(owner=f"ReplicaSet/{owner}-5d4f8c9b7/uid" if owner else "").on("n1", phase)
        self.pods[namespace, name] = one.build()
        return name

    def look(
        self,
        *names: str,
        cores: float | None = 0.2,
        memory: float | None = 2.0**30,
        every: float = LOOK_S,
        node: str = "",
    ) -> None:
        self.now += every
        told = [PodUse("default", name, cores, memory, self.now) for name in names]
        self.uses.add(told, self.now, node)

    def use(self, owner: str = "Deployment/web") -> OwnerUse | None:
        return self.uses.use(f"default/{owner}", self.now)


def test_what_pods_of_a_deployment_use_is_learnt_once_they_have_started() -> None:
    cluster = Cluster()
    name = cluster.pod("web-1")
    cluster.look(name, cores=4.0, every=0)
    cluster.look(name, cores=4.0, every=START_S)
    assert cluster.use() is None, "it starts"
    for _ in range(6):
        cluster.look(name)
    found = cluster.use()
    assert found is not None
    assert (found.namespace, found.owner) == ("default", "Deployment/web")
    assert found.cpu == pytest.approx(200, rel=0.2)
    assert found.memory == pytest.approx(2**30, rel=0.2)
    assert found.minutes == pytest.approx(6 * LOOK_S / 60, rel=0.01), "what is older counts a little less"


def test_time_that_nobody_looked_counts_only_so_far() -> None:
    cluster = Cluster()
    name = cluster.pod("web-1")
    cluster.look(name)
    cluster.look(name, every=KEPT_S)
    found = cluster.use()
    assert found is not None
    assert found.minutes == pytest.approx(MAX_GAP_S / 60)


@pytest.mark.parametrize("wrong", [math.nan, math.inf, -1.0, 1e30, None])
def test_absurd_samples_say_nothing(wrong: float | None) -> None:
    cluster = Cluster()
    name = cluster.pod("web-1")
    for _ in range(9):
        cluster.look(name, cores=wrong)
        cluster.look(name, memory=wrong)
    assert cluster.use() is None


def test_a_kubelet_is_believed_of_the_pods_of_its_own_node_alone() -> None:
    cluster = Cluster()
    name = cluster.pod("web-1")
    for _ in range(4):
        cluster.look(name, cores=900.0, node="captured")
    assert cluster.use() is None
    for _ in range(4):
        cluster.look(name, cores=0.2, node="n1")
        cluster.look(name, cores=900.0, every=0.0, node="captured")
    found = cluster.use()
    assert found is not None
    assert found.cpu == pytest.approx(200, rel=0.2)


def test_the_same_sample_again_says_nothing() -> None:
    cluster = Cluster()
    name = cluster.pod("web-1")
    for _ in range(9):
        cluster.now += LOOK_S
        cluster.uses.add([PodUse("default", name, 0.2, 2.0**30, 5.0)], cluster.now)
    assert cluster.use() is None


@pytest.mark.parametrize(("owner", "phase"), [("", "Running"), ("web", "Pending"), ("web", "Succeeded")])
def test_bare_pods_and_those_that_do_not_run_are_passed_by(owner: str, phase: str) -> None:
    cluster = Cluster()
    name = cluster.pod("one", owner, phase=phase)
    for _ in range(9):
        cluster.look(name, "stranger")
    assert len(cluster.uses) == 0


def test_only_what_is_another_than_before_is_told() -> None:
    cluster = Cluster()
    name = cluster.pod("web-1")
    for _ in range(60):
        cluster.look(name)
    revision = cluster.log.revision
    for at in range(60):
        cluster.look(name, cores=0.2 + 0.001 * (at % 2))
    assert cluster.log.revision == revision
    for _ in range(60):
        cluster.look(name, cores=1.0)
    assert list(cluster.log.changed(revision)) == [(USES, "default/Deployment/web")]


def test_what_is_kept_is_bounded_however_many_owners_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(owner_uses, "MAX_OWNERS", 5)
    cluster = Cluster()
    for at in range(40):
        name = cluster.pod(f"p{at}", f"web-{at}")
        for _ in range(4):
            cluster.look(name)
    assert (len(cluster.uses), cluster.uses.dropped) == (5, 35)
    assert len(list(cluster.log.changed(0))) == 5
    assert not list(cluster.log.gone(0)), "nobody needs to know"
    assert len(cluster.uses._tracks) <= 3 + 4 * KEPT_S / LOOK_S
    assert TELL_S < LOOK_S
