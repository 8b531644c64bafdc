"""Where the pods would go that run in a cluster for others, if that cluster took none any more."""

from dispatcher.model.pod import PodId
from dispatcher.scheduling.core import SchedulerCore
from dispatcher.scheduling.delegation.protocol import target_of
from dispatcher.scheduling.views.pieces import Pieces

_Controller = tuple[str, str, str]  # home, namespace, owner; of a pod without one, its name


def drain_view(core: SchedulerCore, cluster: str) -> Pieces:
    """One row, and piece, for each controller: one of its pods, how many there are, and where that one would go as
    things are (None: nowhere, unless others are evicted for it). Each is looked at as if it was the only one to go.
    """
    found: dict[_Controller, list[PodId]] = {}
    for pod_id, tracked in list(core.tracked.unsettled.items()):
        source = tracked.source
        if source is None or not source.node or source.terminating or source.terminal or tracked.home == cluster:
            continue
        if target_of(tracked.home, source) == cluster:
            found.setdefault((tracked.home, source.namespace, source.owner or source.name), []).append(pod_id)
    for (home, namespace, _), pod_ids in sorted(found.items()):
        tracked_now = core.tracked.peek(pod_ids[0])
        occupant = core.fleet.occupant(pod_ids[0])
        if tracked_now is None or tracked_now.source is None or occupant is None:
            continue  # it has gone since
        place = core.rebalancing.would_go(occupant, barred=cluster)
        yield [
            {
                "source": home,
                "namespace": namespace,
                "name": tracked_now.source.name,
                "pods": len(pod_ids),
                "to": f"{place.cluster}/{place.node}" if place is not None else None,
            }
        ]
