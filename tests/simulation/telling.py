"""Tells a story: a world lives through it, judges watch. Trouble first; then everything heals and has to settle."""

import asyncio
import hashlib
import random
from collections import Counter
from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Any

from tests.simulation.acts import ACTS, Act, Stage, naming, plain_pod, spread_by_zone
from tests.simulation.acts.objects import provide
from tests.simulation.faults import TROUBLE_S, Fault, Story, Submission
from tests.simulation.judges import (
    budgets,
    copies,
    followers,
    groups,
    progress,
    protocol,
    room,
    secrets,
    spread,
    tolerations,
)
from tests.simulation.judges.court import Judge, NothingRaises, Violation, violations
from tests.simulation.judges.facts import PROXY, Facts
from tests.simulation.judges.followers import left_of
from tests.simulation.judges.objects import SECRET
from tests.simulation.world.apiserver import EVENTS, FOLLOWING, LEASES, NAMESPACES, NODES
from tests.simulation.world.controllers import ReplicaSet
from tests.simulation.world.fleet import Fleet, Judgeable
from tests.simulation.world.kubelet import Container
from tests.simulation.world.loop import live, running_loop
from tests.simulation.world.net import Weather
from tests.simulation.world.objects import class_of, condition, named_by
from tests.simulation.world.processes import LinkWeather, sim_client
from tests.simulation.world.store import Write

JUDGES: tuple[type[Judge], ...] = (
    copies.RunsOnce,
    copies.SuccessorWaits,
    copies.OnceAnAttempt,
    copies.OnlyTheKnown,
    copies.NobodyKilled,
    copies.HonestMirror,
    copies.OnlyOurs,
    copies.NothingLost,
    copies.Collected,
    copies.SourceOutlives,
    copies.NoMarksLeft,
    room.NodesHold,
    room.QuotaKept,
    room.NobodyWaits,
    budgets.BudgetKept,
    protocol.EpochsGrow,
    protocol.DeposedSilent,
    protocol.OneExecutor,
    protocol.NobodyAccused,
    protocol.CalmIsCalm,
    protocol.LostIsNotReady,
    protocol.WellIsReady,
    protocol.NodesLeftAlone,
    protocol.ProxiesAreMembers,
    spread.SpreadKept,
    spread.NoCascade,
    groups.NeverHalfAGroup,
    groups.HeldForAMoment,
    groups.OneDomain,
    tolerations.GivenFirst,
    tolerations.GivenByTenant,
    tolerations.TaintsKept,
    progress.OneLeads,
    progress.GoesElsewhere,
    progress.OthersGoOn,
    followers.EnvironmentAsAtHome,
    followers.NothingOptionalLost,
    followers.CopiesKeepUp,
    followers.NotCollectedInUse,
    followers.OthersObjectsStay,
    followers.GivenByClaim,
    followers.CrossesOnce,
    followers.CopiesGo,
    secrets.NobodyBetweenReads,
    secrets.ByConsent,
    secrets.GoneWithConsent,
    NothingRaises,
)
# Nothing is written for QUIET_S before it is judged, and nothing in the calm after: ten minutes of it in a few stories.
QUIET_S, SETTLE_S, CALM_S, LONG_CALM_S, LONG_CALM_EVERY = 45.0, 400.0, 15.0, 600.0, 40
_SIGNS_OF_LIFE = frozenset((LEASES, NODES, EVENTS))


