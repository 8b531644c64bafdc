"""What each component of a control plane is started with: command lines and configuration files, as
tables.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from localfleet.controlplane import audit
from localfleet.controlplane.binaries import DEFAULT_MINOR
from localfleet.controlplane.credentials import Authority, Pair
from localfleet.controlplane.nodes import MANAGED, NodeSpec, equal_nodes, stages

Object = dict[str, Any]
_RATE = 5000
# kwok's CEL library writes one map from several goroutines without a lock, and Go ends a process in
# which two meet.
ENVIRONMENTS = {"kwok": {"GOMAXPROCS": "1"}}
# A kubelet's. Not longer for a longer grace: a kwok that is started again waits until its
# forerunner's leases lapse.
_LEASE_S = 40
# kwok's own is 4 of each: no more than 4 a second where an answer takes a second, and leases come
# late.
_KWOK_AT_ONCE = {
    "nodeLeaseParallelism": 16,
    "podPlayStageParallelism": 16,
    "nodePlayStageParallelism": 4,
}
_KWOK_OPTIONS = {
    "apiVersion": "config.kwok.x-k8s.io/v1alpha1",
    "kind": "KwokConfiguration",
    # Where there are options at all, those that are left out are 0, not kwok's defaults.
    "options": {
        **_KWOK_AT_ONCE,
        "podsOnNodeSyncParallelism": 1,
        "enablePodsOnNodeSyncListPager": True,
        "enableDebuggingHandlers": True,
    },
}

# User and group of each component's client certificate, as RBAC's built-in roles know them.
IDENTITIES = {
    "admin": ("admin", "system:masters"),
    "kube-controller-manager": ("system:kube-controller-manager", ""),
    "kube-scheduler": ("system:kube-scheduler", ""),
    "kwok": ("kwok", "system:masters"),
}
# MutatingAdmissionPolicy is v1beta1 and off here, v1 and on from 1.36.
_MINOR_FLAGS = dict.fromkeys(
    ("1.34", "1.35"),
    (
        "--feature-gates=MutatingAdmissionPolicy=true",
        "--runtime-config=admissionregistration.k8s.io/v1beta1=true",
    ),
)


@dataclass(frozen=True, slots=True)
class PlaneSpec:
    """One control plane. `nodes`: a count of equal KWOK nodes, or each node's shape. `minor`: of
    Kubernetes.

    `node_grace_s`: how long a node may be silent before it is Unknown. kube-controller-manager's
    own default is 50; a machine that is busy with other work starves KWOK for longer, and its nodes
    are not lost by that. `toleration_s`: how long pods stay on a node that is lost (Kubernetes'
    default: 300). `scheduler_config` is laid over kube-scheduler's configuration,
    `scheduler_verbosity` its log level (10 for scores). `api_flags` are further flags of
    kube-apiserver, `scheduler_flags` of kube-scheduler, `controller_flags` of
    kube-controller-manager. `verify_kubelets`: the API server believes no kubelet whose certificate
    the plane's authority has not signed.
    """

    name: str
    nodes: int | Sequence[NodeSpec] = 0
    scheduler: bool = False
    minor: str = DEFAULT_MINOR
    node_grace_s: float = 300
    toleration_s: int = 300
    scheduler_config: Mapping[str, Any] = field(default_factory=dict)
    scheduler_verbosity: int = 2
    api_flags: Sequence[str] = ()
    scheduler_flags: Sequence[str] = ()
    controller_flags: Sequence[str] = ()
    verify_kubelets: bool = False

    def node_specs(self) -> list[NodeSpec]:
        """The nodes one by one."""
        return (
            equal_nodes(self.name, self.nodes) if isinstance(self.nodes, int) else list(self.nodes)
        )

    def components(self) -> tuple[str, ...]:
        """In the order of their start."""
        optional = (("kube-scheduler",) if self.scheduler else ()) + (
            ("kwok",) if self.nodes else ()
        )
        return ("etcd", "kube-apiserver", "kube-controller-manager", *optional)


@dataclass(frozen=True, slots=True)
class Layout:
    """Where a plane's parts are: its directory, programs, ports by name, certificates and keys."""

    spec: PlaneSpec
    directory: Path
    programs: Mapping[str, Path]
    ports: Mapping[str, int]
    authority: Authority
    serving: Pair
    kubelet_client: Pair
    signing_key: Path

    PORTS = (
        "etcd",
        "etcd-peer",
        "kube-apiserver",
        "kube-controller-manager",
        "kube-scheduler",
        "kwok",
    )

    @property
    def server(self) -> str:
        """The API server's URL."""
        return f"https://127.0.0.1:{self.ports['kube-apiserver']}"

    @property
    def etcd(self) -> str:
        """The URL of etcd for clients; plain HTTP on loopback."""
        return f"http://127.0.0.1:{self.ports['etcd']}"

    @property
    def audit_log(self) -> Path:
        """Where the API server writes its audit events."""
        return self.directory / "audit.log"

    def kubeconfig(self, user: str) -> Path:
        """The kubeconfig file of one of IDENTITIES."""
        return self.directory / f"{user}.kubeconfig"

    def command(self, component: str) -> list[str]:
        """The whole command line; writes the component's configuration file if it has one."""
        return [str(self.programs[component]), *_COMMANDS[component](self)]


