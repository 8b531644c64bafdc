"""What both sides are given, and what each says of a pod: plain manifests in, verdicts out."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

Object = dict[str, Any]
PLUGIN_SCORES = dict[str, dict[str, float]]


@dataclass
class Case:
    """One fleet as manifests.

    `objects`: those beside nodes and pods. `bound`: pods with a nodeName. `pending`: pods to place, in their order.
    """

    name: str = "case"
    objects: list[Object] = field(default_factory=list)
    nodes: list[Object] = field(default_factory=list)
    bound: list[Object] = field(default_factory=list)
    pending: list[Object] = field(default_factory=list)

    def all_objects(self) -> Iterator[Object]:
        """In the order in which an API server takes them."""
        yield from (*self.objects, *self.nodes, *self.bound, *self.pending)


@dataclass
class Verdict:
    """What one side says of one pod.

    `feasible`: the nodes it may go to, None where a side does not tell. `scores`: plugin -> node -> normalised score
    (a plugin that has nothing to say is absent, and counts 0 everywhere); `totals`: node -> weighted sum; both None
    where a side gives no scores (a single feasible node is taken unscored). `node`: the chosen one; "" for none, and
    then `message` says why. `failed`: it could not decide, for an error that `message`
    tells. `victims`: pods that are evicted for it; they go before the next verdict. `changed`: objects that are others
    from then on: claims that were given their volumes.
    """

    pod: str
    node: str = ""
    feasible: frozenset[str] | None = None
    scores: PLUGIN_SCORES | None = None
    totals: dict[str, float] | None = None
    message: str = ""
    failed: bool = False
    victims: frozenset[str] = frozenset()
    changed: list[Object] = field(default_factory=list, compare=False)

    def record(self) -> Object:
        """Plain JSON values."""
        feasible = None if self.feasible is None else sorted(self.feasible)
        told = {"node": self.node, "feasible": feasible, "message": self.message, "victims": sorted(self.victims)}
        return {**told, "scores": self.scores, "totals": self.totals}


def key_of(obj: Object) -> str:
    """namespace/name, the namespace of an object without one being `default`."""
    meta = obj["metadata"]
    return f"{meta.get('namespace') or 'default'}/{meta['name']}"
