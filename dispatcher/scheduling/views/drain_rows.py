"""Where the pods would go that a drain evicts, once its cordon stands: what `drain` and `leave` say
in a dry run.
"""

from collections.abc import Iterable, Sequence

import msgspec

from dispatcher.scheduling.core import SchedulerCore
from dispatcher.scheduling.delegation.protocol import target_of
from dispatcher.scheduling.framework import PodInfo
from dispatcher.scheduling.records.decision import Decision
from dispatcher.scheduling.views.pieces import Pieces, Row
from shared.model.crossing import untold
from shared.model.pod import PENDING, Pod, PodId

_Controller = tuple[str, str, str]  # home, namespace, owner; of a pod without one, its name
_Goer = tuple[PodId, Pod]
MOST_TOGETHER = 64  # pods of one controller: a piece of rows is made in some milliseconds


def drain_view(core: SchedulerCore, cluster: str, *, leave: bool = False) -> Pieces:
    """One row, and piece, for each controller whose pods run in `cluster` for others: the first of
    these pods, how many there are, where that one would go as things are (None: nowhere, unless
    others are evicted for it), how many would wait for a place, and why that is not known. Once some
    of MOST_TOGETHER wait, so do those beyond. All pods
    of a controller are looked at together, as if they were the only ones to go. `leave`: also pods
    of `cluster` that run in others.
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
    for (home, *_), pod_ids in sorted(found.items()):
        row = _row(core, home, cluster, pod_ids)
        if row is not None:
            yield [row]


def _row(core: SchedulerCore, home: str, cluster: str, pod_ids: Sequence[PodId]) -> Row | None:
    goers = list(_goers(core, pod_ids))
    if not goers:
        return None  # they have gone since
    _, first = goers[0]
    unknown = untold(first)
    looked_at = [] if unknown else goers[:MOST_TOGETHER]
    places = _places(core, home, list(core.clusters) if home == cluster else [cluster], looked_at)
    some_wait = len(places) < len(looked_at)
    if not unknown and not some_wait and len(goers) > len(looked_at):
        unknown = f"the first {MOST_TOGETHER} pods of a controller are looked at, and have places"
    return {
        "source": home,
        "namespace": first.namespace,
        "name": first.name,
        "pods": len(goers),
        "to": places[0] if places else None,
        "waiting": len(goers) - len(places) if some_wait else 0,
        "unknown": unknown,
    }


def _goers(core: SchedulerCore, pod_ids: Iterable[PodId]) -> Iterable[_Goer]:
    for pod_id in pod_ids:
        tracked = core.tracked.peek(pod_id)
        if tracked is not None and tracked.source is not None and core.fleet.occupant(pod_id):
            yield pod_id, tracked.source


def _places(
    core: SchedulerCore, home: str, closed: Iterable[str], goers: Sequence[_Goer]
) -> list[str]:
    """Where the replacements of these would go, of those that would go anywhere; with `closed`
    clusters cordoned for pods of `home`.
    """
    fleet = core.fleet
    with fleet.as_if_closed(home, closed), core.profiles.what_if() as trial:
        items = list[tuple[PodId, PodInfo]]()
        for pod_id, source in goers:
            trial.take_away(pod_id)
            made = msgspec.structs.replace(source, node="", phase=PENDING, preempts=False)
            refused = core.refusals.seen(pod_id, source, fleet.now)
            items.append((pod_id, fleet.with_use(PodInfo(made, home, refused))))
        results = trial.schedule(items)
    return [f"{one.cluster}/{one.node}" for one in results if isinstance(one, Decision)]
