"""What a pod's inter-pod affinity says, read once: which pods, in which fault domains, with what
weight.
"""

from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

from dispatcher.scheduling.framework import PodInfo
from dispatcher.scheduling.framework.pod_sets import (
    Owner,
    PodSet,
    TermKind,
    pods_of_terms,
    reaches_beyond,
    unlabelled_of_term,
)
from dispatcher.scheduling.rules.eligibility import topology_key
from shared.messages.pod_cache import PodCache, said
from shared.model.names import DOMAIN_SCOPE
from shared.model.pod import Pod, PodAffinity, PodAffinityTerm

_NONE = PodAffinity()
_OWNERS = 64  # whose pods have the very same terms


@dataclass(frozen=True)
class AffinityRule:
    """Pods of a set, by domains of topology key `key`. `weight`: of a preferred term, negative for
    anti-affinity.
    """

    pods: PodSet
    key: str
    weight: int = 1

    @property
    def name(self) -> Hashable:
        """Equal names mean equal rules."""
        return self.pods.name, self.key, self.weight


@dataclass(frozen=True)
class AffinityRules:
    """The terms of one pod, each with the kind it is counted under.

    `together`: the pods that all required affinity terms mean at once, None without such terms.
    `…_unlabelled`: those that required terms may mean, as nobody knows their labels.
    """

    required: tuple[AffinityRule, ...]
    repelling: tuple[AffinityRule, ...]
    preferred: tuple[AffinityRule, ...]
    together: PodSet | None
    drawn_unlabelled: tuple[PodSet, ...] = ()
    repelling_unlabelled: tuple[AffinityRule, ...] = ()

    @classmethod
    def of(cls, pod_info: PodInfo) -> "AffinityRules":
        """Read the rules of a pod that has any."""
        pod = pod_info.pod
        owner = (pod_info.home, pod_info.pod.namespace)
        drawn = pod.pod_affinity or _NONE
        repelled = pod.pod_anti_affinity or _NONE
        return cls(
            required=tuple(_rule(term, pod, owner) for term in drawn.required),
            repelling=tuple(_rule(term, pod, owner) for term in repelled.required),
            preferred=(
                *(_rule(one.term, pod, owner, one.weight) for one in drawn.preferred),
                *(_rule(one.term, pod, owner, -one.weight) for one in repelled.preferred),
            ),
            together=pods_of_terms(drawn.required, owner) if drawn.required else None,
            drawn_unlabelled=tuple(rule.pods for rule in _unlabelled(drawn.required, pod, owner)),
            repelling_unlabelled=_unlabelled(repelled.required, pod, owner),
        )

    @cached_property
    def name(self) -> Hashable:
        """Equal names mean equal rules."""
        return tuple(
            tuple(rule.name for rule in rules)
            for rules in (self.required, self.repelling, self.preferred)
        )

    @cached_property
    def sets(self) -> tuple[PodSet, ...]:
        """The pods of each rule, and those of `together`."""
        pods = [
            rule.pods for rules in (self.required, self.repelling, self.preferred) for rule in rules
        ]
        return (*pods, self.together) if self.together else tuple(pods)

    @cached_property
    def unlabelled(self) -> tuple[PodSet, ...]:
        """The pods that required terms may mean, as nobody knows their labels."""
        return (*self.drawn_unlabelled, *(rule.pods for rule in self.repelling_unlabelled))

    @cached_property
    def reaches_beyond(self) -> bool:
        """Whether any may mean pods of another namespace."""
        return any(pods.owner is not None for pods in self.sets)

    @cached_property
    def names_about_others(self) -> frozenset[Hashable]:
        """The names of its distinct terms about pods of other namespaces."""
        wide = ((kind, rule) for kind, rule in self.counted() if rule.pods.owner is not None)
        return frozenset((kind, rule.key, rule.pods.name) for kind, rule in wide)

    def counted(self) -> Iterator[tuple[TermKind, AffinityRule]]:
        """Each term, as what it counts for once the pod is placed."""
        for kind, rules in (
            (TermKind.REQUIRED, self.required),
            (TermKind.REPELLING, self.repelling),
            (TermKind.PREFERRED, self.preferred),
        ):
            for rule in rules:
                yield kind, rule


def _rule(term: PodAffinityTerm, pod: Pod, owner: Owner, weight: int = 1) -> AffinityRule:
    return AffinityRule(pods_of_terms((term,), owner), topology_key(term.topology_key, pod), weight)


def _unlabelled(
    terms: Iterable[PodAffinityTerm], pod: Pod, owner: Owner
) -> tuple[AffinityRule, ...]:
    meant = [one for one in terms if one.selector is not None]
    rules = [
        AffinityRule(unlabelled_of_term(one, owner), topology_key(one.topology_key, pod))
        for one in meant
    ]
    return tuple({rule.name: rule for rule in rules}.values())


def _terms_of(one: PodAffinity | None) -> Iterator[PodAffinityTerm]:
    if one is not None:
        yield from one.required
        yield from (preferred.term for preferred in one.preferred)


class _Read:
    """The terms of a template, kept so that no other object can take their place, and the rules
    that they are: one for each cluster and namespace of such pods where these have a say.
    """

    def __init__(self, pod_info: PodInfo) -> None:
        self._terms = (pod_info.pod.pod_affinity, pod_info.pod.pod_anti_affinity)
        self._namespace = pod_info.pod.namespace
        terms = [term for one in self._terms for term in _terms_of(one)]
        self._wide = any(reaches_beyond(term, self._namespace) for term in terms)
        self.said = said(self._terms)
        self._rules: PodCache[Owner | None, AffinityRules] = PodCache(_OWNERS)

    def rules_of(self, pod_info: PodInfo) -> AffinityRules:
        narrow = not self._wide and pod_info.pod.namespace == self._namespace
        owner = None if narrow else (pod_info.home, pod_info.pod.namespace)
        found = self._rules.get(owner)
        if found is None:
            found = AffinityRules.of(pod_info)
            self._rules.put(owner, found, self.said)
        return found


class AffinityBook:
    """The rules of pods that were met lately; pods of one template that share their terms in memory
    are read once.
    """

    def __init__(self, limit: int = 1024) -> None:
        self._read: PodCache[Hashable, _Read] = PodCache(limit)  # by identity of the terms

    def rules_of(self, pod_info: PodInfo) -> AffinityRules | None:
        """The rules of a pod; None if it has none."""
        pod = pod_info.pod
        drawn = pod.pod_affinity
        repelled = pod.pod_anti_affinity
        if drawn is None and repelled is None:
            return None
        name = (id(drawn), id(repelled), pod.annotations.get(DOMAIN_SCOPE))
        found = self._read.get(name)
        if found is None:
            found = _Read(pod_info)
            self._read.put(name, found, found.said)
        return found.rules_of(pod_info)
