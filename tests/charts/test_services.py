"""Services that follow pods within one pod network, by the chart's rights and policies, on real servers with the
EndpointSlice controller of Kubernetes.
"""

from collections.abc import Iterator
from contextlib import ExitStack

import httpx
import pytest

from agents.executor.objects.service_content import MANAGED_BY
from dispatcher.service.gateway.authority import ensure
from localfleet.controlplane.binaries import selected_minor
from localfleet.controlplane.components import PlaneSpec
from localfleet.controlplane.plane import ControlPlane
from shared.model.names import COPY, JOIN, MANAGER
from tests.charts.policies import wait_for_policies
from tests.charts.rendering import NAMESPACE, Helm, Object
from tests.charts.split_install import ACCOUNTS, RELAY, installed, start, write_private_key
from tests.charts.test_install import DEPLOYMENTS, deployment
from tests.charts.used_rights import Right, granted, unused, used
from tests.controlplane.fixtures import ControlPlanes
from tests.system.cluster_api import eventually
from tests.system.dialled import CLUSTERS, Dispatcher

pytestmark = [pytest.mark.real, pytest.mark.timeout(900)]

HOME, AWAY = CLUSTERS
SERVICES = "/api/v1/namespaces/default/services"
SLICES = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"
VALUES: Object = {**RELAY, "config": {"kubelet": {"interval_s": 2, "timeout_s": 1}, "executor": {"services": True}}}
ROUTED = {"clusters": [{"name": name, "via": "gateway", "network": "flat"} for name in CLUSTERS]}
WAIT_S = 20.0


class Fleet:
    """Two planes of one pod network."""

    def __init__(self, planes: dict[str, ControlPlane], tail: str = "") -> None:
        self.home = planes[HOME]
        self.away = planes[AWAY]
        self.tail = lambda: tail
        self.release: list[Object] = []  # of the agent away

    def unused(self) -> set[Right]:
        """Rights for Services that the agent of the target has made no use of."""
        left = unused(granted(self.release, "agent"), used(self.away.audit.events(), "agent"))
        return {one for one in left if one[2] in ("services", "endpointslices", "serviceimports")}

    def services(self) -> dict[str, Object]:
        """That the target has, by name."""
        return {one["metadata"]["name"]: one["spec"] for one in self.away.admin.get(SERVICES)["items"]}

    @staticmethod
    def addresses(plane: ControlPlane, of: str) -> set[str]:
        """Ready ones to which a Service leads."""
        found = plane.admin.get(SLICES, labelSelector=f"kubernetes.io/service-name={of}")["items"]
        ends = [end for one in found for end in one.get("endpoints") or ()]
        return {address for end in ends if end["conditions"].get("ready") for address in end["addresses"]}


