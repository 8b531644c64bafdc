"""Sets of pods that a rule counts, named so that equal rules share one count; and an index to find
them by a pod.

A set is told by namespaces and label selectors. What labels a namespace has is looked up in the
cluster in which the pod was submitted; of a namespace that is not known, no label is.
"""

import enum
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from typing import Generic, TypeVar

from shared.model.labels import IN, LabelSelector
from shared.model.names import AFFINITY_FROM_OTHERS
from shared.model.pod import Pod, PodAffinityTerm

T = TypeVar("T", bound=Hashable)

_MOST_NAMED = 16
_OPEN = AFFINITY_FROM_OTHERS, "true"
_MOST_APPS = 64  # whose sets are kept
LabelsOf = Callable[
    [str, str], Mapping[str, str]
]  # (cluster, namespace) -> labels of that namespace
Label = tuple[str, str]
Owner = tuple[str, str]  # of a term: cluster of submission, namespace
AppName = tuple[str, frozenset[Label]]  # namespace, app labels
Place = tuple[str | None, str | None, Label | frozenset[Label] | None]  # see `PodSetIndex`


@dataclass(frozen=True)
class Looks:
    """What of a pod tells whether it is in a set: keys of its labels and of its namespace's, and
    who is named.

    Of a label under such a key, all that matters is whether it is one of those that are named with
    a value, too.
    """

    labels: frozenset[str | Label] = frozenset()
    namespaces: frozenset[str] = frozenset()
    namespace_labels: frozenset[str | Label] = frozenset()
    homes: frozenset[str] = frozenset()  # clusters of submission that are told from others


@dataclass(frozen=True, eq=False)
class PodSet:
    """Pods wherever they are: equal names mean equal sets.

    `matches(pod, cluster of submission, labels_of)` tells members. `namespaces`: where all of them
    are, None: anywhere. `clues`: each is some labels, of which every member has at least one; none
    if nothing of the kind can be told.
    """

    name: Hashable
    matches: Callable[[Pod, str, LabelsOf], bool]
    namespaces: frozenset[str] | None
    clues: tuple[tuple[Label, ...], ...] = ()
    asks_namespaces: bool = False  # whether labels of namespaces have a say
    terminating: bool = True  # whether a terminating pod may be a member
    app: "AppName | None" = None  # whose live pods it is
    # whose cluster all are from, but for those of its namespace and of open ones
    owner: Owner | None = None
    # of a set that terms mean: read when asked for, as few are
    looks: "Callable[[], Looks]" = Looks


class TermKind(enum.Enum):
    """What a term of a placed pod does for a pod that it matches."""

    REQUIRED = "required affinity"
    REPELLING = "required anti-affinity"
    PREFERRED = "preferred affinity, by weight; negative for anti-affinity"


@dataclass(frozen=True, slots=True)
class StandingTerm:
    """A term that placed pods have, or had lately. `number` is never used again; `key` is its
    topology key.
    """

    number: int
    kind: TermKind
    key: str

    def brought(self, brings: Mapping[int, int]) -> int:
        """What a pod adds to its count; `brings`: to that of each term, by number."""
        return brings.get(self.number, 0)


def app_name(pod: Pod) -> AppName:
    """Equal for pods of one app."""
    return pod.namespace, frozenset(pod.app_labels.items())


class AppNames:
    """The names of pods' apps; mostly the next pod is of the app of the last one."""

    def __init__(self) -> None:
        self._last: tuple[Mapping[str, str], AppName] = ({}, ("", frozenset()))

    def of(self, pod: Pod) -> AppName:
        """The same as `app_name`."""
        labels, name = self._last
        if name[0] != pod.namespace or (labels is not pod.labels and labels != pod.labels):
            name = app_name(pod)
            self._last = pod.labels, name
        return name


def selector_key(pod: Pod, selector: LabelSelector | None) -> Hashable:
    """A hashable name for what `selector` matches; None stands for the pods of the same app as
    `pod`.
    """
    if selector is None:
        return ("app", frozenset(pod.app_labels.items()))
    return ("selector", *_names(selector))


def _names(selector: LabelSelector) -> tuple[Hashable, ...]:
    return frozenset(selector.match_labels.items()), selector.match_expressions


def pods_beside(pod: Pod, selector: LabelSelector | None) -> PodSet:
    """The live pods of `pod`'s namespace that match `selector`; None: those of the same app."""
    if selector is not None:
        return pods_in(pod.namespace, selector)
    return _of_app(app_name(pod))


@lru_cache(maxsize=_MOST_APPS)
def _of_app(name: AppName) -> PodSet:
    """The live pods of an app: the same set for all who ask, one after the other, for pods of it."""
    namespace, labels = name
    app = dict(labels)
    return PodSet(
        ("beside", namespace, ("app", labels)),
        lambda one, *_: one.app_labels == app,
        frozenset((namespace,)),
        terminating=False,
        app=name,
    )


