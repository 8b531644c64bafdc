"""Promises about fault domains: hard spread holds in every state, and no loss of clusters becomes a cascade."""

from typing import NamedTuple

from tests.simulation.judges.court import Judge
from tests.simulation.judges.facts import PREFIX, PROXY, PodFact
from tests.simulation.world.apiserver import NODES, PODS
from tests.simulation.world.objects import Object
from tests.simulation.world.store import Write

ZONE = "topology.kubernetes.io/zone"


class Spread(NamedTuple):
    """How the pods of an application are to be spread over zones at the most."""

    namespace: str
    app: str
    skew: int

    def means(self, meta: Object) -> bool:
        """Whether a pod with this metadata counts."""
        return bool(meta["namespace"] == self.namespace and meta.get("labels", {}).get("app") == self.app)


class SpreadKept(Judge):
    """No bind takes a pod where its hard spread over zones forbids it. Each cluster is a zone of its own.

    The least of the zones is judged with all that was ever bound there, so that what ends meanwhile is no violation.
    """

    promise = "I17"

    def __init__(self, *args: object) -> None:
        super().__init__(*args)  # type: ignore[arg-type]
        self._of: dict[str, Spread] = {}  # by UID of the source

    def wrote(self, write: Write) -> None:
        if write.place.resource != PODS or write.after is None:
            return
        fact = self.facts.pods[write.after["metadata"]["uid"]]
        if write.verb == "create" and fact.is_source and (spread := spread_of(write.after)):
            self._of[fact.uid] = spread
        if write.verb != "bind" or fact.source not in self._of or fact.node.startswith(PROXY):
            return
        wanted = self._of[fact.source]
        alike = [one for source, spread in self._of.items() if spread == wanted for one in self._bound(source)]
        there = sum(one.cluster == fact.cluster and self._counts(one) for one in alike)
        least = min(sum(one.cluster == name for one in alike) for name in self.fleet.clusters)
        if there - least > wanted.skew:
            self.say(fact.title, f"is number {there} in {fact.cluster}, and another zone has {least}")

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

    The agent of a cluster that is lost itself can hold nothing back there. A pod whose copy somebody has ended before it
    was lost goes with that, and one whose cluster an operator has fenced is let go (docs/protocol.md): no loss replaces it.
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
        meant = self._fenced(fact.cluster, target) or self._copy_ended(fact)
        if held and not meant and len(lost.keys() - {fact.cluster}) >= max(2, others / 2):
            self.say(fact.title, f"is deleted by {write.actor} while {len(lost)} clusters are lost")

    def _fenced(self, home: str, target: str) -> bool:
        kept = self.fleet.clusters[home].api.kept(f"{NODES}/{PROXY}{target}")
        return kept is not None and kept.obj["metadata"].get("labels", {}).get(f"{PREFIX}fenced") == "true"

    def _copy_ended(self, fact: PodFact) -> bool:
        """Whether its copy was ended by others; a cluster that burnt down ends none for who does not know of it."""
        delegates = [one for one in self.facts.copies[fact.source] if not one.is_source]
        ended = any(one.ended or one.doomed not in ("", "lost") for one in delegates)
        return ended and not any(one.uid in self.facts.running and not one.doomed for one in delegates)
