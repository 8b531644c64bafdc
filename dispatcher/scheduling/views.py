"""What people ask of the core: clusters, nodes, pods and why, as plain JSON-ready rows in a stable order."""

import math
from collections import Counter
from itertools import permutations
from typing import Any

from dispatcher.model import names
from dispatcher.model.leases import LEASE, failover_text, stopped_after_s
from dispatcher.model.pod import Pod
from dispatcher.model.resources import CPU, MEMORY, PODS, format_quantity
from dispatcher.scheduling.clusters import ClusterView
from dispatcher.scheduling.core import SchedulerCore
from dispatcher.scheduling.delegation import shared_keys, unconfigured
from dispatcher.scheduling.delegation.fences import fenced_proxy
from dispatcher.scheduling.delegation.peers import closed_proxy
from dispatcher.scheduling.delegation.protocol import target_of
from dispatcher.scheduling.delegation.tracking import Tracked
from dispatcher.scheduling.fleet.fleet import FleetState
from dispatcher.scheduling.fleet.forecast import foreseen
from dispatcher.scheduling.framework import Placed
from dispatcher.scheduling.framework.derived import HotRule
from dispatcher.scheduling.records.decision import Decision

Row = dict[str, Any]


def clusters_view(core: SchedulerCore) -> list[Row]:
    """One row a cluster: readiness and why not, nodes, pods it runs, age of its last report in seconds.

    `remote`: copies there of pods of other clusters. `cordoned_in`, `fenced_in`: the clusters for whose pods it is so.
    Clusters that are none of ours, but have pods of ours, come last.
    """
    keys = shared_keys.of(core.clusters)
    shared = {name: shared_keys.problem_of(name, keys) for name in core.clusters}
    copies = Counter(name for tracked in core.tracked.unsettled.values() for name in tracked.delegates)
    submitted = Counter(home for (home, _), _ in core.tracked.sources())
    told = {name: {"remote": copies[name], "submitted": submitted[name]} for name in core.clusters}
    ours = [_cluster_row(core, view, shared[name], told[name]) for name, view in sorted(core.clusters.items())]
    return [
        *ours,
        *(_unconfigured_row(core, one) for one in unconfigured.of(core.tracked.unsettled.values(), core.clusters)),
    ]


def links_view(core: SchedulerCore) -> list[Row]:
    """One row a direction between two clusters: what the agent of `from` measured and how old that is; what counts for
    both directions (None: unknown), and whether that is measured or configured.
    """
    return [_link_row(core.fleet, *way) for way in permutations(sorted(core.clusters), 2)]


def _link_row(fleet: FleetState, source: str, target: str) -> Row:
    told, link = fleet.links.measured(source, target), fleet.links.between(source, target, fleet.now)
    return {
        "from": source,
        "to": target,
        "rtt_ms": round(told.rtt_ms, 3) if told else None,
        "jitter_ms": round(told.jitter_ms, 3) if told else None,
        "loss": round(told.loss, 4) if told else None,
        "age_s": round(max(0.0, fleet.now - told.at), 1) if told else None,
        "counts_ms": round(link.rtt_ms, 3) if link else None,
        "source": link.source if link else "unknown",
    }


def _unconfigured_row(core: SchedulerCore, found: unconfigured.UnconfiguredCluster) -> Row:
    numbers = {"nodes": 0, "ready_nodes": 0, "pods": found.went, "remote": 0, "submitted": found.came}
    told = {"name": found.cluster, "ready": False, "problem": found.text}
    return {**told, **_closed_in(core, found.cluster), **numbers, "report_age_s": None}


