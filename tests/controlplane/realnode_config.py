"""What a real node's containerd, CNI and kubelet are told, as tables."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from localfleet.controlplane.credentials import Pair
from localfleet.controlplane.plane import ControlPlane
from tests.controlplane.realnode_host import Cable, cni_folder

Object = dict[str, Any]

# Known to no registry: pods that run it say imagePullPolicy Never.
IMAGE = "localhost/busybox:1"
PAUSE_IMAGE = "localhost/pause:1"
KUBELET_PORT = 10250
HEALTH_PORT = 10248
# In the node's mount namespace, whose /run is the node's own.
CONTAINERD = "/run/containerd/containerd.sock"


@dataclass(frozen=True, slots=True)
class NodeLayout:
    """Where a node's parts are. `folder` is its own; `labels` are those it registers with; `dns`: whether the machine's
    end of its cable answers its pods' questions for names.
    """

    name: str
    folder: Path
    cable: Cable
    labels: Mapping[str, str]
    dns: bool = False

    @property
    def kubeconfig(self) -> Path:
        """The kubelet's way to the API server."""
        return self.folder / "kubelet.kubeconfig"


def containerd_config(at: NodeLayout) -> Path:
    """containerd's config.toml (version 2: 1.6 and later read it)."""
    networks = at.folder / "cni"
    networks.mkdir()
    (networks / "10-bridge.conflist").write_text(json.dumps(_network(at.cable)))
    return _written(
        at.folder / "containerd.toml",
        f"""
version = 2
root = "{at.folder / "containerd"}"
state = "/run/containerd"
[grpc]
  address = "{CONTAINERD}"
[plugins."io.containerd.internal.v1.opt"]
  path = "{at.folder / "opt"}"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{PAUSE_IMAGE}"
  disable_apparmor = true
  # Without CAP_SYS_RESOURCE runc cannot lower a score and dies with "can't get final child's PID from pipe: EOF".
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{cni_folder()}"
    conf_dir = "{networks}"
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
      SystemdCgroup = false
""",
    )


def _network(cable: Cable) -> Object:
    """Pods on a bridge in the node, which routes; no address translation, since the machine knows the way back."""
    addresses = {
        "type": "host-local",
        "dataDir": "/run/cni-addresses",
        "ranges": [[{"subnet": cable.pods}]],
        "routes": [{"dst": "0.0.0.0/0"}],
    }
    bridge = {"type": "bridge", "bridge": "cni0", "isGateway": True, "ipMasq": False, "ipam": addresses}
    return {"cniVersion": "0.4.0", "name": "pods", "plugins": [bridge]}


def kubelet_command(at: NodeLayout, plane: ControlPlane, program: Path, serving: Pair) -> Sequence[str]:
    """The kubelet's command line; writes its configuration and its kubeconfig."""
    _write_kubeconfig(at, plane)
    config = _written(at.folder / "kubelet.yaml", json.dumps(_kubelet_configuration(at, plane, serving), indent=2))
    return [
        str(program),
        f"--config={config}",
        f"--kubeconfig={at.kubeconfig}",
        f"--root-dir={at.folder / 'kubelet'}",
        f"--cert-dir={at.folder / 'kubelet-pki'}",
        # Readings are that old at most; 10 s else.
        "--housekeeping-interval=2s",
        f"--hostname-override={at.name}",
        f"--node-ip={at.cable.node}",
        f"--node-labels={','.join(f'{key}={value}' for key, value in at.labels.items())}",
    ]


def _write_kubeconfig(at: NodeLayout, plane: ControlPlane) -> None:
    port = plane.server.rsplit(":", 1)[1]
    pair = plane.authority.client(f"system:node:{at.name}", "system:nodes")
    plane.authority.kubeconfig(at.kubeconfig, f"https://{at.cable.machine}:{port}", pair)
    config = yaml.safe_load(at.kubeconfig.read_text())
    # The relay's address is in no certificate.
    config["clusters"][0]["cluster"]["tls-server-name"] = "kubernetes"
    at.kubeconfig.write_text(yaml.safe_dump(config))


def _kubelet_configuration(at: NodeLayout, plane: ControlPlane, serving: Pair) -> Object:
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": at.cable.node,
        "port": KUBELET_PORT,
        "healthzBindAddress": at.cable.node,
        "healthzPort": HEALTH_PORT,
        "tlsCertFile": str(serving.certificate),
        "tlsPrivateKeyFile": str(serving.key),
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": str(plane.authority.certificate)},
        },
        "authorization": {"mode": "Webhook"},
        "containerRuntimeEndpoint": f"unix://{CONTAINERD}",
        "cgroupDriver": "cgroupfs",
        "failCgroupV1": False,
        "failSwapOn": False,
        "enforceNodeAllocatable": [],
        "makeIPTablesUtilChains": False,
        "resolvConf": "",
        "clusterDNS": [at.cable.machine] if at.dns else [],
        "clusterDomain": "cluster.local",
        # The machine's disk is not this node's: nothing is evicted or collected for its sake.
        "evictionHard": dict.fromkeys(("memory.available", "nodefs.available", "imagefs.available"), "0%"),
        "imageGCHighThresholdPercent": 100,
        "nodeStatusUpdateFrequency": "5s",
        "syncFrequency": "5s",  # of mounted ConfigMaps, a minute by default
        "shutdownGracePeriod": "0s",
        "registerWithTaints": [],
    }


def _written(path: Path, text: str) -> Path:
    path.write_text(text)
    return path
