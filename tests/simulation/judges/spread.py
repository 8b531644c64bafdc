"""Promises about fault domains: hard spread holds in every state, and no loss of clusters becomes a cascade."""

from collections.abc import Iterator
from typing import NamedTuple

from tests.simulation.judges.court import Judge
from tests.simulation.judges.facts import PREFIX, PROXY, PodFact, claim_of
from tests.simulation.world.apiserver import NAMESPACES, NODES, PODS
from tests.simulation.world.objects import Object
from tests.simulation.world.store import Write

ZONE = "topology.kubernetes.io/zone"
NEWS_S = 60.0  # within which a dispatcher has heard of a namespace that was made
KEPT_S = 60.0  # for which a dispatcher does not try again where a claim was refused
DECIDED_TOGETHER_S = 2.0  # within which what was decided with a bind is bound, or claimed for another cluster


class Spread(NamedTuple):
    """How the pods of an application are to be spread over zones at the most."""

    namespace: str
    app: str
    skew: int

    def means(self, meta: Object) -> bool:
        """Whether a pod with this metadata counts."""
        return bool(meta["namespace"] == self.namespace and meta.get("labels", {}).get("app") == self.app)


class Doubt(NamedTuple):
    """A bind that may have been against a hard spread: `crowd` are alike where it went, the least of `zones` counts."""

    at: float
    fact: PodFact
    wanted: Spread
    crowd: int
    zones: frozenset[str]


class SpreadKept(Judge):
    """No bind takes a pod where its hard spread over zones forbids it. Each cluster is a zone of its own.

    The least of the zones is judged with all that was ever bound there, so that what ends meanwhile is no violation,
    and with what is on its way there: as in kube-scheduler a place counts once it is assumed, and of pods that are
    decided together the one at home is bound first. The zones are those that have reported to the dispatcher whose
    order it is: one that begins while a cluster is out of reach, or that has it in its configuration no more, knows no
    zone there (docs/protocol.md, What we do not promise). Nor is a cluster among them that the pod may not enter: that
    lacks its namespace, or has refused a pod of the application, or for which home has refused of late to claim one.
    """

    promise = "I17"

    def __init__(self, *args: object) -> None:
        super().__init__(*args)  # type: ignore[arg-type]
        self._of: dict[str, Spread] = {}  # by UID of the source
        self._claims: dict[str, list[tuple[str, float, float]]] = {}  # by UID of the source: for where, since, until
        self._doubts: list[Doubt] = []
        self._made: dict[tuple[str, str], float] = {}  # when a namespace of a cluster that had gone was written last

    def wrote(self, write: Write) -> None:
        space = write.cluster, write.place.name
        if write.place.resource == NAMESPACES and (write.after is None or space in self._made):
            self._made[space] = write.at
        if write.place.resource != PODS or write.after is None:
            return
        fact = self.facts.pods[write.after["metadata"]["uid"]]
        if write.verb == "create" and fact.is_source and (spread := spread_of(write.after)):
            self._of[fact.uid] = spread
        if fact.source not in self._of:
            return
        if fact.is_source:
            self._note_claim(fact.uid, write)
        if write.verb == "bind" and not fact.node.startswith(PROXY):
            self._suspect(fact, self._of[fact.source], write)

    def tick(self, now: float) -> None:
        ready = [one for one in self._doubts if self.fleet.loop.time() - one.at > DECIDED_TOGETHER_S]
        for one in ready:
            self._doubts.remove(one)
            least = self._least(one)
            if one.crowd - least > one.wanted.skew:
                self.say(one.fact.title, f"is number {one.crowd} in {one.fact.cluster}, and another zone has {least}")

    def _suspect(self, fact: PodFact, wanted: Spread, write: Write) -> None:
        crowd = sum(one.cluster == fact.cluster and self._counts(one) for one in self._alike(wanted))
        heard = self.fleet.heard.get(write.actor.partition(" ")[2], self.fleet.clusters.keys())
        open_ = [one for one in self.fleet.clusters.keys() & heard if self._may_enter(one, wanted, write.at)]
        self._doubts.append(Doubt(write.at, fact, wanted, crowd, frozenset(open_)))

    def _may_enter(self, cluster: str, wanted: Spread, at: float) -> bool:
        space = self.fleet.clusters[cluster].api.kept(f"{NAMESPACES}/{wanted.namespace}")
        if space is None or space.obj["metadata"].get("deletionTimestamp"):
            return False
        if (cluster, wanted.namespace) in self.fleet.closed:
            return False
        if at - self._made.get((cluster, wanted.namespace), float("-inf")) < NEWS_S:
            return False
        refused = ((source, at - last) for (target, source), last in self.fleet.kept.items() if target == cluster)
        kept = [source for source, age in refused if 0.0 <= age < KEPT_S]
        if any(self._of.get(source) == wanted for source in kept):
            return False
        there = {one.source for one in self._alike(wanted) if one.cluster == cluster}
        ordered = [source for (target, source), since in self.fleet.ordered.items() if target == cluster and since < at]
        return all(source in there or self._of.get(source) != wanted for source in ordered)

    def _note_claim(self, source: str, write: Write) -> None:
        """For which cluster a source is claimed, from when until when."""
        was, now = (claim_of(one or {}) for one in (write.before, write.after))
        held = self._claims.setdefault(source, [])
        if was != now and was and held:
            held[-1] = (*held[-1][:2], write.at)
        if was != now and now:
            held.append((now, write.at, float("inf")))

    def _least(self, doubt: Doubt) -> int:
        bound = [
            (one.source, one.cluster) for one in self._alike(doubt.wanted) if one.bound - doubt.at < DECIDED_TOGETHER_S
        ]
        there = {*bound, *self._on_their_way(doubt)}
        return min((sum(cluster == zone for _, cluster in there) for zone in doubt.zones), default=doubt.crowd)

    def _on_their_way(self, doubt: Doubt) -> Iterator[tuple[str, str]]:
        """(UID of the source, zone) of alike pods that were claimed for it then, or are decided together with it."""
        for source, claims in self._claims.items():
            for cluster, since, until in claims:
                if self._of[source] == doubt.wanted and until > doubt.at > since - DECIDED_TOGETHER_S:
                    yield source, cluster

    def _alike(self, wanted: Spread) -> Iterator[PodFact]:
        for source, spread in self._of.items():
            if spread == wanted:
                yield from self._bound(source)

    def _counts(self, one: PodFact) -> bool:
        """Whether kube-scheduler would count it: nothing that ends, and no copy of a pod that is being deleted."""
        source = self.facts.source_of(one)
        return not (one.gone or one.doomed or one.ended or (source is not None and source.doomed))

    def _bound(self, source: str) -> list[PodFact]:
        return [one for one in self.facts.copies[source] if one.node and not one.node.startswith(PROXY)]