def _cluster_row(core: SchedulerCore, view: ClusterView, shared: str, counts: Row) -> Row:
    own = [node for node in view.nodes.values() if not node.proxy_for]
    heard = view.last_report_at > float("-inf")
    problem = view.problem if view.ready else view.problem or "not synced yet"
    return {
        "name": view.name,
        "ready": view.ready,
        "problem": "; ".join(filter(None, (problem, shared))),
        **_closed_in(core, view.name),
        "nodes": len(own),
        "ready_nodes": sum(node.ready for node in own),
        "pods": sum(bool(pod.node) and not pod.terminal and not _remote(pod, view.name) for pod in view.pods.values()),
        **counts,
        "report_age_s": round(core.fleet.now - view.last_report_at, 3) if heard else None,
    }


def _closed_in(core: SchedulerCore, cluster: str) -> Row:
    """What operators have said of a cluster, by the cluster where its proxy node is."""
    proxies = {home: view.nodes.get(names.proxy_node_name(cluster)) for home, view in sorted(core.clusters.items())}
    return {
        "cordoned_in": [home for home, node in proxies.items() if closed_proxy(node)],
        "fenced_in": [home for home, node in proxies.items() if fenced_proxy(node)],
    }


def _remote(pod: Pod, cluster: str) -> bool:
    return pod.claim is not None and pod.claim.cluster != cluster


def nodes_view(core: SchedulerCore) -> list[Row]:
    """One row a node: readiness, requests against allocatable, live load with age in seconds and source; and by what
    it is hot: `refuses` is false while too many of its cluster's nodes are."""
    fleet = core.fleet
    rows = [_node_row(fleet, row) for row in range(fleet.n) if fleet.live[row]]
    if core.profiles.forecasts:
        for row in rows:
            _add_forecast(fleet, row)
    return sorted(rows, key=lambda row: (row["cluster"], row["name"]))


def _add_forecast(fleet: FleetState, told: Row) -> None:
    """What is foreseen, None where the last value predicts better, and by how much both miss on average."""
    row = fleet.row_of(told["cluster"], told["name"])
    if row is None:
        return
    for column, (load, forecast) in enumerate(zip(told["load"].values(), foreseen(fleet, row), strict=False)):
        errors = fleet.forecast_error.item(column, row), fleet.last_error.item(column, row)
        shown = (None if one is None or math.isnan(one) else round(one, 4) for one in (forecast, *errors))
        load.update(zip(("forecast", "forecast_error", "last_value_error"), shown, strict=True))


def _node_row(fleet: FleetState, row: int) -> Row:
    cluster, name = fleet.name_of(row)
    sources = fleet.sources_of(row)
    return {
        "cluster": cluster,
        "name": name,
        "ready": bool(fleet.ready[row]),
        "unschedulable": bool(fleet.unschedulable[row]),
        **{resource: _use(fleet, row, resource) for resource in (CPU, MEMORY, PODS)},
        "load": {
            name: _reading(fleet, used, at, sources.get(name, ""))
            for name, (used, at) in zip(fleet.signal_axis.names, fleet.readings_of(row), strict=False)
        },
        "hot": [_heat(fleet, rule, since, row) for rule, since in fleet.heat_of(row)],
    }


def _use(fleet: FleetState, row: int, resource: str) -> Row:
    column = fleet.axis.column(resource)
    if column is None:
        return {"requested": "0", "allocatable": "0"}
    requested, allocatable = int(fleet.requested[column, row]), int(fleet.allocatable[column, row])
    return {
        "requested": format_quantity(resource, requested),
        "allocatable": format_quantity(resource, allocatable),
        "share": round(requested / allocatable, 4) if allocatable else None,
    }


def _reading(fleet: FleetState, used: float, at: float, source: str) -> Row:
    known = not math.isnan(used)
    return {
        "used": round(used, 4) if known else None,
        "age_s": round(fleet.now - at, 1) if known else None,
        "source": source if known else "",
    }


def _heat(fleet: FleetState, rule: HotRule, since: float, row: int) -> Row:
    return {
        "signal": rule.signal,
        "mean": round(float(fleet.signals.mean(rule.signal)[row]), 4),
        "since_s": round(fleet.now - since, 1),
        "enter": rule.enter,
        "leave": rule.leave,
        "refuses": bool(fleet.signals.hot(rule)[row]),
    }


