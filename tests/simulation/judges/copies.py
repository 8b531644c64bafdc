"""Promises about what runs: once, only with cause stopped, honestly told."""

from collections import Counter
from collections.abc import Sequence

from shared.model.tenant import ANY_PRIORITY, Tenant
from tests.simulation.judges.court import Judge
from tests.simulation.judges.facts import ADDRESSES, EPOCH, FINALIZER, PREFIX, PROXY, PodFact, by_product
from tests.simulation.judges.limits import tenants_since
from tests.simulation.world.apiserver import NAMESPACES, PODS
from tests.simulation.world.kubelet import Container
from tests.simulation.world.objects import ENDED, Object, condition
from tests.simulation.world.store import Write

ORDERED_S = 60.0  # within which an order is carried out
ASKED_TWICE_S = 800.0  # a source that was not seen to go: asked for after 100 s, and again 600 s later
ASKED_AGAIN_S, CAP = 600.0, 0.2  # after which, and of how many of a cluster's pods, what a restore took counts as gone
MARKS = {f"{PREFIX}claim", f"{PREFIX}delegate-proof"}  # by which the product knows a copy
GONE_BACK_S = 120.0  # within which a copy that a restore brought back may run beside its successor


class RunsOnce(Judge):
    """Of each pod one container set runs at a time, in the whole fleet."""

    promise = "I1,I2"

    def started(self, cluster: str, container: Container) -> None:
        fact = self.facts.pods.get(container.uid)
        if fact is None or not fact.source:
            return
        running = self.facts.running_copies(fact.source)
        others = [one for one in running if one.uid != fact.uid]
        if others and not self.facts.revived & {one.uid for one in running} and not self._went_back(running):
            where = ", ".join(f"{one.title} on {one.node}" for one in running)
            self.say(fact.source, f"runs {len(running)} times at once: {where}")

    def _went_back(self, running: list[PodFact]) -> bool:
        now = self.fleet.loop.time()
        return any(now - self.facts.restored.get(one.cluster, float("-inf")) < GONE_BACK_S for one in running)


class SuccessorWaits(Judge):
    """Of a controller's pods that ask for failover `lease` one more begins to run when one has certainly stopped.

    As in one cluster, one that is being deleted does not count, unless nobody can reach the cluster that it runs in.
    """

    promise = "I2"

    def started(self, cluster: str, container: Container) -> None:
        facts = self.facts
        owner, failover = self._of(container.uid)
        if not owner or failover != "lease":
            return
        sets = (one for other in self.fleet.clusters.values() for one in other.controllers.sets)
        most = sum(one.replicas for one in sets if one.uid == owner)
        running = [facts.pods[uid] for uid in facts.running if self._of(uid)[0] == owner]
        there = [one for one in running if facts.out_of_reach(one.cluster) or not self._deleted(one)]
        if len(there) > most:
            self.say(owner, f"{len(there)} run of {most}: {', '.join(one.title for one in there)}")

    def _of(self, uid: str) -> tuple[str, str]:
        fact = self.facts.pods.get(uid)
        source = self.facts.source_of(fact) if fact is not None else None
        return (source.owner, source.failover) if source is not None else ("", "")

    def _deleted(self, fact: PodFact) -> bool:
        kept = self.fleet.clusters[fact.cluster].api.kept(f"{NAMESPACES}/{fact.namespace}/pods/{fact.name}")
        return kept is None or "deletionTimestamp" in kept.obj["metadata"]


class OnceAnAttempt(Judge):
    """One attempt makes one copy: an order that arrives again, late, or after its copy is gone, makes no second."""

    promise = "I6"

    def __init__(self, *args: object) -> None:
        super().__init__(*args)  # type: ignore[arg-type]
        self._bound: dict[tuple[str, str], str] = {}  # (source, attempt) -> the copy that was bound for it

    def wrote(self, write: Write) -> None:
        if write.verb != "bind" or not by_product(write.actor) or write.after is None:
            return
        fact = self.facts.pods[write.after["metadata"]["uid"]]
        attempt = write.after["metadata"].get("annotations", {}).get(EPOCH, "")
        if fact.is_source or not fact.source or not attempt:
            return
        first = self._bound.setdefault((fact.source, attempt), fact.uid)
        if first != fact.uid and first not in self.facts.revived and self.facts.pods[first].doomed != "restore":
            self.say(fact.source, f"attempt {attempt} has made {self.facts.pods[first].title} twice")


