"""What is known of each cluster, and of the ways between two."""

from collections import Counter
from collections.abc import Iterator

from dispatcher.scheduling.clusters import ClusterView, brings_services, share_network
from dispatcher.scheduling.core import SchedulerCore
from dispatcher.scheduling.delegation import misconfigured
from dispatcher.scheduling.delegation.proxy_nodes import closed_proxy, fenced_proxy
from dispatcher.scheduling.fleet.fleet import FleetState
from dispatcher.scheduling.views.pieces import Pieces, Row
from shared.messages.peer_links import PodReach
from shared.model import names
from shared.model.crossing import makes, rows_for
from shared.model.names import REACHED, UNREACHED
from shared.model.objects import Namespace, Service
from shared.model.pod import Pod

_MOST_APART = 20  # namespaces of a cluster, and Services of one
_MOST_UNREACHED = 20  # clusters of a row


def clusters_view(core: SchedulerCore) -> Pieces:
    """One row, and piece, a cluster: readiness and why not, nodes, pods it runs, age of its last
    report in seconds.

    `remote`: copies there of pods of other clusters; `unstarted`: those that do not start.
    `cordoned_in`, `fenced_in`: the clusters for whose pods it is so. `name_taken_in`: those with a
    node of their own that has the name of its proxy node. `apart`: namespaces whose pods stay in
    this cluster for what others lack. `network`: its pod network; `services`: its executor gives
    Services and makes those of others; `pod_reach`: clusters of that network whose pods are not
    reached from it, or not known to be (`pod_reach_more`: how many others). Clusters
    that are none of ours, but have pods of ours, come last.
    """
    keys = misconfigured.shared_keys_of(core.clusters)
    shared = {name: misconfigured.problem_with_keys(name, keys) for name in core.clusters}
    copies = Counter(name for tracked in core.tracked.active.values() for name in tracked.delegates)
    submitted = core.tracked.submitted()
    unstarted = Counter(cluster for cluster, _ in core.unstarted.told.values())
    for name, view in sorted(core.clusters.items()):
        counts = {
            "remote": copies[name],
            "submitted": submitted[name],
            "unstarted": unstarted[name],
        }
        yield [_cluster_row(core, view, shared[name], counts)]
    yield [_unconfigured_row(core, one) for one in _unconfigured(core)]


def cluster_names(core: SchedulerCore) -> list[str]:
    """The names of these rows."""
    return [*sorted(core.clusters), *(one.cluster for one in _unconfigured(core))]


def _unconfigured(core: SchedulerCore) -> list[misconfigured.UnconfiguredCluster]:
    return misconfigured.unconfigured_of(core.tracked.active.values(), core.clusters)


def _unconfigured_row(core: SchedulerCore, found: misconfigured.UnconfiguredCluster) -> Row:
    numbers = {
        "nodes": 0,
        "ready_nodes": 0,
        "pods": found.went,
        "remote": 0,
        "submitted": found.came,
    }
    told = {"name": found.cluster, "ready": False, "problem": found.text}
    return {**told, **_closed_in(core, found.cluster), **numbers, "report_age_s": None}


def _cluster_row(core: SchedulerCore, view: ClusterView, shared: str, counts: Row) -> Row:
    own = [node for node in view.nodes.values() if not node.proxy_for]
    proxies = {
        name for name, node in view.nodes.items() if node.proxy_for
    }  # what others put there runs nowhere
    bound = (
        pod
        for pod in view.pods.values()
        if pod.node and pod.node not in proxies and not pod.terminal
    )
    heard = view.last_report_at > float("-inf")
    unreached = sorted(_unreached(core, view), key=lambda one: one["state"] != UNREACHED)
    problem = view.problem if view.ready else view.problem or "not synced yet"
    return {
        "name": view.name,
        "ready": view.ready,
        "problem": "; ".join(filter(None, (problem, shared))),
        **_closed_in(core, view.name),
        "nodes": len(own),
        "ready_nodes": sum(node.ready for node in own),
        "pods": sum(not _remote(pod, view.name) for pod in bound),
        **counts,
        "apart": _apart(core, view),
        "network": view.network,
        "services": None if view.follows is None else view.serves,
        "pod_reach": unreached[:_MOST_UNREACHED],
        "pod_reach_more": len(unreached[_MOST_UNREACHED:]),
        "report_age_s": round(core.fleet.now - view.last_report_at, 3) if heard else None,
    }


