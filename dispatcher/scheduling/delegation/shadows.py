"""Which budgets of other clusters each cluster shall keep for the delegates there, and how many of
them at least.

A shadow budget keeps `healthy delegates under it - what may be disturbed now`, both as seen here.
An eviction there lowers both by one, so that however late its own cluster hears of it, it cannot be
spent twice there. A delegate has one shadow at most, since the Eviction API refuses pods with two
budgets: pods that several budgets select have one that keeps what the strictest asks for, and those
that a budget of the target's own selects have none.

A delegate comes under its shadow once its own cluster shows it Ready, too. Before, its budgets do
not count on it; but the target would, as soon as it is Ready there, and would let another one go
that its own cluster cannot spare yet.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache, partial
from hashlib import sha256
from itertools import chain, islice, zip_longest
from typing import NamedTuple, TypeVar

import msgspec

from dispatcher.scheduling.clusters import ClusterView
from dispatcher.scheduling.delegation.tracked_pods import TrackedPods
from dispatcher.scheduling.delegation.tracking import Tracked
from shared.messages import NO_SHADOWS, Cover, PodRef, Shadow, Shadows, UncountedBudgets
from shared.model.labels import LabelSelector
from shared.model.names import BUDGET, BUDGET_PREFIX, PROXY_NODE_PREFIX
from shared.model.objects import PodDisruptionBudget
from shared.model.pod import RUNNING, Pod

MAX_COVERS = 512  # sent to one cluster at once
MAX_UNCOUNTED = 128  # of whose owners are to be warned
# Looked at, so that neither ever so many pods nor what users write for them cost more than a small
# part of the time.
_PODS_PER_S = 20_000
_CLAUSES_PER_S = 1_000_000
# of selectors, that a pod is asked: what users may write without end must not cost so much
_MOST_CLAUSES = 256
_MOST_BUDGETS = 8  # of one pod that are counted; from two on the Eviction API evicts it nowhere
_LABELS_CUT = (
    "the labels of this pod are too large to be told, so which PodDisruptionBudgets select it is "
    "not known: none of "
    "them is kept in the cluster where it runs; remove some of metadata.labels"
)
_DIGEST = 16  # hex characters
_TOO_MANY_BUDGETS = (
    f"more than {_MOST_BUDGETS} PodDisruptionBudgets select this pod: in the cluster where it "
    "runs no more than "
    f"{_MOST_BUDGETS} of them are kept"
)
_TOO_MANY_CLAUSES = (
    "the selectors of the PodDisruptionBudgets that may select this pod have more than "
    f"{_MOST_CLAUSES} labels, "
    "expressions and values: those with the largest selectors are not kept in the cluster where "
    "it runs"
)

T = TypeVar("T")
Budgets = Callable[[str, str], Iterable[PodDisruptionBudget]]  # of a cluster, in a namespace


@dataclass(slots=True)
class _Account:
    """A budget and how many of the pods that it selects are healthy."""

    budget: PodDisruptionBudget
    healthy: int = 0
    _content: str = ""

    @property
    def content(self) -> str:
        """A digest of which pods it means: the same however often the budget is made anew, or
        renamed.
        """
        if not self._content:
            self._content = sha256(
                msgspec.json.encode(self.budget.selector, order="deterministic")
            ).hexdigest()
        return self._content

    @property
    def spare(self) -> int:
        """How many may be disturbed now; below zero: how many are missing."""
        return min(self.budget.allowed, self.healthy - self.budget.desired)

    @property
    def lets_unready_go(self) -> bool:
        """Whether pods that are not Ready may be evicted, as the Eviction API has it."""
        return self.budget.always or self.healthy >= self.budget.desired > 0


class _Selection(NamedTuple):
    """Budgets that select a pod, and why there may be more that are not counted; '' if there are
    none.
    """

    accounts: tuple[_Account, ...]
    beyond: str = ""


class _Budgets:
    """The budgets of a namespace, each found by one label that it asks for; those with few clauses
    are asked first.
    """

    def __init__(self) -> None:
        self._by_label: dict[tuple[str, str], list[_Account]] = {}
        self._others: list[_Account] = []  # that ask for no label by its value
        self.asked = 0  # clauses, in all

    def __bool__(self) -> bool:
        return bool(self._by_label or self._others)

    def add(self, account: _Account, selector: LabelSelector) -> None:
        """One more; added by their number of clauses."""
        label = next(iter(selector.match_labels.items()), None)
        (self._others if label is None else self._by_label.setdefault(label, [])).append(account)

    def selecting(self, pod: Pod) -> _Selection:
        """Those that select a pod, of as many as may be asked."""
        if pod.labels_cut:
            return _Selection((), _LABELS_CUT if self else "")
        selection, asked = self._selecting(pod.labels)
        self.asked += asked
        return selection

    def _selecting(self, labels: Mapping[str, str]) -> tuple[_Selection, int]:
        found = list[_Account]()
        left = _MOST_CLAUSES
        for accounts in (
            self._others,
            *(self._by_label.get(label, ()) for label in labels.items()),
        ):
            for one in accounts:
                selector = one.budget.selector
                left -= _clauses(selector) if selector is not None else 0
                if left < 0:
                    return _Selection(tuple(found), _TOO_MANY_CLAUSES), _MOST_CLAUSES
                if selector is None or not selector.matches(labels):
                    continue
                if len(found) == _MOST_BUDGETS:
                    return _Selection(tuple(found), _TOO_MANY_BUDGETS), _MOST_CLAUSES - left
                found.append(one)
        return _Selection(tuple(found)), _MOST_CLAUSES - left


def _clauses(selector: LabelSelector) -> int:
    """What a selector costs: its labels, and the clauses and values of its expressions; at least 1."""
    return (
        1
        + len(selector.match_labels)
        + sum([1 + len(one.values) for one in selector.match_expressions])
    )


class BudgetIndex:
    """The budgets of a cluster but shadows, those of a namespace once they are asked for: as many
    pods as wanted may be asked of it.
    """

    def __init__(self, within: Callable[[str], Iterable[PodDisruptionBudget]]) -> None:
        self._within = within
        self._known: dict[str, _Budgets] = {}

    @property
    def asked(self) -> int:
        """Clauses, in all."""
        return sum(one.asked for one in self._known.values())

    def of(self, namespace: str) -> _Budgets:
        """Those of a namespace."""
        found = self._known.get(namespace)
        if found is None:
            found = self._known[namespace] = _indexed(self._within(namespace))
        return found


def _indexed(budgets: Iterable[PodDisruptionBudget]) -> _Budgets:
    found = _Budgets()
    counted = [
        (_clauses(one.selector), one)
        for one in budgets
        if not one.shadow_of and one.selector is not None
    ]
    for _, budget in sorted(counted, key=lambda one: (one[0], one[1].name)):
        if budget.selector is not None:
            found.add(_Account(budget), budget.selector)
    return found


@dataclass(slots=True)
class _Group:
    """Delegates in one cluster that the same budgets of their own cluster select."""

    accounts: tuple[_Account, ...]
    delegates: list[Pod] = field(default_factory=list)


class _Key(NamedTuple):
    target: str
    home: str
    namespace: str
    name: str


class ShadowBudgets:
    """The budgets last sent to each cluster, computed anew every second (more seldom where there
    are very many).
    """

    def __init__(self) -> None:
        self._shadows: dict[str, Shadows] = {}
        self._at = float("-inf")
        self._asked = 0

    def of(self, cluster: str) -> Shadows:
        """The budgets that a cluster is to keep; none before the first look."""
        return self._shadows.get(cluster, NO_SHADOWS)

    def look(
        self,
        clusters: Mapping[str, ClusterView],
        tracked: TrackedPods,
        budgets: Budgets,
        now: float,
    ) -> list[str]:
        """The clusters whose budgets have changed."""
        if now - self._at < max(1.0, len(tracked) / _PODS_PER_S, self._asked / _CLAUSES_PER_S):
            return []
        native = _native(clusters, budgets)
        before = self._shadows
        self._shadows = _shadows(clusters, tracked, native)
        self._at = now
        self._asked = sum(one.asked for one in native.values())
        return [
            name
            for name, now_kept in self._shadows.items()
            if now_kept != before.get(name, NO_SHADOWS)
        ]


def shadows(
    clusters: Mapping[str, ClusterView], tracked: TrackedPods, budgets: Budgets
) -> dict[str, Shadows]:
    """By cluster, what it shall keep for others. Of clusters that are not ready, or were restored,
    nothing is said: all stays as it is.
    """
    return _shadows(clusters, tracked, _native(clusters, budgets))


def _native(clusters: Mapping[str, ClusterView], budgets: Budgets) -> dict[str, BudgetIndex]:
    ready = [name for name, view in clusters.items() if view.ready and not view.restored]
    return {name: BudgetIndex(partial(budgets, name)) for name in ready}


def _shadows(
    clusters: Mapping[str, ClusterView], tracked: TrackedPods, native: Mapping[str, BudgetIndex]
) -> dict[str, Shadows]:
    ready = {name: clusters[name] for name in native}
    groups: dict[_Key, _Group] = {}
    covers: dict[str, dict[str, list[Cover]]] = {name: {} for name in ready}  # by namespace
    uncounted: dict[str, dict[str, list[UncountedBudgets]]] = {name: {} for name in ready}
    abroad = _namespaces_abroad(tracked)
    for home, view in ready.items():
        for pod, (accounts, beyond), known in _selected(
            view, native[home], abroad.get(home, set()), tracked
        ):
            if beyond and any(_delegates(known)):
                uncounted[home].setdefault(pod.namespace, []).append(
                    UncountedBudgets(_ref(pod), beyond)
                )
            for target, delegate in _delegates(known) if accounts else ():
                if target in ready and not (delegate.terminating or delegate.terminal):
                    counts = bool(delegate.labels.get(BUDGET)) or _healthy(pod, known)
                    if not counts:
                        continue
                    wanted = _join(
                        groups,
                        _Key(target, home, pod.namespace, ""),
                        view.uid,
                        accounts,
                        delegate,
                        native,
                    )
                    if delegate.labels.get(BUDGET, "") != wanted:
                        covers[target].setdefault(delegate.namespace, []).append(
                            Cover(_ref(delegate), wanted)
                        )
    shadows: dict[str, list[Shadow]] = {name: [] for name in ready}
    names = tuple(sorted(ready))
    for key, group in sorted(groups.items(), key=lambda one: one[0]):
        shadows[key.target].append(_shadow(key, group))
    return {
        name: Shadows(
            names[:at] + names[at + 1 :],
            tuple(shadows[name]),
            _in_turns(covers[name], MAX_COVERS),
            _in_turns(uncounted[name], MAX_UNCOUNTED),
        )
        for at, name in enumerate(names)
    }


def why_uncounted(pod: Pod, index: BudgetIndex) -> str:
    """Why not all of its own cluster's budgets that may select a remote pod are kept where it runs;
    '' if all are.
    """
    return index.of(pod.namespace).selecting(pod).beyond


def _in_turns(by_namespace: Mapping[str, Iterable[T]], limit: int) -> tuple[T, ...]:
    """As many as are sent at once, of each namespace in turn: where they cannot be written, others
    do not wait.
    """
    turns = chain.from_iterable(zip_longest(*by_namespace.values()))
    return tuple(islice((one for one in turns if one is not None), limit))


def _namespaces_abroad(tracked: TrackedPods) -> dict[str, set[str]]:
    """By cluster of submission, the namespaces of pods that run elsewhere: budgets of others keep
    nothing there.
    """
    found: dict[str, set[str]] = {}
    for one in tracked.active.values():
        if one.delegates and one.source is not None:
            found.setdefault(one.home, set()).add(one.source.namespace)
    return found


def _selected(
    view: ClusterView, native: BudgetIndex, namespaces: Collection[str], tracked: TrackedPods
) -> Iterator[tuple[Pod, _Selection, Tracked | None]]:
    """Pods of a cluster in these namespaces with the budgets that select them, and what is tracked
    of each; each is counted there.
    """
    with_budgets = {one for one in namespaces if native.of(one)}
    for pod in view.pods.values() if with_budgets else ():
        if pod.namespace not in with_budgets:
            continue
        selection = native.of(pod.namespace).selecting(pod)
        if selection.accounts or selection.beyond:
            known = tracked.peek((view.name, pod.uid))
            healthy = _healthy(pod, known)
            for account in selection.accounts:
                account.healthy += healthy
            yield pod, selection, known


def _delegates(tracked: Tracked | None) -> Iterable[tuple[str, Pod]]:
    return tracked.delegates.items() if tracked is not None and tracked.source is not None else ()


def _healthy(pod: Pod, tracked: Tracked | None) -> bool:
    """Whether its budgets may count on it. What its delegate does counts before it is mirrored."""
    if pod.terminating or pod.terminal:
        return False
    if not pod.scheduler_name:  # of another scheduler: whether it is Ready is not told
        return pod.phase == RUNNING
    if tracked is None or not tracked.delegates:
        return pod.ready and (pod.at_home or not pod.node.startswith(PROXY_NODE_PREFIX))
    return pod.ready and all(
        one.ready and not one.terminating for one in tracked.delegates.values()
    )


def _join(
    groups: dict[_Key, _Group],
    place: _Key,
    home_uid: str,
    accounts: tuple[_Account, ...],
    delegate: Pod,
    native: Mapping[str, BudgetIndex],
) -> str:
    """Put a delegate under its shadow; the name of that, '' where a budget of the target's own
    selects it.
    """
    if native[place.target].of(delegate.namespace).selecting(delegate).accounts:
        return ""
    contents = tuple(sorted([one.content for one in accounts]))
    key = _Key(*place[:3], shadow_name(home_uid, place.namespace, contents))
    group = groups.get(key)
    if group is None:
        group = groups[key] = _Group(accounts)
    group.delegates.append(delegate)
    return key.name


@lru_cache(maxsize=2**14)
def shadow_name(home_uid: str, namespace: str, contents: tuple[str, ...]) -> str:
    """The same for budgets of the same content in the same cluster, and no user's by chance:
    delegates are labelled with it, so that a name which users change would have all of them written
    at their pace.
    """
    identity = "/".join((home_uid, namespace, *contents))
    return BUDGET_PREFIX + sha256(identity.encode()).hexdigest()[:_DIGEST]


def _shadow(key: _Key, group: _Group) -> Shadow:
    # Also those that do not bear the label yet: until they do, one fewer may go; else, from then
    # on, one too many.
    healthy = sum(one.ready for one in group.delegates)
    spare = min(account.spare for account in group.accounts)
    always = all(account.lets_unready_go for account in group.accounts)
    names = ",".join(sorted(account.budget.name for account in group.accounts))
    return Shadow(key.home, key.namespace, key.name, max(0, healthy - spare), always, names[:1024])


def _ref(pod: Pod) -> PodRef:
    return PodRef(pod.namespace, pod.name, pod.uid)