def pods_view(core: SchedulerCore) -> list[Row]:
    """One row for each of our pods, as submitted: where it was submitted, where it runs, its phase and why."""
    rows = [_pod_row(core, tracked) for tracked in core.tracked.values() if tracked.source is not None]
    return sorted(rows, key=lambda row: (row["namespace"], row["name"], row["source"]))


def _pod_row(core: SchedulerCore, tracked: Tracked) -> Row:
    source = tracked.source
    if source is None:
        raise ValueError(f"{tracked.pod_id} has no source pod")
    cluster, node = _place(tracked, source)
    return {
        "namespace": source.namespace,
        "name": source.name,
        "source": tracked.home,
        "cluster": cluster,
        "node": node,
        "phase": "Terminating" if source.terminating else source.phase,
        "ready": source.ready,
        "reason": "; ".join(filter(None, (_waiting(core, tracked), _why(core, tracked, source)))),
    }


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
    """The whole record of one pod: where it is, what is in the air, the last decision and why; None if unknown.

    With several clusters holding a pod of that name, `cluster` chooses; else the first by name.
    """
    found = [
        pod_id
        for pod_id, source in core.tracked.sources()
        if (source.namespace, source.name) == (namespace, name) and cluster in ("", pod_id[0])
    ]
    tracked = core.tracked.peek(min(found)) if found else None
    if tracked is None:
        return None
    last = core.log.find(tracked.pod_id)
    return {
        **_pod_row(core, tracked),
        "uid": tracked.pod_id[1],
        "in_flight": None if tracked.in_flight is None else tracked.in_flight.kind.value,
        "waiting": _waiting(core, tracked),
        "message": tracked.reported,
        "refusals": _refusals(core, tracked),
        "moved": core.rebalancing.of(tracked.pod_id, Placed(tracked.source, tracked.home)) if tracked.source else None,
        "decision": last.record() if last else None,
    }


def source_of(core: SchedulerCore, namespace: str, name: str) -> Row | None:
    """The pod of which a pod is the copy, and where that is; None if it is nobody's."""
    for tracked in core.tracked.unsettled.values():
        for cluster, delegate in tracked.delegates.items():
            source = delegate.source
            if source is not None and (delegate.namespace, delegate.name) == (namespace, name):
                return {"cluster": cluster, "home": tracked.home, "namespace": source.namespace, "name": source.name}
    return None


def _refusals(core: SchedulerCore, tracked: Tracked) -> list[Row]:
    """Which clusters are passed over for the pod now, why, since when and for how long (see model.refusal)."""
    known = core.refusals.known(tracked.pod_id, tracked.source, core.fleet.now) if tracked.source else ()
    return [one.record(core.fleet.now) for one in known]


def _waiting(core: SchedulerCore, tracked: Tracked) -> str | None:
    """What holds up a pod that has its place already: a Permit or PreBind plugin, or somebody else's bind. Of one that
    runs elsewhere: that its cluster is lost, or which of its disruption budgets are not kept there.
    """
    item = core.queue.get(tracked.pod_id)
    waits = item is not None and core.queue.state_of(tracked.pod_id) == "waiting"
    return item.note if item is not None and waits else _lost(core, tracked) or core.uncounted_budgets(tracked) or None


def _lost(core: SchedulerCore, tracked: Tracked) -> str | None:
    """What becomes of a pod of failover mode `lease` in a lost cluster."""
    source, now, timing = tracked.source, core.fleet.now, core.timing
    if source is None or source.failover != LEASE or not source.node or source.terminating:
        return None
    view = core.clusters.get(target_of(tracked.home, source))
    if view is None or view.ready or now - view.not_ready_since < timing.cluster_lost_s:
        return None
    left_s = stopped_after_s(timing.delegate_lease_s, source.grace_s) - view.unrenewed_s(now)
    return failover_text(view.name, max(0.0, left_s) if view.api_ok else None)
