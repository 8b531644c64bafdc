"""A dispatcher core and three agents' executors and caches, and a seeded source of trouble between them.

One second a step: users and rivals act, watches lag, reports and orders travel, and things die.
"""

import asyncio
import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from agents.executor.local import Moment
from dispatcher.scheduling import events
from dispatcher.scheduling.clusters import GapError
from dispatcher.scheduling.core import CoreTiming, SchedulerCore
from shared.messages import AnyIntent, Outcome, Peers
from shared.model import names
from tests.laws.cores import make_core
from tests.simulation.cluster import Cluster, Network, copies, evicted

CLUSTERS = ("east", "north", "west")
GRACE_S = 15.0
CALL_S = 6  # a batch without an answer for so long is unanswered
LATE_S = 12  # a copy of it may arrive so much later
# How likely each is in a second, before the seed has drawn its own mix.
ODDS = {
    "delete": 0.08,
    "drain": 0.04,
    "cordon": 0.1,
    "rival": 0.05,
    "down": 0.12,
    "kill": 0.15,
    "silence": 0.05,
    "restart": 0.04,
}
PASSES = 8  # answers that may follow each other within a second


@dataclass
class Call:
    """A batch on its way."""

    cluster: str
    intents: tuple[AnyIntent, ...]
    task: "asyncio.Task[tuple[Outcome, ...]]"
    since: float


@dataclass
class Late:
    """A copy of a batch, still on its way."""

    cluster: str
    life: int
    boots: int
    intents: tuple[AnyIntent, ...]
    at: float


