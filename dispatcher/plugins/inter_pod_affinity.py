"""Pods that shall be near, or away from, other pods: their own terms, and the terms of pods that
are placed already.

A node is refused, in this order, where
    the pod has required affinity and the node's domain of some topology key holds no pod that *all*
    its terms mean, or the node lacks the key; if no domain anywhere holds one, a pod that is meant
    by its own terms is the first of its kind and may go wherever the keys are; the domain holds a
    pod that one of its required anti-affinity terms means; the domain holds a pod whose required
    anti-affinity means this pod.
Raw score of a node, in weights: over its domains, weight * pods for each preferred term (minus for
anti-affinity), the weights of the preferred terms of placed pods that mean this pod, and
`hardPodAffinityWeight` for each required affinity term of a placed pod that does. Score = floor(100
* (raw - least) / (most - least)) over the feasible nodes, 0 if equal. A pod whose labels are too
large to be told counts as one that anti-affinity means, and as none that affinity means; but then
nobody is the first of its kind. Pods count until they are gone, terminating ones too. Source:
kube-scheduler's InterPodAffinity; domains span clusters, and terms mean pods of other clusters in
their own namespace, or in one open to them (`pods_of_terms`).
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

from msgspec import Meta

from dispatcher.scheduling.framework import (
    SKIP,
    CountedPlugin,
    FleetView,
    PodInfo,
    Refuse,
    Skip,
    refuse,
)
from dispatcher.scheduling.framework.domain_counts import CountRules, Scale
from dispatcher.scheduling.framework.hints import ClusterEvent
from dispatcher.scheduling.framework.plugin_args import Args
from dispatcher.scheduling.framework.pod_sets import PodSet, StandingTerm, TermKind
from dispatcher.scheduling.rules.affinity import AffinityBook, AffinityRules
from dispatcher.scheduling.rules.affinity_counts import (
    EXISTING_ANTI_AFFINITY,
    POD_AFFINITY,
    POD_ANTI_AFFINITY,
    AffinityCounts,
)
from shared.model.pod import Pod
from shared.model.reasons import Reason
from shared.model.wake_events import WakeEvent

TOO_MANY_TERMS = Reason(
    "too_many_terms",
    "pods of its namespace would have more than {} distinct (anti-)affinity terms about "
    "pods of other namespaces: let its pods share terms, or have the administrator raise "
    "most_terms_about_others of plugin InterPodAffinity",
    remedy="Let the pods of a namespace share their terms (one template, selectors without"
    " the name of a pod), or raise `most_terms_about_others` of InterPodAffinity. "
    "It is tried again when a pod of it goes, or one comes that holds its terms "
    "already.",
    # one that comes may hold the very terms, which then are none more
    helped_by=WakeEvent.POD_REMOVED | WakeEvent.POD_PLACED,
    resolvable=False,
    nodes_help=False,
    verbatim=True,
)

_NO_RULES = AffinityRules((), (), (), None)


@dataclass(frozen=True)
class _State:
    """What a pod's terms and those of others about it come to."""

    rules: CountRules
    unlabelled: str  # a pod whose labels are not told, that its required terms may mean


class AffinityArgs(Args):
    """The same as in kube-scheduler, and a bound on what one namespace may cost others."""

    hard_pod_affinity_weight: Annotated[
        int,
        Meta(
            ge=0,
            le=100,
            description="what a required affinity term of a placed pod adds to the score, 0-100",
        ),
    ] = 1
    ignore_preferred_terms_of_existing_pods: Annotated[
        bool,
        Meta(
            description="a pod without preferred terms of its own is not scored by those of "
            "placed pods"
        ),
    ] = False
    most_terms_about_others: Annotated[
        int,
        Meta(
            ge=1,
            le=100_000,
            description="distinct terms about pods of other namespaces that the pods of one "
            "namespace may have",
        ),
    ] = 1000


