"""metrics-server beside a control plane, with the rights of its own manifests: what kubectl top asks."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from localfleet.controlplane import binaries
from localfleet.controlplane.credentials import Authority
from localfleet.controlplane.plane import ControlPlane
from localfleet.controlplane.process import Component
from tests.system.ray_fleet import free_ports

Object = dict[str, Any]
NAME, NAMESPACE = "metrics-server", "kube-system"
READ = ["get", "list", "watch"]
RULES = [
    {"apiGroups": [""], "resources": ["nodes/metrics"], "verbs": ["get"]},
    {"apiGroups": [""], "resources": ["pods", "nodes"], "verbs": READ},
]
_START_S = 120.0


def front_proxy(folder: Path) -> tuple[str, ...]:
    """Flags with which an API server passes requests on to servers like this one."""
    authority = Authority(folder, "front-proxy")
    client = authority.client("front-proxy", "")
    return (
        f"--requestheader-client-ca-file={authority.certificate}",
        "--requestheader-allowed-names=front-proxy",
        "--requestheader-extra-headers-prefix=X-Remote-Extra-",
        "--requestheader-group-headers=X-Remote-Group",
        "--requestheader-username-headers=X-Remote-User",
        f"--proxy-client-cert-file={client.certificate}",
        f"--proxy-client-key-file={client.key}",
    )


@contextmanager
def metrics_server(plane: ControlPlane, folder: Path, resolution_s: int = 10) -> Iterator[Component]:
    """Its process, with the rights of its own manifests; it asks every 10 s, more often it does not."""
    folder.mkdir()
    (port,) = free_ports(1)
    plane.apply(*manifests(port))
    kubeconfig = plane.kubeconfig_for(NAME, NAMESPACE)
    program = binaries.ensure((NAME,), plane.spec.minor)[NAME]
    command = [
        str(program),
        *(f"--{what}kubeconfig={kubeconfig}" for what in ("", "authentication-", "authorization-")),
        "--bind-address=127.0.0.1",
        f"--secure-port={port}",
        f"--cert-dir={folder}",
        "--kubelet-preferred-address-types=InternalIP",
        "--kubelet-use-node-status-port",
        "--kubelet-insecure-tls",
        f"--metric-resolution={resolution_s}s",
        "--kubelet-request-timeout=9s",
    ]
    server = Component(NAME, command, folder / "log")
    server.start()
    try:
        api = "/apis/metrics.k8s.io/v1beta1"
        server.wait_until(lambda: plane.admin.answers(api), "served by the API server", _START_S)
        yield server
    finally:
        server.kill()


def manifests(port: int) -> list[Object]:
    """Account, rights, and the way of the API server to it: by a name, as no Endpoints may be of loopback."""
    group, metadata = "rbac.authorization.k8s.io", {"name": NAME}
    there = {"name": NAME, "namespace": NAMESPACE}
    subjects = [{"kind": "ServiceAccount", **there}]

    def binding(name: str, kind: str, role: str) -> Object:
        of = {"apiGroup": group, "kind": kind, "name": role}
        where = {"name": name, **({"namespace": NAMESPACE} if kind == "Role" else {})}
        made = "RoleBinding" if kind == "Role" else "ClusterRoleBinding"
        return {"apiVersion": f"{group}/v1", "kind": made, "metadata": where, "roleRef": of, "subjects": subjects}

    service = {"name": NAME, "namespace": NAMESPACE, "port": port}
    spec = {
        "group": "metrics.k8s.io",
        "version": "v1beta1",
        "service": service,
        "insecureSkipTLSVerify": True,
        "groupPriorityMinimum": 100,
        "versionPriority": 100,
    }
    by_name = {"type": "ExternalName", "externalName": "localhost"}
    return [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": there},
        {"apiVersion": f"{group}/v1", "kind": "ClusterRole", "metadata": metadata, "rules": RULES},
        binding(NAME, "ClusterRole", NAME),
        binding(f"{NAME}-reviews", "ClusterRole", "system:auth-delegator"),
        binding(f"{NAME}-reader", "Role", "extension-apiserver-authentication-reader"),
        {"apiVersion": "v1", "kind": "Service", "metadata": there, "spec": by_name},
        {
            "apiVersion": "apiregistration.k8s.io/v1",
            "kind": "APIService",
            "metadata": {"name": "v1beta1.metrics.k8s.io"},
            "spec": spec,
        },
    ]
