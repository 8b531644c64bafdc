"""A member of a group goes to the domain that its group is tried in, and nowhere else."""

from collections.abc import Hashable
from typing import ClassVar

import numpy as np

from dispatcher.scheduling.framework import (
    SKIP,
    Codes,
    Depends,
    Filter,
    FleetView,
    Ints,
    PodInfo,
    Refuse,
    Rows,
    Skip,
)
from dispatcher.scheduling.framework.hints import ClusterEvent, node_change_helps
from dispatcher.scheduling.framework.pod_info import Domains
from shared.model.reasons import Reasons
from shared.model.topology import CLUSTER_LEVEL, HOST_LEVEL, label_of

ANYWHERE = "fleet"  # as topology key: all nodes
_MANY = 4  # domains, from which one look at all rows is cheaper


class GroupDomain(Filter[Domains]):
    """Refuses all nodes outside of `PodInfo.only_in`. Every profile has it."""

    name: ClassVar[str] = "GroupDomain"
    REASONS = (Reasons.OUTSIDE_DOMAIN,)
    reads = ("only_in",)
    keyed_by_template = True
    depends: ClassVar[Depends] = Depends.STATIC

    def hint_any(self, event: ClusterEvent, key: Hashable) -> bool:
        """A node that changed helps if it may have come into a domain: by its labels."""
        return node_change_helps(event, lambda before, after: before.labels != after.labels)

    def class_key(self, pod_info: PodInfo) -> Hashable:
        """The domains; None for a pod that may go to any."""
        return pod_info.only_in

    def pre_filter(self, pod_info: PodInfo, fleet: FleetView) -> Domains | Refuse | Skip:
        """The domains; SKIP for a pod that may go to any."""
        return bounds_of(pod_info) or SKIP

    def filter(self, state: Domains, fleet: FleetView, rows: Rows) -> Codes:
        """OUTSIDE_DOMAIN everywhere but in the domains."""
        codes = np.full(fleet.n, fleet.reasons.code(Reasons.OUTSIDE_DOMAIN), dtype=np.uint16)
        codes[rows_in(state, fleet)] = 0
        return codes[rows]

    def open_rows(self, state: Domains, fleet: FleetView) -> tuple[Ints, int] | None:
        """The rows of the domains."""
        return rows_in(state, fleet), fleet.reasons.code(Reasons.OUTSIDE_DOMAIN)


def bounds_of(pod_info: PodInfo) -> Domains | None:
    """The domains that a pod may go to; None for one that may go to any."""
    only_in = pod_info.only_in
    return None if only_in is None or only_in.key == ANYWHERE else only_in


def rows_in(domains: Domains, fleet: FleetView) -> Ints:
    """The live rows in any of the domains, ascending."""
    if domains.key not in (CLUSTER_LEVEL, HOST_LEVEL) and len(domains.values) < _MANY:
        label, _ = label_of(domains.key)
        parts = [_labelled(label, one, fleet) for one in domains.values]
        found: Ints = np.sort(np.concatenate(parts)) if len(parts) > 1 else parts[0]
        return found
    codes = fleet.topology.domain(domains.key)
    wanted = set(domains.values)
    values = fleet.topology.domain_values(domains.key)
    is_open = np.zeros(len(values) + 1, dtype=np.bool_)  # the last for rows without a domain
    is_open[[at for at, one in enumerate(values) if one in wanted]] = True
    return np.flatnonzero(is_open[codes] & fleet.nodes.live)


def _labelled(label: str, value: str, fleet: FleetView) -> Ints:
    cluster, _, text = value.partition("/")
    rows = fleet.nodes.label_rows(label, text)
    at = next((at for at, one in enumerate(fleet.clusters) if one.name == cluster), -1)
    found: Ints = rows[fleet.nodes.cluster[rows] == at]
    return found
