"""Keeps one proxy node for each other cluster: made when its peer appears, kept as the dispatcher
last said, removed when a dispatcher that speaks no longer names the peer and no pod of ours is
bound to it: pods that others put there never ran.

Lease and status are renewed without an end, whether the peer is ready or not: a dispatcher that is
silent is no evidence against anybody, and what the node controller shall believe of a lost cluster
is what we write. The word is a label, too, so that the next life of this agent finds it even if the
node controller has meanwhile written over the condition. `kubectl cordon` and taints of others are
left alone.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

import msgspec

from agents.executor.context.local import KubeletEndpoint, Local, Moment
from agents.executor.context.reconcile_task import ReconcileTask
from agents.executor.duties import proxy_objects
from agents.executor.trust.peers import is_heard_of, is_proxy, name_taken
from shared.kube.deletes import delete_request
from shared.kube.http import MERGE_PATCH, STRATEGIC_PATCH, Procedure, Request
from shared.kube.verdicts import CONFLICT, INVALID, NOT_FOUND, error_text
from shared.messages import Peer
from shared.model import names
from shared.model.node import Node

LEASE_S = 10.0  # renewals; a Lease lasts 40 s
HEARTBEAT_S = 30.0  # status writes when nothing changed
CHANGE_S = 5.0  # status writes when only the amounts changed, or when the view has not caught up
_NODES = "/api/v1/nodes"
_LEASES = f"/apis/coordination.k8s.io/v1/namespaces/{proxy_objects.LEASE_NAMESPACE}/leases"


@dataclass(slots=True)
class _Beat:
    """Times of the last writes for one proxy node: monotonic seconds, minus infinity for never."""

    created: float = float("-inf")
    status: float = float("-inf")
    lease: float = float("-inf")
    uid: str = ""
    identified: bool = False
    ready: bool | None = None
    kubelet: KubeletEndpoint | None = None
    resources: dict[str, Any] = field(default_factory=dict)


class ProxyNodes:
    """Decides which proxy nodes, statuses and Leases are due to be written."""

    def __init__(self, local: Local) -> None:
        self._local = local
        self._beats: dict[str, _Beat] = {}

    def due(self, now: Moment) -> Iterator[ReconcileTask]:
        """A task for each proxy node with something to write, named like the node."""
        peers = self._local.peers
        view = self._local.view
        peers.recall(tuple(view.nodes()), now.mono)
        for name, peer in peers.known.items():
            node = view.node(name)
            beat = self._beats.setdefault(name, _Beat())
            if peers.dropped(name, now.mono) and not any(
                names.is_ours(pod.scheduler_name) for pod in view.pods_on(name)
            ):
                peers.forget(name)
                del self._beats[name]
                if node is not None and is_proxy(node):
                    yield ReconcileTask(name, None, _remove(node))
            elif self._is_due(peer, node, beat, now):
                yield ReconcileTask(name, None, self._tend(name, peer, beat, now))

    def _is_due(self, peer: Peer, node: Node | None, beat: _Beat, now: Moment) -> bool:
        if node is None:
            return is_heard_of(peer)
        return (
            self._status_due(peer, node, beat, now) or _lease_due(beat, now) or _drifted(peer, node)
        )

    def _status_due(self, peer: Peer, node: Node, beat: _Beat, now: Moment) -> bool:
        age = now.mono - beat.status
        if beat.ready != peer.ready or beat.kubelet != self._local.kubelet or age >= HEARTBEAT_S:
            return True
        changed = beat.resources != _amounts(peer) or node.ready != peer.ready
        return changed and age >= CHANGE_S

    def _tend(self, name: str, peer: Peer, beat: _Beat, now: Moment) -> Procedure[str]:
        node = self._local.view.node(name)
        if taken := name_taken(node, peer.cluster):
            return taken
        if node is None:
            problem = yield from _create(name, peer, beat, now)
            if problem:
                return problem
        # Each write is tried whatever became of the one before: a node without heartbeat costs
        # pods, a label does not.
        problems = list[str]()
        if node is not None:
            problems += [
                (yield from _restore(peer, node)),
                (yield from _identify(peer, node, beat)),
            ]
        if node is None or self._status_due(peer, node, beat, now):
            problems.append(
                (yield from _write_status(name, peer, node, beat, now, self._local.kubelet))
            )
        if _lease_due(beat, now):
            problems.append((yield from _renew(name, node.uid if node else beat.uid, beat, now)))
        return next(filter(None, problems), "")


def _drifted(peer: Peer, node: Node) -> bool:
    return proxy_objects.drift_patch(peer, node) is not None or _lacks_taint(peer, node)


def _lacks_taint(peer: Peer, node: Node) -> bool:
    return proxy_objects.taint_of(peer) not in node.taints


def _lease_due(beat: _Beat, now: Moment) -> bool:
    return now.mono - beat.lease >= LEASE_S


def _amounts(peer: Peer) -> dict[str, Any]:
    return proxy_objects.resources_of(peer, None)


def _create(name: str, peer: Peer, beat: _Beat, now: Moment) -> Procedure[str]:
    if now.mono - beat.created < CHANGE_S:
        return ""  # made a moment ago: the view has not caught up
    response = yield Request("POST", _NODES, msgspec.json.encode(proxy_objects.node_object(peer)))
    if not response.ok and response.status != CONFLICT:
        return f'proxy node "{name}" cannot be created: {error_text(response)}'
    beat.created = now.mono
    if response.status == CONFLICT:
        return f'proxy node "{name}" exists and is not seen yet'
    beat.uid = msgspec.json.decode(response.body)["metadata"]["uid"]
    beat.identified = True
    beat.status = beat.lease = float("-inf")
    return ""


def _restore(peer: Peer, node: Node) -> Procedure[str]:
    path = f"{_NODES}/{quote(node.name, safe='')}"
    patch = proxy_objects.drift_patch(peer, node)
    if patch is not None:
        response = yield _patch(path, patch, STRATEGIC_PATCH)
        if not response.ok:
            return f'node "{node.name}" keeps wrong labels: {error_text(response)}'
    return (yield from _restore_taint(path, peer, node)) if _lacks_taint(peer, node) else ""


def _identify(peer: Peer, node: Node, beat: _Beat) -> Procedure[str]:
    """Once in the life of this agent: an older one has made the node without a providerID."""
    if beat.identified:
        return ""
    path = f"{_NODES}/{quote(node.name, safe='')}"
    response = yield _patch(path, proxy_objects.identity_patch(peer, node), MERGE_PATCH)
    taken = response.status == INVALID and b"providerID" in response.body  # it stays
    beat.identified = response.ok or taken
    return "" if beat.identified else f'node "{node.name}": {error_text(response)}'


def _restore_taint(path: str, peer: Peer, node: Node) -> Procedure[str]:
    response = yield Request("GET", path)
    if response.ok:
        live = msgspec.json.decode(response.body)
        response = yield _patch(path, proxy_objects.taints_patch(peer, live), STRATEGIC_PATCH)
    if response.ok or response.status == CONFLICT:
        return ""  # after a conflict it is looked at again
    return f'node "{node.name}" lacks our taint: {error_text(response)}'


def _write_status(
    name: str,
    peer: Peer,
    node: Node | None,
    beat: _Beat,
    now: Moment,
    kubelet: KubeletEndpoint | None,
) -> Procedure[str]:
    if node is None and beat.ready == peer.ready and now.mono - beat.status < CHANGE_S:
        return ""
    patch = proxy_objects.status_patch(peer, node, now.wall, kubelet)
    patch["metadata"]["uid"] = node.uid if node is not None else beat.uid
    response = yield _patch(f"{_NODES}/{quote(name, safe='')}/status", patch, STRATEGIC_PATCH)
    if not response.ok:
        return f'status of proxy node "{name}" cannot be written: {error_text(response)}'
    beat.status, beat.ready, beat.resources, beat.kubelet = (
        now.mono,
        peer.ready,
        _amounts(peer),
        kubelet,
    )
    return ""


def _renew(name: str, uid: str, beat: _Beat, now: Moment) -> Procedure[str]:
    response = yield _patch(
        f"{_LEASES}/{quote(name, safe='')}", proxy_objects.lease_patch(name, now.wall), MERGE_PATCH
    )
    if response.status == NOT_FOUND and uid:
        lease = proxy_objects.lease_object(name, uid, now.wall)
        response = yield Request("POST", _LEASES, msgspec.json.encode(lease))
    if not response.ok:
        return f'lease of proxy node "{name}" cannot be renewed: {error_text(response)}'
    beat.lease = now.mono
    return ""


def _remove(node: Node) -> Procedure[str]:
    response = yield delete_request(f"{_NODES}/{quote(node.name, safe='')}", node.uid)
    if response.ok or response.status == NOT_FOUND:
        yield Request("DELETE", f"{_LEASES}/{quote(node.name, safe='')}")
        return ""
    return f'proxy node "{node.name}" cannot be deleted: {error_text(response)}'


def _patch(path: str, body: dict[str, Any], content_type: str) -> Request:
    return Request("PATCH", path, msgspec.json.encode(body), content_type)
