"""The closed list of reasons why a node or a pod is refused; texts are kube-scheduler's where it
has one.

A reason may carry one argument (a resource, a taint, a tenant). `ReasonTable` interns (reason,
argument) to a small integer once, so that the hot path handles integers and only a message to a
person makes text. One code may stand for several reasons that a node is refused for at once.
"""

import enum
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from shared.model.topology import meant_level


class Reason(enum.Enum):
    """Why not. `{}` in the text is the argument."""

    INSUFFICIENT = "Insufficient {}"
    TOO_MANY_PODS = "Too many pods"
    NOT_NAMED = "node(s) didn't satisfy plugin(s) {}"
    NODE_NAME = "node(s) didn't match the requested node name"
    UNSCHEDULABLE = "node(s) were unschedulable"
    AFFINITY = "node(s) didn't match Pod's node affinity/selector"
    PROXY_ASKED = (
        "node(s) didn't match Pod's node affinity/selector, which asks for the proxy node of "
        "cluster {0} "
        '(annotation `global-dispatcher.io/clusters: "{0}"` asks for the cluster itself)'
    )
    ADDED_AFFINITY = "node(s) didn't match scheduler-enforced node affinity"
    TAINT = "node(s) had untolerated taint(s)"
    TAINT_ABROAD = (
        "node(s) of other clusters had taint(s) that the pod tolerates in its own cluster alone"
    )
    NODE_FEATURES = "node(s) didn't match Pod's required features"
    PORTS = "node(s) didn't have free ports for the requested pod ports"
    HOT = "node(s) were hot ({})"
    SPREAD = "node(s) didn't match pod topology spread constraints"
    SPREAD_LABEL = "node(s) didn't match pod topology spread constraints (missing required label)"
    POD_AFFINITY = "node(s) didn't match pod affinity rules"
    POD_ANTI_AFFINITY = "node(s) didn't match pod anti-affinity rules"
    EXISTING_ANTI_AFFINITY = "node(s) didn't satisfy existing pods anti-affinity rules"
    DISK_CONFLICT = "node(s) had no available disk"
    CLAIM_IN_USE = (
        "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode "
        "already in-use by "
        "another pod"
    )
    VOLUME_LIMIT = "node(s) exceed max volume count"
    CSI_DRIVER = "{} CSI driver is not installed on the node"
    VOLUME_AFFINITY = "node(s) didn't match PersistentVolume's node affinity"
    VOLUME_BINDING = "node(s) didn't find available persistent volumes to bind"
    STORAGE_SPACE = "node(s) did not have enough free storage"
    VOLUME_MISSING = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
    VOLUME_ZONE = "node(s) had no available volume zone"
    NOT_READY = "node(s) were not ready"
    CLUSTER_NOT_READY = "node(s) were in a cluster that is not ready"
    VOLUMES_ELSEWHERE = "node(s) were in another cluster than the pod's volumes"
    CLUSTER_NOT_ALLOWED = (
        "node(s) were in a cluster that the pod does not allow (annotation "
        "global-dispatcher.io/clusters or stay)"
    )
    DATA_ELSEWHERE = "node(s) were in a cluster without the data that the pod requires"
    PROXY_TAINT = (
        "node(s) were in cluster {0}, whose proxy node has a taint that the pod does not tolerate "
        "(`kubectl describe node global-dispatcher-{0}`)"
    )
    CLUSTER_CORDONED = (
        "node(s) were in cluster {0}, which is cordoned (`global-dispatcher cluster uncordon {0}`)"
    )
    CLUSTER_REFUSED = "node(s) were in a cluster that refused the pod a while ago"
    NAMESPACE_ABSENT = "node(s) were in a cluster without the pod's namespace"
    NAMESPACE_CLOSED = (
        "node(s) were in a cluster where the pod's namespace is closed to pods of other clusters"
    )
    CANNOT_CROSS = "node(s) were in other clusters, where the pod cannot be what it is at home: {}"
    SERVICES_ABSENT = "node(s) were in a cluster that lacks Services of the pod's namespace: {}"
    REFUSED = "node(s) were refused by their agent ({})"
    POLICY = "node(s) didn't satisfy plugin {}"
    PLUGIN_ERROR = "node(s) could not be judged: plugin {} failed"

    # Reasons about the pod itself: no node is looked at.
    NAMED_APART = "node(s) didn't satisfy {}"
    AFFINITY_CONFLICT = "pod affinity terms conflict"
    TOO_MANY_TERMS = (
        "pods of its namespace would have more than {} distinct (anti-)affinity terms about pods "
        "of other namespaces: "
        "let its pods share terms, or have the administrator raise most_terms_about_others of "
        "plugin InterPodAffinity"
    )
    LABELS_CUT = (
        "whom its topologySpreadConstraints count is not known: labels of pod {} are too large to "
        "be told, remove some "
        "of its metadata.labels"
    )
    QUOTA = "tenant quota exceeded: {}"
    QUOTA_UNKNOWN = "what the tenant uses of its quota is unknown: {}"
    GATED = "Scheduling is blocked due to non-empty scheduling gates: {}"
    INVALID = "pod cannot be scheduled: {}"
    NOT_FOUND = "{} not found"
    CLAIM_AWAITED = (
        'waiting for ephemeral volume controller to create the persistentvolumeclaim "{}"'
    )
    CLAIM_LOST = "persistentvolumeclaim {}"
    CLAIM_DELETED = 'persistentvolumeclaim "{}" is being deleted'
    CLAIM_NOT_OWNED = "PVC {} (pod is not owner)"
    CLAIM_UNBOUND = "pod has unbound immediate PersistentVolumeClaims"
    CLAIM_WITHOUT_CLASS = "PersistentVolumeClaim had no pv name and storageClass name"
    CLAIM_WITHOUT_VOLUME = "PersistentVolume had no name"
    DEVICES = (
        "spec.resourceClaims ({}) are not supported: request an extended resource instead, or "
        "name the scheduler of "
        "the pod's own cluster in spec.schedulerName"
    )
    NO_PROFILE = "spec.schedulerName names no profile of this dispatcher; known: {}"
    PERMIT = "rejected due to timeout after waiting at Permit plugin {}"
    UNANSWERED = (
        "cluster {} was lost before it said whether it runs the pod: another copy might run twice"
    )
    STILL_ELSEWHERE = "its delegate in cluster {} is not gone yet"
    PREEMPTED = "gave its place to a pod of higher priority while it waited"
    TOO_SLOW = (
        "pods of its namespace take too long to decide, so they wait while others are decided: "
        "give them fewer "
        "affinity terms, topologySpreadConstraints and clauses of selectors"
    )
    PRE_BIND = "node(s) could not be prepared for the pod: {}"

    def text(self, argument: str = "") -> str:
        """The reason in words."""
        return self.value.format(argument)


