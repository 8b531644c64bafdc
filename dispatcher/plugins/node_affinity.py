"""Nodes must match nodeSelector and required node affinity, and are better the more preferred
affinity they match.

raw = sum of the weights (1-100) of the preferred terms that the node matches; score = 100 * raw /
largest raw, a whole number, rounded down. `added_affinity` holds required and preferred terms for
all pods of the profile, besides their own. Source: kube-scheduler's NodeAffinity.
"""

from collections.abc import Hashable
from typing import Annotated, Any, ClassVar

import numpy as np
from msgspec import Meta

from dispatcher.scheduling.framework import (
    SKIP,
    Codes,
    Depends,
    Filter,
    FleetView,
    Floats,
    PodInfo,
    Refuse,
    Rows,
    Score,
    Skip,
    SmallInts,
    refuse,
)
from dispatcher.scheduling.framework.hints import ClusterEvent, node_change_helps
from dispatcher.scheduling.framework.lifecycle import RowList
from dispatcher.scheduling.framework.plugin_args import Args, read_by
from dispatcher.scheduling.rules.affinity_args import WrittenClause
from dispatcher.scheduling.rules.affinity_args import added_affinity as read_affinity
from dispatcher.scheduling.rules.eligibility import NAME_FIELD, LabelMasks, selection_key
from dispatcher.scheduling.rules.whole import percent_of_most
from shared.messages.pod_cache import PodCache
from shared.model.labels import IN, NodeSelectorTerm
from shared.model.names import HOSTNAME, PROXY_LABEL, proxy_node_name
from shared.model.node import Node
from shared.model.pod import Affinity, Pod
from shared.model.reasons import Reason, Reasons
from shared.model.topology import HOST_LEVEL
from shared.model.wake_events import NEVER, NODES

PROXY_ASKED = Reason(
    "proxy_asked",
    "node(s) didn't match Pod's node affinity/selector, which asks for the proxy node of "
    'cluster {0} (annotation `global-dispatcher.io/clusters: "{0}"` asks for the cluster '
    "itself)",
    remedy="A proxy node stands for a cluster, and no node of the fleet has its labels. "
    "Take that clause out of `spec.nodeSelector` or node affinity, and name the "
    "cluster in the annotation.",
    helped_by=NODES,
    resolvable=False,
)
ADDED_AFFINITY = Reason(
    "added_affinity",
    "node(s) didn't match scheduler-enforced node affinity",
    remedy="The profile's NodeAffinity argument `added_affinity` (`addedAffinity` in a "
    "KubeSchedulerConfiguration) leaves the node out.",
    helped_by=NODES,
    resolvable=False,
)
AFFINITY_CONFLICT = Reason(
    "affinity_conflict",
    "pod affinity terms conflict",
    remedy="The node affinity names nodes that exclude each other.",
    helped_by=NEVER,
    resolvable=False,
    nodes_help=False,
)


class NodeAffinityArgs(Args):
    """Terms besides those of the pods."""

    added_affinity: Annotated[
        Affinity,
        Meta(
            description="terms for every pod, as in a pod's nodeAffinity",
            extra=read_by(read_affinity, list[WrittenClause] | dict[str, Any]),
        ),
    ] = Affinity()


