"""The lists and watches of one API server: what it shows, whether it answers, which cluster it is."""

import asyncio
import time
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from agents.kube import node_groups
from agents.kube.convert import pod_seen
from agents.kube.listwatch import ListWatch, Pace
from agents.kube.nodes import node_seen
from agents.kube.objects import KINDS
from agents.kube.pod_events import NORMAL_OF_PODS, PATH, WARNINGS_OF_PODS, event_seen
from agents.kube.pod_groups import FOREIGN, KUBERNETES, Api
from agents.observer.cache import ClusterCache
from agents.observer.changes import ChangeLog
from agents.observer.mark_verifier import MarkVerifier
from agents.observer.node_groups import NodeGroupWatch
from agents.observer.seen import NODES, PODS
from agents.runtime.health import HealthMonitor
from agents.runtime.settings import AgentSettings, ApiSettings
from agents.runtime.watch_handler import WatchHandler
from agents.runtime.watch_verifier import WatchVerifier
from shared.kube.client import KubeClient
from shared.model.objects import DaemonSet
from shared.streams.calls import BOTH, EXECUTOR

# What orders are checked against, beside nodes and pods.
EXECUTOR_KINDS = frozenset(
    {
        "Namespace",
        "PodDisruptionBudget",
        "PriorityClass",
        "ReplicaSet",
        "ReplicationController",
        "DaemonSet",
    }
)

SYNC_LOOK_S = 0.5
EVENTS_LOOK_S = 2.0  # what is normal waits for so long, or twice, for a status that it comes with
# Pods that are judged anew for their group, of 30 us each: an eighth of a core at the most.
JUDGED_AT_ONCE = 1000
JUDGE_S = 0.25

Spawn = Callable[[Coroutine[Any, Any, None], str], asyncio.Task[None]]


class Watching:
    """One process's own view of its cluster. An executor alone watches no more than it checks
    orders against.

    `on_change` is called with every change, `on_went_back` when the API server shows an older
    version than it did.
    """

    def __init__(
        self,
        client: KubeClient,
        settings: AgentSettings,
        marks: MarkVerifier,
        on_change: Callable[[], None],
    ) -> None:
        api = settings.api
        pace = _pace(settings.api)
        kinds = [kind for kind in KINDS if _is_watched(kind.name, settings.role)]
        self.log = ChangeLog(max_graves=settings.max_graves, on_change=on_change)
        whole = settings.role != EXECUTOR
        names = (kind.name for kind in kinds)
        self.cache = ClusterCache(self.log, names, groups=whole, judged_at_once=JUDGED_AT_ONCE)
        self.handler = handler = WatchHandler(self.cache, settings.kubelet.bandwidth, marks)
        self.watches: Sequence[ListWatch] = (
            ListWatch(client, NODES, "/api/v1/nodes", node_seen, handler, pace),
            ListWatch(client, PODS, "/api/v1/pods", pod_seen, handler, pace),
            *(
                ListWatch(client, kind.name, kind.path, kind.seen, handler, pace, optional=True)
                for kind in kinds
            ),
            *((_watch_of_groups(client, KUBERNETES, handler, pace),) if whole else ()),
        )
        # Beside the others: APIs of other projects are no part of Kubernetes, and where one of them
        # fails no more than its own pods wait.
        self._of_pod_groups: Sequence[ListWatch] = (
            [_watch_of_groups(client, api, handler, pace) for api in FOREIGN] if whole else ()
        )
        # Beside the others, which tell whether this view is whole and right: that does not rest on
        # events.
        self._warnings, self._normal = (
            ListWatch(
                client,
                "Event",
                PATH,
                event_seen,
                handler.events,
                pace,
                optional=True,
                fields=fields,
            )
            for fields in (WARNINGS_OF_PODS, NORMAL_OF_PODS)
        )
        self._tells_events = whole
        self.node_groups = None
        self._of_node_groups: Sequence[ListWatch] = ()
        if whole and settings.node_groups.read:
            self.node_groups = NodeGroupWatch(
                self.log,
                node_groups.KINDS,
                time.monotonic,
                only_these=settings.node_groups.all,
            )
            self._of_node_groups = _watches_of_node_groups(client, settings, self.node_groups, pace)
        self.on_went_back: Callable[[], None] = lambda: None
        self.health = HealthMonitor(client, self.watches, api, self.log.bump, self._rewatch)
        self.verifier = WatchVerifier(client, self.watches, api, self._reopen, self._went_back)
        self._spawn: Spawn | None = None
        self.tasks: dict[str, asyncio.Task[None]] = {}

    def open(self, spawn: Spawn) -> None:
        """Begin to list and watch."""
        self._spawn = spawn
        self._rewatch()
        if self._tells_events:
            self.tasks["Event"] = spawn(self._watch_events(), "watch Event")
            self.tasks["normal Event"] = spawn(self._watch_normal(), "watch normal Event")
            self.tasks["late Event"] = spawn(self._tell_late(), "tell late Event")
            self.tasks["late members"] = spawn(self._judge_late(), "judge late members")
        for watch in (*self._of_node_groups, *self._of_pod_groups):
            self.tasks[watch.kind] = spawn(watch.run(), f"watch {watch.kind}")

    async def _watch_events(self) -> None:
        while not self.cache.synced:  # noqa: ASYNC110 - polled once a start; events are of pods that are known
            await asyncio.sleep(SYNC_LOOK_S)
        await self._warnings.run()

    async def _watch_normal(self) -> None:
        """Kubelets tell four or five of each pod that starts: a cluster without pods of others is
        spared them.
        """
        events = self.handler.events
        while not (self.cache.synced and events.any_delegate):  # noqa: ASYNC110 - hours maybe
            await asyncio.sleep(SYNC_LOOK_S)
        await self._normal.run()

    async def _tell_late(self) -> None:
        while True:
            await asyncio.sleep(EVENTS_LOOK_S)
            self.handler.events.tell_late()

    async def _judge_late(self) -> None:
        while True:
            await asyncio.sleep(JUDGE_S)
            self.cache.judge_late()

    def start_over(self) -> None:
        """List everything anew: what was shown is to be judged otherwise."""
        for watch in self.watches:
            watch.start_over(went_back=False)
            self._reopen(watch)

    def _went_back(self, known: int, found: int) -> None:
        self.on_went_back()
        self.health.went_back(known, found)

    def _rewatch(self) -> None:
        """(Re)open the watches; each resumes where it was."""
        for watch in self.watches:
            self._reopen(watch)

    def _reopen(self, watch: ListWatch) -> None:
        if self._spawn is None:
            return
        if watch.kind in self.tasks:
            self.tasks[watch.kind].cancel()
        self.tasks[watch.kind] = self._spawn(watch.run(), f"watch {watch.kind}")


