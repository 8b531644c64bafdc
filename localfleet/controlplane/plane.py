"""A real control plane on loopback: etcd, kube-apiserver, kube-controller-manager, and on wish
kube-scheduler and kwok.

    with control_plane("east", nodes=100) as east:
        east.kubectl("get", "nodes")

TLS by an authority of its own, RBAC on, ServiceAccount tokens, audit log on. Its processes end with
this one.
"""

import json
import shutil
import signal
import ssl
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from localfleet.controlplane import binaries, ports
from localfleet.controlplane.api import Api
from localfleet.controlplane.audit import AuditLog
from localfleet.controlplane.components import ENVIRONMENTS, IDENTITIES, Layout, PlaneSpec
from localfleet.controlplane.credentials import Authority
from localfleet.controlplane.process import Component

Object = dict[str, Any]
# Limits, not measures: a busy machine needs many times what a quiet one does. A process that ends
# is told at once.
_READY_S = 240.0
_NODES_PER_SECOND = 10
_KUBECTL_S = 300.0


class KubectlError(RuntimeError):
    """kubectl ended with an error; carries its words."""


class ControlPlane:
    """A control plane's processes and the ways to it. `start` returns when it serves and its nodes
    are Ready.
    """

    def __init__(self, spec: PlaneSpec, directory: Path) -> None:
        self.spec = spec
        self.directory = directory
        directory.mkdir(parents=True, exist_ok=True)
        self.programs = binaries.ensure((*spec.components(), "kubectl"), spec.minor)
        self._ports = ports.reserve(len(Layout.PORTS))
        authority = Authority(directory / "pki", spec.name)
        self.authority = authority
        self.layout = Layout(
            spec=spec,
            directory=directory,
            programs=self.programs,
            ports={name: port.number for name, port in zip(Layout.PORTS, self._ports, strict=True)},
            authority=authority,
            serving=authority.server("serving"),
            kubelet_client=authority.client("kube-apiserver-kubelet-client", "system:masters"),
            signing_key=authority.signing_key(),
        )
        self.name = spec.name
        self.server = self.layout.server
        self.kubeconfig = self.layout.kubeconfig("admin")
        self.audit = AuditLog(self.layout.audit_log)
        self._issue_identities()
        self.admin = Api(self.server, authority.certificate, authority.client(*IDENTITIES["admin"]))
        self.components = {
            name: Component(
                name, self.layout.command(name), directory / f"{name}.log", ENVIRONMENTS.get(name)
            )
            for name in spec.components()
        }

    def start(self) -> None:
        """Start all components and wait for each; ComponentFailedError with the end of a log else."""
        for name in ("etcd", "kube-apiserver"):
            self.begin(name)
        rest = [name for name in self.components if name not in {"etcd", "kube-apiserver"}]
        for name in rest:
            self.components[name].start()
        nodes = self.spec.node_specs()
        self.admin.create_all(
            "/api/v1/nodes", [node.manifest(self.layout.ports["kwok"]) for node in nodes]
        )
        for name in rest:
            self._wait(name)
        self._wait_usable(len(nodes))

    def stop(self) -> None:
        """Kill all components, the last started first, and give their ports back."""
        for component in reversed(list(self.components.values())):
            component.kill()
        self.admin.close()
        for port in self._ports:
            port.release()

    def begin(self, component: str) -> None:
        """Start one component that does not run, and wait until it serves."""
        if component == "kube-apiserver":
            self.audit.end_torn_line()
        self.components[component].start()
        self._wait(component)

    def kill(self, component: str) -> None:
        """Kill -9 one component; back when it is gone."""
        self.components[component].kill()

    def restart(self, component: str) -> None:
        """Kill -9 one component if it runs, start it again on the same port and data, wait until it
        serves.
        """
        self.kill(component)
        self.begin(component)

    def kubectl(self, *arguments: str, stdin: str = "", kubeconfig: Path | None = None) -> str:
        """What real kubectl prints, as admin or by another kubeconfig; KubectlError with its words
        when it fails.
        """
        command = [
            str(self.programs["kubectl"]),
            f"--kubeconfig={kubeconfig or self.kubeconfig}",
            *arguments,
        ]
        environment = {"HOME": str(self.directory), "PATH": "/usr/bin:/bin"}
        done = subprocess.run(  # noqa: S603 - our own kubectl
            command,
            input=stdin,
            env=environment,
            capture_output=True,
            text=True,
            timeout=_KUBECTL_S,
            check=False,
        )
        if done.returncode != 0:
            raise KubectlError(
                f"kubectl {' '.join(arguments)}: code {done.returncode}\n{done.stderr}{done.stdout}"
            )
        return done.stdout

    def apply(self, *manifests: Object) -> str:
        """kubectl apply of these objects."""
        items = {"apiVersion": "v1", "kind": "List", "items": list(manifests)}
        return self.kubectl("apply", "-f", "-", stdin=json.dumps(items))

    def token_for(
        self, service_account: str, namespace: str = "default", seconds: int = 3600
    ) -> str:
        """A bound token of a ServiceAccount, by the TokenRequest API. Lasts `seconds`, at least
        600.
        """
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{service_account}/token"
        request = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"expirationSeconds": seconds},
        }
        return str(self.admin.create(path, request)["status"]["token"])

    def kubeconfig_for(
        self, service_account: str, namespace: str = "default", seconds: int = 3600
    ) -> Path:
        """A kubeconfig file (context = the plane's name) with a bound token of a ServiceAccount."""
        path = self.directory / f"{namespace}-{service_account}.kubeconfig"
        return self.authority.token_kubeconfig(
            path, self.server, self.token_for(service_account, namespace, seconds)
        )

    def api_for(self, service_account: str, namespace: str = "default") -> Api:
        """A client as a ServiceAccount."""
        return Api(
            self.server,
            self.authority.certificate,
            token=self.token_for(service_account, namespace),
        )

    def kubeconfig_as(self, user: str, group: str = "") -> Path:
        """A kubeconfig file with a client certificate for any user: a kubelet is system:node:NAME
        of system:nodes.
        """
        path = self.directory / f"user-{user.replace(':', '-')}.kubeconfig"
        return self.authority.kubeconfig(path, self.server, self.authority.client(user, group))

    def backup(self, folder: Path) -> None:
        """Copy etcd's data as it is at this moment; etcd stands still meanwhile. `folder` must not
        be there yet.
        """
        etcd = self.components["etcd"]
        etcd.signal(signal.SIGSTOP)
        try:
            # Of a process that stands still the page cache has all it wrote: what is copied, a kill
            # -9 would leave.
            shutil.copytree(self._etcd_data, folder)
        finally:
            etcd.signal(signal.SIGCONT)

    def restore(self, folder: Path) -> None:
        """Put etcd's data back as in a backup, and wait until all serve. Whoever watches from
        outside is told nothing.

        All components are started anew, as etcd's documentation wants it of all that hold a cache
        of the API.
        """
        for component in reversed(self.spec.components()):
            self.kill(component)
        shutil.rmtree(self._etcd_data)
        shutil.copytree(folder, self._etcd_data)
        self.begin("etcd")
        self.begin("kube-apiserver")
        if "kwok" in self.components:
            # Those of the kwok that is gone; a new one would wait until they lapse.
            leases = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
            for node in self.spec.node_specs():
                self.admin.http.delete(f"{leases}/{node.name}")
        for component in self.spec.components()[2:]:
            self.begin(component)

    @property
    def _etcd_data(self) -> Path:
        return self.directory / "etcd"

    def forget_history(self) -> None:
        """Make every older resourceVersion and `continue` answer 410 Gone: etcd compacted, the API
        server restarted.

        The restart is needed: the API server keeps snapshots of its own and drops them only seconds
        after a compaction.
        """
        with httpx.Client(base_url=self.layout.etcd, trust_env=False) as etcd:
            answer = etcd.post("/v3/kv/range", json={"key": "AA=="}).raise_for_status().json()
            compaction = {"revision": answer["header"]["revision"], "physical": True}
            etcd.post("/v3/kv/compaction", json=compaction).raise_for_status()
        self.restart("kube-apiserver")

    def cpu_seconds(self, component: str) -> float:
        """User and system CPU time of a running component so far."""
        return self.components[component].cpu_seconds()

    def ended(self) -> str:
        """The ends of the logs of components that were started and ended by themselves; "" if none
        did.
        """
        return "\n".join(
            found for component in self.components.values() if (found := component.ended())
        )

    def tails(self, lines: int = 15) -> str:
        """The ends of all logs."""
        return "\n".join(component.tail(lines) for component in self.components.values())

    def _issue_identities(self) -> None:
        for name, (user, group) in IDENTITIES.items():
            self.authority.kubeconfig(
                self.layout.kubeconfig(name), self.server, self.authority.client(user, group)
            )

    def _wait(self, component: str) -> None:
        probes = {
            "etcd": lambda: _healthy(f"{self.layout.etcd}/health", None),
            "kube-apiserver": lambda: self.admin.answers("/readyz"),
            "kube-controller-manager": lambda: self._component_healthy(component),
            "kube-scheduler": lambda: self._component_healthy(component),
            "kwok": lambda: _healthy(f"http://127.0.0.1:{self.layout.ports['kwok']}/healthz", None),
        }
        self.components[component].wait_until(probes[component], "ready", _READY_S)

    def _component_healthy(self, component: str) -> bool:
        # These two make a serving certificate of their own at their start.
        context = ssl._create_unverified_context()  # noqa: S323
        return _healthy(f"https://127.0.0.1:{self.layout.ports[component]}/healthz", context)

    def _wait_usable(self, nodes: int) -> None:
        """Until pods can be made (their default ServiceAccount is there) and all nodes take them."""
        controllers = self.components["kube-controller-manager"]
        account = "/api/v1/namespaces/default/serviceaccounts/default"
        controllers.wait_until(
            lambda: self.admin.answers(account), "the default ServiceAccount is there", _READY_S
        )
        if nodes:
            limit = _READY_S + nodes / _NODES_PER_SECOND
            self.components["kwok"].wait_until(
                lambda: self.ready_nodes() >= nodes, "all nodes are Ready", limit
            )

    def ready_nodes(self) -> int:
        """Nodes that are Ready and without the taints of a node that is not."""
        # From the watch cache: cheap at any size.
        listed = self.admin.get("/api/v1/nodes", resourceVersion="0")["items"]
        return sum(takes_pods(node) for node in listed)


