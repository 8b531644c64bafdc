"""Three real control planes as one fleet. Agents get in by their own service account, with the chart's rights alone."""

import signal
from collections.abc import Callable, Collection, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from localfleet.controlplane import opt_in
from localfleet.controlplane.binaries import selected_minor
from localfleet.controlplane.components import PlaneSpec
from localfleet.controlplane.plane import ControlPlane
from localfleet.embedded import kubeconfig
from tests.charts.rendering import KUBELET_ACCOUNT, NAMESPACE, Helm, Object, of_kind
from tests.controlplane.fixtures import ControlPlanes
from tests.real.partition import Way
from tests.system.cluster_api import eventually
from tests.system.harness import HOME

CLUSTERS = (HOME, "north", "west")
NODES = 100
ACCOUNT = f"system:serviceaccount:{NAMESPACE}:agent"
SCHEDULER = "global-dispatcher"
# What the chart installs beside the Deployment: the agent itself runs here as an actor of the dispatcher's Ray.
_RIGHTS = ("ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding")
_POLICIES = ("MutatingAdmissionPolicy", "ValidatingAdmissionPolicy")
# KWOK's kubelets tell no load, so they are seldom asked for it: placement goes by requests.
_AGENT = {"kubelet": {"interval_s": 60, "timeout_s": 1, "account": KUBELET_ACCOUNT}}
Action = tuple[str, str, str]
# Kubernetes lets everybody ask what he may (ClusterRole system:basic-user).
OF_EVERYBODY: set[Action] = {("create", "authorization.k8s.io", "selfsubjectaccessreviews")}
_TOKEN_S = 12 * 3600  # longer than any run


class RealFleet:
    """Planes that somebody else starts and stops; keeps to tests.system.harness.Fleet.

    `evicting`: those whose policy lets pods of other schedulers be evicted.
    """

    def __init__(
        self, planes: Mapping[str, ControlPlane], directory: Path, evicting: Collection[str] = CLUSTERS
    ) -> None:
        self.planes, self._evicting = dict(planes), evicting
        self.ways: dict[str, Way] = {}
        self.kubeconfig = directory / "admin.kubeconfig"
        self.allowed: set[Action] = set()
        admins = [kubeconfig.read(plane.kubeconfig) for plane in self.planes.values()]
        kubeconfig.write(self.kubeconfig, kubeconfig.merged(admins))

    @property
    def contexts(self) -> list[str]:
        """The planes' names."""
        return list(self.planes)

    @property
    def home(self) -> ControlPlane:
        """The plane in which most tests submit."""
        return self.planes[HOME]

    def server(self, name: str) -> str:
        """The URL of a plane's API server."""
        return self.planes[name].server

    def members(self) -> list[dict[str, Any]]:
        """Each agent by a bound token of its service account, from a TokenRequest."""

        def kubeconfig_of(name: str) -> Path:
            direct = self.planes[name].kubeconfig_for("agent", NAMESPACE, _TOKEN_S)
            return self.ways[name].kubeconfig(direct) if name in self.ways else direct

        return [
            {
                "name": name,
                "context": name,
                "kubeconfig": str(kubeconfig_of(name)),
                "agent": {**_AGENT, "executor": {"evict_foreign": name in self._evicting}},
            }
            for name in self.planes
        ]

    def election(self) -> dict[str, Any]:
        """The Lease is of the dispatcher's own account, as in its chart: the agents' may not touch it."""
        patient = {"lease_s": 30, "renew_deadline_s": 25}  # planes and their nodes leave little of two cores
        return {"kubeconfig": str(self.planes[HOME].kubeconfig), **patient}

    def kill(self, name: str) -> None:
        """Kill -9 a plane's API server."""
        self.planes[name].kill("kube-apiserver")

    def restart(self, name: str) -> None:
        """Start it again."""
        self.planes[name].restart("kube-apiserver")

    def pause(self, name: str) -> None:
        """The API server hangs."""
        self.planes[name].components["kube-apiserver"].signal(signal.SIGSTOP)

    def resume(self, name: str) -> None:
        """It goes on."""
        self.planes[name].components["kube-apiserver"].signal(signal.SIGCONT)

    def lay_ways(self, folder: Path) -> None:
        """Agents that start from now on reach their API servers by ways that can be cut."""
        for name, plane in self.planes.items():
            self.ways[name] = Way(plane, folder / name)

    def stop(self) -> None:
        """Planes end with the fixture that started them."""

    def close_ways(self) -> None:
        """End what `lay_ways` began."""
        for way in self.ways.values():
            way.close()

    # --- rights ------------------------------------------------------------------------------------------------------

    def grant(self, helm: Helm) -> None:
        """On every plane: the service account, its roles and the admission policies, as the agent's chart has them."""
        for name, plane in self.planes.items():
            config = {"executor": {"evict_foreign": name in self._evicting}}
            objects = helm.template("agent", {"cluster": name, "config": config})
            kinds = (*_RIGHTS, *(f"{kind}{part}" for kind in _POLICIES for part in ("", "Binding")))
            plane.admin.create("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
            plane.apply(*(one for one in objects if one["kind"] in kinds))
            self.allowed = _actions([*of_kind(objects, "ClusterRole"), *of_kind(objects, "Role")]) | OF_EVERYBODY
        for plane in self.planes.values():
            eventually(partial(_asks_for_us, plane), 30)


def start(
    control_plane: ControlPlanes,
    helm: Helm,
    directory: Path,
    options: Callable[[str], Mapping[str, Any]] | None = None,
    evicting: Collection[str] = CLUSTERS,
) -> RealFleet:
    """Three planes at once; `options` are further fields of a plane's PlaneSpec, `evicting` as in RealFleet."""
    if opt_in.version(selected_minor()) != "v1":
        pytest.skip(f"Kubernetes {selected_minor()} has no MutatingAdmissionPolicy, by which these pods ask for us")
    more = options or (lambda _: {})
    specs = [PlaneSpec(name, **{"nodes": NODES, "minor": selected_minor(), **more(name)}) for name in CLUSTERS]
    fleet = RealFleet({plane.name: plane for plane in control_plane.together(*specs)}, directory, evicting)
    fleet.grant(helm)
    return fleet


def _asks_for_us(plane: ControlPlane) -> bool:
    container = {"name": "main", "image": "none"}
    metadata = {"name": "probe", "annotations": {f"{SCHEDULER}.io/schedule": "true"}}
    made = plane.admin.create(
        "/api/v1/namespaces/default/pods?dryRun=All", {"metadata": metadata, "spec": {"containers": [container]}}
    )
    return bool(made["spec"]["schedulerName"] == SCHEDULER)


def _actions(roles: list[Object]) -> set[Action]:
    """What roles allow, as the audit log speaks: (verb, group, resource)."""
    return {
        (verb, group, resource)
        for role in roles
        for rule in role["rules"]
        for group in rule.get("apiGroups", ())
        for resource in rule.get("resources", ())
        for verb in rule["verbs"]
    }
