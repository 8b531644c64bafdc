"""A core of one cluster with any plugins, and time in the hand of a test."""

from collections.abc import Hashable, Sequence
from typing import Any

from dispatcher.scheduling.core import SchedulerCore
from dispatcher.scheduling.core.reload import take_profiles
from dispatcher.scheduling.cycle.cycle import Scheduler
from dispatcher.scheduling.cycle.profiles import Profiles
from dispatcher.scheduling.events import Answered, ClusterChanged, Effect, SendIntents, Tick
from dispatcher.scheduling.fleet.fleet import FleetState
from dispatcher.scheduling.framework import (
    Plugin,
    PluginUse,
    PodInfo,
    Profile,
)
from dispatcher.scheduling.queue import SchedulingQueue
from dispatcher.scheduling.views import explain
from shared.messages import (
    Changes,
    Outcome,
)
from shared.model.names import SCHEDULER_NAME
from shared.model.node import Node
from shared.model.pod import Pod
from tests.scheduling.tiny_plugins import ByPriority, Fit, Ready

NODE = Node("n1", ready=True, allocatable={"cpu": 4000, "memory": 2**33, "pods": 20})


def profiles_of(state: FleetState, plugins: Sequence[Plugin]) -> Profiles:
    chosen = (Ready(), Fit(), *plugins)
    profile = Profile(SCHEDULER_NAME, tuple(PluginUse(one.name) for one in chosen))
    return Profiles([Scheduler(profile, chosen, state)])


class World:
    """A core of one cluster, `east`, with these plugins beside Ready and Fit."""

    def __init__(self, *plugins: Plugin) -> None:
        state = FleetState()
        profiles = profiles_of(state, plugins)
        queue = SchedulingQueue(ByPriority(), profiles.classify, gates=profiles)
        self.core = SchedulerCore(("east",), state, queue, profiles, boot_epoch=1)
        self.now, self.revision = 0.0, 0
        self.told: list[Effect] = []
        self.report(nodes=(NODE,))

    def take(self, *plugins: Plugin) -> None:
        """From now on these beside Ready and Fit."""
        take_profiles(self.core, profiles_of(self.core.fleet, plugins), ByPriority(), self.now)

    def _feed(self, event: Any) -> Sequence[Effect]:
        effects = self.core.handle(event, self.now)
        self.told += effects
        return effects

    def report(self, *pods: Pod, nodes: tuple[Node, ...] = (), gone: tuple[str, ...] = ()) -> None:
        self.revision += 1
        since, full = self.revision - 1, self.revision == 1
        changes = Changes(
            "east", "uid", "life", since, self.revision, full=full, nodes=nodes, pods=pods, pods_gone=gone
        )
        self._feed(ClusterChanged(changes))

    def submit(self, name: str, cpu: int = 1000, **more: Any) -> Pod:
        one = Pod(f"uid-{name}", "default", name, requests={"cpu": cpu}, scheduler_name=SCHEDULER_NAME, **more)
        self.report(one)
        return one

    def tick(self, seconds: float = 1.0) -> list[Any]:
        """Time passes; answers the intents that leave."""
        self.now += seconds
        return sent(self._feed(Tick()))

    def answer(self, intent: Any, verdict: str, message: str = "") -> list[Any]:
        outcome = Outcome(intent.id, intent.pod.uid, intent.epoch, verdict, message)
        return sent(self._feed(Answered("east", (outcome,))))

    def state_of(self, name: str) -> str | None:
        return self.core.queue.state_of(("east", f"uid-{name}"))

    def held_cpu(self) -> int:
        return int(self.core.fleet.requested[0].sum())

    def message(self, name: str) -> str:
        row = explain(self.core, "default", name)
        return str(row["message"]) if row else ""


def sent(effects: Sequence[Effect]) -> list[Any]:
    return [one for effect in effects if isinstance(effect, SendIntents) for one in effect.intents]


def of(kind: type, intents: Sequence[Any]) -> list[Any]:
    return [one for one in intents if type(one) is kind]


class Keyed(Plugin):
    def class_key(self, pod_info: PodInfo) -> Hashable:
        return pod_info.pod.labels.get("only")