# No pod that leaves a node makes it fit a pod refused for one of these (kube-scheduler's
# UnschedulableAndUnresolvable). CSI_DRIVER is not among them, as kube-scheduler answers
# Unschedulable: it tries evictions, in vain.
UNRESOLVABLE: frozenset[Reason] = frozenset(
    (
        Reason.NOT_NAMED,
        Reason.NAMED_APART,
        Reason.NODE_NAME,
        Reason.UNSCHEDULABLE,
        Reason.AFFINITY,
        Reason.PROXY_ASKED,
        Reason.ADDED_AFFINITY,
        Reason.AFFINITY_CONFLICT,
        Reason.TAINT,
        Reason.TAINT_ABROAD,
        Reason.NODE_FEATURES,
        Reason.HOT,
        Reason.SPREAD_LABEL,
        Reason.POD_AFFINITY,
        Reason.VOLUME_AFFINITY,
        Reason.VOLUME_BINDING,
        Reason.STORAGE_SPACE,
        Reason.VOLUME_MISSING,
        Reason.VOLUME_ZONE,
        Reason.NOT_READY,
        Reason.CLUSTER_NOT_READY,
        Reason.CLUSTER_NOT_ALLOWED,
        Reason.DATA_ELSEWHERE,
        Reason.PROXY_TAINT,
        Reason.CLUSTER_CORDONED,
        Reason.CLUSTER_REFUSED,
        Reason.NAMESPACE_ABSENT,
        Reason.NAMESPACE_CLOSED,
        Reason.CANNOT_CROSS,
        Reason.SERVICES_ABSENT,
        Reason.VOLUMES_ELSEWHERE,
        Reason.PLUGIN_ERROR,
        Reason.QUOTA,
        Reason.QUOTA_UNKNOWN,
        Reason.GATED,
        Reason.INVALID,
        Reason.TOO_MANY_TERMS,
        Reason.LABELS_CUT,
        Reason.NOT_FOUND,
        Reason.CLAIM_AWAITED,
        Reason.CLAIM_LOST,
        Reason.CLAIM_DELETED,
        Reason.CLAIM_NOT_OWNED,
        Reason.CLAIM_UNBOUND,
        Reason.CLAIM_WITHOUT_CLASS,
        Reason.CLAIM_WITHOUT_VOLUME,
        Reason.DEVICES,
        Reason.NO_PROFILE,
        Reason.TOO_SLOW,
    )
)

