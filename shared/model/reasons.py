"""The reasons why a node or a pod is refused; texts are kube-scheduler's where it has one.

The list is closed: those here, and those that plugins declare (`dispatcher.plugins.registry` holds
that no two are alike). A reason may carry one argument (a resource, a taint, a tenant).
`ReasonTable` interns (reason, argument) to a small integer once, so that the hot path handles
integers and only a message to a person makes text. One code may stand for several reasons that a
node is refused for at once.
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from shared.model.topology import meant_level
from shared.model.wake_events import NEVER, NODES, WakeEvent

_NAME = re.compile(r"[a-z][a-z0-9_]{1,62}")


@dataclass(frozen=True)
class Reason:
    """Why not: declared once, beside the policy that refuses for it (`Plugin.REASONS`).

    `name`: in metrics, lower case. `words`: what the pod is told, as kube-scheduler would where it
    knows the reason; `{}` is the argument. `remedy`: what a user can do about it, for the page of
    reasons. `helped_by`: the events for which a pod refused for it is tried again.

    `resolvable`: whether the pod might fit if other pods left the node (else it is kube-scheduler's
    UnschedulableAndUnresolvable). `nodes_help`: whether a new node might take the pod; False for
    what refuses it as a whole. `verbatim`: told without counts of nodes, as kube-scheduler knows no
    such reason.

    ValueError for a name or words that cannot be used. Reasons are equal by name and words.
    """

    name: str
    words: str
    remedy: str = field(compare=False)
    helped_by: WakeEvent = field(compare=False)
    resolvable: bool = field(default=True, compare=False)
    nodes_help: bool = field(default=True, compare=False)
    verbatim: bool = field(default=False, compare=False)

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise ValueError(f"a reason's name is like rack_full, not {self.name!r:.80}")
        try:
            self.words.format("")
        except (IndexError, KeyError, ValueError) as error:
            raise ValueError(
                f"reason {self.name}: its words may hold {{}} for one argument, not {error}"
            ) from None
        if not self.words or not self.remedy:
            raise ValueError(f"reason {self.name} needs words and a remedy")

    def __hash__(self) -> int:
        return hash(self.name)

    def text(self, argument: str = "") -> str:
        """The reason in words."""
        return self.words.format(argument)


class Reasons:
    """The reasons that no plugin has for itself: the dispatcher's own, and those that several name."""

    INSUFFICIENT = Reason(
        "insufficient",
        "Insufficient {}",
        remedy="No such node has enough free of that resource. `explain` counts the nodes; ask"
        " for less, or add nodes.",
        helped_by=NODES | WakeEvent.POD_REMOVED,
    )
    TOO_MANY_PODS = Reason(
        "too_many_pods",
        "Too many pods",
        remedy="The node runs as many pods as its kubelet allows (`status.allocatable.pods`).",
        helped_by=NODES | WakeEvent.POD_REMOVED,
    )
    NOT_NAMED = Reason(
        "not_named",
        "node(s) didn't satisfy plugin(s) {}",
        remedy="A plugin's PreFilter left other nodes than these; `explain` names it.",
        helped_by=WakeEvent.NODE_ADDED | WakeEvent.CLUSTER_CHANGED,
        resolvable=False,
    )
    UNSCHEDULABLE = Reason(
        "unschedulable",
        "node(s) were unschedulable",
        remedy="The node is cordoned: `kubectl uncordon`.",
        helped_by=NODES,
        resolvable=False,
    )
    AFFINITY = Reason(
        "affinity",
        "node(s) didn't match Pod's node affinity/selector",
        remedy="Compare `spec.nodeSelector` and node affinity with `kubectl get nodes "
        "--show-labels`, in each cluster.",
        helped_by=NODES,
        resolvable=False,
    )
    TAINT = Reason(
        "taint",
        "node(s) had untolerated taint(s)",
        remedy="Tolerate the taint, or use other nodes. In other clusters a toleration without"
        " a key reaches less: see [what crosses](../crossing.md).",
        helped_by=NODES,
        resolvable=False,
    )
    PORTS = Reason(
        "ports",
        "node(s) didn't have free ports for the requested pod ports",
        remedy="Another pod has the host port on that node.",
        helped_by=NODES | WakeEvent.POD_REMOVED,
    )
    SPREAD = Reason(
        "spread",
        "node(s) didn't match pod topology spread constraints",
        remedy="One more pod there would be further ahead of the emptiest domain than "
        "`maxSkew` allows; the message names that domain, whose nodes cannot take the "
        "pod.",
        # What lets pods into a cluster, or keeps them out, makes its domains eligible, or no more.
        helped_by=(NODES | WakeEvent.NODE_REMOVED | WakeEvent.POD_REMOVED | WakeEvent.POD_PLACED)
        | (WakeEvent.NAMESPACE | WakeEvent.SERVICE),
    )
    SPREAD_LABEL = Reason(
        "spread_label",
        "node(s) didn't match pod topology spread constraints (missing required label)",
        remedy="The node lacks the label of a hard topology spread constraint.",
        helped_by=NODES,
        resolvable=False,
    )
    NOT_READY = Reason(
        "not_ready",
        "node(s) were not ready",
        remedy="The node's kubelet does not report: `kubectl describe node`.",
        helped_by=NODES,
        resolvable=False,
    )
    CLUSTER_NOT_READY = Reason(
        "cluster_not_ready",
        "node(s) were in a cluster that is not ready",
        remedy="`global-dispatcher clusters` says what is wrong with that cluster.",
        helped_by=NODES,
        resolvable=False,
    )
    VOLUMES_ELSEWHERE = Reason(
        "volumes_elsewhere",
        "node(s) were in another cluster than the pod's volumes",
        remedy="A pod with claims or an inline disk stays in its own cluster.",
        helped_by=WakeEvent.NODE_ADDED | WakeEvent.CLUSTER_CHANGED,
        resolvable=False,
    )
    CLUSTER_CORDONED = Reason(
        "cluster_cordoned",
        "node(s) were in cluster {0}, which is cordoned (`global-dispatcher cluster uncordon {0}`)",
        remedy="`global-dispatcher cluster uncordon NAME`, once it may take pods again.",
        helped_by=WakeEvent.NODE_ADDED | WakeEvent.CLUSTER_CHANGED,
        resolvable=False,
    )
    CANNOT_CROSS = Reason(
        "cannot_cross",
        "node(s) were in other clusters, where the pod cannot be what it is at home: {}",
        remedy="Do what the text says: change the field, write the annotation, or add the word"
        " to a row of `executor.accept` in that cluster ([what "
        "crosses](../crossing.md)).",
        helped_by=WakeEvent.CLUSTER_CHANGED,
        resolvable=False,
    )
    REFUSED = Reason(
        "refused",
        "node(s) were refused by their agent ({})",
        remedy="The node's agent had fresher knowledge. The pod is tried again by itself.",
        helped_by=NODES | WakeEvent.POD_REMOVED,
    )
    POLICY = Reason(
        "policy",
        "node(s) didn't satisfy plugin {}",
        remedy="A plugin of your own refuses the node.",
        # who waits for pods to come says so: else each would have all refused tried
        helped_by=~WakeEvent.POD_ADDED,
    )
    PLUGIN_ERROR = Reason(
        "plugin_error",
        "node(s) could not be judged: plugin {} failed",
        remedy="The plugin failed: the dispatcher's log has the error.",
        helped_by=NODES,
        resolvable=False,
        verbatim=True,
    )
    NAMED_APART = Reason(
        "named_apart",
        "node(s) didn't satisfy {}",
        remedy="Two plugins' PreFilters leave no common node; `explain` names them.",
        helped_by=WakeEvent.VOLUME | WakeEvent.CLAIM,
        resolvable=False,
        nodes_help=False,
    )
    LABELS_CUT = Reason(
        "labels_cut",
        "whom its topologySpreadConstraints count is not known: labels of pod {} are too "
        "large to be told, remove some of its metadata.labels",
        remedy="Remove labels of the pod that is named, or the pod (its labels take more than "
        "16 KiB of memory, or large pods of its namespace take more than 64 MiB "
        "together). It is tried again when that changes.",
        helped_by=WakeEvent.POD_REMOVED,
        resolvable=False,
        nodes_help=False,
        verbatim=True,
    )
    QUOTA = Reason(
        "quota",
        "tenant quota exceeded: {}",
        remedy="The tenant has used its quota. `explain` says how much of what; wait, delete, "
        "or raise the quota.",
        helped_by=WakeEvent.QUOTA_FREED | NODES,
        resolvable=False,
        nodes_help=False,
        verbatim=True,
    )
    GATED = Reason(
        "gated",
        "Scheduling is blocked due to non-empty scheduling gates: {}",
        remedy="Whoever put the scheduling gate on has to take it off.",
        helped_by=NEVER,
        resolvable=False,
        nodes_help=False,
        verbatim=True,
    )
    UNGIVEN = Reason(
        "ungiven",
        "pod waits for toleration(s) that its tenant gives it: {}",
        remedy="Its cluster's agent adds them, at once. If it cannot, an event of the pod says why;"
        " if there is none, the agent is of an older version: upgrade it.",
        helped_by=NEVER,
        resolvable=False,
        nodes_help=False,
        verbatim=True,
    )
    INVALID = Reason(
        "invalid",
        "pod cannot be scheduled: {}",
        remedy="The text says what of the pod cannot be read, or means nothing. Correct it.",
        helped_by=NEVER,
        resolvable=False,
        nodes_help=False,
        verbatim=True,
    )
    NO_PROFILE = Reason(
        "no_profile",
        "spec.schedulerName names no profile of this dispatcher; known: {}",
        remedy="Use one of the schedulerNames that are listed, or configure a profile of that "
        "name.",
        helped_by=NEVER,
        resolvable=False,
        nodes_help=False,
        verbatim=True,
    )
    PERMIT = Reason(
        "permit",
        "rejected due to timeout after waiting at Permit plugin {}",
        remedy="The other pods of its group did not come in time, or had no place. It is tried"
        " again.",
        helped_by=NODES | WakeEvent.POD_REMOVED | WakeEvent.POD_PLACED,
        verbatim=True,
    )
    UNANSWERED = Reason(
        "unanswered",
        "cluster {} was lost before it said whether it runs the pod: another copy might run twice",
        remedy="Wait until the cluster is back; or, if nothing runs there any more, "
        "`global-dispatcher cluster fence NAME`.",
        # such a pod is not queued
        helped_by=NEVER,
        nodes_help=False,
    )
    STILL_ELSEWHERE = Reason(
        "still_elsewhere",
        "its delegate in cluster {} is not gone yet",
        remedy="An earlier copy ends there; the pod goes on by itself when it is gone.",
        # such a pod is not queued
        helped_by=NEVER,
        nodes_help=False,
    )
    PREEMPTED = Reason(
        "preempted",
        "gave its place to a pod of higher priority while it waited",
        remedy="It is tried again by itself.",
        helped_by=NODES | WakeEvent.POD_REMOVED,
    )
    TOO_SLOW = Reason(
        "too_slow",
        "pods of its namespace take too long to decide, so they wait while others are "
        "decided: give them fewer affinity terms, topologySpreadConstraints and clauses of "
        "selectors",
        remedy="A pod of the namespace took more than 50 ms to decide, again and again. It is "
        "tried again within a minute.",
        # time alone: see the core
        helped_by=NEVER,
        resolvable=False,
        nodes_help=False,
        verbatim=True,
    )
    OUTSIDE_DOMAIN = Reason(
        "outside_domain",
        "node(s) were outside the domain that the pod's group is tried in",
        remedy="All members of a group go to one domain (`within`); the message names the best one "
        "and says what was missing there.",
        helped_by=NODES,
        resolvable=False,
    )
    GROUP = Reason(
        "group",
        "pod group {}",
        remedy="No domain has room for all members that have to start together. The message names "
        "the best one and says what was missing there: ask for less of it, for fewer members that "
        "start together, or for a wider domain.",
        # the reasons of its members say what else helps
        helped_by=WakeEvent.NODE_ADDED | WakeEvent.CLUSTER_CHANGED,
        verbatim=True,
    )
    GROUP_INCOMPLETE = Reason(
        "group_incomplete",
        "incomplete pod group {}",
        remedy="The pods of a group start together, and fewer than its least number (`minCount`, or "
        "the annotation `global-dispatcher.io/group-min`) are there by now; those with scheduling "
        "gates do not count. Make the others, or lower the number.",
        # the members that come: see the queue
        helped_by=NEVER,
        resolvable=False,
        nodes_help=False,
        verbatim=True,
    )
    PRE_BIND = Reason(
        "pre_bind",
        "node(s) could not be prepared for the pod: {}",
        remedy="Volumes could not be prepared; the text says why. It is tried again.",
        helped_by=NODES | WakeEvent.CLAIM | WakeEvent.VOLUME | WakeEvent.POD_REMOVED,
        verbatim=True,
    )