def _etcd(at: Layout) -> list[str]:
    peer = f"http://127.0.0.1:{at.ports['etcd-peer']}"
    return [
        f"--name={at.spec.name}",
        f"--data-dir={at.directory / 'etcd'}",
        f"--listen-client-urls={at.etcd}",
        f"--advertise-client-urls={at.etcd}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster={at.spec.name}={peer}",
        "--unsafe-no-fsync",
        f"--quota-backend-bytes={8 * 2**30}",
        "--logger=zap",
        "--log-level=warn",
    ]


def _kube_apiserver(at: Layout) -> list[str]:
    policy = _written(at.directory / "audit-policy.yaml", audit.POLICY)
    return [
        f"--etcd-servers={at.etcd}",
        "--bind-address=127.0.0.1",
        "--advertise-address=127.0.0.1",
        f"--secure-port={at.ports['kube-apiserver']}",
        f"--tls-cert-file={at.serving.certificate}",
        f"--tls-private-key-file={at.serving.key}",
        f"--client-ca-file={at.authority.certificate}",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={at.signing_key}",
        f"--service-account-signing-key-file={at.signing_key}",
        "--authorization-mode=Node,RBAC",
        "--enable-admission-plugins=NodeRestriction",
        "--allow-privileged=true",
        "--service-cluster-ip-range=10.96.0.0/16",
        "--endpoint-reconciler-type=none",
        "--kubelet-preferred-address-types=InternalIP",
        f"--kubelet-client-certificate={at.kubelet_client.certificate}",
        f"--kubelet-client-key={at.kubelet_client.key}",
        f"--default-not-ready-toleration-seconds={at.spec.toleration_s}",
        f"--default-unreachable-toleration-seconds={at.spec.toleration_s}",
        f"--audit-policy-file={policy}",
        f"--audit-log-path={at.audit_log}",
        "--audit-log-maxsize=100000",  # megabytes: never rotated
        *(
            [f"--kubelet-certificate-authority={at.authority.certificate}"]
            if at.spec.verify_kubelets
            else ()
        ),
        *_MINOR_FLAGS.get(at.spec.minor, ()),
        *at.spec.api_flags,
    ]


def _kube_controller_manager(at: Layout) -> list[str]:
    kubeconfig = at.kubeconfig("kube-controller-manager")
    return [
        f"--kubeconfig={kubeconfig}",
        f"--authentication-kubeconfig={kubeconfig}",
        f"--authorization-kubeconfig={kubeconfig}",
        "--bind-address=127.0.0.1",
        f"--secure-port={at.ports['kube-controller-manager']}",
        f"--cert-dir={at.directory / 'kube-controller-manager'}",
        "--leader-elect=false",
        "--use-service-account-credentials=true",
        f"--service-account-private-key-file={at.signing_key}",
        f"--root-ca-file={at.authority.certificate}",
        f"--cluster-signing-cert-file={at.authority.certificate}",
        f"--cluster-signing-key-file={at.authority.key}",
        f"--node-monitor-grace-period={at.spec.node_grace_s}s",
        f"--node-monitor-period={min(5.0, at.spec.node_grace_s / 4)}s",
        f"--kube-api-qps={_RATE}",
        f"--kube-api-burst={_RATE}",
        *at.spec.controller_flags,
    ]


def _kube_scheduler(at: Layout) -> list[str]:
    kubeconfig = at.kubeconfig("kube-scheduler")
    config = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {"kubeconfig": str(kubeconfig), "qps": _RATE, "burst": _RATE},
        "leaderElection": {"leaderElect": False},
        **at.spec.scheduler_config,
    }
    return [
        f"--config={_written(at.directory / 'kube-scheduler.yaml', config)}",
        f"--authentication-kubeconfig={kubeconfig}",
        f"--authorization-kubeconfig={kubeconfig}",
        "--bind-address=127.0.0.1",
        f"--secure-port={at.ports['kube-scheduler']}",
        f"--cert-dir={at.directory / 'kube-scheduler'}",
        f"--v={at.spec.scheduler_verbosity}",
        *at.spec.scheduler_flags,
    ]


def _kwok(at: Layout) -> list[str]:
    # A lease is renewed each quarter of its duration: often enough for a short grace.
    lease_s = max(1, min(_LEASE_S, int(at.spec.node_grace_s * 0.8)))
    path = at.directory / "kwok.yaml"
    documents = (_KWOK_OPTIONS, *stages())
    path.write_text(
        "---\n".join(yaml.safe_dump(document, sort_keys=False) for document in documents)
    )
    return [
        f"--kubeconfig={at.kubeconfig('kwok')}",
        f"--config={path}",
        f"--manage-nodes-with-annotation-selector={MANAGED}=fake",
        f"--node-lease-duration-seconds={lease_s}",
        "--cidr=10.128.0.0/10",
        "--node-ip=127.0.0.1",
        f"--node-port={at.ports['kwok']}",
        f"--server-address=127.0.0.1:{at.ports['kwok']}",
        f"--tls-cert-file={at.serving.certificate}",
        f"--tls-private-key-file={at.serving.key}",
        "--v=WARN",
    ]


_COMMANDS = {
    "etcd": _etcd,
    "kube-apiserver": _kube_apiserver,
    "kube-controller-manager": _kube_controller_manager,
    "kube-scheduler": _kube_scheduler,
    "kwok": _kwok,
}


def _written(path: Path, config: Mapping[str, Any]) -> Path:
    path.write_text(json.dumps(config, indent=2))
    return path
