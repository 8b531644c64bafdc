"""The fleet of a world: clusters with everything in them, and the dispatchers over them."""

import asyncio
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from agents.runtime.settings import AcceptSettings, AgentSettings, ApiSettings, KubeletSettings
from dispatcher.config import DispatcherConfig
from dispatcher.config.sections import ClusterSection, TimingSection
from shared.model.tenant import Tenant
from tests.simulation.world.apiserver import EMPTY, NODES, POLICY, UNSHOWN, ApiServer
from tests.simulation.world.controllers import Controllers
from tests.simulation.world.keys import key_file
from tests.simulation.world.kubelet import Container, Kubelets
from tests.simulation.world.loop import EPOCH, START, VirtualLoop
from tests.simulation.world.net import Asked, Wire
from tests.simulation.world.objects import Object
from tests.simulation.world.processes import AgentProcess, DispatcherProcess, LinkWeather, SimLink
from tests.simulation.world.relay import Gave, Relays
from tests.simulation.world.store import Write

BOOKMARK_S = 12.0


@dataclass(frozen=True)
class Sizes:
    """What a seed draws of the fleet itself. Seconds, milli-CPU."""

    clusters: tuple[str, ...] = ("east", "north", "west")
    routed: tuple[str, ...] = ("east", "north", "west")  # whose pods share a network: sources show IPs of copies there
    nodes: int = 2
    node_cpu: int = 4000
    silence_s: float = 20.0  # a watch; the product's default is 90, and absence_grace_s above it
    absence_grace_s: float = 30.0
    peer_ttl_s: float = 60.0
    cluster_lost_s: float = 20.0
    silent_s: float = 8.0
    tick_s: float = 1.0
    tenants: tuple[Tenant, ...] = ()
    every_kind: bool = False  # agents see kinds, too, of which there are no objects
    budgets: bool = False  # they see PodDisruptionBudgets
    followers: bool = False  # ConfigMaps follow pods, and Secrets by consent


class Cluster:
    """One cluster: its API server, its kubelets and controllers, its agent, and the wire between."""

    def __init__(self, fleet: "Fleet", name: str) -> None:
        self.name, self.sizes = name, fleet.sizes
        clock = fleet.loop.time
        hidden: tuple[str, ...] = UNSHOWN if fleet.sizes.every_kind else UNSHOWN + EMPTY
        hidden = tuple(one for one in hidden if one != POLICY or not fleet.sizes.budgets)
        self.api = ApiServer(name, clock, lambda: EPOCH + clock() - START, hidden)
        self.wire = Wire(self.api, fleet.loop, random.Random(f"{fleet.seed} wire {name}"))
        self.kubelets = Kubelets(self.api, random.Random(f"{fleet.seed} kubelet {name}"), fleet, clock)
        self.controllers = Controllers(self.api, clock)
        self.controllers.kubelets_dead = lambda node: node in self.kubelets.dead or node in self.kubelets.cut_off
        self.nodes = [f"{name}-{number}" for number in range(fleet.sizes.nodes)]
        for node in self.nodes:
            self.add_node(node)
        self.turns = 0  # how often its agent has got another key
        self.taken: list[tuple[float, tuple[str, ...]]] = []  # since when it takes which Secrets
        self.agent = AgentProcess(self._settings(), self.wire)
        if fleet.sizes.followers:
            self.take_secrets("*")

    def take_secrets(self, *patterns: str) -> None:
        """Its next agent takes copies of these."""
        settings = self.agent.settings
        rows = (AcceptSettings(secrets_follow=patterns),)
        policy = settings.executor.model_copy(update={"accept": rows})
        self.agent.settings = settings.model_copy(update={"executor": policy})
        self.taken.append((self.api.store.clock(), patterns))

    def add_second_agent(self, fleet: "Fleet") -> AgentProcess:
        """Somebody has scaled the agent, or installed it twice."""
        wire = Wire(self.api, fleet.loop, random.Random(f"{fleet.seed} second wire {self.name}"))
        wire.hang = self._hang
        second = self.agent.second = AgentProcess(self.agent.settings, wire, "-second")
        second.relayed = self.agent.relayed
        return second

    def _hang(self, request: Asked) -> float:
        return self.wire.hang(request)

    def add_node(self, node: str) -> None:
        """A machine joins."""
        labels = {"kubernetes.io/hostname": node, "topology.kubernetes.io/zone": f"zone-{self.name}"}
        self.api.ask("kubelet", "POST", NODES, {"metadata": {"name": node, "labels": labels}, "spec": {}})
        amounts = {"cpu": f"{self.sizes.node_cpu}m", "memory": "16Gi", "pods": "40"}
        told = {"capacity": amounts, "allocatable": amounts, "conditions": [{"type": "Ready", "status": "True"}]}
        self.api.ask("kubelet", "PATCH", f"{NODES}/{node}/status", {"status": told})

    def cordon(self, node: str, *, on: bool) -> None:
        """kubectl cordon, uncordon."""
        self.api.ask("admin", "PATCH", f"{NODES}/{node}", {"spec": {"unschedulable": on or None}})

    def _settings(self) -> AgentSettings:
        sizes = self.sizes
        return AgentSettings(
            cluster=self.name,
            kubeconfig="/dev/null",
            api=ApiSettings(
                silence_s=sizes.silence_s,
                watch_s=int(sizes.silence_s / 2 - 1),
                grace_s=5.0,
                probe_s=3.0,
                restored_hold_s=20.0,
            ),
            kubelet=KubeletSettings(interval_s=3600.0),
            key_file=key_file(self.name),
        )