class Tape(Judgeable):
    """Everything that happened, as lines, and their hash."""

    def __init__(self, fleet: Fleet) -> None:
        self.lines: list[tuple[float, str, str]] = []  # (second, object, what)
        self.counts: Counter[str] = Counter()
        self.last = 0.0  # when anything but a sign of life was last written
        self._fleet, self._hash = fleet, hashlib.sha256()

    @property
    def digest(self) -> str:
        """Of all lines."""
        return self._hash.hexdigest()[:16]

    def note(self, what: str, of: str) -> None:
        """A line."""
        at = self._fleet.now
        self.lines.append((at, of, what))
        self._hash.update(f"{at:.6f} {of} {what}\n".encode())

    def wrote(self, write: Write) -> None:
        if write.place.resource not in _SIGNS_OF_LIFE:
            self.last = self._fleet.now
        after = write.after or {"spec": {}, "status": {}}
        status = after.get("status") or {}
        more = [after.get("spec", {}).get("nodeName", ""), str(status.get("phase", ""))]
        if status.get("conditions"):
            more += [f"{one['type']}={one['status']}" for one in status["conditions"] if one["type"] != "PodScheduled"]
            told = condition(after, "PodScheduled")
            more.append((told or {}).get("message", "")[:80])
        if after.get("metadata", {}).get("deletionTimestamp"):
            more.append("terminating")
        self.counts[f"{write.actor.split('/')[0]} {write.verb}"] += 1
        self.note(
            f"{write.verb} by {write.actor}: {' '.join(filter(None, more))}", f"{write.cluster} {write.place.path}"
        )

    def started(self, cluster: str, container: Container) -> None:
        self.note(f"runs on {container.node}", f"{cluster} {container.path}")

    def stopped(self, cluster: str, container: Container) -> None:
        self.note(f"stopped on {container.node}: {container.why}", f"{cluster} {container.path}")


@dataclass
class Told:
    """How a story went."""

    story: Story
    violations: list[Violation] = field(default_factory=list)
    digest: str = ""
    lines: list[tuple[float, str, str]] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0


def tell(story: Story) -> Told:
    """Live through a story. A fault of the world itself raises."""
    with sim_client():
        return live(lambda: _tell(story), story.seed)


async def _tell(story: Story) -> Told:
    return await Teller(story).tell()


