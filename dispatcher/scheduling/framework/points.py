"""A profile's plugins sorted by what they do, and the guard that keeps a broken one from breaking
anything else.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, ClassVar, ParamSpec, Protocol, TypeVar, runtime_checkable

from typing_extensions import TypeIs

from dispatcher.scheduling.framework import (
    ClusterFilter,
    ClusterScore,
    CountedPlugin,
    Depends,
    Filter,
    FleetView,
    Ints,
    Permit,
    Plugin,
    PodInfo,
    Profile,
    Reserve,
    RoomFilter,
    Rows,
    Score,
)
from dispatcher.scheduling.framework.asked import Asked, AskedByFields
from dispatcher.scheduling.framework.class_keys import (
    BROUGHT,
    ClassKey,
    ClassKeys,
    keyed_by_template,
)
from dispatcher.scheduling.framework.derived import Derived, joined
from dispatcher.scheduling.framework.group_domain import GroupDomain
from dispatcher.scheduling.framework.in_step import in_step
from dispatcher.scheduling.framework.lifecycle import (
    Bind,
    PostBind,
    PostFilter,
    PreBind,
    PreEnqueue,
    PreScore,
)
from dispatcher.scheduling.framework.named_nodes import NamedNodes, NamesNodes
from dispatcher.scheduling.framework.stopwatch import STOPWATCH
from dispatcher.scheduling.framework.value_columns import Column, column_of, each

P = ParamSpec("P")
T = TypeVar("T")
_MOST_TROUBLES = 20


class PluginError(Exception):
    """A plugin raised or answered nonsense; `plugin` is its name. The pod it happened for is
    refused, nothing else.
    """

    def __init__(self, plugin: str, detail: str) -> None:
        super().__init__(f"plugin {plugin}: {detail}"[:500])
        self.plugin = plugin

    @classmethod
    def of(cls, plugin: str, error: Exception) -> "PluginError":
        """For what a plugin raised."""
        return cls(plugin, f"{type(error).__name__}: {error}")


class Faults:
    """What plugins failed with: `counts` by plugin, and each text once for the operator's log."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self._texts: dict[str, None] = {}

    def note(self, error: PluginError) -> None:
        """Count an error."""
        self.counts[error.plugin] += 1
        if len(self._texts) < _MOST_TROUBLES:
            self._texts[str(error)] = None

    def take(self) -> list[str]:
        """The texts since the last call."""
        texts = list(self._texts)
        self._texts = {}
        return texts


def guarded(
    plugin: "Plugin | ExplainingPlugin | ReservesMany",
    call: Callable[P, T],
    *args: P.args,
    **kwargs: P.kwargs,
) -> T:
    """Call into a plugin; whatever it raises becomes a PluginError with its name."""
    watch = STOPWATCH.get()
    try:
        return (
            call(*args, **kwargs) if watch is None else watch.call(plugin.name, call, args, kwargs)
        )
    except Exception as error:
        raise PluginError.of(plugin.name, error) from error


@runtime_checkable
class ReservesMany(Protocol):
    """A Reserve plugin that checks and books many pods at once: they are of one class, but for what
    its own `batch_key` leaves out. `state`: what PreFilter answered for that class; None where it
    runs for every pod.
    """

    name: ClassVar[str]

    def fits(self, state: Any, pods: Sequence[PodInfo], fleet: FleetView) -> int:
        """How many of the first pods `pre_filter` and `reserve` let pass, on whatever rows, if each
        is booked before the next comes; they pass all the more if none is booked.

        Of one that filters or scores, too: booking these changes nothing that any filter, score or
        fleet key says of another of them but what `FleetState.suppose` shows.
        """
        ...

    def reserve_all(
        self, state: Any, pods: Sequence[PodInfo], rows: Sequence[int], fleet: FleetView
    ) -> None:
        """Book all of these, each on its row, or raise and book none."""
        ...