class InterPodAffinity(CountedPlugin[_State]):
    """Filter on required terms both ways, score on preferred ones."""

    name: ClassVar[str] = "InterPodAffinity"
    REASONS = (
        POD_AFFINITY,
        POD_ANTI_AFFINITY,
        EXISTING_ANTI_AFFINITY,
        TOO_MANY_TERMS,
    )
    keyed_by_template = True
    scale = Scale.RANGE

    def __init__(
        self,
        hard_pod_affinity_weight: int,
        ignore_preferred_terms_of_existing_pods: bool,
        most_terms_about_others: int,
    ) -> None:
        self._hard_weight = hard_pod_affinity_weight
        self._own_only = ignore_preferred_terms_of_existing_pods
        self._most = most_terms_about_others
        self._book = AffinityBook()

    # --- what is looked at
    # -------------------------------------------------------------------------------------------

    def class_key(self, pod_info: PodInfo) -> Hashable:
        """The pod's rules, and which of them mean the pod itself; None without rules."""
        rules = self._book.rules_of(pod_info)
        return None if rules is None else (rules.name, _self_key(rules, pod_info))

    def fleet_key(self, pod_info: PodInfo, fleet: FleetView) -> Hashable:
        """The numbers of the terms of placed pods that mean this pod; None if none does. True: it
        brings too many.

        Labels and namespace matter by these terms alone, so pods of different labels stay one class
        until a term tells them apart; a pod that a new term means becomes one of another class.
        Pods of one class do not come apart by the terms that they bring along themselves: the class
        key says which of these mean the pod. And whether its required terms may mean pods whose
        labels are not told.
        """
        rules = self._book.rules_of(pod_info)
        if rules is not None and self._brings_too_many(pod_info, fleet):
            return True
        about = tuple([term.number for term in self._about(pod_info, rules, fleet)]) or None
        return (about, True) if _unlabelled(rules, fleet) else about

    def _brings_too_many(self, pod_info: PodInfo, fleet: FleetView) -> bool:
        return fleet.affinity.owned_with(pod_info) > self._most

    def _about(
        self, pod_info: PodInfo, rules: AffinityRules | None, fleet: FleetView
    ) -> Sequence[StandingTerm]:
        found = fleet.affinity.terms_about(pod_info)
        if not found:
            return found
        scored = not self._own_only or (rules is not None and bool(rules.preferred))
        heard = {
            TermKind.REPELLING: True,
            TermKind.PREFERRED: scored,
            TermKind.REQUIRED: scored and self._hard_weight,
        }
        return [term for term in found if heard[term.kind]]

    def hint_key(self, pod_info: PodInfo) -> frozenset[str] | None:
        """The namespaces of the pods that its required terms mean, its own if it has terms about
        others; None: any.
        """
        rules = self._book.rules_of(pod_info) or _NO_RULES
        meant = [
            *(rule.pods for rule in rules.repelling),
            *(() if rules.together is None else (rules.together,)),
        ]
        named = [pods.namespaces for pods in meant]
        if rules.reaches_beyond:
            named.append(frozenset((pod_info.pod.namespace,)))
        return (
            None
            if None in named
            else frozenset[str]().union(*(one for one in named if one is not None))
        )

    def hint_any(self, event: ClusterEvent, key: Hashable) -> bool:
        """A pod that comes or goes helps those whose terms mean its namespace, and if it bore a
        grudge, any.
        """
        came = event.after
        gone = event.before
        pods = [one for one in (came, gone) if isinstance(one, Pod)]
        if not pods or not isinstance(key, frozenset):
            return True
        return any(one.namespace in key for one in pods) or _has_grudge(gone)

    def hint(self, event: ClusterEvent, pod_info: PodInfo) -> bool:
        """A pod that came is worth a try if all required affinity means it, or if it holds terms of
        this pod about others, which then are none more; one that went if it bore a grudge, or any
        required term means it, or its terms made room for those of this pod. Pods of one class may
        differ in labels, so whom others mean is not asked.
        """
        came = event.after
        gone = event.before
        if not isinstance(came, Pod) and not isinstance(gone, Pod):
            return True
        rules = self._book.rules_of(pod_info) or _NO_RULES
        near = () if rules.together is None else (rules.together,)
        if isinstance(came, Pod) and any(_may_mean(pods, came, event.cluster) for pods in near):
            return True
        if (
            isinstance(came, Pod)
            and rules.reaches_beyond
            and self._shares_terms(rules, PodInfo(came, event.cluster))
        ):
            return True
        if not isinstance(gone, Pod):
            return False
        if rules.reaches_beyond and gone.namespace == pod_info.pod.namespace and _has_terms(gone):
            return True
        away = tuple(rule.pods for rule in rules.repelling)
        return _has_grudge(gone) or any(
            _may_mean(pods, gone, event.cluster) for pods in (*near, *away)
        )

    def _shares_terms(self, rules: AffinityRules, came: PodInfo) -> bool:
        of_came = self._book.rules_of(came)
        return of_came is not None and not rules.names_about_others.isdisjoint(
            of_came.names_about_others
        )

    # --- asking
    # ----------------------------------------------------------------------------------------------

    def pre_filter(self, pod_info: PodInfo, fleet: FleetView) -> _State | Refuse | Skip:
        """The answers by domain as things stand; SKIP where no term of the pod or about it exists."""
        if self._brings_too_many(pod_info, fleet):
            return refuse(TOO_MANY_TERMS, str(self._most))
        rules = self._book.rules_of(pod_info)
        about = self._about(pod_info, rules, fleet)
        if rules is None and not about:
            return SKIP
        rules = rules or _NO_RULES
        unlabelled = _unlabelled(rules, fleet)
        brought = fleet.affinity.brings(pod_info)
        counts = AffinityCounts(rules, about, pod_info, fleet, brought or {}, bool(unlabelled))
        # While nobody holds one of the pod's terms the next pod would meet a new one.
        lasting = brought is not None and not unlabelled
        return _State(counts.stated(self._hard_weight, lasting=lasting), unlabelled)

    def rules(self, state: _State, fleet: FleetView) -> CountRules:
        """Required affinity, required anti-affinity, that of placed pods; preferred terms."""
        return state.rules

    def explain_refusal(self, state: _State, pod_info: PodInfo, fleet: FleetView) -> Sequence[str]:
        """Whose labels are not told, so that its required terms may mean that pod."""
        if not state.unlabelled:
            return ()
        return (
            f"labels of pod {state.unlabelled} are too large to be told, so it may be one that "
            "the pod's required "
            "affinity or anti-affinity means: remove some of its metadata.labels",
        )