# They refuse a pod as a whole, whatever nodes there are or come: none is to be made for it.
NO_NODE_HELPS: frozenset[Reason] = frozenset(
    (
        Reason.NAMED_APART,
        Reason.AFFINITY_CONFLICT,
        Reason.CLAIM_IN_USE,
        Reason.VOLUME_MISSING,
        Reason.NOT_FOUND,
        Reason.CLAIM_AWAITED,
        Reason.CLAIM_LOST,
        Reason.CLAIM_DELETED,
        Reason.CLAIM_NOT_OWNED,
        Reason.CLAIM_UNBOUND,
        Reason.CLAIM_WITHOUT_CLASS,
        Reason.CLAIM_WITHOUT_VOLUME,
        Reason.QUOTA,
        Reason.QUOTA_UNKNOWN,
        Reason.INVALID,
        Reason.GATED,
        Reason.DEVICES,
        Reason.NO_PROFILE,
        Reason.TOO_MANY_TERMS,
        Reason.LABELS_CUT,
        Reason.UNANSWERED,
        Reason.STILL_ELSEWHERE,
        Reason.TOO_SLOW,
    )
)

OTHERS = "others"  # the argument that stands for all that have no code of their own


class Why(NamedTuple):
    """One concrete reason: the entry of the closed list and its argument.

    `lasting`: the node could not take the pod even if it were empty, so nothing is gained by
    evicting pods from it.
    """

    reason: Reason
    argument: str = ""
    lasting: bool = False

    @property
    def text(self) -> str:
        """In words, as the pod is told; equal texts are counted together."""
        meant = meant_level(self.argument) if self.reason is Reason.SPREAD_LABEL else ""
        hint = f"; did you mean the level {meant}, not a node label of that name?" if meant else ""
        return self.reason.text(self.argument) + hint

    @property
    def detail(self) -> str:
        """The same with the argument (which taint, which domains) where the text leaves it out."""
        is_shown = not self.argument or "{" in self.reason.value
        return self.text if is_shown else f"{self.text} ({self.argument})"

    @property
    def resolvable(self) -> bool:
        """Whether the pod might fit if other pods left the node."""
        return self.reason not in UNRESOLVABLE and not self.lasting


class ReasonTable:
    """Interns reasons to codes 1, 2, ...; code 0 means 'fits'. Codes never change while the process
    lives.

    Above `limit` codes, new arguments are left out: whatever pods ask for, codes stay 16 bit wide.
    So they are for a reason that has a quarter of these, as taints of autoscalers, which have the
    time as value, would take all of them. Not for resources: those that no node has get none in the
    upper half, as the pod names them (`DecisionContext.whys`).
    """

    def __init__(self, limit: int = 60_000) -> None:
        self._limit = limit
        self._of: Counter[Reason] = Counter()
        self._code: dict[tuple[Why, ...], int] = {}
        self._whys: list[tuple[Why, ...]] = [()]

    @property
    def is_scarce(self) -> bool:
        """Whether the codes that are left are for what nodes have: whatever users make up gets none
        any more.
        """
        return len(self._whys) >= self._limit // 2

    def code(self, reason: Reason, argument: str = "", *, lasting: bool = False) -> int:
        """The code of this reason (1 or more)."""
        whys = (Why(reason, argument, lasting),)
        if whys not in self._code:
            most = self._limit if reason is Reason.INSUFFICIENT else max(self._limit // 4, 1)
            if len(self._whys) >= self._limit or self._of[reason] >= most:
                whys = (Why(reason, OTHERS if argument else "", lasting),)
            else:
                self._of[reason] += 1
        return self._intern(whys)

    def joint(self, codes: Sequence[int]) -> int:
        """One code for several reasons told together, in that order; each must be a code of this
        table.
        """
        whys = tuple(why for code in codes for why in self.whys(code))
        if len(self._whys) >= self._limit and whys not in self._code:
            whys = whys[:1]
        return self._intern(whys)

    def _intern(self, whys: tuple[Why, ...]) -> int:
        found = self._code.get(whys)
        if found is None:
            found = self._code[whys] = len(self._whys)
            self._whys.append(whys)
        return found

    def whys(self, code: int) -> tuple[Why, ...]:
        """The reasons behind a code; KeyError for 0 and unknown codes."""
        if not 0 < code < len(self._whys):
            raise KeyError(code)
        return self._whys[code]

    def why(self, code: int) -> Why:
        """The first of them."""
        return self.whys(code)[0]