class OnlyTheKnown(Judge):
    """A cluster that was made anew, or is taken for another, gets no pods of those who know the one of that name."""

    promise = "I2"

    def wrote(self, write: Write) -> None:
        if write.verb != "bind" or write.cluster not in self.fleet.outside or write.after is None:
            return
        fact = self.facts.pods[write.after["metadata"]["uid"]]
        source = self.facts.pods.get(fact.source)
        if source is not None and source is not fact and source.cluster not in self.facts.restored:
            self.say(fact.source, f"{fact.title} is bound, and {write.cluster} is another cluster than it seems")


class NobodyKilled(Judge):
    """The product deletes nothing that runs, or has a claim to, without a cause that lies outside of it."""

    promise = "I5,I7"

    def wrote(self, write: Write) -> None:
        if write.place.resource != PODS or write.after is None or write.before is None:
            return
        begun = not write.before["metadata"].get("deletionTimestamp")
        if not begun or not write.after["metadata"].get("deletionTimestamp"):
            return
        fact = self.facts.pods[write.after["metadata"]["uid"]]
        if by_product(write.actor):
            if not self._excused(fact, write.after) and not self._gives_back(fact):
                what = "its source" if fact.is_source else "a copy"
                self.say(fact.source or fact.title, f"{write.actor} deletes {fact.title}, {what}, without cause")
        elif write.actor == "taint-eviction" and fact.node.startswith(PROXY):
            # However lost the target is: its copy may run on. Only an agent that was away may have come too late.
            wanted = self.facts.pods[fact.source].failover in ("asap", "lease")
            if not self.facts.in_trouble(fact.cluster) and not (wanted and self._in_trouble(fact)):
                self.say(fact.source, f"{fact.title} is evicted from {fact.node}, and nobody asked for that")

    def _in_trouble(self, fact: PodFact) -> bool:
        return self.facts.in_trouble(fact.node.removeprefix(PROXY))

    def _excused(self, fact: PodFact, pod: Object) -> bool:
        if not fact.source:
            return condition(pod, "DisruptionTarget") is not None
        facts, copies = self.facts, self.facts.copies[fact.source]
        source = facts.source_of(fact)
        if fact.doomed or fact.ended:
            return True
        if source is not None and (source.doomed or source.ended) and not self._held(source):
            return True
        if fact.is_source:
            # It may go with its copy: one that somebody else ended, or that is gone.
            delegates = [one for one in copies if not one.is_source]
            return any(one.doomed or one.ended for one in delegates) and not any(
                one.uid in facts.running and not one.doomed for one in delegates
            )
        if fact.uid not in facts.running:
            return True  # it never ran, or does not any more
        if facts.pods[fact.source].failover == "lease" and (facts.in_trouble(fact.cluster) or self._nobody_leads()):
            fact.doomed = "lease"  # that it stops where nobody is heard is what the mode asks for
            return True
        return any(one.uid != fact.uid for one in facts.running_copies(fact.source))

    def _gives_back(self, fact: PodFact) -> bool:
        """Whether its tenant uses more CPU than it was given, of a tree that takes back what is borrowed; or a pod of
        higher priority of its tenant waits there.
        """
        since = self.fleet.loop.time() - ORDERED_S
        return any(self._gives_back_to(fact, tenants) for tenants in tenants_since(self.fleet, since))

    def _gives_back_to(self, fact: PodFact, those: Sequence[Tenant]) -> bool:
        facts, source = self.facts, self.facts.source_of(fact) or fact
        tenants = {one.name: one for one in those}
        mine = next((one for one in tenants.values() if one.owns(source.cluster, source.namespace)), None)
        if mine is None or mine.parent not in tenants or tenants[mine.parent].reclaim != ANY_PRIORITY:
            return False
        above = (one for one in facts.pods.values() if one.is_source and one.priority > source.priority)
        if any(mine.owns(one.cluster, one.namespace) and not (one.node or one.gone) for one in above):
            fact.doomed = "reclaim"
            return True
        theirs = (copies for copies in facts.copies.values() if copies[0].is_source)
        used = sum(self._used(one) for one in theirs if mine.owns(one[0].cluster, one[0].namespace))
        given = mine.nominal["cpu"].absolute or 0 if "cpu" in mine.nominal else 0
        if used <= given:
            return False
        fact.doomed = "reclaim"
        return True

    def _used(self, copies: Sequence[PodFact]) -> int:
        """Milli-CPU of a pod where it is; of one without a place what an order that is under way asks for."""
        held = [one for one in copies if one.node and not one.gone]
        if not held and self.fleet.loop.time() - self.fleet.placed.get(copies[0].uid, float("-inf")) < ORDERED_S:
            return 0 if copies[0].gone else copies[0].cpu
        return sum(one.cpu for one in held if not (one.node.startswith(PROXY) or one.ended))

    def _nobody_leads(self) -> bool:
        return all(one.dispatcher is None for one in self.fleet.dispatchers.values())

    def _held(self, source: PodFact) -> bool:
        """Whether a source was taken by a restore, which is no cause to end its copy: not soon, and not of many.

        Many that one restore took are held by themselves, and what others take is counted without them. One that
        another restore has brought back is there.
        """
        if source.doomed != "restore":
            return False
        if not source.was_taken:
            return True
        remote = [one for one in self.facts.pods.values() if one.is_source and one.cluster == source.cluster]
        remote = [one for one in remote if any(not copy.gone for copy in self.facts.copies[one.uid][1:])]
        most = max(1, CAP * len(remote))
        takings = Counter(one.taken for one in remote if one.doomed == "restore" and one.was_taken)
        taken = sum(count for at, count in takings.items() if at == source.taken or count <= most)
        return self.fleet.loop.time() - source.taken < ASKED_AGAIN_S or taken > most