def spread_of(pod: Object) -> Spread | None:
    """The hard spread over zones that a pod asks for."""
    meta = pod["metadata"]
    for one in pod["spec"].get("topologySpreadConstraints", ()):
        if one["topologyKey"] == ZONE and one["whenUnsatisfiable"] == "DoNotSchedule":
            return Spread(meta["namespace"], one["labelSelector"]["matchLabels"]["app"], one["maxSkew"])
    return None


_USERS = ("user", "admin", "namespace-controller")  # who deletes a namespace deletes the pods in it


class NoCascade(Judge):
    """While half of the other clusters, and more than one, are lost, no pod that went to one of them is replaced.

    The agent of a cluster that is lost itself can hold nothing back there. A pod whose copy somebody has ended goes
    with that, and one whose cluster an operator has fenced is let go (docs/protocol.md): no loss replaces these.
    """

    promise = "I16"

    def wrote(self, write: Write) -> None:
        if write.place.resource != PODS or write.after is None or write.before is None:
            return
        was, now = write.before["metadata"], write.after["metadata"]
        if was.get("deletionTimestamp") or not now.get("deletionTimestamp") or write.actor in _USERS:
            return
        fact, lost = self.facts.pods[now["uid"]], self.fleet.lost
        others = len(self.fleet.clusters) - 1
        target = fact.node.removeprefix(PROXY)
        held = fact.is_source and target in lost and fact.cluster not in lost
        if not held or self._fenced(fact.cluster, target) or self._copy_ended(fact):
            return
        if len(lost.keys() - {fact.cluster}) >= max(2, others / 2):
            self.say(fact.title, f"is deleted by {write.actor} while {len(lost)} clusters are lost")

    def _fenced(self, home: str, target: str) -> bool:
        kept = self.fleet.clusters[home].api.kept(f"{NODES}/{PROXY}{target}")
        return kept is not None and kept.obj["metadata"].get("labels", {}).get(f"{PREFIX}fenced") == "true"

    def _copy_ended(self, fact: PodFact) -> bool:
        """Whether its copy was ended by others; a cluster that burnt down ends none for who does not know of it."""
        delegates = [one for one in self.facts.copies[fact.source] if not one.is_source]
        ended = any(one.ended or one.doomed not in ("", "lost") for one in delegates)
        return ended and not any(one.uid in self.facts.running and not one.doomed for one in delegates)
