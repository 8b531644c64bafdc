"""How large pods of other clusters may be here, all together, and how fast they may be made."""

from collections.abc import Callable

import msgspec
import pytest

from agents.executor.context.foreign_bytes import ForeignBudget
from agents.executor.context.local import Moment
from agents.executor.crossing.policy import ExecutorPolicy, ForeignBytes
from agents.executor.intents.procedures import carry_out
from shared.kube.http import Request, Response
from shared.messages import BOUND, OF_CLUSTER, REFUSED, Outcome, PodRef
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
        self.world.api.namespaces |= {"first", "second", "third"}
        self.world.sync()
        local = self.world.local
        local.foreign_budget = ForeignBudget(ForeignBytes(**most), local.copies, local.services)
        self._made = 0

    def make(
        self,
        at_s: float = 0.0,
        *,
        cluster: str = "a",
        number: int = -1,
        namespace: str = "default",
        size: int = SIZE,
        answer: Callable[[Request], Response] | None = None,
    ) -> Outcome:
        self._made += 1
        number = self._made if number < 0 else number
        ref = PodRef(namespace, f"web-{number}", f"uid-{number}")
        order = order_for(ref, 1, "n1", manifest(size), cluster=cluster)
        moment = Moment(NOW.mono + at_s, NOW.wall + at_s)
        made: Outcome = run(carry_out(order, 1, self.world.local, moment), answer or self.world.api.answer)
        self.world.sync()
        return made

    def verdicts(self, count: int, at_s: float = 0.0, *, cluster: str = "a") -> list[str]:
        return [self.make(at_s, cluster=cluster).verdict for _ in range(count)]


@pytest.mark.parametrize(("key", "count"), [("namespace_mib", 5), ("cluster_mib", 3)])
def test_as_many_bytes_stand_as_the_policy_allows_and_room_comes_with_an_end(key: str, count: int) -> None:
    target = Target(**{key: 1})
    assert target.verdicts(count) == [BOUND] * count
    refused = target.make()
    assert (refused.verdict, refused.scope) == (REFUSED, OF_CLUSTER)
    assert f"foreign_bytes.{key}" in refused.message
    assert target.verdicts(1, cluster="c") == [BOUND]
    del target.world.api.objects[pod_path(delegate_of(PodRef("default", "web-1", "uid-1")))]
    target.world.sync()
    assert target.verdicts(2) == [BOUND, REFUSED]


@pytest.mark.parametrize(("key", "count"), [("namespace_mib_per_minute", 6), ("cluster_mib_per_minute", 4)])
def test_pods_are_made_at_a_rate_of_bytes_and_those_of_other_clusters_do_not_wait(key: str, count: int) -> None:
    target = Target(**{key: 1})
    assert target.verdicts(8) == [BOUND] * count + [REFUSED] * (8 - count)
    refused = target.make()
    assert refused.passing
    assert f"foreign_bytes.{key}" in refused.message
    assert target.verdicts(1, cluster="c") == [BOUND]
    assert target.verdicts(6, 60.0)[:4] == [BOUND] * 4


@pytest.mark.parametrize("key", ["cluster_mib", "cluster_mib_per_minute"])
def test_some_namespaces_never_take_what_is_kept_for_those_with_little(key: str) -> None:
    target = Target(**{key: 1})
    made = [target.make(namespace=name, size=25 * 1024) for _ in range(20) for name in ("first", "second")]
    assert [one.verdict for one in made[-10:]] == [REFUSED] * 10
    assert f"foreign_bytes.{key}" in made[-1].message
    assert "the last quarter only for namespaces that take less" in made[-1].message
    others = [target.make(namespace="third", size=size).verdict for size in (1024, 1024, 40 * 1024, 40 * 1024)]
    assert others[:2] == [BOUND] * 2
    assert others[-1] == REFUSED


def test_what_is_kept_has_an_end_too() -> None:
    target = Target(cluster_mib=1)
    target.world.api.namespaces |= {f"n-{number}" for number in range(45)}
    target.world.sync()
    last = [target.make(namespace=f"n-{number}", size=25 * 1024) for number in range(45)][-1]
    assert "may have 1 MiB: make" in last.message


@pytest.mark.parametrize(
    ("reply", "charged"),
    [
        (Response(403, b'{"message":"no"}'), False),
        (Response(404, b'{"message":"no such namespace"}'), False),
        (Response(429, b'{"message":"too busy"}'), False),
        (Response(0), True),
    ],
    ids=["denied", "no namespace", "too busy", "no answer"],
)
def test_only_what_may_have_been_made_is_charged(reply: Response, charged: bool) -> None:
    target = Target(namespace_mib_per_minute=1)

    def answer(request: Request) -> Response:
        return reply if request.method == "POST" else target.world.api.answer(request)

    for _ in range(6):
        assert target.make(answer=answer).verdict != BOUND
    assert target.make().verdict == (REFUSED if charged else BOUND)


def test_an_order_that_was_carried_out_is_answered_as_before_however_many_bytes_there_are() -> None:
    target = Target(namespace_mib=1)
    target.verdicts(5)
    assert [target.make().verdict, target.make(number=1).verdict] == [REFUSED, BOUND]


def test_a_policy_bounds_bytes_unless_told_otherwise() -> None:
    assert ExecutorPolicy().foreign_bytes == ForeignBytes(256, 512, 64, 128)