class HonestMirror(Judge):
    """What a source shows is what a real copy of it told: its address and its end; an end is final.

    An address of another cluster is shown only where pods of both are declared to share a network.
    """

    promise = "I9"

    def wrote(self, write: Write) -> None:
        if write.place.resource != PODS or write.after is None:
            return
        fact = self.facts.pods[write.after["metadata"]["uid"]]
        before = (write.before or {}).get("status", {})
        after = write.after["status"]
        if before.get("phase") in ENDED and after.get("phase") != before["phase"]:
            self.say(fact.title, f"phase {before['phase']} became {after.get('phase')} by {write.actor}")
        if not by_product(write.actor) or before == after or not fact.is_source:
            return
        copies = self.facts.copies[fact.source]
        for address in (after[one] for one in ADDRESSES if after.get(one) and after[one] != before.get(one)):
            had = {one.cluster for one in copies if address in one.addresses}
            if not had:
                self.say(fact.title, f"shows address {address}, which no copy of it ever had")
            elif not any({one, fact.cluster} <= set(self.fleet.sizes.routed) for one in had):
                self.say(fact.title, f"shows address {address}, which nobody in {fact.cluster} can reach")
        phase = after.get("phase")
        if phase in ENDED and phase != before.get("phase") and not any(one.ended == phase for one in copies[1:]):
            self.say(fact.title, f"shows {phase}, which no copy of it came to")


class OnlyOurs(Judge):
    """Pods that are neither submitted to the product nor made by it are not written to; others' finalizers stay."""

    promise = "I7"

    def wrote(self, write: Write) -> None:
        if write.place.resource != PODS or not by_product(write.actor) or write.after is None:
            return
        fact = self.facts.pods[write.after["metadata"]["uid"]]
        # What is deleted on a proxy node has no kubelet but us.
        stranded = fact.node.startswith(PROXY) and write.after["metadata"].get("deletionTimestamp")
        if not fact.source and condition(write.after, "DisruptionTarget") is None and not stranded:
            self.say(fact.title, f"{write.actor} writes ({write.verb}) to a pod of others")
        before, after = (_finalizers(one) for one in (write.before or write.after, write.after))
        if lost := before - after - {FINALIZER}:
            self.say(fact.title, f"{write.actor} takes finalizers of others off: {', '.join(sorted(lost))}")


