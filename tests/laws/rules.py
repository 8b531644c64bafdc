"""Kubernetes' rules once more, in plain Python over plain data: may this pod go on this node of this world?"""

from dispatcher.scheduling.framework import PodInfo
from shared.model.node import NO_EXECUTE, NO_SCHEDULE, Node
from shared.model.pod import Pod, SpreadConstraint
from shared.model.topology import CLUSTER_LEVEL, HOST_LEVEL, LEVELS, level_of
from tests.laws.oracle import World

Where = tuple[str, str]


def pods_on(world: World, where: Where) -> list[Pod]:
    return [seat.pod_info.pod for seat in world.seats.values() if (seat.cluster, seat.node) == where]


def fits(world: World, pod: Pod, where: Where) -> bool:
    node, seated = world.nodes[where], pods_on(world, where)
    asked = {**pod.requests, "pods": 1}
    used = {name: sum({**one.requests, "pods": 1}.get(name, 0) for one in seated) for name in asked}
    return all(amount == 0 or used[name] + amount <= node.allocatable.get(name, 0) for name, amount in asked.items())


def tolerated(pod: Pod, node: Node) -> bool:
    hard = [taint for taint in node.taints if taint.effect in (NO_SCHEDULE, NO_EXECUTE)]
    return all(any(taint.tolerated_by(toleration) for toleration in pod.tolerations) for taint in hard)


def selected(pod: Pod, node: Node) -> bool:
    required = pod.affinity.required if pod.affinity else None
    return all(node.labels.get(key) == value for key, value in pod.node_selector.items()) and (
        required is None or any(term.matches(node.labels, node.name) for term in required)
    )


def ports_free(world: World, pod: Pod, where: Where) -> bool:
    taken = [port for one in pods_on(world, where) for port in one.ports]
    return not any(
        (mine.protocol, mine.port) == (other.protocol, other.port)
        and (mine.ip == other.ip or "0.0.0.0" in (mine.ip, other.ip))
        for mine in pod.ports
        for other in taken
    )


def domain(world: World, key: str, where: Where) -> str | None:
    level = level_of(key)
    if level == CLUSTER_LEVEL:
        return where[0]
    if level == HOST_LEVEL:
        return "/".join(where)
    return world.nodes[where].labels.get(LEVELS.get(level, level))


def spread_kept(world: World, pod: Pod, rule: SpreadConstraint, where: Where) -> bool:
    """The skew after this pod, over the domains of nodes that its selector and affinity allow."""
    mine = domain(world, rule.key, where)
    if mine is None:
        return False
    places = [place for place, node in world.nodes.items() if selected(pod, node)]
    counts = {found: 0 for place in places if (found := domain(world, rule.key, place)) is not None}
    for seat in world.seats.values():
        one, place = seat.pod_info.pod, (seat.cluster, seat.node)
        if place in world.nodes and one.namespace == pod.namespace and one.app_labels == pod.app_labels:
            found = domain(world, rule.key, place)
            if found in counts:
                counts[found] += 1
    return counts[mine] + 1 - min(counts.values()) <= rule.max_skew


def namespace_open(world: World, pod_info: PodInfo, where: Where) -> bool:
    """At home always; elsewhere where the cluster shows the namespace, if it shows any."""
    shown = {name for cluster, name in world.namespaces if cluster == where[0]}
    return where[0] == pod_info.home or not shown or pod_info.pod.namespace in shown


def refused_there(pod_info: PodInfo, where: Where) -> bool:
    return any(one.bars(where[0], pod_info.home) for one in pod_info.refused)


def allowed(world: World, pod_info: PodInfo, where: Where) -> bool:
    """Whether every hard rule (tenant quota aside) lets the pod go there."""
    pod, node = pod_info.pod, world.nodes[where]
    return (
        world.clusters[where[0]]
        and node.ready
        and not node.unschedulable
        and fits(world, pod, where)
        and tolerated(pod, node)
        and selected(pod, node)
        and ports_free(world, pod, where)
        and namespace_open(world, pod_info, where)
        and not refused_there(pod_info, where)
        and all(spread_kept(world, pod, rule, where) for rule in pod.spread if rule.hard)
    )
