"""What is known of each pod: where it is, and why."""

from collections.abc import Iterator

from dispatcher.scheduling.core import SchedulerCore
from dispatcher.scheduling.delegation.protocol import target_of
from dispatcher.scheduling.delegation.tracked_pods import TrackedPods
from dispatcher.scheduling.delegation.tracking import Tracked
from dispatcher.scheduling.framework import PodInfo
from dispatcher.scheduling.quota import without_figures
from dispatcher.scheduling.records.decision import Decision, Unschedulable
from dispatcher.scheduling.views.group_rows import group_row
from dispatcher.scheduling.views.pieces import Pieces, Row, in_order
from shared.model.leases import LEASE, failover_text, stopped_after_s
from shared.model.pod import Pod, PodId


def pods_view(core: SchedulerCore, namespace: str = "") -> Pieces:
    """One row for each of our pods, as submitted, in any namespace or in one: where it was
    submitted, where it runs, its phase and why.
    """
    for keys in in_order(_names(core.tracked, namespace)):
        known = (core.tracked.peek(pod_id) for _, _, pod_id in keys)
        yield [
            _pod_row(core, one, one.source)
            for one in known
            if one is not None and one.source is not None
        ]


def count_pods(core: SchedulerCore, namespace: str = "") -> int:
    """How many rows that is."""
    if not namespace:
        return core.tracked.submitted().total()
    return sum(source.namespace == namespace for _, source in core.tracked.sources())


def _names(tracked: TrackedPods, namespace: str) -> Iterator[tuple[str, str, PodId]]:
    """Namespace, name and id of each pod."""
    for pod_id in tracked:
        source = tracked.source_of(pod_id)
        if source is not None and namespace in ("", source.namespace):
            yield source.namespace, source.name, pod_id


def _pod_row(core: SchedulerCore, tracked: Tracked, source: Pod) -> Row:
    cluster, node = _place(tracked, source)
    return {
        "namespace": source.namespace,
        "name": source.name,
        "source": tracked.home,
        "cluster": cluster,
        "node": node,
        "phase": "Terminating" if source.terminating else source.phase,
        "ready": source.ready,
        **_controllers(source),
        "reason": "; ".join(filter(None, (_waiting(core, tracked), _why(core, tracked, source)))),
    }


def _controllers(source: Pod) -> Row:
    """The controller of a pod as Kind/name, and the Deployment of that, which is known by the hash
    that ends the name of its ReplicaSets; "" for none.
    """
    controller, _, _ = source.owner.rpartition("/")  # without its UID
    hashed = f"-{source.labels.get('pod-template-hash', '')}"
    is_hashed = controller.startswith("ReplicaSet/") and len(hashed) > 1
    name = controller.removeprefix("ReplicaSet/").removesuffix(hashed)
    of_deployment = is_hashed and controller.endswith(hashed)
    return {"controller": controller, "deployment": f"Deployment/{name}" if of_deployment else ""}


def _why(core: SchedulerCore, tracked: Tracked, source: Pod) -> str:
    last = core.log.find(tracked.pod_id)
    # What a pod without a node was told since its last decision is why that did not come to be.
    undone = isinstance(last, Decision) and not source.node and tracked.reported
    return tracked.reported if last is None or undone else last.summary()


def _place(tracked: Tracked, source: Pod) -> tuple[str, str]:
    if not source.node:
        return "", ""
    if source.claim is None or source.claim.cluster == tracked.home:
        return tracked.home, source.node
    delegate = tracked.delegates.get(source.claim.cluster)
    return source.claim.cluster, delegate.node if delegate and delegate.node else source.claim.node


