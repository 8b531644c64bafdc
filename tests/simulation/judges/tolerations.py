"""Promises about what tenants give their pods: who gets it, before anything is decided, and which nodes it opens."""

from collections.abc import Iterator

from tests.simulation.judges.court import Judge
from tests.simulation.judges.facts import PodFact, by_product, claim_of
from tests.simulation.judges.limits import given_to, tenants_since
from tests.simulation.judges.room import OfNodes
from tests.simulation.world.apiserver import PODS, ApiServer
from tests.simulation.world.controllers import GUARDED, tolerates
from tests.simulation.world.objects import Object
from tests.simulation.world.store import Write

LATE_S, SOON_S = 60.0, 5.0  # how old what is carried out now may be: where home is hard to reach, and else


class _OfTolerations(Judge):
    def _given(self, source: PodFact, at: float) -> Iterator[list[Object]]:
        """What its tenant gives it, as tenants are or were when this may have been decided."""
        home = self.fleet.clusters.get(source.cluster)
        two = home is not None and home.agent.second is not None
        late = two or source.group or self.facts.in_trouble(source.cluster)
        for tenants in tenants_since(self.fleet, at - (LATE_S if late else SOON_S)):
            yield given_to(tenants, source.cluster, source.namespace)


class GivenFirst(_OfTolerations):
    """No pod is decided that lacks a toleration that its tenant gives."""

    promise = "tenants"

    def wrote(self, write: Write) -> None:
        if write.place.resource != PODS or not by_product(write.actor) or not (write.before and write.after):
            return
        fact = self.facts.pods[write.after["metadata"]["uid"]]
        claimed = claim_of(write.after) and not claim_of(write.before)
        bound = write.verb == "bind" and not claim_of(write.before)
        if not fact.is_source or not (claimed or bound):
            return
        own = _of(write.after)
        if not any(all(one in own for one in given) for given in self._given(fact, write.at)):
            self.say(fact.title, f"{write.actor} has decided ({write.verb}), and it lacks what its tenant gives: {own}")


class GivenByTenant(_OfTolerations):
    """What the product adds to a pod's tolerations is what its tenant gives; a copy has what its pod has."""

    promise = "tenants"

    def wrote(self, write: Write) -> None:
        if write.place.resource != PODS or not by_product(write.actor) or write.after is None:
            return
        fact = self.facts.pods[write.after["metadata"]["uid"]]
        added = [one for one in _of(write.after) if one not in _of(write.before or {})]
        if not added:
            return
        if not fact.is_source:
            source = self.facts.source_of(fact)
            kept = self.kept(source) if source is not None else None
            odd = [one for one in added if one not in _of(kept or {})]
            if kept is not None and odd:
                self.say(fact.title, f"{write.actor} lets it tolerate what its source does not: {odd}")
        elif not any(all(one in given for one in added) for given in self._given(fact, write.at)):
            self.say(fact.title, f"{write.actor} lets it tolerate what its tenant does not give: {added}")


class TaintsKept(OfNodes):
    """No bind of ours puts a pod on a node whose taints it does not tolerate."""

    promise = "tenants"

    def _wrong_on(self, node: Object | None, pod: Object, _: ApiServer) -> Iterator[str]:
        for taint in (node["spec"].get("taints") if node is not None else None) or ():
            if not tolerates(pod, taint):
                yield f"{pod['metadata']['name']} is bound to it in spite of {taint}"


def _of(pod: Object) -> list[Object]:
    """Tolerations that admission has not written."""
    return [one for one in pod.get("spec", {}).get("tolerations") or () if one.get("key") not in GUARDED]