def books_many(plugin: Any) -> TypeIs[ReservesMany]:
    """Whether it books a batch as it books its pods one by one: not where a subclass has replaced
    the latter alone.
    """
    kind = plugin.__class__
    passes = in_step(kind, "fits", "pre_filter", "reserve")
    return isinstance(plugin, ReservesMany) and passes and in_step(kind, "reserve_all", "reserve")


@runtime_checkable
class ExplainingPlugin(Protocol):
    """A plugin that adds its own numbers to a decision's record (skew per domain, tenant usage,
    headroom).
    """

    name: ClassVar[str]

    def explain(self, state: Any, pod_info: PodInfo, fleet: FleetView, row: int) -> object:
        """Plain JSON values about the chosen row."""
        ...


@runtime_checkable
class ExplainsRefusals(Protocol):
    """A filter that says more of its refusals than the reasons of single nodes: what is missing,
    and where.
    """

    name: ClassVar[str]

    def explain_refusal(self, state: Any, pod_info: PodInfo, fleet: FleetView) -> Sequence[str]:
        """Sentences for a pod without a place, empty where no node was refused by this plugin."""
        ...


@runtime_checkable
class ExplainsRows(Protocol):
    """A plugin that explains many rows at once, faster than one by one."""

    def explain_rows(
        self, state: Any, pod_info: PodInfo, fleet: FleetView, rows: Rows
    ) -> Column | Sequence[Mapping[str, Any]]:
        """For each row what `explain` says of it, as a column if possible; `pod_info` is whichever
        pod of the class.
        """
        ...


def explains_rows(plugin: Any) -> TypeIs[ExplainsRows]:
    """Whether `explain_rows` says what its `explain` says: not where a subclass has replaced
    `explain` alone, as it means other words.
    """
    return in_step(plugin.__class__, "explain_rows", "explain")


def explained(
    plugin: ExplainingPlugin, state: object, pods: Sequence[PodInfo], fleet: FleetView, rows: Ints
) -> Column:
    """What a plugin explains of places, as the fleet is now; pods number i of one class, and equal
    in all but `OWN_FIELDS`, goes to `rows[i]`. PluginError.
    """
    if not explains_rows(plugin):
        places = zip(pods, rows.tolist(), strict=True)
        return each(
            [guarded(plugin, plugin.explain, state, one, fleet, row) for one, row in places]
        )
    told = guarded(plugin, plugin.explain_rows, state, pods[0], fleet, rows)
    if isinstance(told, Sequence) and len(told) != len(rows):
        raise PluginError(plugin.name, f"explain_rows told of {len(told)} rows of {len(rows)}")
    return column_of(told)


@dataclass(frozen=True)
class Scored:
    """A Score plugin and the weight the profile gives it."""

    plugin: Score
    weight: float