def explain(core: SchedulerCore, namespace: str, name: str, cluster: str = "") -> Row | None:
    """The whole record of one pod: where it is, what is in the air, the last decision and why; None
    if unknown.

    With several clusters holding a pod of that name, `cluster` chooses; else it is the first by
    name, and `also_in` are the others.
    """
    found = [pod_id for pod_id in core.tracked.named(namespace, name) if cluster in ("", pod_id[0])]
    tracked = core.tracked.peek(min(found)) if found else None
    if tracked is None or tracked.source is None:
        return None
    last = core.log.find(tracked.pod_id)
    return {
        **_pod_row(core, tracked, tracked.source),
        "uid": tracked.pod_id[1],
        "also_in": sorted({home for home, _ in found} - {tracked.home}),
        "in_flight": None if tracked.in_flight is None else tracked.in_flight.kind.value,
        "waiting": _waiting(core, tracked),
        "left_behind": tracked.left_behind if _abroad(tracked) else None,
        "lower_priority": _lower_priority(core, tracked),
        "group": group_row(core, tracked),
        "message": _told(tracked, last),
        "refusals": _refusals(core, tracked.pod_id, tracked.source),
        "moved": core.rebalancing.of(tracked.pod_id, PodInfo(tracked.source, tracked.home)),
        "decision": last.record() if last else None,
    }


def _told(tracked: Tracked, last: Decision | Unschedulable | None) -> str:
    """What the pod was told, with the figures of now: that its tenant uses more or less since is no
    news to be told again.
    """
    told = tracked.reported
    newest = last.full_message if isinstance(last, Unschedulable) else told
    return newest if without_figures(newest) == without_figures(told) else told


def _abroad(tracked: Tracked) -> str:
    """In which other cluster its source says that it runs; '' if in none."""
    source = tracked.source
    claim = source.claim if source is not None and source.node else None
    return claim.cluster if claim is not None and claim.cluster != tracked.home else ""


def _lower_priority(core: SchedulerCore, tracked: Tracked) -> str | None:
    """That a pod is less important where it runs than at home; None if it is not, or stays there."""
    if tracked.source is None or not (cluster := _abroad(tracked)):
        return None
    return core.lower_priority(tracked.source, tracked.home, cluster) or None


def source_of(core: SchedulerCore, namespace: str, name: str) -> Row | None:
    """The pod of which a pod is the copy, and where that is; None if it is nobody's."""
    for tracked in core.tracked.active.values():
        for cluster, delegate in tracked.delegates.items():
            source = delegate.source
            if source is not None and (delegate.namespace, delegate.name) == (namespace, name):
                return {
                    "cluster": cluster,
                    "home": tracked.home,
                    "namespace": source.namespace,
                    "name": source.name,
                }
    return None


def _refusals(core: SchedulerCore, pod_id: PodId, source: Pod) -> list[Row]:
    """Which clusters are passed over for the pod now, why, since when and for how long (see
    model.refusal).
    """
    return [
        one.record(core.fleet.now) for one in core.refusals.known(pod_id, source, core.fleet.now)
    ]


def _waiting(core: SchedulerCore, tracked: Tracked) -> str | None:
    """What holds up a pod that has its place already: a Permit or PreBind plugin, somebody else's
    bind, or an order of which it is not known what came. Of one that runs elsewhere: that its
    cluster is lost, why it does not start, or which of its disruption budgets are not kept there.
    """
    if tracked.in_flight is not None and tracked.in_flight.doubted_at <= core.fleet.now:
        return tracked.in_flight.doubt
    booked = core.booked.of(tracked.pod_id)
    if booked is not None and tracked.in_flight is not None and tracked.in_flight.held:
        return f"{booked.words}; its place is held"
    item = core.queue.get(tracked.pod_id)
    waits = item is not None and core.queue.state_of(tracked.pod_id) == "waiting"
    if item is not None and waits:
        return item.note
    _, unstarted = core.unstarted.told.get(tracked.pod_id, ("", ""))
    return _lost(core, tracked) or unstarted or core.uncounted_budgets(tracked) or None


def _lost(core: SchedulerCore, tracked: Tracked) -> str | None:
    """What becomes of a pod of failover mode `lease` in a lost cluster."""
    source = tracked.source
    now = core.fleet.now
    timing = core.timing
    if source is None or source.failover != LEASE or not source.node or source.terminating:
        return None
    view = core.clusters.get(target_of(tracked.home, source))
    if view is None or view.ready or now - view.not_ready_since < timing.cluster_lost_s:
        return None
    left_s = stopped_after_s(timing.delegate_lease_s, source.grace_s) - view.unrenewed_s(now)
    return failover_text(view.name, max(0.0, left_s) if view.api_ok else None)
