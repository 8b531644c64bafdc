"""An etcd that is restored from a backup under a running agent: its picture follows, and it says so."""

import asyncio
import shutil
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import httpx

from agents.runtime.agent import Agent
from agents.runtime.settings import AgentSettings
from localfleet.controlplane.api import Object
from localfleet.controlplane.audit import AuditEvent
from localfleet.controlplane.plane import ControlPlane
from shared.model import names
from tests.controlplane.fixtures import ControlPlanes

PODS = "/api/v1/namespaces/default/pods"
STORES = ("etcd", "kube-apiserver")
NOTICED_S = 30.0  # what the agent promises, from the moment at which the server answers again
SAVED = {"saved"}
LATER = {f"later-{number}" for number in range(30)}


class View:
    """What the dispatcher would know of the cluster, through the agent's changes."""

    def __init__(self, agent: Agent) -> None:
        self.agent = agent
        self.incarnation, self.revision = "", 0
        self.pods: dict[str, str] = {}  # UID -> name
        self.labels: dict[str, dict[str, str]] = {}
        self.gone_unsaid: set[str] = set()  # names of pods that went while `restored` was not told
        self.missing: set[str] = set()
        self.restored = False
        self.problem = ""

    @property
    def names(self) -> set[str]:
        """Of the pods that are there."""
        return set(self.pods.values())

    async def until(self, holds: Callable[[], bool], seconds: float = 60.0) -> None:
        """Follow until it holds; TimeoutError if it does not come about."""
        async with asyncio.timeout(seconds):
            while not holds():
                await self._poll()

    async def _poll(self) -> None:
        changes = await self.agent.changes(self.incarnation, self.revision, 0.2)
        self.incarnation, self.revision = changes.incarnation, changes.revision
        self.restored, self.problem = changes.restored, changes.problem
        for uid in changes.pods_gone:
            name = self.pods.pop(uid)
            if not changes.restored:
                self.gone_unsaid.add(name)
            if uid in changes.pods_missing:
                self.missing.add(name)
        self.pods |= {pod.uid: pod.name for pod in changes.pods}
        self.labels |= {pod.name: pod.labels for pod in changes.pods}


class Backed:
    """A plane with one pod, a backup of its etcd taken then, and an agent that follows it."""

    def __init__(self, plane: ControlPlane, view: View, backup: Path) -> None:
        self.plane, self.view, self.backup = plane, view, backup

    async def submit(self, *pods: str) -> None:
        """Pods that ask for us."""
        await asyncio.to_thread(_submit, self.plane, *pods)

    async def restore(self, *, raised: int = 0) -> None:
        """etcd as it was backed up; `raised`: its revision that much higher, as by etcdutl's --bump-revision."""
        await asyncio.to_thread(self._restore, raised)

    def _restore(self, raised: int) -> None:
        _down(self.plane)
        shutil.rmtree(_data(self.plane))
        shutil.copytree(self.backup, _data(self.plane))
        self.plane.begin("etcd")
        with httpx.Client(base_url=self.plane.layout.etcd, trust_env=False) as etcd:
            for _ in range(raised):
                etcd.post("/v3/kv/put", json={"key": "anVuaw==", "value": "anVuaw=="}).raise_for_status()
        self.plane.begin("kube-apiserver")


def _submit(plane: ControlPlane, *pods: str) -> None:
    for name in pods:
        spec = {"schedulerName": names.SCHEDULER_NAME, "containers": [{"name": "main", "image": "none"}]}
        pod: Object = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}
        plane.admin.create(PODS, pod)


def _data(plane: ControlPlane) -> Path:
    return plane.directory / "etcd"


def _down(plane: ControlPlane) -> None:
    for component in ("kube-controller-manager", *reversed(STORES)):
        plane.kill(component)


@asynccontextmanager
async def backed(control_plane: ControlPlanes, name: str) -> AsyncIterator[Backed]:
    """The pod `saved` is in the backup, the pods LATER are not; the agent has seen all of them."""
    plane = await asyncio.to_thread(control_plane, name)
    await asyncio.to_thread(_submit, plane, *SAVED)
    await asyncio.to_thread(_down, plane)
    backup = plane.directory / "backup"
    shutil.copytree(_data(plane), backup)
    for component in STORES:
        await asyncio.to_thread(plane.begin, component)
    agent = Agent(AgentSettings(cluster=name, kubeconfig=str(plane.kubeconfig)))
    await agent.start()
    try:
        one = Backed(plane, View(agent), backup)
        await one.submit(*sorted(LATER))
        await asyncio.to_thread(plane.kubectl, "label", "pod", "saved", "changed=later")
        await one.view.until(lambda: one.view.names == SAVED | LATER and "changed" in one.view.labels["saved"])
        yield one
    finally:
        await agent.stop()
        await asyncio.to_thread(plane.stop)


async def test_an_agent_follows_an_api_server_that_went_back_in_time_and_tells_of_it(
    control_plane: ControlPlanes,
) -> None:
    async with backed(control_plane, "back") as one:
        await one.restore()
        await one.submit("after")
        await one.view.until(lambda: one.view.names == SAVED | {"after"} and one.view.restored, NOTICED_S)
        assert "changed" not in one.view.labels["saved"]
        # Until the watches have listed anew, the problem is that one of them is behind.
        await one.view.until(lambda: "restored from a backup" in one.view.problem, NOTICED_S)
        assert one.view.missing == LATER
        assert one.view.gone_unsaid == set()


async def test_a_restored_server_whose_revision_was_raised_is_found_by_its_older_objects(
    control_plane: ControlPlanes,
) -> None:
    async with backed(control_plane, "raised") as one:
        await one.restore(raised=500)
        await one.submit("after")
        await one.view.until(lambda: one.view.names == SAVED | {"after"} and one.view.restored, NOTICED_S)
        assert "changed" not in one.view.labels["saved"]
        assert one.view.missing == LATER
        assert one.view.gone_unsaid == set()


async def test_a_watch_that_agrees_with_its_server_is_never_listed_anew(control_plane: ControlPlanes) -> None:
    """A real server counts in a list of one just what its watch shows."""
    async with backed(control_plane, "counted") as one:
        mark = one.plane.audit.mark()

        def lists(limit: int) -> list[AuditEvent]:
            events = one.plane.audit.events(since=mark)
            return [event for event in events if event.request_uri.endswith(f"limit={limit}") and event.code == 200]

        asked = {"pods", "nodes", "namespaces", "replicasets"}
        while min(Counter(event.action[2] for event in lists(1))[kind] for kind in asked) < 4:  # noqa: ASYNC110 - a file
            await asyncio.sleep(1)
        assert lists(500) == []
