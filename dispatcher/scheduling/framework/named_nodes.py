"""The nodes that a pod names: all others are refused before any filter looks at them, as
kube-scheduler does it.

There a PreFilter plugin may answer with the names of the only nodes to look at (PreFilterResult).
"""

from collections.abc import Hashable, Sequence
from typing import ClassVar, Protocol, runtime_checkable

import numpy as np

from dispatcher.scheduling.framework import (
    SKIP,
    Codes,
    Depends,
    Filter,
    FleetView,
    Plugin,
    PodInfo,
    Refuse,
    Rows,
    Skip,
    refuse,
)
from dispatcher.scheduling.framework.asked import reads_of
from dispatcher.scheduling.framework.class_keys import keyed_by_template
from shared.model.reasons import Reasons

Names = frozenset[str]


@runtime_checkable
class NamesNodes(Protocol):
    """A plugin that may know the only nodes a pod can go to by their names."""

    name: ClassVar[str]

    def class_key(self, pod_info: PodInfo) -> Hashable:
        """See `Plugin`; None for a pod that names no nodes."""
        ...

    def node_names(self, pod_info: PodInfo, fleet: FleetView) -> Names | None:
        """The names; None for a pod that leaves them open."""
        ...


class NamedNodes(Filter[tuple[Names, str]]):
    """Refuses all nodes but those that every plugin which names nodes has named."""

    name: ClassVar[str] = "NamedNodes"
    keyed_by_template = True  # where those plugins are
    reads: tuple[str, ...] = ()  # what they read
    depends: ClassVar[Depends] = Depends.STATIC

    def __init__(self, plugins: Sequence[NamesNodes]) -> None:
        self._plugins = tuple(plugins)
        told = [reads_of(one) if isinstance(one, Plugin) else () for one in plugins]
        if all(told):
            self.reads = tuple([name for some in told for name in some])
        self.keyed_by_template = all(
            isinstance(one, Plugin) and keyed_by_template(one) for one in plugins
        )

    def class_key(self, pod_info: PodInfo) -> Hashable:
        """What each of the plugins looks at; None if none names nodes."""
        keys = tuple(plugin.class_key(pod_info) for plugin in self._plugins)
        return None if all(key is None for key in keys) else keys

    def pre_filter(self, pod_info: PodInfo, fleet: FleetView) -> tuple[Names, str] | Refuse | Skip:
        """(the names in common, who named them); SKIP if nobody did; a refusal if they have none in
        common.
        """
        found = {plugin.name: plugin.node_names(pod_info, fleet) for plugin in self._plugins}
        named = {plugin: names for plugin, names in found.items() if names is not None}
        if not named:
            return SKIP
        common = Names.intersection(*named.values())
        who = f"[{' '.join(sorted(named))}]"
        if not common:
            return refuse(
                Reasons.NAMED_APART,
                f"plugin(s) {who} simultaneously" if len(named) > 1 else f"plugin {who}",
            )
        return common, who

    def filter(self, state: tuple[Names, str], fleet: FleetView, rows: Rows) -> Codes:
        """NOT_NAMED everywhere but on nodes of those names, one of each a cluster at most."""
        names, who = state
        codes = np.full(fleet.n, fleet.reasons.code(Reasons.NOT_NAMED, who), dtype=np.uint16)
        for info in fleet.clusters:
            for name in names:
                row = fleet.nodes.row_of(info.name, name)
                if row is not None:
                    codes[row] = 0
        return codes[rows]
