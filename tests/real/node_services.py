"""By what pods of a real node find Services: kube-proxy, CoreDNS, and a line to another node's pods.

    join(node, other)
    with services(node, programs), services(other, programs): ...

CoreDNS is at the machine's end of the node's cable, kube-proxy in the node's namespaces.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import yaml

from localfleet.controlplane.process import Component
from tests.controlplane.realnode import RealNode
from tests.controlplane.realnode_host import run

PROGRAMS = ("kube-proxy", "coredns")
_HEALTH = "127.0.0.1:10256"
_START_S = 60.0
# Both ends of a line between two nodes, in the namespaces of these alone.
_LINE = "line"
_ENDS = ("10.215.0.1", "10.215.0.2")


@contextmanager
def services(node: RealNode, programs: Mapping[str, Path]) -> Iterator[None]:
    """kube-proxy and CoreDNS of a started node with `names`."""
    proxy = node.inside(str(programs["kube-proxy"]), f"--config={_proxy(node)}")
    names = [str(programs["coredns"]), "-conf", str(_corefile(node))]
    components = [Component(f"kube-proxy {node.name}", proxy, node.folder / "kube-proxy.log")]
    components.append(Component(f"CoreDNS {node.name}", names, node.folder / "coredns.log"))
    try:
        for component in components:
            component.start()
        asked = node.inside("busybox", "wget", "-qO-", f"http://{_HEALTH}/healthz")
        components[0].wait_until(lambda: _answers(asked), "serving", _START_S)
        question = ["busybox", "nslookup", "kubernetes.default.svc.cluster.local", node.cable.machine]
        components[1].wait_until(lambda: _answers(question), "serving", _START_S)
        yield
    finally:
        for component in components:
            component.kill()


def join(one: RealNode, other: RealNode) -> None:
    """Lay a line between two nodes by which their pods reach each other; it goes with either."""
    near, far = _ENDS
    peer = ["peer", "name", _LINE, "netns", other.network]
    run("ip", "link", "add", _LINE, "netns", one.network, "type", "veth", *peer)
    _connect(one, near, other, far)
    _connect(other, far, one, near)


def _connect(node: RealNode, end: str, other: RealNode, far: str) -> None:
    inside = ["nsenter", f"--net={node.network}", "ip"]
    run(*inside, "address", "add", f"{end}/30", "dev", _LINE)
    run(*inside, "link", "set", _LINE, "up")
    for reached in (other.cable.pods, f"{other.cable.node}/32"):
        run(*inside, "route", "add", reached, "via", far)


def _corefile(node: RealNode) -> Path:
    path = node.folder / "Corefile"
    kubeconfig = f"kubeconfig {node.plane.kubeconfig} {node.plane.name}"
    path.write_text(
        f".:53 {{\n bind {node.cable.machine}\n errors\n kubernetes cluster.local {{\n {kubeconfig}\n ttl 0\n }}\n}}\n"
    )
    return path


def _proxy(node: RealNode) -> Path:
    """kube-proxy's configuration; it asks the API server through the relay at the node's cable, as the kubelet does."""
    kubeconfig = yaml.safe_load(node.plane.kubeconfig.read_text())
    server = kubeconfig["clusters"][0]["cluster"]
    server["server"] = f"https://{node.cable.machine}:{node.plane.server.rpartition(':')[2]}"
    server["tls-server-name"] = "kubernetes"
    given = node.folder / "kube-proxy.kubeconfig"
    given.write_text(yaml.safe_dump(kubeconfig))
    path = node.folder / "kube-proxy.yaml"
    path.write_text(
        json.dumps(
            {
                "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
                "kind": "KubeProxyConfiguration",
                "clientConnection": {"kubeconfig": str(given)},
                "mode": "nftables",
                "hostnameOverride": node.name,
                # A pod that calls itself through a Service, and one of its bridge, get answers by the same way.
                "nftables": {"masqueradeAll": True, "minSyncPeriod": "100ms"},
                "healthzBindAddress": _HEALTH,
                "metricsBindAddress": "127.0.0.1:10249",
                # The kernel's tables are left as they are.
                "conntrack": {"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"},
            }
        )
    )
    return path


def _answers(question: list[str]) -> bool:
    try:
        return bool(run(*question))
    except RuntimeError:
        return False