class Fleet:
    """A dispatcher core, three wired clusters, and a seeded source of trouble."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        self.network = Network(self.dice)
        self.clusters = {
            name: Cluster(name, [one for one in CLUSTERS if one != name], self.network) for name in CLUSTERS
        }
        self.now, self.boots, self.serial = 1000.0, 0, 0
        self.trouble = True
        self.odds = {what: odds * self.dice.choice((0.0, 0.5, 1.0, 3.0)) for what, odds in ODDS.items()}
        self.sight, self.hearing = self.dice.choice((0.1, 0.25, 0.6)), self.dice.choice((0.4, 0.7, 1.0))
        self.rates: dict[str, float] = {}  # how fast the clocks of agents run
        self.silent: set[str] = set()
        self.bound: dict[str, str] = {}  # UID of a source -> UID of the one copy that ever had a kubelet
        self.late: list[Late] = []
        self.nobodys: list[asyncio.Task[tuple[Outcome, ...]]] = []
        self.heard: Counter[str] = Counter()  # verdicts
        self.drained: set[str] = set()  # UIDs of sources whose delegates somebody deleted, or we evicted
        self._checked: list[tuple[int, int]] = []  # the states that were looked at last
        self._boot()

    def _boot(self) -> None:
        """A new life of the dispatcher; what its last life had on its way is carried out, and nobody is told."""
        self.boots += 1
        self.core: SchedulerCore = make_core(
            CLUSTERS, boot_epoch=self.boots * 1_000_000, timing=CoreTiming(absence_grace_s=GRACE_S)
        )
        for cluster in CLUSTERS:  # so that sources show addresses, which a judge looks at
            self.core.pin(cluster, "", network="flat")
        self.calls: list[Call] = []
        self.post: list[tuple[str, AnyIntent]] = []
        self.peers: list[events.SendPeers] = []
        self.warnings: list[str] | None = None  # what operators are told; None: they must not be told anything
        self.words: dict[str, str] = {}  # of the agents' last answers

    async def step(self) -> None:
        """One second."""
        self.now += 1.0
        if self.trouble:
            await self._make_trouble()
        for name, cluster in self.clusters.items():
            cluster.now = Moment(self.now * self.rates.get(name, 1.0), 1_700_000_000 + self.now)
            cluster.kubelets()
            await cluster.executor.tend()
            # A watch lags, but never for longer than the product notices (GRACE_S is above it).
            if not self.trouble or self.dice.random() < self.sight or self.now % 8 == 0:
                cluster.watch()
            if name in self.silent:
                self._feed(events.ClusterSilent(name, "no answer"))
            elif not self.trouble or self.dice.random() < self.hearing:
                self._report(cluster)
        self._feed(events.Tick())
        told, self.peers = self.peers, []
        for one in told:
            if one.cluster not in self.silent:
                await self._tell(one)
        self._call()
        self._arrive_late()
        await self._run()
        self._collect()

    # --- between dispatcher and agents -------------------------------------------------------------------------------

    async def _tell(self, told: events.SendPeers) -> None:
        """Word of the other clusters, and the answer to it."""
        heard = await self.clusters[told.cluster].hear(self.boots, self._letter(told))
        self.words[told.cluster] = heard.word
        self._feed(events.PeersAcknowledged(told.cluster))

    def _letter(self, told: events.SendPeers) -> Peers:
        word, lease_s = self.words.get(told.cluster, ""), self.core.timing.delegate_lease_s
        return Peers("", self.boots, told.peers, echo=word, lease_s=lease_s)

    def _feed(self, event: events.Event) -> None:
        for effect in self.core.handle(event, self.now):
            if isinstance(effect, events.OperatorWarning):
                assert self.warnings is not None, effect.text
                self.warnings.append(effect.text)
            elif isinstance(effect, events.SendIntents):
                self.post += [(effect.cluster, intent) for intent in effect.intents]
            elif isinstance(effect, events.SendPeers):
                self.peers.append(effect)

    def _report(self, cluster: Cluster) -> None:
        view = self.core.clusters[cluster.name]
        changes = cluster.changes(view.incarnation, view.revision)
        try:
            self._feed(events.ClusterChanged(changes))
        except GapError:
            self._feed(events.ClusterChanged(cluster.changes("", 0)))

    def _call(self) -> None:
        """Send what waits; never two orders about one pod of a cluster at once."""
        busy = {(call.cluster, intent.pod.uid) for call in self.calls for intent in call.intents}
        waiting, self.post = self.post, []
        for name in CLUSTERS:
            batch: list[AnyIntent] = []
            for intent in [one for cluster, one in waiting if cluster == name]:
                if (name, intent.pod.uid) in busy:
                    self.post.append((name, intent))
                else:
                    busy.add((name, intent.pod.uid))
                    batch.append(intent)
            if batch:
                self._send(name, tuple(batch))

    def _send(self, name: str, intents: tuple[AnyIntent, ...]) -> None:
        if name in self.silent:
            self._feed(events.Unsent(name, tuple(intent.id for intent in intents)))
            return
        if self.network.loses():
            self._unanswered(name, intents, "lost on the way there")
            return
        cluster = self.clusters[name]
        task = asyncio.create_task(cluster.execute(self.boots, intents))
        self.calls.append(Call(name, intents, task, self.now))
        if self.network.loses():
            self.late.append(Late(name, cluster.lives, self.boots, intents, self.now + self.dice.randrange(1, LATE_S)))

    def _arrive_late(self) -> None:
        """Copies of what was sent before, unless their agent has died meanwhile: nobody waits for their answers."""
        due = [one for one in self.late if one.at <= self.now]
        self.late = [one for one in self.late if one.at > self.now]
        for one in due:
            cluster = self.clusters[one.cluster]
            if cluster.lives == one.life:
                self.nobodys.append(asyncio.create_task(cluster.execute(one.boots, one.intents)))

    async def _run(self) -> None:
        """Let the executors work, as far as answers come within this second."""
        for _ in range(PASSES):
            for _ in range(5):
                await asyncio.sleep(0)
            for cluster in self.clusters.values():
                cluster.answer_some()
            self._check()

    def _check(self) -> None:
        states = [cluster.api.state for cluster in self.clusters.values()]
        if states == self._checked:
            return
        self._checked = states
        now = [*copies(self.clusters.values())]
        twice = [source for source, count in Counter(source for source, _ in now).items() if count > 1]
        assert not twice, f"run twice at once: {twice}"
        self.drained.update(evicted(self.clusters.values()))
        for source, copy in now:
            first = self.bound.setdefault(source, copy)
            assert first == copy or source in self.drained, f"{source} was bound twice: as {first} and as {copy}"

    def _collect(self) -> None:
        going, self.calls = self.calls, []
        for call in going:
            if call.task.done() and not self.network.loses():
                self.heard.update(one.verdict for one in call.task.result())
                self._feed(events.Answered(call.cluster, call.task.result()))
            elif call.task.done() or self.now - call.since > CALL_S:
                self._unanswered(call.cluster, call.intents, "lost on the way back")
            else:
                self.calls.append(call)

    def _unanswered(self, name: str, intents: tuple[AnyIntent, ...], why: str) -> None:
        self._feed(events.Unanswered(name, tuple(intent.id for intent in intents), why))

    # --- trouble -----------------------------------------------------------------------------------------------------

    async def _make_trouble(self) -> None:
        self.network.trouble, self.network.slow = self.dice.choice(((0.0, 0.0), (0.2, 0.3), (0.5, 0.6)))
        cluster = self.clusters[self.dice.choice(CLUSTERS)]
        cluster.forbids = cluster.forbids and self.dice.random() < 0.5
        for _ in range(self.dice.randrange(4)):
            self._submit(cluster)
        for what, odds in self.odds.items():
            if self.dice.random() < odds:
                await self._strike(what, cluster)

    async def _strike(self, what: str, cluster: Cluster) -> None:
        if what == "kill":
            await cluster.kill_agent()
        elif what == "restart":
            self._boot()
        elif what == "silence":
            self.silent ^= {cluster.name}
        elif what == "down":
            cluster.down = not cluster.down
            cluster.forbids = not cluster.down
        else:
            self._disturb(what, cluster)

    def _disturb(self, what: str, cluster: Cluster) -> None:
        dice = self.dice
        if what == "delete" and (pods := cluster.sources()):
            cluster.delete(dice.choice(pods))
        elif what == "drain" and (pods := cluster.delegates()):
            delegate = dice.choice(pods)
            self.drained.add(delegate["metadata"]["annotations"][names.SOURCE_UID])
            cluster.delete(delegate)
        elif what == "cordon":
            cluster.cordon(dice.choice(cluster.nodes), on=dice.random() < 0.6)
        elif what == "rival":
            self.serial += 1
            cluster.rival(f"rival{self.serial}", dice.choice(cluster.nodes))

    def _submit(self, cluster: Cluster) -> None:
        self.serial += 1
        cpu, priority = self.dice.choice(("100m", "300m", "900m")), self.dice.choice((0, 0, 0, 5))
        cluster.submit(f"p{self.serial}", cpu, priority, away=self.dice.random() < 0.7)

    def heal(self) -> None:
        """The faults stop, and all nodes take pods."""
        self.trouble = False
        self.network.trouble = self.network.slow = 0.0
        self.silent.clear()
        for cluster in self.clusters.values():
            cluster.down = cluster.forbids = False
            for node in cluster.nodes:
                cluster.cordon(node, on=False)

    # --- the end -----------------------------------------------------------------------------------------------------

    def astray(self) -> Iterator[str]:
        """What is not as it should be when all has settled."""
        clusters = [*self.clusters.values()]
        running: Counter[str] = Counter(source for source, _ in copies(clusters))
        uids: set[str] = set()
        for cluster in clusters:
            for pod in cluster.sources():
                meta = pod["metadata"]
                uids.add(meta["uid"])
                if meta.get("deletionTimestamp"):
                    yield f"{cluster.name}/{meta['name']} was deleted and is still there"
                elif running[meta["uid"]] != 1 and not self.core.tracked[cluster.name, meta["uid"]].reported:
                    yield f"{cluster.name}/{meta['name']} runs {running[meta['uid']]} times, and was told nothing"
        for cluster in clusters:
            for pod in cluster.delegates():
                if pod["metadata"]["annotations"][names.SOURCE_UID] not in uids:
                    yield f"{cluster.name}/{pod['metadata']['name']} has no source"
