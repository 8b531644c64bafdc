"""Where a request about a pod goes: which of its containers is meant, and where the kubelet of its
node answers.

As kube-apiserver finds it: validateContainer and streamLocation of
pkg/registry/core/pod/strategy.go.
"""

from typing import NamedTuple

from localfleet.embedded.api import Api
from localfleet.embedded.apiserver.status import Object, bad_request, not_found, unexplained

_KUBELET_PORT = 10250  # of nodes whose status has none


class Kubelet(NamedTuple):
    """Where a node's kubelet answers."""

    address: str
    port: int

    @property
    def authority(self) -> str:
        """HOST:PORT, as URLs have it."""
        host = f"[{self.address}]" if ":" in self.address else self.address
        return f"{host}:{self.port}"


def container_of(pod: Object, asked: str) -> str:
    """The container that is meant; ApiError 400 when that is unclear, or when there is none of this
    name.
    """
    spec = pod["spec"]
    name = pod["metadata"]["name"]
    own = [container["name"] for container in spec.get("containers") or ()]
    kinds = ("initContainers", "containers", "ephemeralContainers")
    every = [container["name"] for kind in kinds for container in spec.get(kind) or ()]
    if asked and asked not in every:
        raise bad_request(f"container {asked} is not valid for pod {name}")
    if not asked and len(own) > 1:
        choices = f"choose one of: [{' '.join(every)}]"
        raise bad_request(f"a container name must be specified for pod {name}, {choices}")
    return str(asked or own[0])


def node_of(pod: Object, api: Api) -> Object:
    """The node that a pod is bound to; ApiError 400 without one, 404 if it is gone (the real server
    says `pods`).
    """
    node = pod["spec"].get("nodeName")
    if not node:
        raise bad_request(f"pod {pod['metadata']['name']} does not have a host assigned")
    found = api.find("nodes", node)
    if found is None:
        raise not_found("pods", node)
    return found


def kubelet_of(node: Object) -> Kubelet:
    """Its InternalIP and port by the node's status; ApiError 500 if it has no such address."""
    status = node.get("status") or {}
    known = status.get("addresses") or ()
    address = next((one["address"] for one in known if one.get("type") == "InternalIP"), "")
    if not address:
        told = " ".join(f"{{{one.get('type', '')} {one.get('address', '')}}}" for one in known)
        raise unexplained(f"no preferred addresses found; known addresses: [{told}]")
    port = ((status.get("daemonEndpoints") or {}).get("kubeletEndpoint") or {}).get("Port")
    return Kubelet(address, port or _KUBELET_PORT)