def pods_in(namespace: str, selector: LabelSelector) -> PodSet:
    """The live pods of a namespace that `selector` matches: those behind a Service, say."""
    name = ("beside", namespace, ("selector", *_names(selector)))
    matches = selector.matches
    return PodSet(
        name,
        lambda one, *_: matches(one.labels),
        frozenset((namespace,)),
        _clues(selector),
        terminating=False,
    )


def reaches_beyond(term: PodAffinityTerm, namespace: str) -> bool:
    """Whether a term of a pod of this namespace may mean pods of another one."""
    return term.namespace_selector is not None or any(name != namespace for name in term.namespaces)


def pods_of_terms(terms: Sequence[PodAffinityTerm], owner: Owner | None = None) -> PodSet:
    """The pods that every one of `terms` (one at least) means; their topology keys have no say.

    Terms of a pod mean pods of its owner's cluster, of its own namespace anywhere, and of
    namespaces that their own cluster has opened to the terms of others by label
    `AFFINITY_FROM_OTHERS`. Without an owner: pods of any cluster.
    """
    found = [_Target.of(term, owner) for term in terms]
    targets = list({target.name: target for target in found}.values())
    return PodSet(
        name=("terms", frozenset(target.name for target in targets)),
        matches=targets[0].matches
        if len(targets) == 1
        else _all_of([target.matches for target in targets]),
        namespaces=next(
            (target.namespaces for target in targets if target.namespace_selector is None), None
        ),
        clues=tuple(dict.fromkeys(clue for target in targets for clue in _clues(target.selector))),
        asks_namespaces=any(target.asks_namespaces for target in targets),
        owner=next((target.owner for target in targets if target.owner is not None), None),
        looks=lambda: _looks(targets),
    )


def unlabelled_of_term(term: PodAffinityTerm, owner: Owner) -> PodSet:
    """The pods that a term may mean, as far as anybody knows: those of its namespaces whose labels
    are not told.
    """
    target = _Target.of(term, owner)
    return PodSet(
        ("unlabelled", target.namespaces, _name_of(term.namespace_selector), target.owner),
        lambda pod, home, labels_of: (
            pod.labels_cut and target.reaches(pod.namespace, home, labels_of)
        ),
        None if term.namespace_selector is not None else target.namespaces,
        asks_namespaces=target.asks_namespaces,
        owner=target.owner,
    )


def _looks(targets: "Sequence[_Target]") -> Looks:
    return Looks(
        frozenset(one for target in targets for one in _named(target.selector)),
        frozenset(
            name for target in targets for name in (*target.namespaces, *(target.owner or ())[1:])
        ),
        frozenset(one for target in targets for one in target.namespace_labels()),
        frozenset(target.owner[0] for target in targets if target.owner is not None),
    )


def _named(selector: LabelSelector | None) -> Iterator[str | Label]:
    """The keys of a selector, and the labels that it names with a value."""
    if selector is not None:
        yield from selector.match_labels
        yield from selector.match_labels.items()
        for clause in selector.match_expressions:
            yield clause.key
            yield from ((clause.key, value) for value in clause.values)


def _all_of(
    matches: list[Callable[[Pod, str, LabelsOf], bool]],
) -> Callable[[Pod, str, LabelsOf], bool]:
    return lambda pod, home, labels_of: all(match(pod, home, labels_of) for match in matches)


@dataclass(frozen=True)
class _Target:
    """Whom one term means. `owner`: of a term that is held to the cluster of its pod, None of one
    that is not.
    """

    name: Hashable
    selector: LabelSelector | None
    namespaces: frozenset[str]
    namespace_selector: LabelSelector | None
    owner: Owner | None = None

    @classmethod
    def of(cls, term: PodAffinityTerm, owner: Owner | None) -> "_Target":
        namespaces = frozenset(term.namespaces)
        if owner is not None and not reaches_beyond(term, owner[1]):
            owner = None
        name = (_name_of(term.selector), namespaces, _name_of(term.namespace_selector), owner)
        return cls(name, term.selector, namespaces, term.namespace_selector, owner)

    @property
    def asks_namespaces(self) -> bool:
        wanted = self.namespace_selector
        return self.owner is not None or (
            wanted is not None and bool(wanted.match_labels or wanted.match_expressions)
        )

    def namespace_labels(self) -> Iterator[str | Label]:
        yield from _named(self.namespace_selector)
        if self.owner is not None:
            yield AFFINITY_FROM_OTHERS
            yield _OPEN

    def matches(self, pod: Pod, home: str, labels_of: LabelsOf) -> bool:
        if self.selector is None or not self.selector.matches(pod.labels):
            return False
        if (
            pod.labels_cut and self.selector.match_expressions
        ):  # they may rest on a label that is not told
            return False
        return self.reaches(pod.namespace, home, labels_of)

    def reaches(self, namespace: str, home: str, labels_of: LabelsOf) -> bool:
        """Whether it may mean pods of this namespace and cluster."""
        wanted = self.namespace_selector
        owner = self.owner
        if namespace not in self.namespaces and not (
            wanted is not None and wanted.matches(labels_of(home, namespace))
        ):
            return False
        return (
            owner is None
            or home == owner[0]
            or namespace == owner[1]
            or is_open(labels_of(home, namespace))
        )