def takes_pods(node: Object) -> bool:
    """Whether a Node is Ready and without the taints of one that is not."""
    taints = {taint["key"] for taint in node["spec"].get("taints", ())}
    conditions = {one["type"]: one["status"] for one in node["status"].get("conditions", ())}
    lost = {"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"}
    return conditions.get("Ready") == "True" and not taints & lost


def _healthy(url: str, context: ssl.SSLContext | None) -> bool:
    try:
        return httpx.get(url, verify=context or True, timeout=2.0, trust_env=False).is_success
    except httpx.TransportError:
        return False


@contextmanager
def control_planes(
    specs: Sequence[PlaneSpec], directory: Path | None = None
) -> Iterator[list[ControlPlane]]:
    """Several planes, started at once; each in a folder of `directory`, or of a temporary one.

    A temporary one is removed at the end, unless an error leaves the block: then it stays, and the
    error names it.
    """
    root = directory or Path(tempfile.mkdtemp(prefix="control-planes-"))
    planes: list[ControlPlane] = []
    try:
        planes += [ControlPlane(spec, root / spec.name) for spec in specs]
        with ThreadPoolExecutor(max(1, len(planes))) as pool:
            list(pool.map(ControlPlane.start, planes))
        yield planes
    except BaseException as error:
        error.add_note(
            "\n".join(
                [f"logs of the control planes: {root}", *(plane.ended() for plane in planes)]
            ).strip()
        )
        raise
    finally:
        for plane in planes:
            plane.stop()
    if directory is None:
        shutil.rmtree(root, ignore_errors=True)


@contextmanager
def control_plane(
    name: str,
    nodes: Any = 0,
    scheduler: bool = False,
    minor: str = binaries.DEFAULT_MINOR,
    **more: Any,
) -> Iterator[ControlPlane]:
    """One plane in a temporary directory; `more` are further fields of PlaneSpec."""
    with control_planes(
        [PlaneSpec(name, nodes=nodes, scheduler=scheduler, minor=minor, **more)]
    ) as planes:
        yield planes[0]