def _apart(core: SchedulerCore, view: ClusterView) -> list[Row]:
    """Namespaces with pods of ours that may leave this cluster, but for a namespace or Services
    that others lack: `absent_in` clusters, and by cluster the `services` that it lacks.
    """
    leaving = [pod for pod in view.pods.values() if _may_leave(pod)]
    calling = {
        pod.namespace for pod in leaving if pod.annotations.get(names.SERVICES) != names.NONE
    }
    rows = []
    for namespace in sorted({pod.namespace for pod in leaving}):
        absent = []
        services = {}
        for other in sorted(core.clusters.keys() - {view.name}):
            shown = core.fleet.kept.of(other, Namespace)
            lacks = shown and namespace not in shown
            if lacks and not makes(namespace, core.clusters[other].opens):
                absent.append(other)
            elif (
                namespace in calling
                and not _calls_none_there(view.name, namespace, core.clusters[other])
                and not brings_services(view, core.clusters[other])
            ):
                missing = _services_missing(core.fleet, view.name, other, namespace)
                if missing:
                    services[other] = missing
        if absent or services:
            rows.append({"namespace": namespace, "absent_in": absent, "services": services})
        if len(rows) >= _MOST_APART:
            break
    return rows


def _unreached(core: SchedulerCore, view: ClusterView) -> Iterator[Row]:
    """A row for each other cluster of its pod network that is not known to be reached: `state`, for
    how many seconds, of an address that was tried how often lately (`failed` times in vain), and
    why not.
    """
    told = {one.cluster: one for one in view.reaches if not view.silent}
    since = max(0.0, core.fleet.now - view.answered_at)
    for name, other in sorted(core.clusters.items()):
        if other is view or not share_network(view, other):
            continue
        one = told.get(name) or PodReach(name, problem=_untried(view, other))
        if one.state == REACHED:
            continue
        for_s = round(one.for_s + since, 1) if name in told else None
        yield {
            "cluster": name,
            "state": one.state,
            "for_s": for_s,
            "address": one.address,
            "tries": one.tries,
            "failed": one.failed,
            "problem": one.problem,
        }


def _untried(view: ClusterView, other: ClusterView) -> str:
    """Why nothing is known of the way between two clusters."""
    for one in (view, other):
        if one.silent:
            return f"cluster {one.name} is silent"
        if not one.pod_address:
            return f"the agent of cluster {one.name} answers at no address of a pod"
    return "it was not tried yet"


def _may_leave(pod: Pod) -> bool:
    ours = pod.source is None and names.is_ours(pod.scheduler_name)
    return ours and not pod.terminal and pod.annotations.get(names.STAY) != "true"


def _calls_none_there(home: str, namespace: str, other: ClusterView) -> bool:
    """Whether a row of the other cluster's policy says that these pods call no Services."""
    return any(row.services == names.NONE for row in rows_for(home, namespace, other.opens) or ())


def _services_missing(fleet: FleetState, home: str, other: str, namespace: str) -> list[str]:
    of_home = fleet.kept.of(home, Namespace).get(namespace)
    unknown = not fleet.kept.of(other, Service)
    if unknown or (of_home is not None and of_home.labels.get(names.SERVICES) == names.NONE):
        return []
    wanted = fleet.kept.in_namespace(home, Service, namespace).values()
    there = fleet.kept.in_namespace(other, Service, namespace)
    own = {key for key, one in there.items() if one.is_own}
    return sorted(one.name for one in wanted if one.is_own and one.key not in own)[:_MOST_APART]


def _closed_in(core: SchedulerCore, cluster: str) -> Row:
    """What operators have said of a cluster, by the cluster where its proxy node is."""
    proxies = {
        home: view.nodes.get(names.proxy_node_name(cluster))
        for home, view in sorted(core.clusters.items())
    }
    return {
        "cordoned_in": [home for home, node in proxies.items() if closed_proxy(node)],
        "fenced_in": [home for home, node in proxies.items() if fenced_proxy(node)],
        "name_taken_in": [
            home for home, node in proxies.items() if node is not None and not node.proxy_for
        ],
    }


def _remote(pod: Pod, cluster: str) -> bool:
    return pod.claim is not None and pod.claim.cluster != cluster


def links_view(core: SchedulerCore) -> Pieces:
    """One row a direction between two clusters: what the agent of `from` measured and how old that
    is; what counts for both directions (None: unknown), and whether that is measured or configured.
    A piece for each cluster it begins at.
    """
    clusters = sorted(core.clusters)
    for source in clusters:
        yield [_link_row(core.fleet, source, target) for target in clusters if target != source]


def _link_row(fleet: FleetState, source: str, target: str) -> Row:
    told = fleet.links.measured(source, target)
    link = fleet.links.between(source, target, fleet.now)
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