def is_open(namespace_labels: Mapping[str, str]) -> bool:
    """Whether terms of pods of other clusters may mean the pods of a namespace."""
    return namespace_labels.get(AFFINITY_FROM_OTHERS) == "true"


def _name_of(selector: LabelSelector | None) -> Hashable:
    return (
        None
        if selector is None
        else (frozenset(selector.match_labels.items()), selector.match_expressions)
    )


def _clues(selector: LabelSelector | None) -> tuple[tuple[Label, ...], ...]:
    if selector is None:
        return ()
    listed = [clause for clause in selector.match_expressions if clause.operator == IN]
    return (
        *[(label,) for label in sorted(selector.match_labels.items())],
        *[tuple([(clause.key, value) for value in clause.values]) for clause in listed],
    )


class PodSetIndex(Generic[T]):
    """Things by the set of pods they are about: for one pod, few of many have to be tried.

    A thing about an app stands under the app's name. Any other stands under its owner's cluster (or
    under "any"), each of its namespaces (or "any") and each label of a clue (or "none"); of several
    clues, under that where fewest stood when it came. So what is held to one cluster costs pods of
    the others nothing.
    """

    def __init__(self) -> None:
        self._things: dict[Place, dict[T, None]] = {}
        self._owners: dict[str, Counter[str]] = {}  # cluster -> namespace -> things that it owns
        self._places: dict[T, tuple[Place, ...]] = {}
        # how many things are about an app
        self._names = AppNames()
        self._of_apps = 0

    def put(self, thing: T, pods: PodSet) -> None:
        """Enter a thing."""
        self._places[thing] = places = min(ways_to(pods), key=self._crowd)
        self._of_apps += pods.app is not None
        if pods.owner is not None:
            self._owners.setdefault(pods.owner[0], Counter())[pods.owner[1]] += 1
        for place in places:
            self._things.setdefault(place, {})[thing] = None

    def _crowd(self, places: tuple[Place, ...]) -> int:
        return sum([len(self._things.get(place, ())) for place in places])

    def drop(self, thing: T, pods: PodSet) -> None:
        """Take it out again."""
        self._of_apps -= pods.app is not None
        if pods.owner is not None:
            cluster, namespace = pods.owner
            owners = self._owners[cluster]
            owners[namespace] -= 1
            if not owners[namespace]:
                del owners[namespace]
            if not owners:
                del self._owners[cluster]
        for place in self._places.pop(thing):
            things = self._things[place]
            del things[thing]
            if not things:
                del self._things[place]

    def places(self, thing: T) -> tuple[Place, ...]:
        """Where a thing stands."""
        return self._places[thing]

    def at(self, place: Place) -> Mapping[T, None]:
        """What stands at a place."""
        return self._things.get(place, {})

    def near(self, pod: Pod, home: str, labels_of: LabelsOf) -> list[T]:
        """The things whose set may hold `pod` of that cluster, each once."""
        places = self.places_near(pod, home, labels_of) if self._things else ()
        return [thing for _, things in places for thing in things]

    def places_near(
        self, pod: Pod, home: str, labels_of: LabelsOf
    ) -> Iterator[tuple[Place, Mapping[T, None]]]:
        """The same, by the place at which they stand."""
        if self._of_apps and (things := self._things.get(app := _app_place(self._names.of(pod)))):
            yield app, things
        for owner in (None, *self._reaching(pod, home, labels_of)) if self._owners else (None,):
            for namespace in (pod.namespace, None):
                for clue in (None, *pod.labels.items()):
                    if things := self._things.get((owner, namespace, clue)):
                        yield (owner, namespace, clue), things

    def _reaching(self, pod: Pod, home: str, labels_of: LabelsOf) -> list[str]:
        """The clusters of owners whose things may be about a pod."""
        if is_open(labels_of(home, pod.namespace)):
            return list(self._owners)
        return [
            one for one, owners in self._owners.items() if one == home or pod.namespace in owners
        ]


def ways_to(pods: PodSet) -> list[tuple[Place, ...]]:
    """The places of a set in an index, by the clue one goes by. Never more than _MOST_NAMED ** 2
    for one: who names more namespaces or labels stands under "any" and "none".
    """
    if pods.app is not None:
        return [(_app_place(pods.app),)]
    named = pods.namespaces
    clues = [clue for clue in pods.clues if len(set(clue)) <= _MOST_NAMED]
    namespaces = (None,) if named is None or len(named) > _MOST_NAMED else tuple(named)
    owners = (None if pods.owner is None else pods.owner[0],)
    ways = [tuple(product(owners, namespaces, dict.fromkeys(clue))) for clue in clues]
    return ways or [tuple(product(owners, namespaces, (None,)))]


def _app_place(name: AppName) -> Place:
    return None, *name


def any_label(pods: PodSet) -> bool:
    """Whether an index names a set to every pod of some namespace, whatever its labels are."""
    return pods.app is None and any(clue is None for places in ways_to(pods) for *_, clue in places)
