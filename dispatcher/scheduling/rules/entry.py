"""Which clusters a pod may enter at all: what all filters of its profile that go by cluster say
together.
"""

from collections.abc import Sequence

import numpy as np

from dispatcher.scheduling.framework import Bools, Filter, FleetView, PodInfo
from dispatcher.scheduling.framework.points import guarded
from shared.model.reasons import Reasons


def open_clusters(
    filters: Sequence[Filter], pod_info: PodInfo, fleet: FleetView, *, honor_taints: bool
) -> Bools | None:
    """[clusters] whether the pod may enter each; None if it may enter all. A cordon counts as a
    taint of the cluster: where those are not to be honored, the pod waits until it is taken back.
    """
    open_ = np.ones(len(fleet.clusters), dtype=np.bool_)
    for one in filters:
        codes = one.closed_clusters(pod_info, fleet)
        if codes is not None:
            open_ &= [_lets_in(code, fleet, honor_taints=honor_taints) for code in codes.tolist()]
    open_.setflags(write=False)
    return None if open_.all() else open_


def may_enter(filters: Sequence[Filter], placed: PodInfo, fleet: FleetView, cluster: str) -> bool:
    """Whether no filter keeps the pod out of a cluster, whatever nodes it has or gets."""
    at = next((at for at, info in enumerate(fleet.clusters) if info.name == cluster), None)
    if at is None:
        return True
    said = (guarded(one, one.closed_clusters, placed, fleet) for one in filters)
    return all(codes is None or not codes[at] for codes in said)


def _lets_in(code: int, fleet: FleetView, *, honor_taints: bool) -> bool:
    return not code or (
        not honor_taints and fleet.reasons.why(code).reason == Reasons.CLUSTER_CORDONED
    )
