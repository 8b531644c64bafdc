"""Groups in a world of trouble: a group ends whole, and however many want more than there is, they do not block each
other.
"""

from collections import Counter

import pytest

from dispatcher.scheduling import events
from dispatcher.scheduling.core import CoreTiming, SchedulerCore
from shared.messages import CreateDelegate
from shared.model.names import CLUSTERS as MAY_GO_TO
from shared.model.pod import FLEET, Group
from tests.laws.cores import make_core
from tests.laws.examples import examples
from tests.laws.test_exactly_once import CLUSTERS, GRACE_S, Simulation, run_and_check
from tests.laws.world import World

SEEDS = range(5000, 5000 + examples(40))


class Gangs(Simulation):
    """The same trouble, and half of what is submitted are groups, some of which may go to other clusters alone."""

    def _boot(self) -> SchedulerCore:
        self.boots += 1
        self.mail.queue.clear()
        timing = CoreTiming(absence_grace_s=GRACE_S, group_s=10.0)
        return make_core(CLUSTERS, boot_epoch=self.boots * 1_000_000, timing=timing)

    def _make_trouble(self) -> None:
        super()._make_trouble()
        if self.dice.random() < 0.3:
            self._submit_group()

    def _submit_group(self) -> None:
        dice = self.dice
        home = self.world.clusters[dice.choice(CLUSTERS)]
        size = dice.randrange(2, 5)
        least, within = dice.randrange(2, size + 1), dice.choice(("cluster", "cluster", FLEET, "host"))
        group = Group("annotation", f"g{dice.randrange(10**9)}", "", least, within)
        away = [{}, {MAY_GO_TO: dice.choice(CLUSTERS)}][dice.random() < 0.6]
        for at in range(size):
            home.submit(f"{group.name}-{at}", dice.choice((100, 400)), group=group, annotations=away)


def running(world: World) -> dict[str, tuple[Group, int, int]]:
    """By group: how many of its pods there are, and how many of them run."""
    there, run, groups = Counter[str](), Counter[str](), dict[str, Group]()
    for name, cluster in world.clusters.items():
        for pod in cluster.sources():
            if pod.group is not None and not pod.terminating:
                groups[pod.group.name] = pod.group
                there[pod.group.name] += 1
                run[pod.group.name] += bool(world.running[name, pod.uid])
    return {name: (group, there[name], run[name]) for name, group in groups.items()}


def halves(world: World) -> list[str]:
    """Groups of which enough pods are there, and some run, but too few."""
    found = running(world).items()
    return [name for name, (group, there, run) in found if there >= group.min_count and 0 < run < group.min_count]


@pytest.mark.parametrize("seed", SEEDS)
def test_groups_end_whole_after_the_faults_stop_and_each_pod_runs_once(seed: int) -> None:
    sim = Gangs(seed)
    run_and_check(sim)
    stuck = [
        (name, sim.core.tracked[home, pod.uid].reported)
        for name in halves(sim.world)
        for home, cluster in sim.world.clusters.items()
        for pod in cluster.sources()
        if pod.group is not None and pod.group.name == name and not sim.world.running[home, pod.uid]
    ]
    assert all("fit in" in told for _, told in stuck), stuck  # no room any more where the others are


class Refusing(Gangs):
    """Only groups, in clusters whose webhooks refuse every fourth delegate, and whose watches lag. No message is lost
    and nobody is deleted, so nothing excuses half a group.
    """

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.mail.loss = 0.0
        for cluster in self.world.clusters.values():
            cluster.webhook = self._webhook  # type: ignore[method-assign]

    def _webhook(self, intent: CreateDelegate) -> str:
        return "denied" if self.trouble and not intent.made and self.dice.random() < 0.25 else ""

    def _deliver(self, batch: events.SendIntents) -> None:
        outcomes = tuple(self.world.clusters[batch.cluster].execute(intent) for intent in batch.intents)
        self._feed(events.Answered(batch.cluster, outcomes))

    def _make_trouble(self) -> None:
        self._submit_group()


@pytest.mark.parametrize("seed", SEEDS)
def test_no_half_of_a_group_is_ever_started_however_often_one_of_it_is_refused(seed: int) -> None:
    sim = Refusing(seed)
    for at in range(60):
        sim.trouble = at < 30
        sim.step()
        assert halves(sim.world) == []
    found = running(sim.world).values()
    assert sum(run >= group.min_count for group, _, run in found) >= 3


def test_groups_that_want_half_as_much_again_as_there_is_do_not_block_each_other_and_fill_it() -> None:
    used = [crowd(seed) for seed in SEEDS[: examples(5)]]
    assert min(used) >= 0.95


def crowd(seed: int) -> float:
    """At least 50 groups want 150 % of a fleet; the share of it that runs them in the end."""
    sim = Refusing(seed)
    sim.trouble = False
    dice, cpu, wanted, groups = sim.dice, 200, 0, 0
    nodes = [node for one in sim.world.clusters.values() for node in one.nodes.values()]
    room = sum(node.allocatable.get("cpu", 0) for node in nodes)
    while wanted < 1.5 * room:
        size = dice.randrange(2, 5)
        group = Group("annotation", f"g{groups}", "", size, FLEET)
        home = sim.world.clusters[dice.choice(CLUSTERS)]
        for at in range(size):
            home.submit(f"{group.name}-{at}", cpu, group=group)
        wanted, groups = wanted + size * cpu, groups + 1
    assert groups >= 50
    for _ in range(30):
        sim.step()
        assert halves(sim.world) == []
    return sum(run * cpu for _, _, run in running(sim.world).values()) / room
