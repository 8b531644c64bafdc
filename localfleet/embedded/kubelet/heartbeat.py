"""How a kubelet says that it lives: a Lease each beat, and its node's status now and then."""

from localfleet.embedded.api import Api, ApiError
from localfleet.embedded.kubelet.shapes import registered_status
from localfleet.embedded.meta import Object, is_ready, micro_stamp

LEASES = "leases.coordination.k8s.io"
LEASE_NAMESPACE = "kube-node-lease"
_LEASE_SECONDS = 40
_STATUS_EVERY_S = 300.0


class Heartbeat:
    """Writes leases and node status for all kubelets of a cluster, whose endpoints share `port`."""

    def __init__(self, api: Api, port: int) -> None:
        self._api = api
        self._port = port
        self._reported: dict[str, float] = {}

    def register(self, node: Object, address: str, now: float) -> None:
        """Report address, kubelet port and healthy conditions, and take the lease."""
        self._report(node, address, now)
        self.beat(node["metadata"]["name"], now)

    def beat(self, name: str, now: float) -> None:
        """Renew the lease; write the status as well when it is not Ready or was not written for
        five minutes.
        """
        self._renew(name, now)
        node = self._api.get("nodes", name)
        if not is_ready(node) or now - self._reported.get(name, 0.0) >= _STATUS_EVERY_S:
            self._report(node, node["status"]["addresses"][0]["address"], now)

    def _report(self, node: Object, address: str, now: float) -> None:
        new = registered_status(node, address, self._port, now)
        self._api.update("nodes", {**node, "status": new}, subresource="status")
        self._reported[node["metadata"]["name"]] = now

    def _renew(self, name: str, now: float) -> None:
        change = {"spec": {"renewTime": micro_stamp(now)}}
        try:
            self._api.patch(LEASES, name, LEASE_NAMESPACE, change, kind="merge")
        except ApiError as error:
            if error.status.get("reason") != "NotFound":
                raise
            self._api.create(LEASES, self._lease(name, now), LEASE_NAMESPACE)

    def _lease(self, name: str, now: float) -> Object:
        node = self._api.get("nodes", name)["metadata"]
        owner = {"apiVersion": "v1", "kind": "Node", "name": name, "uid": node["uid"]}
        return {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": name, "namespace": LEASE_NAMESPACE, "ownerReferences": [owner]},
            "spec": {
                "holderIdentity": name,
                "leaseDurationSeconds": _LEASE_SECONDS,
                "renewTime": micro_stamp(now),
            },
        }