class NodeAffinity(Filter[Pod], Score[Pod]):
    """Filter on what is required, score on what is preferred."""

    name: ClassVar[str] = "NodeAffinity"
    REASONS = (
        Reasons.AFFINITY,
        PROXY_ASKED,
        ADDED_AFFINITY,
        AFFINITY_CONFLICT,
    )
    keyed_by_template = True
    reads: tuple[str, ...] = ("node_selector", "affinity")
    depends: ClassVar[Depends] = Depends.STATIC

    def __init__(self, added_affinity: Affinity) -> None:
        self._added = added_affinity
        if added_affinity != Affinity():
            self.reads = ()
        self._masks = LabelMasks()
        self._possible_at: SmallInts | None = None
        # in a tuple, as what is kept may be None
        self._possible: PodCache[Hashable, tuple[frozenset[str] | None]] = PodCache()

    def hint_any(self, event: ClusterEvent, key: Hashable) -> bool:
        """A node that changed helps nobody if its labels are the same."""
        return node_change_helps(event, lambda before, after: before.labels != after.labels)

    def hint(self, event: ClusterEvent, pod_info: PodInfo) -> bool:
        """A node that came or changed helps if the pod's selector and required affinity name it."""
        node = event.after
        pod = pod_info.pod
        if not isinstance(node, Node):
            return True
        required = pod.affinity.required if pod.affinity else None
        return all(node.labels.get(key) == value for key, value in pod.node_selector.items()) and (
            required is None or any(term.matches(node.labels, node.name) for term in required)
        )

    def class_key(self, pod_info: PodInfo) -> Hashable:
        """nodeSelector, required and preferred terms; None without."""
        preferred = pod_info.pod.affinity.preferred if pod_info.pod.affinity else ()
        selection = selection_key(pod_info.pod)
        return (selection, preferred) if preferred else selection

    def node_names(self, pod_info: PodInfo, fleet: FleetView) -> frozenset[str] | None:
        """The only node names that the required terms allow; terms that conflict, or name a proxy
        node, are told of as that.
        """
        names = named_nodes(pod_info.pod)
        return names if names and not _asked_proxy(pod_info.pod, fleet) else None

    def pre_filter(self, pod_info: PodInfo, fleet: FleetView) -> Pod | Refuse | Skip:
        """The pod; SKIP if nothing is asked for; AFFINITY_CONFLICT if its terms name nodes that
        cannot be one.
        """
        names = named_nodes(pod_info.pod)
        if names is not None and not names:
            return refuse(AFFINITY_CONFLICT)
        asks = self.class_key(pod_info) is not None or self._added != Affinity()
        return pod_info.pod if asks else SKIP

    def filter(self, state: Pod, fleet: FleetView, rows: Rows) -> Codes:
        """ADDED_AFFINITY where the profile's terms do not match, AFFINITY or PROXY_ASKED where its
        own do not.
        """
        mask = self._masks.selected(state, fleet, rows)
        codes: Codes = ~mask * np.uint16(_unmatched(state, fleet))
        if self._added.required is not None:
            enforced = self._masks.any_term(self._added.required, fleet, rows)
            codes[~enforced] = fleet.reasons.code(ADDED_AFFINITY)
        return codes

    def open_rows(self, state: Pod, fleet: FleetView) -> tuple[RowList, int] | None:
        """The matching rows; None with required terms of the profile, which have a code of their
        own.
        """
        if self._added.required is not None:
            return None
        return self._masks.rows(state, fleet), _unmatched(state, fleet)

    def possible_clusters(self, pod_info: PodInfo, fleet: FleetView) -> frozenset[str] | None:
        """The clusters of the nodes that its own terms let the pod be on; None unless its selector
        makes these few.
        """
        if not pod_info.pod.node_selector:
            return None
        hosts = fleet.topology.domain(HOST_LEVEL)
        selection = selection_key(pod_info.pod)
        if hosts is not self._possible_at:
            # while no node changes, it is the very same array
            self._possible_at = hosts
            self._possible.clear()
        known = self._possible.get(selection)
        if known is None:
            rows = self._masks.few_rows(pod_info.pod, fleet)
            there = None if rows is None else np.unique(fleet.nodes.cluster[rows]).tolist()
            names = None if there is None else frozenset(fleet.clusters[at].name for at in there)
            known = (names,)
            self._possible.put(selection, known)
        return known[0]

    def score(self, state: Pod, fleet: FleetView, rows: Rows) -> Floats:
        """Sum of the weights of the matching preferred terms."""
        terms = (*self._added.preferred, *(state.affinity.preferred if state.affinity else ()))
        length = len(fleet.nodes.live[rows])
        # one number stands for all rows
        scores = np.zeros(length) if terms else np.broadcast_to(0.0, length)
        for preferred in terms:
            scores += preferred.weight * self._masks.term(preferred.term, fleet, rows)
        return scores

    def normalize(self, raw: Floats) -> Floats:
        """The best node gets 100; all 0 if no term matches anywhere."""
        return percent_of_most(raw)


def named_nodes(pod: Pod) -> frozenset[str] | None:
    """The only node names that the required terms allow; None if a term leaves the name open or
    there are none.
    """
    terms = pod.affinity.required if pod.affinity else None
    found = [_names_of(term) for term in terms or ()]
    known = [names for names in found if names is not None]
    return frozenset[str]().union(*known) if found and len(known) == len(found) else None


def _names_of(term: NodeSelectorTerm) -> frozenset[str] | None:
    fields = [
        frozenset(clause.values)
        for clause in term.match_fields
        if clause.key == NAME_FIELD and clause.operator == IN
    ]
    return frozenset.intersection(*fields) if fields else None


def _unmatched(pod: Pod, fleet: FleetView) -> int:
    """The code of nodes that its selector and required terms do not match: PROXY_ASKED if they ask
    for a proxy node.
    """
    cluster = _asked_proxy(pod, fleet)
    return (
        fleet.reasons.code(PROXY_ASKED, cluster)
        if cluster
        else fleet.reasons.code(Reasons.AFFINITY)
    )


def _asked_proxy(pod: Pod, fleet: FleetView) -> str:
    """The cluster whose proxy node its selector or a required term asks for, "" if none."""
    terms = pod.affinity.required if pod.affinity else None
    clauses = [one for term in terms or () for one in (*term.match_expressions, *term.match_fields)]
    listed = ((one.key, one.values) for one in clauses if one.operator == IN)
    asked = [*((key, (value,)) for key, value in pod.node_selector.items()), *listed]
    named = {value for key, values in asked if key in (HOSTNAME, NAME_FIELD) for value in values}
    clusters = {value for key, values in asked if key == PROXY_LABEL for value in values}
    if not named and not clusters:
        return ""
    found = (
        one.name
        for one in fleet.clusters
        if one.name in clusters or proxy_node_name(one.name) in named
    )
    return next(found, "")
