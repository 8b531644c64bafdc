"""Who is decided next, and why; and where one pod stands."""

from dispatcher.scheduling.core import SchedulerCore
from dispatcher.scheduling.queue import QueuedPod
from dispatcher.scheduling.quota import QuotaLedger
from dispatcher.scheduling.tenants.shares import FairShare
from dispatcher.scheduling.views.pieces import Row
from shared.model.pod import PodId
from shared.model.reasons import Reasons, Why

MOST = 1000  # places that are counted


def queue_view(core: SchedulerCore, ledger: QuotaLedger, most: int = MOST) -> list[Row]:
    """One row for each of the first pods that are to be decided now, in order, `MOST` at most: as
    it would be if each found a place, and nothing else happened.
    """
    items = core.queue.in_order(min(most, MOST))
    return [_row(core, ledger, place, item) for place, item in enumerate(items, start=1)]


def queue_counts(core: SchedulerCore) -> Row:
    """How many pods wait in which state."""
    return dict(core.queue.counts())


def place_view(
    core: SchedulerCore, ledger: QuotaLedger, namespace: str, name: str, cluster: str = ""
) -> Row | None:
    """Where a pod stands: its `place` among those that are to be decided, None for none or one
    beyond `MOST`; its `state` in the queue, '' if it does not wait; and why. None if it is unknown.
    """
    found = [pod_id for pod_id in core.tracked.named(namespace, name) if cluster in ("", pod_id[0])]
    if not found:
        return None
    pod_id = min(found)
    item = core.queue.get(pod_id)
    if item is None:
        return {
            "place": None,
            "namespace": namespace,
            "name": name,
            "source": pod_id[0],
            "state": "",
            "why": "it does not wait for a decision",
        }
    return _place_row(core, ledger, pod_id, item)


def _place_row(core: SchedulerCore, ledger: QuotaLedger, pod_id: PodId, item: QueuedPod) -> Row:
    state = item.state.value
    places = core.queue.in_order(MOST) if state == "active" else []
    place = next((at for at, one in enumerate(places, start=1) if one.pod_id == pod_id), None)
    row = _row(core, ledger, place, item) | {"state": state}
    waiting = core.queue.counts()["active"]
    if state == "active":
        where = f"behind the first {MOST}" if place is None else f"number {place}"
        return row | {"why": f"{where} of {waiting}: {row['why']}"}
    row |= {"why": _of_group(core, item) or _of_itself(core, item)}
    return row


def _of_group(core: SchedulerCore, item: QueuedPod) -> str:
    """What a member of a group waits for that is not in the queue itself; '' for all others."""
    group = core.queue.groups.waits_in(item)
    if group is None or group.lead is item:
        return ""
    if group.lead is None:
        return Why(Reasons.GROUP_INCOMPLETE, group.note).text
    lead = group.lead
    stands = f"pod {lead.pod_info.pod.name} stands in the queue for its group {group.group.name}"
    if lead.state.value != "active":
        return f"{stands}: {_of_itself(core, lead)}"
    return stands


def _of_itself(core: SchedulerCore, item: QueuedPod) -> str:
    left_s = max(0.0, item.ready_at - core.fleet.now)
    times = f"{item.attempts} attempt{'s' if item.attempts > 1 else ''}"
    tried = f"after {times} in vain" if item.attempts else "not tried yet"
    words = {
        "backoff": f"backs off for {left_s:.0f} s more, {tried}",
        "unschedulable": f"waits for something that may help it, {tried}: {_reasons(item)}",
        "gated": f"may not enter the queue: {item.note}",
        "waiting": f"has a place, and waits: {item.note}",
    }
    return words[item.state.value]


def _reasons(item: QueuedPod) -> str:
    return ", ".join(sorted(one.name for one in item.reasons)) or "no node is known"


def _row(core: SchedulerCore, ledger: QuotaLedger, place: int | None, item: QueuedPod) -> Row:
    pod = item.pod_info.pod
    tenant, share = core.queue.share_of(item)
    return {
        "place": place,
        "namespace": pod.namespace,
        "name": pod.name,
        "source": item.pod_id[0],
        "priority": pod.priority,
        "tenant": tenant or "",
        "share": share.number if isinstance(share, FairShare) and not share.endless else None,
        "waits_s": max(0.0, core.fleet.now - item.queued_at),
        "attempts": item.attempts,
        "why": _why(ledger, pod.priority, tenant, share),
    }


def _why(ledger: QuotaLedger, priority: int, tenant: str | None, share: object) -> str:
    """What its place rests on, beside how long it has waited."""
    words = f"priority {priority}"
    if tenant is None:
        return f"{words}, of no tenant" if ledger.tenants else words
    if not isinstance(share, FairShare):
        return f"{words}, tenant {tenant}"
    if not ledger.tree.nodes[tenant].tenant.weight:
        return f"tenant {tenant} has no weight: when nobody else waits"
    if not share.billionths:
        return f"{words}, tenant {tenant} has borrowed nothing"
    return f"{words}, tenant {tenant} has borrowed {share.number:.1%} of what it could, by weight"
