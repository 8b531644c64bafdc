"""Clusters from which one TCP port of the dispatcher's site can be reached, outward, over a slow line that loses: the
charts' containers as processes, each cluster's in a network namespace of its own, with its real control plane.
"""

import json
import os
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial

import pytest

from dispatcher.service.gateway.authority import ensure
from localfleet.controlplane.binaries import selected_minor
from localfleet.controlplane.components import PlaneSpec
from localfleet.controlplane.plane import ControlPlane
from tests.charts.rendering import Helm
from tests.charts.split_install import ACCOUNTS, installed, start, write_private_key
from tests.charts.test_install import DEPLOYMENTS, PODS, deployment, policies
from tests.controlplane.fixtures import ControlPlanes
from tests.real.spaces import MACHINE, Line, Space, Window
from tests.real.test_links import unavailable
from tests.saying import Say
from tests.system.cluster_api import eventually
from tests.system.dialled import CLUSTERS, Dispatcher
from tests.system.harness import pause
from tests.system.ray_fleet import Process

HOME, AWAY = CLUSTERS
DELAY_MS, LOSS = 100.0, 0.01  # of one way: an answer takes 200 ms
# Longer than either end believes in a peer that is silent; an hour, by hand: GLOBAL_DISPATCHER_TEST_CUT_S=3600.
CUT_S = float(os.environ.get("GLOBAL_DISPATCHER_TEST_CUT_S", "30"))
OTHER_PORTS = (22, 443, 6379, 8000, 8265, 10001, 10250)  # among them those of Ray

pytestmark = [pytest.mark.skipif(bool(unavailable()), reason=unavailable()), pytest.mark.timeout(900 + CUT_S)]


@dataclass
class Site:
    """The dispatcher's namespace, those of the clusters, the lines between them, and what runs there."""

    planes: dict[str, ControlPlane]
    hub: Space
    spaces: dict[str, Space]
    addresses: dict[str, tuple[str, str]]  # of the cluster, and of the hub as it sees it
    lines: dict[str, Line]
    dispatcher: Dispatcher
    agents: list[Process]

    def tails(self) -> str:
        return "\n---\n".join(one.tail() for one in (self.dispatcher, *self.agents))

    def running(self, name: str) -> int:
        """Ready replicas of a Deployment at home, whose pods run elsewhere."""
        status = self.planes[HOME].admin.get(f"{DEPLOYMENTS}/{name}")["status"]
        return int(status.get("readyReplicas", 0))

    def deploy(self, name: str) -> None:
        """Three pods for the other cluster."""
        home = self.planes[HOME]
        named = {} if policies(home) else {"schedulerName": "global-dispatcher"}
        home.admin.create(DEPLOYMENTS, deployment(name, 3, {"global-dispatcher.io/clusters": AWAY}, **named))

    def await_running(self, name: str) -> None:
        eventually(lambda: self.running(name) == 3, 60, self.tails)


@pytest.fixture(scope="module")
def site(helm: Helm, control_plane: ControlPlanes, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("site")
    specs = [PlaneSpec(name, nodes=4, minor=selected_minor()) for name in CLUSTERS]
    planes = {plane.name: plane for plane in control_plane.together(*specs)}
    addresses = {name: (f"10.216.{at}.1", f"10.216.{at}.2") for at, name in enumerate(CLUSTERS)}
    certificates = folder / "certificates"
    ensure(certificates, [outer for _, outer in addresses.values()], CLUSTERS)
    with ExitStack() as stack:
        hub = Space(folder, "hub")
        stack.callback(hub.close)
        dispatcher = stack.enter_context(Dispatcher(folder, certificates, host="0.0.0.0", before=hub.inside))
        port = dispatcher.gateway_port
        stack.callback(Window(dispatcher.port, MACHINE, hub.path).close)
        one = Site(planes, hub, {}, addresses, {}, dispatcher, [])
        for name, plane in planes.items():
            inner, outer = addresses[name]
            space = one.spaces[name] = Space(folder, name)
            stack.callback(space.close)
            stack.callback(Window(int(plane.server.rpartition(":")[2]), space.path, MACHINE).close)
            line = Line(
                folder / f"{name}-line.log", (space, inner), (hub, outer), delay_ms=DELAY_MS, loss=LOSS, port=port
            )
            stack.callback(line.close)
            one.lines[name] = line
            objects = installed(helm, plane, f"wss://{outer}:{port}")
            write_private_key(objects, certificates / f"{name}.pem")
            one.agents += [
                stack.enter_context(start(objects, plane, role, folder, certificates, space.inside))
                for role in ACCOUNTS
            ]
        eventually(lambda: dispatcher.ready() == [True, True], 90, one.tails)
        yield one


def test_no_port_but_the_gateways_is_reached_either_way(site: Site) -> None:
    for name, space in site.spaces.items():
        inner, outer = site.addresses[name]
        assert site.hub.connect(outer, site.dispatcher.gateway_port) == ""
        assert space.connect(outer, site.dispatcher.gateway_port) == ""
        with_listener = site.dispatcher.port  # the HTTP API: it answers in the hub, at loopback alone
        assert site.hub.connect("127.0.0.1", with_listener) == ""
        refused = {port: space.connect(outer, port) for port in (*OTHER_PORTS, with_listener)}
        assert set(refused.values()) == {"ConnectionRefusedError"}
        inward = {port: site.hub.connect(inner, port) for port in (*OTHER_PORTS, site.dispatcher.gateway_port)}
        assert set(inward.values()) == {"ConnectionRefusedError"}


def test_remote_pods_run_and_a_cut_costs_neither_a_restart_nor_a_full_report(site: Site, say: Say) -> None:
    site.deploy("before")
    site.await_running("before")
    told = len(site.dispatcher.answers())
    for line in site.lines.values():
        line.cut()
    eventually(lambda: site.dispatcher.ready() == [False, False], 60, site.tails)
    site.deploy("meanwhile")  # both ends go on, and have much to tell
    site.planes[HOME].admin.delete(f"{DEPLOYMENTS}/before")
    pause(CUT_S)
    for line in site.lines.values():
        line.mend()
    eventually(lambda: site.dispatcher.ready() == [True, True], 60, site.tails)
    site.await_running("meanwhile")
    assert [agent.code for agent in site.agents] == [None] * 4  # nobody starts one again here
    assert site.dispatcher.answers()[told:] == [False, False], "an agent told everything anew"
    say(f"{2 * DELAY_MS:g} ms there and back, {LOSS:.0%} lost, cut for {CUT_S:g} s and more: agents told what changed")
    site.planes[HOME].admin.delete(f"{DEPLOYMENTS}/meanwhile")
    for plane in site.planes.values():
        eventually(partial(_empty, plane), 60, lambda: json.dumps(site.planes[AWAY].admin.get(PODS))[-3000:])


def _empty(plane: ControlPlane) -> bool:
    return not plane.admin.get(PODS)["items"]
