"""Inter-pod affinity as domain counts: those that its rules look at, and what one more pod adds to
each.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from dispatcher.scheduling.framework import FleetView, Ints, PodInfo
from dispatcher.scheduling.framework.domain_counts import (
    CountRules,
    MaxCount,
    RequiredCount,
    RuleCount,
    Scale,
    ScoreTerm,
)
from dispatcher.scheduling.framework.pod_sets import PodSet, StandingTerm, TermKind
from dispatcher.scheduling.rules.affinity import AffinityRules
from shared.model.objects import Namespace
from shared.model.reasons import Reason
from shared.model.topology import HOST_LEVEL, level_of
from shared.model.wake_events import NODES, WakeEvent

POD_AFFINITY = Reason(
    "pod_affinity",
    "node(s) didn't match pod affinity rules",
    remedy="No pod that the required affinity asks for is in the node's domain.",
    helped_by=NODES | WakeEvent.POD_PLACED | WakeEvent.POD_REMOVED | WakeEvent.NAMESPACE,
    resolvable=False,
)
POD_ANTI_AFFINITY = Reason(
    "pod_anti_affinity",
    "node(s) didn't match pod anti-affinity rules",
    remedy="A pod that the required anti-affinity avoids is in the node's domain.",
    helped_by=NODES | WakeEvent.POD_REMOVED | WakeEvent.NAMESPACE,
)
EXISTING_ANTI_AFFINITY = Reason(
    "existing_anti_affinity",
    "node(s) didn't satisfy existing pods anti-affinity rules",
    remedy="A pod in the node's domain has an anti-affinity that avoids this pod.",
    helped_by=NODES | WakeEvent.POD_REMOVED | WakeEvent.NAMESPACE,
)

_Count = tuple[
    str, Ints, int, int
]  # topology key, pods by domain, times what weight; what one more pod adds to them


@dataclass(frozen=True)
class AffinityCounts:
    """The counts that a pod's rules and the standing terms `about` it look at, and what one more
    pod like it adds.

    `brought`: number of a standing term -> what the pod adds to it. `unlabelled`: whether labels of
    some pods are not told, so that terms may mean them.
    """

    rules: AffinityRules
    about: Sequence[StandingTerm]
    pod_info: PodInfo
    fleet: FleetView
    brought: Mapping[int, int]
    unlabelled: bool

    def stated(self, hard_weight: int, *, lasting: bool) -> CountRules:
        """All that they say; `hard_weight`: what a required term of a placed pod is worth."""
        return CountRules(
            self._refusals(),
            self._first(),
            self._score_terms(hard_weight),
            scale=Scale.RANGE,
            lasting=lasting,
        )

    def _first(self) -> bool:
        """Whether the pod may be the first of its kind."""
        together = self.rules.together
        return (
            together is not None
            and is_one_of(together, self.pod_info, self.fleet)
            and not (
                self.unlabelled and self.fleet.affinity.unlabelled(self.rules.drawn_unlabelled)
            )
        )

    def _refusals(self) -> Sequence[MaxCount | RequiredCount]:
        """Required affinity, required anti-affinity, that of placed pods."""
        reasons = self.fleet.reasons
        rules = self.rules
        own = reasons.code(POD_ANTI_AFFINITY)
        near = reasons.code(POD_AFFINITY)
        theirs = reasons.code(EXISTING_ANTI_AFFINITY)
        keys = dict.fromkeys(rule.key for rule in rules.required)
        together = rules.together
        drawn = [self._own(together, key) for key in keys] if together else []
        repelling = rules.repelling_unlabelled if self.unlabelled else ()
        away = [self._own(rule.pods, rule.key) for rule in (*rules.repelling, *repelling)]
        return (
            *(RequiredCount(domain_count, near) for domain_count in self._domain_counts(drawn)),
            *(MaxCount(domain_count, 0, own) for domain_count in self._domain_counts(away)),
            *(
                MaxCount(domain_count, 0, theirs)
                for domain_count in self._domain_counts(self._standing(TermKind.REPELLING, 1))
            ),
        )

    def _score_terms(self, hard_weight: int) -> Sequence[ScoreTerm]:
        """One for each topology key."""
        preferred = [self._own(rule.pods, rule.key, rule.weight) for rule in self.rules.preferred]
        theirs = (
            self._standing(TermKind.PREFERRED, 1),
            self._standing(TermKind.REQUIRED, hard_weight),
        )
        return tuple(
            ScoreTerm(domain_count, 1.0)
            for domain_count in self._domain_counts((*preferred, *theirs[0], *theirs[1]))
        )

    def _own(self, pods: PodSet, key: str, weight: int = 1) -> _Count:
        return (
            key,
            self.fleet.affinity.count_in(pods, key),
            weight,
            int(is_one_of(pods, self.pod_info, self.fleet)),
        )

    def _standing(self, kind: TermKind, weight: int) -> list[_Count]:
        terms = [term for term in self.about if term.kind is kind]
        return [
            (one.key, self.fleet.affinity.count_of(one), weight, one.brought(self.brought))
            for one in terms
        ]

    def _domain_counts(self, counts: Sequence[_Count]) -> Iterator[RuleCount]:
        """The counts of each key added up."""
        for key in dict.fromkeys(key for key, *_ in counts):
            found = [
                (count * weight, more * weight)
                for own_key, count, weight, more in counts
                if own_key == key
            ]
            total = np.sum([count for count, _ in found], axis=0)
            more = sum(more for _, more in found)
            yield RuleCount(
                self.fleet.topology.domain(key), total, more, by_host=level_of(key) == HOST_LEVEL
            )


def is_one_of(pods: PodSet, pod_info: PodInfo, fleet: FleetView) -> bool:
    """Whether a pod is one of `pods`."""
    return pods.matches(
        pod_info.pod, pod_info.home, lambda home, namespace: _labels_of(fleet, home, namespace)
    )


def _labels_of(fleet: FleetView, home: str, namespace: str) -> Mapping[str, str]:
    found = fleet.objects.of(home, Namespace).get(namespace)
    return found.labels if found else {}
