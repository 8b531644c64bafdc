"""Which plugins are on, where, in which order and with which weight, after what a file switches on
and off.

Source: mergePluginSet (pkg/scheduler/apis/config/v1/default_plugins.go) and expandMultiPointPlugins
(pkg/scheduler/framework/runtime/framework.go).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from pydantic.alias_generators import to_pascal

from dispatcher.config.kube_scheduler.sections import Plugins, PluginSet

ALL = "*"
# kube-scheduler's default plugins with the weights of those that score.
DEFAULTS: tuple[tuple[str, int | None], ...] = (
    ("SchedulingGates", None),
    ("PrioritySort", None),
    ("NodeName", None),
    ("NodeUnschedulable", None),
    ("TaintToleration", 3),
    ("NodeAffinity", 2),
    ("NodePorts", None),
    ("NodeResourcesFit", 1),
    ("VolumeRestrictions", None),
    ("NodeVolumeLimits", None),
    ("VolumeBinding", 1),
    ("VolumeZone", None),
    ("PodTopologySpread", 2),
    ("InterPodAffinity", 2),
    ("DynamicResources", None),
    ("DefaultPreemption", None),
    ("NodeResourcesBalancedAllocation", 1),
    ("ImageLocality", 1),
    ("DefaultBinder", None),
    ("NodeDeclaredFeatures", None),
)


@dataclass(frozen=True)
class Use:
    """A plugin that is on; `weight` None: none was given."""

    name: str
    weight: int | None = None


@dataclass
class Switched:
    """One plugin after all is merged: at which points it is on, and its weight as a score (0: it
    does not score).
    """

    name: str
    points: set[str] = field(default_factory=set)
    weight: int = 0


def merged(default: Sequence[Use], given: PluginSet) -> list[Use]:
    """The default plugins without the disabled ones; enabled ones take the place of their default
    or come last.
    """
    off = {one.name for one in given.disabled}
    wanted = {one.name: Use(one.name, one.weight) for one in given.enabled}
    kept = (
        [] if ALL in off else [wanted.get(use.name, use) for use in default if use.name not in off]
    )
    known = {use.name for use in kept}
    return [*kept, *(use for name, use in wanted.items() if name not in known)]


def at_point(multi: Sequence[Use], given: PluginSet) -> list[Use]:
    """Who is on at one point. `multi`: those that are on everywhere and have the point.

    First what the point names again, in its order, then the rest of `multi`, then what the point
    alone names.
    """
    off = {one.name for one in given.disabled}
    named = [Use(one.name, one.weight) for one in given.enabled]
    everywhere = {use.name for use in multi}
    rest = (
        []
        if ALL in off
        else [use for use in multi if use.name not in off | {one.name for one in named}]
    )
    again = [use for use in named if use.name in everywhere]
    return [*again, *rest, *(use for use in named if use.name not in everywhere)]


def switched(plugins: Plugins, points_of: Callable[[str], Iterable[str]]) -> list[Switched]:
    """Every plugin that is on anywhere: those that filter in the order of the filter point, after
    all others.

    `points_of` answers the extension points of a plugin by kube-scheduler's names.
    """
    multi = merged([Use(name, weight) for name, weight in DEFAULTS], plugins.multi_point)
    found: dict[str, Switched] = {}
    filters: list[str] = []
    for key in type(plugins).model_fields:
        point = to_pascal(key)
        if point == "MultiPoint":
            continue
        here = at_point(
            [use for use in multi if point in points_of(use.name)], getattr(plugins, key)
        )
        for use in here:
            one = found.setdefault(use.name, Switched(use.name))
            one.points.add(point)
            if point == "Score":
                one.weight = use.weight or 1
        if point == "Filter":
            filters = [use.name for use in here]
    return _ordered(found, filters, [use.name for use in multi])


def _ordered(
    found: Mapping[str, Switched], filters: Sequence[str], multi: Sequence[str]
) -> list[Switched]:
    names = [
        *(name for name in multi if name in found),
        *(name for name in found if name not in multi),
    ]
    front = [name for name in names if found[name].points & {"QueueSort", "PreEnqueue"}]
    others = [name for name in names if name not in front and name not in filters]
    return [
        found[name] for name in (*front, *(name for name in filters if name not in front), *others)
    ]