@dataclass(frozen=True)
class Plan:
    """The plugins of one profile by extension point, each in profile order.

    `looks`: who looks at pods; of a pod those that it has something for, `everybody` of one with
    all fields (see `asked`). `class_plugins`: filters and scores; their PreFilter runs once for a
    class, and its answer is kept. `pod_plugins`: Reserve plugins and those that only pre-filter;
    their PreFilter runs for every single pod, since what they book changes with every pod. A filter
    or score that reserves, too, and yet says that it is STATIC is no pod plugin: what it books
    shows in the fleet's objects.
    """

    profile: str
    looks: tuple[Plugin, ...]
    everybody: Asked
    class_plugins: tuple[Plugin, ...]
    pod_plugins: tuple[Plugin, ...]
    filters: tuple[Filter, ...]
    scores: tuple[Scored, ...]
    reserves: tuple[Reserve, ...]
    permits: tuple[Permit, ...]
    keys: ClassKeys
    brought: tuple[int, ...]  # places in `looks` of those that only score, by cluster
    plugins: tuple[Plugin, ...] = ()
    pre_enqueues: tuple[PreEnqueue, ...] = ()
    post_filters: tuple[PostFilter, ...] = ()
    pre_binds: tuple[PreBind, ...] = ()
    binds: tuple[Bind, ...] = ()
    post_binds: tuple[PostBind, ...] = ()

    @classmethod
    def of(cls, profile: Profile, plugins: Sequence[Plugin]) -> "Plan":
        """Sort `plugins` by what they implement; a Score plugin of weight 0 is not asked."""
        naming = [one for one in plugins if isinstance(one, NamesNodes)]
        plugins = [NamedNodes(naming), *plugins] if naming else plugins
        plugins = _with_group_domain(plugins)
        weights = {use.name: use.weight for use in profile.plugins}
        scores = [
            Scored(one, weights.get(one.name, 1.0)) for one in plugins if isinstance(one, Score)
        ]
        idle = [one.plugin for one in scores if one.weight == 0.0 and _only_scores(one.plugin)]
        at_work = [one for one in plugins if one not in idle]
        class_plugins = [one for one in at_work if isinstance(one, Filter | Score)]
        pod_plugins = [one for one in at_work if _runs_per_pod(one, by_class=one in class_plugins)]
        permits = [one for one in plugins if isinstance(one, Permit)]
        post_filters = [one for one in plugins if isinstance(one, PostFilter)]
        looks = [
            one
            for one in plugins
            if any(one in some for some in (class_plugins, pod_plugins, permits, post_filters))
        ]
        filters = tuple(one for one in plugins if isinstance(one, Filter))
        reserves = tuple(one for one in plugins if isinstance(one, Reserve))
        many = [one for one in pod_plugins if isinstance(one, Reserve) and books_many(one)]
        placed = tuple(enumerate(looks))
        everybody = Asked(
            keyed=placed,
            fleet_keyed=tuple(
                [one for one in placed if type(one[1]).fleet_key is not Plugin.fleet_key]
            ),
            keyed_without_home=tuple(
                [one for one in placed if "key_without_home" in vars(type(one[1]))]
            ),
            batching=tuple(
                [(looks.index(one), one) for one in many if "batch_key" in vars(type(one))]
            ),
            bounding_clusters=tuple(
                [one for one in filters if "possible_clusters" in vars(type(one))]
            ),
            pod_plugins=tuple(pod_plugins),
            pod_explainers=tuple(
                [
                    one
                    for one in pod_plugins
                    if one not in class_plugins and isinstance(one, ExplainingPlugin)
                ]
            ),
            reserves=reserves,
            permits=tuple(permits),
            late=tuple(
                [
                    one
                    for point in (Permit, PreBind, Bind, PostBind)
                    for one in plugins
                    if isinstance(one, point)
                ]
            ),
        )
        return cls(
            profile=profile.scheduler_name,
            looks=tuple(looks),
            everybody=everybody,
            class_plugins=tuple(class_plugins),
            pod_plugins=tuple(pod_plugins),
            filters=filters,
            scores=tuple(one for one in scores if one.weight != 0.0),
            reserves=reserves,
            permits=tuple(permits),
            keys=ClassKeys(looks),
            brought=tuple(at for at, one in placed if _only_scores_clusters(one)),
            plugins=tuple(plugins),
            pre_enqueues=tuple(one for one in plugins if isinstance(one, PreEnqueue)),
            post_filters=tuple(post_filters),
            pre_binds=tuple(one for one in plugins if isinstance(one, PreBind)),
            binds=tuple(one for one in plugins if isinstance(one, Bind)),
            post_binds=tuple(one for one in plugins if isinstance(one, PostBind)),
        )

    @cached_property
    def room_filters(self) -> tuple[RoomFilter[Any], ...]:
        """Those of the filters that tell what must be free on a node."""
        return tuple([one for one in self.filters if isinstance(one, RoomFilter)])

    @cached_property
    def spreads(self) -> bool:
        """Whether pods without constraints of their own are spread by hard ones."""
        return any(one.spreads_all for one in self.plugins)

    @property
    def derives(self) -> Derived:
        """What the fleet is to keep of readings for its plugins."""
        return joined(one.derives for one in self.plugins)

    def class_key(self, pod_info: PodInfo) -> ClassKey:
        """What all plugins look at in a pod: pods with equal keys are one class. PluginError if one
        fails.

        Pods with the very same key are equal in all but `model.pod.OWN_FIELDS` and the names of
        their claims, too.
        """
        try:
            return self.keys.of(pod_info, self._key_of)
        except Exception:  # whose it was is found by asking one after the other
            asked = self.asked(pod_info)
            keys = [guarded(one, _hashed, one.class_key, pod_info) for _, one in asked.keyed]
            return self._key_with(keys, pod_info, asked)

    def _key_of(self, pod_info: PodInfo) -> ClassKey:
        asked = self.asked(pod_info)
        return self._key_with([one.class_key(pod_info) for _, one in asked.keyed], pod_info, asked)

    def _key_with(self, keys: Sequence[Hashable], pod_info: PodInfo, asked: Asked) -> ClassKey:
        """With what it is booked by, of which `looks` need not read anything, and the profile."""
        parts: list[Hashable] = [None] * len(self.looks)
        for (at, _), key in zip(asked.keyed, keys, strict=True):
            parts[at] = key
        return self._key((*parts, pod_info.counts_as, self.profile), asked)

    def _key(
        self, parts: Sequence[Hashable], asked: Asked, brought: tuple[int, ...] = ()
    ) -> ClassKey:
        """Of these, and what others share of it."""
        key = ClassKey.of(parts, asked, brought)
        alike: list[Hashable] | None = None
        for at, one in asked.batching:
            part = guarded(one, _hashed, one.batch_key, parts[at])
            if part != parts[at]:
                alike = alike or list(parts)
                alike[at] = part
        if alike is not None:
            key.batch = ClassKey.of(alike, asked, brought)
        return key

    def key_without_home(
        self, key: ClassKey, pod_info: PodInfo, fleet: FleetView, *, alone: bool = False
    ) -> ClassKey:
        """`key` for a pod that is decided `alone`; else one that pods of one template share whose
        homes nothing but scores of clusters tells apart (`ClassKey.brought`). Of a pod that can go
        to no node of its home now, one that not even these do. PluginError.
        """
        if alone and self.brought and not key.asked.bounding_clusters:
            return key
        home = pod_info.home
        closed = fleet.closed.get(home), fleet.proxy_taints.get(home)  # of which nothing is noted
        asked = partial(self._shared_key, key, pod_info, alone=alone)
        return fleet.of_clusters(key.kept, (alone, closed), asked)

    def _shared_key(
        self, key: ClassKey, pod_info: PodInfo, fleet: FleetView, *, alone: bool
    ) -> ClassKey:
        for plugin in key.asked.bounding_clusters:
            possible = guarded(plugin, plugin.possible_clusters, pod_info, fleet)
            if possible is not None and pod_info.home not in possible:
                return self._key_without_home(key, pod_info, fleet, possible)
        if alone and self.brought:
            return key
        return self._key_without_home(key, pod_info, fleet, None)

    def _key_without_home(
        self, key: ClassKey, pod_info: PodInfo, fleet: FleetView, possible: frozenset[str] | None
    ) -> ClassKey:
        """With the clusters that are left: what a plugin keeps for a key holds for these alone."""
        brought = () if possible is not None else self.brought
        brought = tuple([at for at in brought if at in key.asked.at])
        asked = [(at, one) for at, one in key.asked.keyed_without_home if at not in brought]
        keys = (
            possible,
            *[guarded(one, _hashed, one.key_without_home, pod_info, fleet) for _, one in asked],
        )
        if key.without_home is None or key.without_home[0] != keys:
            parts = list(key)
            for (at, _), one in zip(asked, keys[1:], strict=True):
                parts[at] = key[at] if one is None else (possible, one)
            for at in brought:
                parts[at] = BROUGHT
            shared = self._key(parts, key.asked, brought)
            shared.note_said(key.said)
            key.without_home = keys, shared
        return key.without_home[1]

    def own_key(self, key: ClassKey, pod_info: PodInfo) -> ClassKey:
        """`key` of a pod that brings nothing, for those who decide it alone. PluginError."""
        if not key.brought:
            return key
        own = self.class_key(pod_info)
        return own if own.batch is None else own.batch

    def fleet_key(self, key: ClassKey, pod_info: PodInfo, fleet: FleetView) -> ClassKey:
        """`key` and what else tells its pods apart as the fleet is now. PluginError if a plugin
        fails.
        """
        parts: list[Hashable] | None = None
        for at, plugin in key.asked.fleet_keyed:
            try:  # asked of every pod: cheaper than `guarded`
                found = plugin.fleet_key(pod_info, fleet)
                hash(found)
            except Exception as error:
                raise PluginError.of(plugin.name, error) from error
            if found is not None:
                parts = parts or list(key)
                parts[at] = key[at], found
        return key if parts is None else key.like(parts)

    @cached_property
    def asked(self) -> AskedByFields:
        """Which of `everybody` are asked of a pod."""
        return AskedByFields(self.everybody)

    @cached_property
    def fleet_keys_alike(self) -> tuple[tuple[Plugin, bool], ...]:
        """Those that have a `fleet_key`, each with whether it says the same of pods of one template
        without volumes, as long as nothing moves.
        """
        return tuple(
            (plugin, keyed_by_template(plugin, "fleet_key"))
            for _, plugin in self.everybody.fleet_keyed
        )

    @cached_property
    def stands_by_template(self) -> bool:
        """Whether pods of one template without volumes have equal fleet keys, as long as nothing
        moves.
        """
        return all(by_template for _, by_template in self.fleet_keys_alike)

    @cached_property
    def refuses_alike(self) -> bool:
        """Whether what refuses a pod without volumes refuses all with the very same class key, as
        long as nothing moves.
        """
        return self.stands_by_template and self.pod_plugins_in_bulk

    @cached_property
    def pod_plugins_in_bulk(self) -> bool:
        """Whether no pod plugin has to be asked of each pod: all of them check and book many of a
        class at once.
        """
        return all(books_many(one) for one in self.pod_plugins)


