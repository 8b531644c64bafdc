"""A pod that its namespace has too many distinct terms for is tried again as soon as it may go."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from dispatcher.plugins.registry import PluginContext, build, queue_sort
from dispatcher.scheduling.core import SchedulerCore
from dispatcher.scheduling.cycle.cycle import Scheduler
from dispatcher.scheduling.cycle.profiles import Profiles
from dispatcher.scheduling.events import ClusterChanged, Decide, Effect, SendIntents, Tick
from dispatcher.scheduling.fleet.fleet import FleetState
from dispatcher.scheduling.framework import Profile
from dispatcher.scheduling.profile import DEFAULT_PROFILE
from dispatcher.scheduling.queue import SchedulingQueue
from dispatcher.scheduling.quota import QuotaLedger
from shared.messages import Bind, Changes
from shared.model.node import Node
from shared.model.pod import Pod
from tests.builders import pod, selector

NODES = tuple(Node(f"n{at}", ready=True, allocatable={"cpu": 9000, "pods": 9}) for at in range(9))


def having_terms(most: int) -> Profile:
    """The default profile with so many distinct terms about others for a namespace."""
    return replace(
        DEFAULT_PROFILE,
        plugins=tuple(
            replace(one, args={"most_terms_about_others": most}) if one.name == "InterPodAffinity" else one
            for one in DEFAULT_PROFILE.plugins
        ),
    )


def holder(name: str, app: str, node: str = "", namespace: str = "default") -> Pod:
    """A pod with one term, about pods of this app in any namespace; on a node it is another scheduler's."""
    wide: dict[str, Any] = {"namespace_selector": selector()}
    built = pod(name).namespace(namespace).away("host", selector(app=app), **wide)
    return (built.set(node=node, phase="Running", scheduler_name="") if node else built).build()


class Waits:
    """Its namespace may have two distinct terms and has them; the pod that waits has a third one."""

    def __init__(self) -> None:
        profile, fleet = having_terms(2), FleetState()
        plugins = build(profile, PluginContext(quota=QuotaLedger(())))
        profiles = Profiles([Scheduler(profile, plugins, fleet)])
        queue = SchedulingQueue(queue_sort(plugins), profiles.classify, gates=profiles)
        self.core = SchedulerCore(("a",), fleet, queue, profiles, boot_epoch=1)
        self.now, self.bound = 1.0, list[str]()
        pods = (holder("h1", "x", "n1"), holder("h2", "y", "n2"), holder("waits", "z"))
        self.told(0, nodes=NODES, pods=pods, full=True)

    def told(self, since: int, **changes: Any) -> list[str]:
        """What was bound within 20 s of a report: less than pods are left waiting for."""
        self._take(
            self.core.handle(ClusterChanged(Changes("a", "a-uid", "life", since, since + 1, **changes)), self.now)
        )
        for _ in range(20):
            self.now += 1.0
            self._take(self.core.handle(Tick(), self.now))
            self._take(self.core.handle(Decide(64), self.now))
        return self.bound

    def _take(self, effects: Sequence[Effect]) -> None:
        batches = (one.intents for one in effects if isinstance(one, SendIntents))
        self.bound += [one.pod.name for batch in batches for one in batch if isinstance(one, Bind)]


def test_it_goes_when_a_holder_of_another_term_of_its_namespace_goes() -> None:
    waits = Waits()
    assert waits.bound == []
    assert waits.told(1, pods_gone=("uid-h1",)) == ["waits"]


def test_it_goes_when_a_pod_comes_that_holds_its_term_already() -> None:
    waits = Waits()
    assert waits.told(1, pods=(holder("h3", "z", "n3"),)) == ["waits"]


def test_it_waits_on_when_a_pod_comes_with_another_term_or_of_another_namespace() -> None:
    waits = Waits()
    others = (holder("h3", "v", "n3"), holder("other", "z", "n4", namespace="other"))
    assert waits.told(1, pods=others) == []
