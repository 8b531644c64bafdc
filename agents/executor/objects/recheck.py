"""Checks right before a bind whether the node still admits the pod, by the agent's own, fresher
watch cache.

The dispatcher has judged all nodes already; here only that is asked again which may have changed
since, and which a kubelet would answer with a terminal rejection (OutOfcpu, NodeAffinity,
NodePorts) if nobody asked.
"""

from collections.abc import Callable, Iterable

from agents.executor.context.local import Local, Moment
from shared.model.names import CONTROL_PLANE
from shared.model.node import NO_EXECUTE, NO_SCHEDULE, Node, Taint
from shared.model.pod import HostPort, Pod
from shared.model.reasons import Reasons, Why
from shared.model.resources import PODS

_ANY_IP = frozenset(("", "0.0.0.0", "::"))  # noqa: S104 - compared, never bound
_UNSCHEDULABLE = Taint(key="node.kubernetes.io/unschedulable", effect=NO_SCHEDULE)


def refusal(pod: Pod, node_name: str, local: Local, now: Moment) -> str:
    """Why `pod` may not be bound to the real node `node_name`; '' if it may."""
    node = local.view.node(node_name)
    if node is None:
        return f'node "{node_name}" is not known in cluster "{local.cluster}"'
    if node.proxy_for:
        return (
            f'node "{node_name}" is the proxy of cluster "{node.proxy_for}" and runs nothing itself'
        )
    if pod.problems:  # not all is known of what it asks for
        return f"pod {pod.namespace}/{pod.name}: {pod.problems[-1]}"
    for check in _CHECKS:
        if reason := check(pod, node):
            return f'node "{node_name}": {reason}'
    reason = _full(pod, node_name, local, now)
    return f'node "{node_name}": {reason}' if reason else ""


def reserved(node_name: str, local: Local) -> str:
    """Why no pod of another cluster may be bound to this node, whatever it tolerates; '' if one
    may.
    """
    node = local.view.node(node_name)
    label = next((key for key in CONTROL_PLANE if node is not None and key in node.labels), "")
    if not label:
        return ""
    return (
        f'node "{node_name}" is a control-plane node ({label}) of cluster "{local.cluster}": pods '
        "of other clusters go "
        'there only if a row of its `executor.accept` has "controlPlane" in `allow`'
    )


def _not_ready(pod: Pod, node: Node) -> str:
    return "" if node.ready else Reasons.NOT_READY.text()


def _cordoned(pod: Pod, node: Node) -> str:
    return (
        Reasons.UNSCHEDULABLE.text()
        if node.unschedulable and not _tolerates(pod, _UNSCHEDULABLE)
        else ""
    )


def _tainted(pod: Pod, node: Node) -> str:
    for taint in node.taints:
        if taint.effect in (NO_SCHEDULE, NO_EXECUTE) and not _tolerates(pod, taint):
            return Why(Reasons.TAINT, str(taint)).detail
    return ""


def _unmatched(pod: Pod, node: Node) -> str:
    selected = all(node.labels.get(key) == value for key, value in pod.node_selector.items())
    required = pod.affinity.required if pod.affinity else None
    if selected and (
        required is None or any(term.matches(node.labels, node.name) for term in required)
    ):
        return ""
    return Reasons.AFFINITY.text()


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
        return Reasons.TOO_MANY_PODS.text()
    short = next(
        (
            name
            for name, amount in pod.requests.items()
            if amount > 0 and amount > free.get(name, 0)
        ),
        None,
    )
    if short is not None:
        return Reasons.INSUFFICIENT.text(short)
    return Reasons.PORTS.text() if _clash(pod.ports, ports) else ""


def _clash(wanted: Iterable[HostPort], taken: Iterable[HostPort]) -> bool:
    """Whether any two are the same port; each is looked at once, for two pods may have 30,000 each."""
    held: dict[tuple[int, str], set[str]] = {}
    for port in taken:
        held.setdefault((port.port, port.protocol), set()).add(port.ip)
    return any(_same_ip(one.ip, held.get((one.port, one.protocol), set())) for one in wanted)


def _same_ip(ip: str, taken: set[str]) -> bool:
    return bool(taken) and (ip in taken or ip in _ANY_IP or not taken.isdisjoint(_ANY_IP))