class NothingLost(Judge):
    """In the end every pod that nobody deleted runs once, has ended, or waits and says why.

    A copy whose marks somebody took off in its own cluster is somebody else's pod for the product: its source keeps its
    last status (docs/protocol.md, "What we do not promise").
    """

    promise = "I5"

    def at_end(self) -> None:
        for _, pod in self.fleet.pods():
            fact = self.facts.pods[pod["metadata"]["uid"]]
            meta, told = pod["metadata"], pod["status"]
            if not fact.is_source:
                continue
            if meta.get("deletionTimestamp"):
                held = FINALIZER in (meta.get("finalizers") or ())
                self.say(fact.title, f"was deleted and is still there{', held by our finalizer' if held else ''}")
            elif told.get("phase") not in ENDED:
                self._judge(fact, pod)
        for fact in self.facts.pods.values():
            if fact.is_source and fact.gone and not fact.doomed and not fact.ended and not self._went(fact):
                self.say(fact.title, "is gone, and nobody deleted it")

    def _went(self, fact: PodFact) -> bool:
        return any(one.doomed or one.ended for one in self.facts.copies[fact.source])

    def _judge(self, fact: PodFact, pod: Object) -> None:
        running = self.facts.running_copies(fact.source)
        placed = pod["spec"].get("nodeName")
        told = condition(pod, "PodScheduled")
        if len(running) > 1:
            self.say(fact.title, f"runs {len(running)} times")
        elif not running and placed and self._ended_unmarked(fact):
            return
        elif not running and placed:
            self.say(fact.title, f"is bound to {placed} and shows {pod['status'].get('phase')}, but runs nowhere")
        elif running and not placed:
            self.say(fact.title, f"runs in {running[0].cluster}, but is not bound")
        elif running and pod["status"].get("phase") != "Running" and not self._is_unmarked(running[0]):
            self.say(fact.title, f"runs in {running[0].cluster}, and shows {pod['status'].get('phase')}")
        elif not running and (told is None or not told.get("message")) and not self._need_not_be_told(fact, pod):
            self.say(fact.title, "waits, and nobody says why")

    def _ended_unmarked(self, fact: PodFact) -> bool:
        return any(one.ended and not one.gone and self._is_unmarked(one) for one in self.facts.copies[fact.source][1:])

    def _is_unmarked(self, copy: PodFact) -> bool:
        path = f"{NAMESPACES}/{copy.namespace}/pods/{copy.name}"
        cluster = self.fleet.clusters.get(copy.cluster)
        kept = cluster.api.kept(path) if cluster is not None and path in self.fleet.meddled else None
        return kept is not None and not kept.obj["metadata"].get("annotations", {}).keys() >= MARKS

    def _need_not_be_told(self, fact: PodFact, pod: Object) -> bool:
        """It waits for its gates; or it was told, and a restore took that back (docs/protocol.md)."""
        taken_back = self.facts.restored.get(fact.cluster, float("-inf")) > fact.told > float("-inf")
        return bool(pod["spec"].get("schedulingGates")) or taken_back


class SourceOutlives(Judge):
    """A source is there for as long as a copy of it runs, unless a user has meddled with what holds it.

    What a restore of the target took is no copy any more: its API server proves that it is absent, before anybody can
    know that this server went back, and its kubelet ends it with the next look.
    """

    promise = "I8"

    def wrote(self, write: Write) -> None:
        if write.place.resource != PODS or write.after is not None or write.before is None:
            return
        fact = self.facts.pods[write.before["metadata"]["uid"]]
        running = [one for one in self.facts.running_copies(fact.source) if one.uid not in self.facts.revived]
        running = [one for one in running if self.fleet.loop.time() - one.taken >= GONE_BACK_S]
        if fact.is_source and not fact.node.startswith(PROXY):
            return
        if fact.is_source and running and write.place.path not in self.fleet.meddled:
            self.say(fact.title, f"is gone by {write.actor} while {running[0].title} still runs")


class Collected(Judge):
    """In the end no copy is without its source, and no finalizer of ours holds what has none."""

    promise = "I7,I8"

    def at_end(self) -> None:
        there = {pod["metadata"]["uid"] for _, pod in self.fleet.pods()}
        for _, pod in self.fleet.pods():
            fact = self.facts.pods[pod["metadata"]["uid"]]
            orphan = fact.source and not fact.is_source and fact.source not in there
            if orphan and self._final(fact) and not self._back_again(fact):
                self.say(fact.title, f"is a copy of {fact.source}, which is gone")

    def _final(self, fact: PodFact) -> bool:
        """A source that a restore took is held, not gone: also one that was being deleted, for nobody saw it go."""
        source = self.facts.source_of(fact)
        return source is None or not source.was_taken

    def _back_again(self, fact: PodFact) -> bool:
        """Whether a restore brought it back so short a time ago that its source was not asked for twice yet."""
        restored = self.facts.restored.get(fact.cluster, float("-inf"))
        return fact.uid in self.facts.revived and self.fleet.loop.time() - restored < ASKED_TWICE_S


class NoMarksLeft(Judge):
    """In the end a pod that runs at home carries neither claim nor finalizer of ours."""

    promise = "I8"

    def at_end(self) -> None:
        for _, pod in self.fleet.pods():
            meta, node = pod["metadata"], pod["spec"].get("nodeName", "")
            if node and not node.startswith(PROXY) and FINALIZER in (meta.get("finalizers") or ()):
                self.say(self.facts.pods[meta["uid"]].title, f"runs on {node} with our finalizer {PREFIX}")


def _finalizers(pod: Object) -> set[str]:
    return set(pod["metadata"].get("finalizers") or ())