class Judgeable:
    """Hears of everything that happens; judges inherit from it."""

    def wrote(self, write: Write) -> None:
        """A write took effect."""

    def said(self, cluster: str, actor: str, event: Object) -> None:
        """An event was written for people."""

    def started(self, cluster: str, container: Container) -> None:
        """A pod began to run."""

    def stopped(self, cluster: str, container: Container) -> None:
        """It runs no more."""

    def gave(self, gave: Gave) -> None:
        """One cluster has given another an object."""

    def crossed(self, what: bytes) -> None:
        """A dispatcher has sent, got or passed on this message. Told where objects follow pods."""

    def tick(self, now: float) -> None:
        """A second has passed."""


def _hears(ears: Sequence[Judgeable], of: str) -> list[Callable[..., None]]:
    """Who does anything when told of it."""
    return [getattr(ear, of) for ear in ears if getattr(type(ear), of) is not getattr(Judgeable, of)]


class Fleet(Judgeable):
    """All of it. `ears` hear of every write and every container, in order."""

    def __init__(self, seed: int, sizes: Sizes, loop: VirtualLoop) -> None:
        self.seed, self.sizes, self.loop = seed, sizes, loop
        self.tenants_before: list[
            tuple[float, tuple[Tenant, ...]]
        ] = []  # until when a dispatcher may have gone by them
        self.ears = ()
        self.clusters: dict[str, Cluster] = {}  # those that are meant to be in the fleet
        self.outside: dict[str, Cluster] = {}  # those that are not, and may be taken for one that is
        self.members: dict[str, AgentProcess] = {}  # the dispatchers' configuration: a name, and the agent behind it
        self.weathers: dict[tuple[str, str], LinkWeather] = {}
        self.dispatchers: dict[str, DispatcherProcess] = {}
        self.ranks: dict[str, int] = {}  # dispatchers' terms in the order in which they began
        # The Lease by which dispatchers elect their leader has an API server of its own.
        self.lease = ApiServer("lease", loop.time, lambda: EPOCH + loop.time() - START)
        self.lease_wire = Wire(self.lease, loop, random.Random(f"{seed} wire lease"))
        self.closed: set[tuple[str, str]] = set()  # (cluster, namespace) that refuse pods of others for good
        self.sidecars: dict[tuple[str, str], int] = {}  # milli-CPU that a webhook adds to pods there
        self.meddled: set[str] = set()  # paths of pods whose annotations a user has changed
        # (cluster, name): it first heard of `name` while another cluster answered by that name, and trusts that one.
        self.misled: set[tuple[str, str]] = set()
        self.lost: dict[str, float] = {}  # clusters that are out of reach for everybody, since when
        self.hanging: dict[str, tuple[str, float]] = {}  # cluster -> namespace whose webhooks hang there, since when
        self.ordered: dict[tuple[str, str], float] = {}  # (target, UID of the source) -> first order of a delegate
        self.kept: dict[tuple[str, str], float] = {}  # the same -> when a claim for it was last refused at home
        self.heard: dict[str, set[str]] = {}  # a dispatcher's term -> clusters that have reported to it
        self.placed: dict[str, float] = {}  # UID of a source -> newest order to claim or bind it
        dice = random.Random(f"{seed} relays")
        self.relays = Relays(loop, dice, self.members, self.link, self._gateways, self.gave, self.crossed)
        for name in sizes.clusters:
            self.add_cluster(name)
        self.add_dispatcher("dispatcher")

    @property
    def ears(self) -> tuple[Judgeable, ...]:
        """Who is told."""
        return self._ears

    @ears.setter
    def ears(self, ears: Sequence[Judgeable]) -> None:
        self._ears = tuple(ears)
        self._of_writes, self._of_ticks = _hears(ears, "wrote"), _hears(ears, "tick")
        self._of_messages = _hears(ears, "crossed")

    @property
    def now(self) -> float:
        """Virtual seconds since the start."""
        return self.loop.time() - START

    def add_cluster(self, name: str) -> Cluster:
        """A cluster joins."""
        cluster = self.clusters[name] = self._made(name)
        self.members[name] = cluster.agent
        return cluster

    def add_outside(self, name: str) -> Cluster:
        """A cluster that is none of the fleet's."""
        cluster = self.outside[name] = self._made(name)
        return cluster

    def _made(self, name: str) -> Cluster:
        cluster = Cluster(self, name)
        if self.sizes.followers:
            cluster.agent.relayed = self.relays.of
        cluster.api.store.told.append(self.wrote)
        cluster.api.said = self.said
        return cluster

    def add_dispatcher(self, name: str) -> DispatcherProcess:
        """A dispatcher, not started yet."""
        timing = TimingSection(
            cluster_silent_s=self.sizes.silent_s,
            cluster_lost_s=self.sizes.cluster_lost_s,
            absence_grace_s=self.sizes.absence_grace_s,
            tick_s=self.sizes.tick_s,
            poll_wait_s=5.0,
            unschedulable_flush_s=30.0,
            execute_s=15.0,
            deadline_s=10.0,
        )
        sections = tuple(ClusterSection(name=one, network="flat") for one in self.sizes.routed)
        config = DispatcherConfig(tenants=self.sizes.tenants, timing=timing, clusters=sections)
        made = self.dispatchers[name] = DispatcherProcess(
            name, config, lambda: self._links(name), self.ranks, self.lease_wire
        )
        return made

    def take_tenants(self, tenants: tuple[Tenant, ...]) -> None:
        """The tenants file changes, for all dispatchers; each sees it within a moment."""
        before = self.sizes.tenants
        self.sizes = replace(self.sizes, tenants=tenants)
        self.tenants_before.append((self.loop.time(), before))
        at = len(self.tenants_before) - 1

        def taken() -> None:
            self.tenants_before[at] = (self.loop.time(), before)

        dice = random.Random(f"{self.seed} tenants {at}")
        for dispatcher in self.dispatchers.values():
            dispatcher.take_tenants(tenants, 2.0 * dice.random(), taken)

    def _links(self, dispatcher: str) -> Sequence[SimLink]:
        return [
            SimLink(
                name,
                agent,
                self.link(dispatcher, name),
                self.loop,
                random.Random(f"{self.seed} link {dispatcher} {name}"),
                self.ordered,
                self.kept,
                self.heard,
                self.placed,
                self.crossed if self.sizes.followers else lambda _: None,
            )
            for name, agent in sorted(self.members.items())
        ]

    def link(self, dispatcher: str, cluster: str) -> LinkWeather:
        """The weather between the two."""
        return self.weathers.setdefault((dispatcher, cluster), LinkWeather())

    def _gateways(self) -> Iterator[str]:
        """Each is where a dispatcher is, whether that leads or not."""
        return (name for name, one in [*self.dispatchers.items()] if one.dispatcher is not None)

    async def start(self) -> None:
        """Everything begins."""
        for cluster in self.clusters.values():
            await cluster.agent.start()
        for dispatcher in self.dispatchers.values():
            dispatcher.start()

    async def second(self) -> None:
        """Let a second pass, and those act who act once a second."""
        await asyncio.sleep(1.0)
        now = self.now
        bookmarks = int(now) % BOOKMARK_S == 0
        for cluster in (*self.clusters.values(), *self.outside.values()):
            cluster.kubelets.look()
            if int(now) % 2 == 0:
                cluster.controllers.look()
            if bookmarks:
                cluster.wire.bookmark()
                if cluster.agent.second is not None:
                    cluster.agent.second.wire.bookmark()
        for tick in self._of_ticks:
            tick(now)

    def pods(self) -> Iterator[tuple[str, Object]]:
        """(cluster, pod) of all."""
        for name, cluster in (*self.clusters.items(), *self.outside.items()):
            for pod in cluster.api.pods():
                yield name, pod

    # --- told by those within ----------------------------------------------------------------------------------------

    def wrote(self, write: Write) -> None:
        """Pass it on."""
        for wrote in self._of_writes:
            wrote(write)

    def said(self, cluster: str, actor: str, event: Object) -> None:
        """Pass it on."""
        for ear in self.ears:
            ear.said(cluster, actor, event)

    def started(self, cluster: str, container: Container) -> None:
        """Pass it on."""
        for ear in self.ears:
            ear.started(cluster, container)

    def gave(self, gave: Gave) -> None:
        """Pass it on."""
        for ear in self.ears:
            ear.gave(gave)

    def crossed(self, what: bytes) -> None:
        """Pass it on."""
        for crossed in self._of_messages:
            crossed(what)

    def stopped(self, cluster: str, container: Container) -> None:
        """Pass it on."""
        for ear in self.ears:
            ear.stopped(cluster, container)
