"""Pods that shall be near, or away from, other pods: their own terms, and the terms of pods that are placed already.

A node is refused, in this order, where
    the pod has required affinity and the node's domain of some topology key holds no pod that *all* its terms mean, or
        the node lacks the key; if no domain anywhere holds one, a pod that is meant by its own terms is the first of
        its kind and may go wherever the keys are;
    the domain holds a pod that one of its required anti-affinity terms means;
    the domain holds a pod whose required anti-affinity means this pod.
Raw score of a node, in weights: over its domains, weight * pods for each preferred term (minus for anti-affinity), the
weights of the preferred terms of placed pods that mean this pod, and `hardPodAffinityWeight` for each required affinity
term of a placed pod that does. Score = floor(100 * (raw - least) / (most - least)) over the feasible nodes, 0 if equal.
Pods count until they are gone, terminating ones too. Source: kube-scheduler's InterPodAffinity; domains span clusters.
"""

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, cast

import numpy as np

from dispatcher.model.objects import Namespace
from dispatcher.model.reasons import Reason
from dispatcher.scheduling.affinity_rules import AffinityBook, AffinityRule, AffinityRules
from dispatcher.scheduling.framework import (
    MAX_SCORE,
    SKIP,
    Bools,
    DomainPlugin,
    Fleet,
    Floats,
    Ints,
    Part,
    Placed,
)
from dispatcher.scheduling.plugin_args import Arg, ArgTable, boolean, whole
from dispatcher.scheduling.pod_sets import PodSet, StandingTerm, TermKind

_NO_RULES = AffinityRules((), (), (), None)
_Weighted = tuple[int, Ints]


@dataclass(frozen=True)
class _State:
    """A pod's own rules and what they and the terms of others come to, by domain."""

    rules: AffinityRules
    filters: tuple[Part, ...]
    scores: tuple[Part, ...]


class InterPodAffinity(DomainPlugin):
    """Filter on required terms both ways, score on preferred ones."""

    name: ClassVar[str] = "InterPodAffinity"
    normalizes: ClassVar[bool] = True
    ARGS: ClassVar[ArgTable] = {
        "hardPodAffinityWeight": Arg(1, "what a required affinity term of a placed pod is worth, 0-100", whole(0, 100)),
        "ignorePreferredTermsOfExistingPods": Arg(
            False, "whether terms of placed pods have no say in the score of a pod without preferred terms", boolean
        ),
    }