def _unlabelled(rules: AffinityRules | None, fleet: FleetView) -> str:
    return (
        fleet.affinity.unlabelled(rules.unlabelled)
        if rules is not None and rules.unlabelled
        else ""
    )


def _self_key(rules: AffinityRules, pod_info: PodInfo) -> Hashable:
    """Which of a pod's rules mean the pod itself, and whether all that are required do.

    Where labels of namespaces have a say, they are looked up in time: what they are looked up by
    stands for them.
    """
    pod = pod_info.pod
    home = pod_info.home
    sets = rules.sets
    if any(pods.asks_namespaces for pods in sets):
        return frozenset(pod.labels.items()), pod.namespace, home
    return tuple([pods.matches(pod, home, _no_labels) for pods in sets])


def _has_grudge(gone: object) -> bool:
    return (
        isinstance(gone, Pod)
        and gone.pod_anti_affinity is not None
        and bool(gone.pod_anti_affinity.required)
    )


def _has_terms(pod: Pod) -> bool:
    return pod.pod_affinity is not None or pod.pod_anti_affinity is not None


def _may_mean(pods: PodSet, pod: Pod, home: str) -> bool:
    """Whether a pod may be one of `pods`, whatever labels namespaces have, or it has itself if they
    are not told.
    """
    return pod.labels_cut or pods.asks_namespaces or pods.matches(pod, home, _no_labels)


def _no_labels(cluster: str, namespace: str) -> Mapping[str, str]:
    return {}
