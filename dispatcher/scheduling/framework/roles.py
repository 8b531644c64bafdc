"""What each plugin of a plan does in the classes of pods, and how far its answers reach."""

import enum
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import itemgetter
from typing import Any

from dispatcher.scheduling.framework import (
    ClusterFilter,
    ClusterScore,
    CountedPlugin,
    Depends,
    Filter,
    Plugin,
    Reserve,
    Score,
)
from dispatcher.scheduling.framework.lifecycle import PreScore
from dispatcher.scheduling.framework.points import ExplainingPlugin, Plan


class AnswerScope(enum.Enum):
    """How the answers of a plugin are kept."""

    # they rest on nodes alone: one column for all classes whose pods look alike to the plugin
    NODE_OBJECT = "node object"
    ROW = "row"  # each rests on one row: kept only as part of the class's totals
    DOMAIN = "domain"  # they rest on fault domains: kept by domain, not by row
    FLEET = "fleet"  # they may rest on anything: all asked anew when something moved


@dataclass(frozen=True, eq=False)
class PluginRole:
    """A Filter or Score plugin. `key_at`: where its key stands in a class's; `filter_at`,
    `score_at`: in the plan's.
    """

    plugin: Any  # of two unrelated kinds, Filter and Score, or of both
    scope: AnswerScope
    key_at: int
    filter_at: int | None
    score_at: int | None
    weight: float
    explainer: ExplainingPlugin | None

    @cached_property
    def name(self) -> str:
        """The plugin's name."""
        name: str = self.plugin.name
        return name

    @cached_property
    def by_cluster(self) -> bool:
        """All nodes of a cluster get the same answer, and it rests on nodes alone."""
        return isinstance(self.plugin, ClusterFilter | ClusterScore)

    @cached_property
    def normalizes(self) -> bool:
        """Its scores mean something only beside those of all feasible rows."""
        return self.score_at is not None and bool(self.plugin.normalizes)

    @cached_property
    def pre_scores(self) -> bool:
        """Its scores are prepared from the set of feasible rows."""
        return isinstance(self.plugin, PreScore)

    @cached_property
    def reserves(self) -> bool:
        """It books something of its own for pods."""
        return isinstance(self.plugin, Reserve)


def parts_of(roles: Sequence[PluginRole]) -> Callable[[Sequence[Hashable]], tuple[Hashable, ...]]:
    """Takes what `roles` look at out of class keys."""
    if len(roles) < 2:
        return lambda key: tuple([key[role.key_at] for role in roles])
    return itemgetter(*[role.key_at for role in roles])


def roles_of(plan: Plan) -> tuple[PluginRole, ...]:
    """The roles of a plan's filters and scores, in profile order."""
    return tuple(_role(plan, plugin) for plugin in plan.class_plugins)


def _role(plan: Plan, plugin: Plugin) -> PluginRole:
    filter_at = plan.filters.index(plugin) if isinstance(plugin, Filter) else None
    score_at = next((at for at, one in enumerate(plan.scores) if one.plugin is plugin), None)
    return PluginRole(
        plugin,
        _scope(plugin, scored=score_at is not None),
        plan.looks.index(plugin),
        filter_at,
        score_at,
        0.0 if score_at is None else plan.scores[score_at].weight,
        plugin if isinstance(plugin, ExplainingPlugin) else None,
    )


def _scope(plugin: Plugin, *, scored: bool) -> AnswerScope:
    if scored and isinstance(plugin, PreScore):
        return AnswerScope.FLEET
    if isinstance(plugin, CountedPlugin):
        return AnswerScope.DOMAIN
    if plugin.depends is Depends.STATIC:
        return AnswerScope.NODE_OBJECT
    normalizes = scored and isinstance(plugin, Score) and plugin.normalizes
    return (
        AnswerScope.ROW if plugin.depends is Depends.NODE and not normalizes else AnswerScope.FLEET
    )
