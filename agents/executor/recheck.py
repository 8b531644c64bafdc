"""Would this node still take this pod? Asked of the agent's own, fresher cache just before a bind.

The dispatcher has judged all nodes already; here only that is asked again which may have changed since, and which a
kubelet would answer with a terminal rejection (OutOfcpu, NodeAffinity, NodePorts) if nobody asked.
"""

from collections.abc import Callable

from agents.executor.local import Local, Moment
from dispatcher.model.node import NO_EXECUTE, NO_SCHEDULE, Node, Taint
from dispatcher.model.pod import HostPort, Pod
from dispatcher.model.reasons import Reason, Why
from dispatcher.model.resources import PODS

_ANY_IP = frozenset(("", "0.0.0.0", "::"))  # noqa: S104 - compared, never bound
_UNSCHEDULABLE = Taint(key="node.kubernetes.io/unschedulable", effect=NO_SCHEDULE)


def refusal(pod: Pod, node_name: str, local: Local, now: Moment) -> str:
    """Why `pod` may not be bound to the real node `node_name`; '' if it may."""
    node = local.view.node(node_name)
    if node is None:
        return f'node "{node_name}" is not known in cluster "{local.cluster}"'
    if node.proxy_for:
        return f'node "{node_name}" is the proxy of cluster "{node.proxy_for}" and runs nothing itself'
    for check in _CHECKS:
        if reason := check(pod, node):
            return f'node "{node_name}": {reason}'
    reason = _full(pod, node_name, local, now)
    return f'node "{node_name}": {reason}' if reason else ""


def _not_ready(pod: Pod, node: Node) -> str:
    return "" if node.ready else Reason.NOT_READY.text()


def _cordoned(pod: Pod, node: Node) -> str:
    return Reason.UNSCHEDULABLE.text() if node.unschedulable and not _tolerates(pod, _UNSCHEDULABLE) else ""


def _tainted(pod: Pod, node: Node) -> str:
    for taint in node.taints:
        if taint.effect in (NO_SCHEDULE, NO_EXECUTE) and not _tolerates(pod, taint):
            return Why(Reason.TAINT, str(taint)).detail
    return ""


def _unmatched(pod: Pod, node: Node) -> str:
    selected = all(node.labels.get(key) == value for key, value in pod.node_selector.items())
    required = pod.affinity.required if pod.affinity else None
    if selected and (required is None or any(term.matches(node.labels, node.name) for term in required)):
        return ""
    return Reason.AFFINITY.text()


_CHECKS: tuple[Callable[[Pod, Node], str], ...] = (_not_ready, _cordoned, _tainted, _unmatched)


def _tolerates(pod: Pod, taint: Taint) -> bool:
    return any(taint.tolerated_by(toleration) for toleration in pod.tolerations)


def _full(pod: Pod, node: str, local: Local, now: Moment) -> str:
    """Room and ports left after the binds under way that the view does not show yet."""
    free = dict(local.view.free(node))
    ports = list(local.view.ports_on(node)) if pod.ports else []
    for booking in local.ledger.held(node, local.view, now.mono):
        if (booking.namespace, booking.name) == (pod.namespace, pod.name):
            continue
        free[PODS] = free.get(PODS, 0) - 1
        for resource, amount in booking.requests.items():
            free[resource] = free.get(resource, 0) - amount
        ports.extend(booking.ports)
    if free.get(PODS, 0) < 1:
        return Reason.TOO_MANY_PODS.text()
    short = next((name for name, amount in pod.requests.items() if amount > 0 and amount > free.get(name, 0)), None)
    if short is not None:
        return Reason.INSUFFICIENT.text(short)
    return Reason.PORTS.text() if any(_clash(mine, taken) for mine in pod.ports for taken in ports) else ""


def _clash(one: HostPort, other: HostPort) -> bool:
    if (one.port, one.protocol) != (other.port, other.protocol):
        return False
    return one.ip == other.ip or one.ip in _ANY_IP or other.ip in _ANY_IP
