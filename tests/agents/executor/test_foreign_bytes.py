"""How large pods of other clusters may be here, all together, and how fast they may be made."""

import msgspec
import pytest

from agents.executor.foreign_bytes import ForeignBudget
from agents.executor.local import Moment
from agents.executor.policy import ExecutorPolicy, ForeignBytes
from agents.executor.procedures import carry_out
from dispatcher.model.messages import BOUND, OF_CLUSTER, REFUSED, Outcome, PodRef
from tests.agents.executor.world import NOW, World, delegate_of, node_object, order_for, pod_path, run

SIZE = 200 * 1024  # bytes of a pod; five and a bit are 1 MiB


def manifest(size: int = SIZE) -> bytes:
    env = [{"name": "A", "value": "x" * size}]
    spec = {"containers": [{"name": "main", "image": "x", "env": env}]}
    return msgspec.json.encode({"metadata": {"labels": {}, "annotations": {}}, "spec": spec})


class Target:
    """Cluster b, to which pods of clusters a and c come."""

    def __init__(self, **most: int) -> None:
        node = node_object(cpu="100", pods="100")
        self.world = World(node, cluster="b", peers=("a", "c"))
        self.world.local.foreign_budget = ForeignBudget(ForeignBytes(**most))
        self._made = 0

    def make(self, at_s: float = 0.0, *, cluster: str = "a", number: int = -1) -> Outcome:
        self._made += 1
        number = self._made if number < 0 else number
        order = order_for(PodRef("default", f"web-{number}", f"uid-{number}"), 1, "n1", manifest(), cluster=cluster)
        moment = Moment(NOW.mono + at_s, NOW.wall + at_s)
        made: Outcome = run(carry_out(order, 1, self.world.local, moment), self.world.api.answer)
        self.world.sync()
        return made

    def verdicts(self, count: int, at_s: float = 0.0, *, cluster: str = "a") -> list[str]:
        return [self.make(at_s, cluster=cluster).verdict for _ in range(count)]


@pytest.mark.parametrize("key", ["namespace_mib", "cluster_mib"])
def test_as_many_bytes_stand_as_the_policy_allows_and_room_comes_with_an_end(key: str) -> None:
    target = Target(**{key: 1})
    assert target.verdicts(5) == [BOUND] * 5
    refused = target.make()
    assert (refused.verdict, refused.scope) == (REFUSED, OF_CLUSTER)
    assert f"foreign_bytes.{key}" in refused.message
    assert target.verdicts(1, cluster="c") == [BOUND]
    del target.world.api.objects[pod_path(delegate_of(PodRef("default", "web-1", "uid-1")))]
    target.world.sync()
    assert target.verdicts(2) == [BOUND, REFUSED]


@pytest.mark.parametrize("key", ["namespace_mib_per_minute", "cluster_mib_per_minute"])
def test_pods_are_made_at_a_rate_of_bytes_and_those_of_other_clusters_do_not_wait(key: str) -> None:
    target = Target(**{key: 1})
    assert target.verdicts(8) == [BOUND] * 6 + [REFUSED] * 2
    refused = target.make()
    assert refused.passing
    assert f"foreign_bytes.{key}" in refused.message
    assert target.verdicts(1, cluster="c") == [BOUND]
    assert target.verdicts(6, 60.0)[:4] == [BOUND] * 4


def test_an_order_that_was_carried_out_is_answered_as_before_however_many_bytes_there_are() -> None:
    target = Target(namespace_mib=1)
    target.verdicts(5)
    assert [target.make().verdict, target.make(number=1).verdict] == [REFUSED, BOUND]


def test_a_policy_bounds_bytes_unless_told_otherwise() -> None:
    assert ExecutorPolicy().foreign_bytes == ForeignBytes(256, 512, 64, 128)