class Teller:
    """One world, and the thread of its story."""

    def __init__(self, story: Story) -> None:
        self.story = story
        self.fleet = Fleet(story.seed, story.sizes, running_loop())
        self.facts = Facts(self.fleet)
        self.judges = [judge(self.fleet, self.facts) for judge in JUDGES]
        self.tape = Tape(self.fleet)
        self.fleet.ears = [self.facts, self.tape, *self.judges]
        self.stage = Stage(self.fleet, self.facts)
        self.stage.spawn = self._spawn
        self._acts: list[tuple[float, Act]] = []
        self._tasks: list[asyncio.Task[None]] = []

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        self._tasks.append(asyncio.ensure_future(work))

    async def tell(self) -> Told:
        """From the first second to the last."""
        fleet = self.fleet
        for cluster in fleet.clusters.values():
            cluster.api.add_namespace("team")
            if fleet.sizes.followers:
                provide(cluster)
        await fleet.start()
        coming: list[Fault | Submission] = [*self.story.faults, *self.story.work]
        coming.sort(key=lambda one: one.at)
        while fleet.now < TROUBLE_S or self._acts:
            await fleet.second()
            if int(fleet.now) % 20 == 5:
                self.stage.back_up()
            while coming and coming[0].at <= fleet.now:
                self._begin(coming.pop(0))
            self._end_acts()
        self._heal()
        await self._settle()
        return self.told()

    def told(self) -> Told:
        """What was found so far."""
        tape = self.tape
        return Told(self.story, [*violations(self.judges)], tape.digest, tape.lines, tape.counts, self.fleet.now)

    # --- trouble -----------------------------------------------------------------------------------------------------

    def _begin(self, one: Fault | Submission) -> None:
        if one.cluster not in self.fleet.clusters:
            return  # it is no more
        if isinstance(one, Submission):
            self._submit(one)
            return
        self.tape.note(str(one), "fault")
        done = ACTS[one.kind](self.stage, one, self.fleet.clusters[one.cluster], random.Random(one.dice))
        if next(done, "over") != "over":
            self._acts.append((one.at + one.seconds, done))

    def _end_acts(self, *, all_of_them: bool = False) -> None:
        over = [one for one in self._acts if all_of_them or one[0] <= self.fleet.now]
        self._acts = [one for one in self._acts if one not in over]
        for _, done in over:
            next(done, None)

    def _submit(self, one: Submission) -> None:
        cluster = self.fleet.clusters[one.cluster]
        pod = plain_pod(one.name, one.namespace, one.cpu, **({"clusters": one.away} if one.away else {}))
        pod["spec"]["priorityClassName"] = class_of(one.priority)
        naming(pod, one.names)
        if one.spread:
            pod["spec"]["topologySpreadConstraints"] = [spread_by_zone(one.name)]
        if one.replicas:
            cluster.controllers.sets.append(ReplicaSet(one.name, one.namespace, one.replicas, pod))
        else:
            cluster.api.ask("user", "POST", f"{NAMESPACES}/{one.namespace}/pods", pod)

    # --- calm --------------------------------------------------------------------------------------------------------

    def _heal(self) -> None:
        self.tape.note("everything heals", "fault")
        self._end_acts(all_of_them=True)
        for cluster in self.fleet.clusters.values():
            frozen = cluster.wire.weather.frozen
            cluster.wire.weather = Weather()
            if frozen:
                cluster.wire.thaw()
            if cluster.agent.agent is None:
                self._spawn(cluster.agent.start())
            for node in cluster.nodes:
                cluster.cordon(node, on=False)
            if self.story.sizes.followers and self.story.work:
                provide(cluster)
        for weather in self.fleet.weathers.values():
            vars(weather).update(vars(LinkWeather()))
        for name, dispatcher in self.fleet.dispatchers.items():
            if name != "dispatcher" and dispatcher.dispatcher is not None:
                dispatcher.kill()
            elif name == "dispatcher" and dispatcher.dispatcher is None:
                dispatcher.start()

    def _something_will_end(self) -> bool:
        """Whether a pod that runs is going to end by itself: that is no calm."""
        running = (one for cluster in self.fleet.clusters.values() for one in cluster.kubelets.running.values())
        return any(one.ends_at < float("inf") for one in running)

    def _proxies_will_go(self) -> bool:
        """Whether there still are proxy nodes of what is in the configuration no more: they wait for a minute."""
        wanted = {PROXY + name for name in self.fleet.members}
        nodes = (node["metadata"]["name"] for one in self.fleet.clusters.values() for node in one.api.nodes())
        return any(name.startswith(PROXY) and name not in wanted for name in nodes)

    def _copies_will_go(self) -> bool:
        """Whether there still are objects that followed pods, and nobody names them: they wait for a minute."""
        clusters = self.fleet.clusters.values() if self.fleet.sizes.followers else ()
        kinds = FOLLOWING.values()
        return any(any(left_of({kind: one.api.store.all(kind) for kind in kinds}, one.api.pods())) for one in clusters)

    def _will_be_tried_again(self) -> bool:
        """Whether a pod waits for a cluster that lacked consent to its Secrets, or could not ask for them: a minute."""
        said = (
            (condition(pod, "PodScheduled") or {}).get("message", "")
            for cluster in self.fleet.clusters.values()
            for pod in (cluster.api.pods() if self.fleet.sizes.followers else ())
            if not pod["spec"].get("nodeName") and any(one.kind == SECRET for one in named_by(pod))
        )
        return any("refused the pod" in text for text in said)

    async def _settle(self) -> None:
        fleet, healed = self.fleet, self.fleet.now
        busy, terms = healed, len(fleet.ranks)
        while fleet.now - healed < SETTLE_S and (
            fleet.now - max(self.tape.last, busy) < QUIET_S
            or self._something_will_end()
            or self._proxies_will_go()
            or self._copies_will_go()
            or self._will_be_tried_again()
        ):
            await fleet.second()
            if any(cluster.wire.hangs for cluster in fleet.clusters.values()):
                busy = fleet.now  # a list may wait a minute for a reply that was lost, and be asked for again then
            if len(fleet.ranks) != terms:
                busy, terms = fleet.now, len(fleet.ranks)  # who begins to lead counts from then on what is missing
        self.tape.note("calm", "fault")
        self.facts.calm_since = fleet.loop.time()
        for judge in self.judges:
            judge.at_end()
        ends = fleet.now + (CALM_S if self.story.seed % LONG_CALM_EVERY else LONG_CALM_S)
        while fleet.now < ends:
            await fleet.second()
