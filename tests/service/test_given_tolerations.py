"""What a tenant's pods tolerate by its file: added to them by their agent before they are decided on."""

import msgspec
import pytest

from shared.messages import DONE, REFUSED, AnyIntent, ReportUnschedulable
from shared.model.pod import Toleration
from shared.model.tenant import Tenant, may_be_given
from tests.builders import node, pod
from tests.service.tenant_world import World, tenant

POOL = Toleration("pool", "Equal", "ml", "NoExecute")
SPOT = Toleration("spot", "Exists")
ML = tenant("ml", tolerations=(POOL,))
VISION = tenant("vision", parent="ml", tolerations=(SPOT, POOL))


class Pools(World):
    """A node that is tainted for tenant ml, and an agent that gives pods what it is told, if it `gives`."""

    gives = True
    verdict = DONE

    def __init__(self, *tenants: Tenant) -> None:
        self.asked: list[tuple[str, tuple[Toleration, ...]]] = []
        self.told: list[str] = []
        super().__init__(*tenants)
        pool = node("n1").cpu(9).taint("pool", "ml", "NoExecute").taint("spot").build()
        self.report(full=True, nodes=(pool,))

    def obey(self, intent: AnyIntent) -> None:
        if not isinstance(intent, ReportUnschedulable):
            super().obey(intent)
            return
        if not intent.tolerations:
            self.told.append(intent.message)
        else:
            self.asked.append((intent.pod.name, intent.tolerations))
            self.answer(intent, self.verdict)
            if self.gives and self.verdict == DONE:
                self.show(intent.pod.name, intent.tolerations)

    def show(self, name: str, given: tuple[Toleration, ...]) -> None:
        there = self.pods[name]
        self.pods[name] = msgspec.structs.replace(there, tolerations=(*there.tolerations, *given))
        self.report(pods=(self.pods[name],))

    def state(self, name: str) -> str | None:
        return self.core.queue.state_of(("a", self.pods[name].uid))


def test_pods_of_a_tenant_get_its_tolerations_and_those_of_whom_it_is_part_of() -> None:
    world = Pools(ML, VISION, tenant("other"))
    world.come("vision", "a", "b")
    world.come("other", "c")
    world.tick()
    assert world.asked == [("a", (POOL, SPOT)), ("b", (POOL, SPOT))]
    assert world.running() == {"a", "b"}
    assert world.state("c") == "unschedulable"


def test_a_pod_that_has_them_is_given_nothing_and_its_own_end_counts() -> None:
    world = Pools(ML)
    world.submit(pod("a").namespace("ml").tolerates("pool", "ml", effect="NoExecute").tolerates("spot").build())
    world.tick()
    assert (world.asked, world.running()) == ([], {"a"})


@pytest.mark.parametrize("verdict", [DONE, REFUSED])
def test_a_pod_waits_and_is_asked_for_again_until_it_shows_what_it_was_to_be_given(verdict: str) -> None:
    world = Pools(VISION, ML)
    world.gives, world.verdict = False, verdict  # as of an older agent, or of one that may not
    world.come("vision", "a")
    world.tick(2.0)
    world.tick(4.0)
    assert len(world.asked) == 4
    assert (world.state("a"), world.running()) == ("gated", set())
    item = world.core.queue.get(("a", "uid-a"))
    assert item is not None
    assert item.note == "pod waits for toleration(s) that its tenant gives it: pool=ml:NoExecute, spot"
    world.gives, world.verdict = True, DONE  # its agent was upgraded
    for _ in range(4):
        world.tick(400.0)
    assert (len(world.asked), world.running()) == (5, {"a"})


def test_a_pod_that_finds_no_place_once_it_was_given_them_is_told_at_once() -> None:
    world = Pools(ML)
    world.come("ml", "a")
    assert world.state("a") == "unschedulable", "there is another taint"
    assert len(world.told) == 1
    assert "untolerated taint" in world.told[0]


def test_a_changed_file_gives_to_those_that_wait_and_leaves_the_others() -> None:
    world = Pools(tenant("ml"))
    world.report(nodes=(node("n0").cpu(1).build(),))
    world.come("ml", "a", "b")
    assert (world.running(), world.asked) == ({"a"}, [])
    assert world.change(tenant("ml", tolerations=(POOL, SPOT))) == [
        "tenant ml: nodes changed, pods that have a place keep it"
    ]
    world.tick()
    assert world.asked == [("b", (POOL, SPOT))]
    assert world.running() == {"a", "b"}


def test_a_pod_with_gates_of_its_own_is_given_them_once_these_are_gone() -> None:
    world = Pools(VISION, ML)
    gated = pod("a").namespace("vision").gated().build()
    world.submit(gated)
    world.tick(60.0)
    assert world.asked == []
    world.submit(msgspec.structs.replace(gated, gated=False))
    world.tick(60.0)
    assert world.running() == {"a"}


@pytest.mark.parametrize("key", ["pool", "example.com/pool", "nvidia.com/gpu", "notkubernetes.io/x", "kubernetes.io"])
def test_taints_of_users_may_be_tolerated(key: str) -> None:
    assert may_be_given(key)