@pytest.fixture(scope="module")
def fleet(helm: Helm, control_plane: ControlPlanes, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    folder = tmp_path_factory.mktemp("services")
    certificates = folder / "certificates"
    ensure(certificates, ["127.0.0.1"], CLUSTERS)
    specs = [PlaneSpec(name, nodes=2, minor=selected_minor()) for name in CLUSTERS]
    planes = {plane.name: plane for plane in control_plane.together(*specs)}
    with ExitStack() as stack:
        dispatcher = stack.enter_context(Dispatcher(folder, certificates, more=ROUTED))
        agents = []
        releases: dict[str, list[Object]] = {}
        for name, plane in planes.items():
            objects = installed(helm, plane, f"wss://127.0.0.1:{dispatcher.gateway_port}", VALUES)
            releases[name] = objects
            write_private_key(objects, certificates / f"{name}.pem")
            agents += [stack.enter_context(start(objects, plane, role, folder, certificates)) for role in ACCOUNTS]
        found = Fleet(planes)
        found.release = releases[AWAY]
        found.tail = lambda: "\n".join(one.tail() for one in (dispatcher, *agents))
        eventually(lambda: dispatcher.ready() == [True, True], WAIT_S, found.tail)
        yield found


def test_pods_have_the_services_of_home_which_lead_to_all_its_pods_and_go_with_the_last(fleet: Fleet) -> None:
    home, away = fleet.home, fleet.away
    ports = [{"name": "http", "port": 80, "targetPort": 8080}]
    home.admin.create(SERVICES, {"metadata": {"name": "web"}, "spec": {"selector": {"app": "web"}, "ports": ports}})
    headless = {"selector": {"app": "web"}, "clusterIP": "None", "ports": ports}
    home.admin.create(SERVICES, {"metadata": {"name": "web-all"}, "spec": headless})
    exposed = {"selector": {"app": "web"}, "type": "NodePort", "externalIPs": ["192.0.2.1"], "ports": ports}
    home.admin.create(SERVICES, {"metadata": {"name": "exposed"}, "spec": exposed})
    mine = {"metadata": {"name": "mine"}, "spec": {"selector": {"app": "other"}, "ports": ports}}
    home.admin.create(SERVICES, mine)
    joined = {"metadata": {"name": "mine", "annotations": {JOIN: "true"}}, "spec": mine["spec"]}
    own = away.admin.create(SERVICES, joined)["spec"]
    named = {"schedulerName": "global-dispatcher"}
    home.admin.create(DEPLOYMENTS, deployment("there", 2, {"global-dispatcher.io/clusters": AWAY}, **named))
    home.admin.patch(f"{SERVICES}/web", {"spec": {"selector": {"app": "there"}}})
    home.admin.patch(f"{SERVICES}/web-all", {"spec": {"selector": {"app": "there"}}})

    def ready() -> int:
        return int(home.admin.get(f"{DEPLOYMENTS}/there")["status"].get("readyReplicas", 0))

    eventually(lambda: ready() == 2, WAIT_S, fleet.tail)
    there = fleet.services()
    assert there.keys() == {"kubernetes", "web", "web-all", "exposed", "mine"}
    assert there["web-all"]["clusterIP"] == "None"
    assert there["mine"] == own
    assert all(not there[name].get("selector") for name in ("web", "web-all", "exposed"))
    assert (there["exposed"]["type"], there["exposed"].get("externalIPs")) == ("ClusterIP", None)
    for name in ("web", "web-all"):
        eventually(
            lambda name=name: (
                len(fleet.addresses(home, name)) == 2  # type: ignore[misc]
                and fleet.addresses(away, name) == fleet.addresses(home, name)
            ),
            WAIT_S,
            fleet.tail,
        )

    home.admin.patch(f"{DEPLOYMENTS}/there", {"spec": {"replicas": 3}})
    eventually(lambda: len(fleet.addresses(away, "web")) == 3, WAIT_S, fleet.tail)
    home.admin.patch(f"{SERVICES}/web", {"spec": {"ports": [{"name": "http", "port": 81, "targetPort": 8080}]}})
    eventually(lambda: 81 in [one["port"] for one in fleet.services()["web"]["ports"]], 60, fleet.tail)

    away.admin.delete(f"{SERVICES}/web-all")
    away.admin.create(SERVICES, {"metadata": {"name": "web-all"}, "spec": {"ports": ports}})
    of_users = f"{COPY},kubernetes.io/service-name=web-all"
    eventually(lambda: not away.admin.get(SLICES, labelSelector=of_users)["items"], 15, fleet.tail)

    home.admin.delete(f"{DEPLOYMENTS}/there", propagationPolicy="Background")
    eventually(lambda: fleet.services().keys() == {"kubernetes", "mine", "web-all"}, 2 * WAIT_S, fleet.tail)
    eventually(lambda: not away.admin.get(SLICES, labelSelector=COPY)["items"], WAIT_S, fleet.tail)
    eventually(lambda: not fleet.unused(), WAIT_S, lambda: str(fleet.unused()))


def test_the_agent_writes_no_services_but_those(fleet: Fleet) -> None:
    wait_for_policies(fleet.away)
    mark = "0123456789abcdef"
    marked = {"name": "x", "labels": {COPY: mark}}
    ports = [{"port": 80}]

    def leads(to: str, **labels: str) -> Object:
        said = {COPY: mark, "kubernetes.io/service-name": to, MANAGED_BY: MANAGER, **labels}
        return {"metadata": {"name": "x", "labels": said}, "addressType": "IPv4", "endpoints": []}

    api = fleet.away.api_for("agent", NAMESPACE)
    try:
        http: httpx.Client = api.http
        answers = {
            "without our label": http.post(SERVICES, json={"metadata": {"name": "x"}, "spec": {"ports": ports}}),
            "with a selector": http.post(
                SERVICES, json={"metadata": marked, "spec": {"selector": {"a": "b"}, "ports": ports}}
            ),
            "with an address": http.post(
                SERVICES, json={"metadata": marked, "spec": {"externalIPs": ["192.0.2.1"], "ports": ports}}
            ),
            "a name of elsewhere": http.post(
                SERVICES, json={"metadata": marked, "spec": {"type": "ExternalName", "externalName": "a.b"}}
            ),
            "with a label of another form": http.post(
                SERVICES, json={"metadata": {"name": "x", "labels": {COPY: "0"}}, "spec": {"ports": ports}}
            ),
            "in a namespace of Kubernetes": http.post(
                SERVICES.replace("default", "kube-system"), json={"metadata": marked, "spec": {"ports": ports}}
            ),
            "a slice of a controller": http.post(SLICES, json=leads("x", **{MANAGED_BY: "other"})),
            "addresses of the API server": http.post(SLICES, json=leads("kubernetes")),
            "deletes another's": http.delete(f"{SERVICES}/kubernetes"),
        }
        made = http.post(SLICES, json=leads("x"))
        assert made.status_code == 201, made.text
        turned = made.json()
        turned["metadata"]["labels"]["kubernetes.io/service-name"] = "y"
        answers["a slice is led elsewhere"] = http.put(f"{SLICES}/x", json=turned)
        http.delete(f"{SLICES}/x")
    finally:
        api.close()
    told = {what: (one.status_code, "agent of Global Dispatcher may" in one.text) for what, one in answers.items()}
    told.pop("deletes another's")  # also in `default`, and of the cluster itself
    assert set(told.values()) == {(422, True)}, {what: one.text for what, one in answers.items()}
    assert answers["deletes another's"].status_code == 422
