"""Where the pods would go that a drain evicts, once its cordon stands: what `drain` and `leave` say
in a dry run.
"""

from dispatcher.scheduling.core import SchedulerCore
from dispatcher.scheduling.delegation.protocol import target_of
from dispatcher.scheduling.views.pieces import Pieces, Row
from shared.model.crossing import untold
from shared.model.pod import PodId

_Controller = tuple[str, str, str]  # home, namespace, owner; of a pod without one, its name


def drain_view(core: SchedulerCore, cluster: str, *, leave: bool = False) -> Pieces:
    """One row, and piece, for each controller whose pods run in `cluster` for others: one of these
    pods, how many there are, where that one would go as things are (None: nowhere, unless others
    are evicted for it), and why that is not known. Each is looked at as if it was the only one to
    go. `leave`: also pods of `cluster` that run in others.
    """
    found: dict[_Controller, list[PodId]] = {}
    for pod_id, tracked in list(core.tracked.active.items()):
        source = tracked.source
        if source is None or not source.node or source.terminating or source.terminal:
            continue
        target = target_of(tracked.home, source)
        comes = leave and tracked.home == cluster != target
        if comes or target == cluster != tracked.home:
            found.setdefault(
                (tracked.home, source.namespace, source.owner or source.name), []
            ).append(pod_id)
    for _, pod_ids in sorted(found.items()):
        row = _row(core, cluster, pod_ids)
        if row is not None:
            yield [row]


def _row(core: SchedulerCore, cluster: str, pod_ids: list[PodId]) -> Row | None:
    tracked = core.tracked.peek(pod_ids[0])
    occupant = core.fleet.occupant(pod_ids[0])
    if tracked is None or tracked.source is None or occupant is None:
        return None  # it has gone since
    source = tracked.source
    home = tracked.home
    unknown = untold(source)
    closed = list(core.clusters) if home == cluster else [cluster]
    place = core.rebalancing.would_go_if_closed(occupant, closed) if not unknown else None
    return {
        "source": home,
        "namespace": source.namespace,
        "name": source.name,
        "pods": len(pod_ids),
        "to": f"{place.cluster}/{place.node}" if place is not None else None,
        "unknown": unknown,
    }
