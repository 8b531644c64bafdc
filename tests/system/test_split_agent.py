"""Observer and executor as two processes: remote pods run, and when one of them dies the other does what is its own."""

from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

from dispatcher.service.gateway.authority import ensure
from localfleet.embedded.fleet import EmbeddedFleet
from tests.system.cluster_api import DELEGATE, ClusterApi, eventually
from tests.system.dialled import CLUSTERS, Dispatcher, phase, pod, running, settings
from tests.system.ray_fleet import JoinedAgent

ROLES = ("observer", "executor")
LEASE = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/global-dispatcher-west"


class Halves:
    """Both processes of both clusters."""

    def __init__(self, folder: Path, fleet: EmbeddedFleet, certificates: Path, port: int, stack: ExitStack) -> None:
        self._folder, self._fleet, self._certificates = folder, fleet, certificates
        self._port, self._stack = port, stack
        self.of = {(name, role): self.start(name, role) for name in CLUSTERS for role in ROLES}

    def start(self, cluster: str, role: str, **given: Any) -> JoinedAgent:
        folder = self._folder / f"{cluster}-{role}-{len(list(self._folder.iterdir()))}"
        folder.mkdir()
        told = settings(self._fleet, cluster, self._certificates, self._port, role)
        told["gateway"] |= given
        return self._stack.enter_context(JoinedAgent(folder, told))

    def offered_as_executor(self, cluster: str) -> JoinedAgent:
        """An executor that has the certificate of the observer."""
        stem = self._certificates / f"cluster-{cluster}.observer"
        return self.start(cluster, "executor", cert_file=f"{stem}.crt", key_file=f"{stem}.key")


def show_at_copy(api: ClusterApi, source: str, **status: str) -> None:
    """The delegate of a pod shows this in its status."""
    (copy,) = [
        one["metadata"]["name"]
        for one in api.pods()
        if DELEGATE in one["metadata"].get("labels", {}) and one["metadata"]["name"].startswith(source)
    ]
    api.merge(f"/api/v1/namespaces/default/pods/{copy}/status", {"status": status})


def status_of(api: ClusterApi, name: str) -> dict[str, Any]:
    """As a pod shows it."""
    found: dict[str, Any] = api.get(f"/api/v1/namespaces/default/pods/{name}")["status"]
    return found


def warnings_at(api: ClusterApi, name: str) -> str:
    """The notes of Warning events about a pod."""
    found = api.get("/apis/events.k8s.io/v1/namespaces/default/events")["items"]
    return "\n".join(one["note"] for one in found if one["regarding"]["name"] == name and one["type"] == "Warning")


def test_each_half_goes_on_without_the_other_and_none_can_take_its_place(tmp_path: Path, fleet: EmbeddedFleet) -> None:
    certificates, halves_folder = tmp_path / "certificates", tmp_path / "halves"
    halves_folder.mkdir()
    ensure(certificates, ["127.0.0.1"], CLUSTERS)
    east, west = (ClusterApi(fleet.kubeconfig, name) for name in CLUSTERS)
    with ExitStack() as stack:
        dispatcher = stack.enter_context(Dispatcher(tmp_path, certificates))
        halves = Halves(halves_folder, fleet, certificates, dispatcher.gateway_port, stack)
        eventually(lambda: dispatcher.ready() == [True, True], 60, dispatcher.tail)
        for name in ("one", "two", "three"):
            assert east.create("/api/v1/namespaces/default/pods", pod(name, "west")).status_code == 201
            eventually(partial(running, east, name), 30, dispatcher.tail)

        waiting = pod("waits", "west")
        # Only kubelets refuse this name: a missing ConfigMap or Secret is told before any is asked.
        waiting["spec"]["containers"][0]["image"] = "registry.example/Upper"
        assert east.create("/api/v1/namespaces/default/pods", waiting).status_code == 201
        eventually(lambda: "must be lowercase" in warnings_at(east, "waits"), 30, dispatcher.tail)

        halves.of["east", "observer"].terminate()
        eventually(lambda: dispatcher.ready() == [False, True], 30, dispatcher.tail)
        show_at_copy(west, "one", phase="Succeeded")
        eventually(lambda: phase(east, "one") == "Succeeded", 30, dispatcher.tail)
        renewed = east.get(LEASE)["spec"]["renewTime"]
        eventually(lambda: east.get(LEASE)["spec"]["renewTime"] > renewed, 30, halves.of["east", "executor"].tail)

        halves.start("east", "observer")
        eventually(lambda: dispatcher.ready() == [True, True], 30, dispatcher.tail)
        halves.of["west", "executor"].terminate()
        show_at_copy(west, "two", message="half done")
        eventually(lambda: status_of(east, "two").get("message") == "half done", 30, dispatcher.tail)
        show_at_copy(west, "two", phase="Succeeded")  # which its executor has to confirm

        liar = halves.offered_as_executor("west")
        eventually(lambda: "refuses our certificate" in liar.tail(), 30, liar.tail)
        assert dispatcher.ready() == [True, True]
        assert phase(east, "two") == "Running"
        liar.terminate()  # it holds the executor's Lease, to which an observer's account has no right
        halves.start("west", "executor").wait_ready()
        eventually(lambda: phase(east, "two") == "Succeeded", 30, dispatcher.tail)
        assert east.create("/api/v1/namespaces/default/pods", pod("four", "west")).status_code == 201
        eventually(lambda: running(east, "four"), 30, dispatcher.tail)
    east.close()
    west.close()