def _is_watched(kind: str, role: str) -> bool:
    """Whether an agent in this role watches a kind of objects: an observer alone has nobody who
    asks for DaemonSets.
    """
    return (
        kind in EXECUTOR_KINDS if role == EXECUTOR else role == BOTH or kind != DaemonSet.__name__
    )


def _watch_of_groups(client: KubeClient, api: Api, handler: WatchHandler, pace: Pace) -> ListWatch:
    path, *others = api.paths
    return ListWatch(client, api.kind, path, api.seen, handler, pace, optional=True, others=others)


def _watches_of_node_groups(
    client: KubeClient, settings: AgentSettings, sink: NodeGroupWatch, pace: Pace
) -> Sequence[ListWatch]:
    """Of node groups and their autoscaler. Beside the others, too: on none of them rests whether
    this view is whole.
    """
    told = settings.node_groups
    of_kinds = dict[str, ListWatch]()
    for kind in node_groups.KINDS:
        path, *others = node_groups.paths(kind, told.namespace)
        read = node_groups.reader(kind, told.cluster)
        of_kinds[kind] = ListWatch(
            client, kind, path, read, sink, pace, optional=True, others=others
        )
    sink.is_unserved = lambda kind: of_kinds[kind].unserved
    of_autoscaler = ListWatch(
        client,
        node_groups.STATUS,
        node_groups.STATUS_PATH,
        node_groups.status_seen,
        sink,
        pace,
        optional=True,
        fields=node_groups.STATUS_FIELDS,
    )
    return (*of_kinds.values(), of_autoscaler)


def _pace(api: ApiSettings) -> Pace:
    return Pace(
        silence_s=api.silence_s,
        watch_s=api.watch_s,
        list_s=api.list_s,
        backoff_s=api.backoff_s,
        max_backoff_s=api.max_backoff_s,
        page=api.page,
    )