def _with_group_domain(plugins: Sequence[Plugin]) -> list[Plugin]:
    """Before all filters that look at nodes: what these say of others than the group's is of no
    use.
    """
    looking = (
        at
        for at, one in enumerate(plugins)
        if isinstance(one, Filter) and not isinstance(one, ClusterFilter)
    )
    at = next(looking, len(plugins))
    return [*plugins[:at], GroupDomain(), *plugins[at:]]


def _only_scores(plugin: Plugin) -> bool:
    """Whether nobody hears of it but by its scores."""
    more = (Filter, PostFilter, Reserve, Permit, PreBind, Bind, PostBind, ExplainingPlugin)
    return not isinstance(plugin, more)


def _only_scores_clusters(plugin: Plugin) -> bool:
    """Whether all that it says is one number for all nodes of a cluster, which rests on the pod and
    on clusters alone.
    """
    return (
        isinstance(plugin, ClusterScore)
        and _only_scores(plugin)
        and not isinstance(plugin, CountedPlugin | PreScore)
        and plugin.depends is Depends.STATIC
        and not plugin.normalizes
        and type(plugin).fleet_key is Plugin.fleet_key
    )


def _runs_per_pod(plugin: Plugin, *, by_class: bool) -> bool:
    """Whether PreFilter runs for every pod: not of a filter or score whose answers rest on nodes
    and objects alone.
    """
    if isinstance(plugin, Reserve):
        return not (by_class and plugin.depends is Depends.STATIC)
    return not by_class and _pre_filters(plugin)


def _pre_filters(plugin: Plugin) -> bool:
    return type(plugin).pre_filter is not Plugin.pre_filter


def _hashed(ask: Callable[P, Hashable], *args: P.args, **kwargs: P.kwargs) -> Hashable:
    key = ask(*args, **kwargs)
    hash(key)  # an unhashable answer fails here, with the plugin's name
    return key
