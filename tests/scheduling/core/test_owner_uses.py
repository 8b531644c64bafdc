"""A pod is decided, and counts, by what is known of its owner when it is decided, not when it came."""

import pytest

from dispatcher.scheduling.core import SchedulerCore
from dispatcher.scheduling.events import ClusterChanged, Tick
from shared.messages import Changes
from shared.model.names import SCHEDULER_NAME
from shared.model.node import Node
from shared.model.owner_use import OwnerUse
from shared.model.pod import PENDING, Pod
from tests.laws.cores import make_core

GIB = 2**30
NODE = Node("n1", ready=True, allocatable={"cpu": 4000, "memory": 8 * GIB, "pods": 20})
USE = OwnerUse("default", "StatefulSet/web", 4000.0, float(GIB), 60.0)


def pod(scheduler: str = SCHEDULER_NAME, node: str = "", phase: str = PENDING) -> Pod:
    told = {"requests": {"cpu": 1000, "memory": GIB}, "scheduler_name": scheduler, "node": node, "phase": phase}
    return Pod("uid-web", "default", "web-0", owner="StatefulSet/web/u", **told)  # type: ignore[arg-type]


def shown(*pods: Pod, uses: tuple[OwnerUse, ...] = (), since: int = 0) -> ClusterChanged:
    told = {"full": True, "nodes": (NODE,)} if not since else {}
    return ClusterChanged(Changes("east", "u", "life", since, since + 1, pods=pods, uses=uses, **told))  # type: ignore[arg-type]


def settling(core: SchedulerCore) -> list[int]:
    found: list[int] = core.fleet.settling[:, 0].tolist()
    return found


def test_a_pod_that_waited_is_decided_by_what_has_been_learnt_since() -> None:
    core = make_core(("east",))
    core.handle(shown(pod()), 1.0)
    core.handle(shown(uses=(USE,), since=1), 2.0)
    core.handle(Tick(budget=100), 3.0)
    found = core.fleet.occupant(("east", "uid-web"))
    assert found is not None
    assert found.counts_as == (3364, GIB)
    assert settling(core) == [3364, GIB]
    core.handle(shown(pod(node="n1"), since=2), 4.0)
    assert settling(core) == [3364, GIB], "its cluster shows it"


@pytest.mark.parametrize(("phase", "want"), [(PENDING, [3364, GIB]), ("Running", [0, 0])])
def test_a_pod_that_another_scheduler_has_bound_counts_so_until_it_runs(phase: str, want: list[int]) -> None:
    core = make_core(("east",))
    core.handle(shown(pod("default-scheduler", "n1", phase), uses=(USE,)), 1.0)
    assert settling(core) == want
