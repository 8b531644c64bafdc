"""Fenced clusters: an operator has declared that nothing runs there any more. And how fast their
pods are released.

A fence is the label global-dispatcher.io/fenced=true on the cluster's proxy node: it holds for the
pods that were submitted in the cluster where that proxy node is, and who may write it is that
cluster's own affair. Worked example: at 20 a second the 3,000 pods of a fenced cluster are released
in 150 s, so that what takes their place comes as fast.
"""

from collections.abc import Mapping

from dispatcher.scheduling.clusters import Change, ClusterView
from dispatcher.scheduling.delegation.in_flight import InFlightIntent, IntentKind
from dispatcher.scheduling.delegation.protocol import NextStep, ObservedState, Step, target_of
from shared.model import names
from shared.model.node import Node
from shared.model.token_buckets import TokenBuckets

NONE: frozenset[str] = frozenset()


class Fences:
    """Fenced clusters by home, and a bucket of `per_s` tokens for each of them."""

    def __init__(self, per_s: float) -> None:
        self._of: dict[str, frozenset[str]] = {}
        self._buckets = TokenBuckets(max(1.0, per_s), per_s)

    def of(self, home: str) -> frozenset[str]:
        """Clusters that are fenced for pods of this home."""
        return self._of.get(home, NONE)

    def note(self, home: str, change: Change[Node]) -> str:
        """A node of `home` came, changed or went; the cluster whose fence came or went with it, ""
        if none.
        """
        was = fenced_proxy(change.before)
        now = fenced_proxy(change.after)
        if was == now:
            return ""
        self._of[home] = (self.of(home) - {was}) | ({now} if now else NONE)
        return was or now

    def admits(self, seen: ObservedState, due: NextStep, now: float) -> bool:
        """Whether this step may be taken now; each that a fence alone asks for takes a token."""
        cluster = _asked_by_fence(seen, due)
        return not cluster or self._buckets.admit(now, cluster) is not None

    def outdates(
        self, home: str, in_flight: InFlightIntent, clusters: Mapping[str, ClusterView]
    ) -> bool:
        """Whether nobody needs the answer to an intent any more: it went to a cluster that is
        fenced now.

        But for a deletion that can be answered: it is what the fence asks for.
        """
        if in_flight.via not in self.of(home):
            return False
        return in_flight.kind is not IntentKind.DELETE or not clusters[in_flight.via].ready


def fenced_proxy(node: Node | None) -> str:
    """The cluster whose proxy node this is, if it is fenced; else ""."""
    if node is None or node.name != names.proxy_node_name(node.proxy_for):
        return ""
    return node.proxy_for if node.labels.get(names.FENCED) == "true" else ""


def _asked_by_fence(seen: ObservedState, due: NextStep) -> str:
    if due.step is Step.DELETE_DELEGATE:
        return due.cluster if due.cluster in seen.fenced else ""
    if due.step is not Step.FINISH or seen.source is None or seen.source.terminating:
        return ""
    target = target_of(seen.home, seen.source)
    return target if target in seen.fenced else ""
