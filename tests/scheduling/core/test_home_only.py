"""A pod of a namespace that no other cluster has says on itself that it stays at home, once for many."""

import msgspec
import pytest

from dispatcher.scheduling.core.once_an_hour import AGAIN_S
from dispatcher.scheduling.events import ClusterChanged, Tick
from shared.messages import HOME_ONLY, Changes, ReportUnschedulable
from shared.model import names
from shared.model.crossing import Opening
from shared.model.objects import Namespace
from shared.model.pod import Pod
from tests.laws.cores import make_core
from tests.scheduling.core.test_core import NODE, intents, pod

TEAM = Namespace("team")


class Fleet:
    """East, where pods are submitted and have room; what namespaces west and north show."""

    def __init__(
        self, west: tuple[str, ...] = (), north: tuple[str, ...] = (), *, west_makes: tuple[str, ...] = ()
    ) -> None:
        self.core = make_core(("east", "north", "west"))
        self.now = 1.0
        self._revision = 0
        for cluster, there in (("west", west), ("north", north)):
            shown = tuple(map(Namespace, there))
            opens = (Opening(("*",), ("*",), (), (), creates=west_makes if cluster == "west" else ()),)
            told = Changes(cluster, f"{cluster}-uid", "life", 0, 1, full=True, objects=shown, opens=opens)
            self.core.handle(ClusterChanged(told), self.now)
        self.submit()

    def submit(self, *pods: Pod) -> list[tuple[str, str]]:
        """Whom it is told, and how, within a second."""
        told = Changes("east", "east-uid", "life", self._revision, self._revision + 1, full=not self._revision)
        self._revision += 1
        told = msgspec.structs.replace(told, nodes=(NODE,), objects=(TEAM,), pods=pods)
        effects = list(self.core.handle(ClusterChanged(told), self.now))
        self.now += 1.0
        effects += self.core.handle(Tick(), self.now)
        found = [one for one in intents(effects, ReportUnschedulable) if isinstance(one, ReportUnschedulable)]
        return [(one.pod.name, one.message) for one in found if one.reason == HOME_ONLY]


def of_team(name: str, **more: object) -> Pod:
    return msgspec.structs.replace(pod(name), **{"namespace": "team", **more})


def test_the_first_pod_of_a_namespace_that_is_only_at_home_says_so() -> None:
    fleet = Fleet(west=("default",), north=("default",))
    ((name, text),) = fleet.submit(of_team("one"), of_team("two"))
    assert name in ("one", "two")
    assert 'namespace "team" is in no other cluster, so its pods stay in cluster east: create it' in text
    assert "`executor.namespaces.create`" in text
    assert fleet.submit(of_team("three")) == []
    fleet.now += AGAIN_S
    assert [name for name, _ in fleet.submit(of_team("four"))] == ["four"]


@pytest.mark.parametrize(
    ("west", "north", "more"),
    [
        (("default",), ("default", "team"), {}),
        ((), (), {}),
        (("default",), ("default",), {"annotations": {names.STAY: "true"}}),
        (("default",), ("default",), {"namespace": "kube-system"}),
    ],
    ids=["it is in another cluster", "nothing is known of others", "the pod says that it stays", "Kubernetes' own"],
)
def test_nothing_is_said_otherwise(west: tuple[str, ...], north: tuple[str, ...], more: dict[str, object]) -> None:
    assert Fleet(west, north).submit(of_team("one", **more)) == []


@pytest.mark.parametrize(("pattern", "told"), [("te*", []), ("shop-*", ["one"])])
def test_nothing_is_said_of_a_namespace_that_another_cluster_makes(pattern: str, told: list[str]) -> None:
    fleet = Fleet(west=("default",), north=("default",), west_makes=(pattern,))
    assert [name for name, _ in fleet.submit(of_team("one"))] == told