MOST_REASONS = 1000  # that one process may know
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
        meant = meant_level(self.argument) if self.reason == Reasons.SPREAD_LABEL else ""
        hint = f"; did you mean the level {meant}, not a node label of that name?" if meant else ""
        return self.reason.text(self.argument) + hint

    @property
    def detail(self) -> str:
        """The same with the argument (which taint, which domains) where the text leaves it out."""
        is_shown = not self.argument or "{" in self.reason.words
        return self.text if is_shown else f"{self.text} ({self.argument})"

    @property
    def resolvable(self) -> bool:
        """Whether the pod might fit if other pods left the node."""
        return self.reason.resolvable and not self.lasting


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
            if len(self._of) >= MOST_REASONS and reason not in self._of:
                raise ValueError(
                    f"reason {reason.name}: declare reasons, do not make them as you go"
                )
            most = self._limit if reason == Reasons.INSUFFICIENT else max(self._limit // 4, 1)
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

    def knows(self, code: int) -> bool:
        """Whether it is 0, no reason, or a code of this table."""
        return 0 <= code < len(self._whys)

    def whys(self, code: int) -> tuple[Why, ...]:
        """The reasons behind a code; KeyError for 0 and unknown codes."""
        if not 0 < code < len(self._whys):
            raise KeyError(code)
        return self._whys[code]

    def why(self, code: int) -> Why:
        """The first of them."""
        return self.whys(code)[0]
