"""The fake clusters that several dispatchers follow: each hears all of it, whenever it asks."""

from random import Random

import pytest

from benchmarks.fail_over.cluster import SharedCluster
from benchmarks.fleet.load import Load
from shared.model.pod import Pod


class Follower:
    def __init__(self, cluster: SharedCluster) -> None:
        self.cluster, self.incarnation, self.since = cluster, "", 0
        self.pods: dict[str, Pod] = {}

    async def ask(self, wait_s: float = 0.0) -> None:
        told = await self.cluster.changes(self.incarnation, self.since, wait_s)
        assert told.full or told.since == self.since
        self.pods = ({} if told.full else self.pods) | {pod.uid: pod for pod in told.pods}
        self.incarnation, self.since = told.incarnation, told.revision


@pytest.mark.parametrize("seed", range(5))
async def test_each_follower_ends_with_what_is_there(seed: int) -> None:
    dice, clusters = Random(seed), dict[str, SharedCluster]()
    one = SharedCluster(Load(clusters=1, nodes=3, pods=5), 0, clusters, lambda what, uid: None)
    followers = [Follower(one) for _ in range(3)]
    for _ in range(40):
        if dice.random() < 0.5:
            one.submit()
        elif dice.random() < 0.1:
            one.restart()
        else:
            await dice.choice(followers).ask()
    for follower in followers:
        await follower.ask()
        assert follower.pods == one.pods


async def test_a_follower_that_has_all_waits_for_news_and_is_told_nothing() -> None:
    one = SharedCluster(Load(clusters=1, nodes=3, pods=5), 0, {}, lambda what, uid: None)
    follower = Follower(one)
    await follower.ask()
    told = await one.changes(follower.incarnation, follower.since, 0.01)
    assert (told.full, told.pods, told.revision) == (False, (), follower.since)
