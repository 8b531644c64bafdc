"""One whole agent against a fake API server: what the dispatcher sees of it."""

import asyncio
import gc
import json
import resource
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest
from pydantic import ValidationError

from agents.executor import state
from agents.executor.local import Mirrored
from agents.runtime import agent as agent_module
from agents.runtime import health
from agents.runtime.agent import Agent
from agents.runtime.limits import allow_open_files, collect_less_often
from agents.runtime.settings import AgentSettings
from dispatcher.model import names
from dispatcher.model.messages import Changes, decode, encode
from dispatcher.model.objects import AnyObject, Namespace, StorageClass
from dispatcher.model.pod import Pod
from tests.agents.kube.fake_server import FakeApi, fake_api, until
from tests.agents.kube.objects import needs, node_object, pod_object

IMPATIENT = {
    "connect_s": 1.0,
    "request_s": 0.3,
    "probe_s": 0.02,
    "probe_timeout_s": 0.1,
    "grace_s": 0.15,
    "backoff_s": 0.01,
    "max_backoff_s": 0.05,
}
# Where the server answers all the time: on a starved machine it would count as lost now and then.
PATIENT = {**IMPATIENT, "connect_s": 30.0, "request_s": 30.0, "probe_timeout_s": 30.0, "grace_s": 30.0}


class Dispatcher:
    """Follows an agent as the dispatcher does, through bytes."""

    def __init__(self, agent: Agent) -> None:
        self.agent = agent
        self.incarnation, self.revision = "", 0
        self.pods: dict[str, Pod] = {}
        self.nodes: set[str] = set()
        self.objects: dict[tuple[str, str], AnyObject] = {}
        self.last: Changes | None = None

    async def poll(self, wait_s: float = 5.0) -> Changes:
        answer = await self.agent.changes(self.incarnation, self.revision, wait_s)
        self.last = changes = decode(Changes, encode(answer))
        if changes.full:
            self.pods, self.nodes, self.objects = {}, set(), {}
        self.nodes |= {node.name for node in changes.nodes}
        self.nodes -= set(changes.nodes_gone)
        self.pods |= {pod.name: pod for pod in changes.pods}
        gone = set(changes.pods_gone)
        self.pods = {name: pod for name, pod in self.pods.items() if pod.uid not in gone}
        self.objects |= {(type(one).__name__, one.key): one for one in changes.objects}
        for ref in changes.objects_gone:
            self.objects.pop((ref.kind, ref.key), None)
        self.incarnation, self.revision = changes.incarnation, changes.revision
        return changes

    async def poll_until(self, holds: object) -> None:
        assert callable(holds)
        async with asyncio.timeout(60):
            while not holds():
                await self.poll(0.1)

    def well(self) -> bool:
        return self.last is not None and self.last.synced and self.last.api_ok

    def restored(self) -> bool:
        return self.last is not None and self.last.restored

    def lost(self) -> bool:
        return self.last is not None and not self.last.api_ok


@asynccontextmanager
async def an_agent(
    api: FakeApi,
    folder: Path,
    seen: dict[str, int] | None = None,
    pace: Mapping[str, float] = IMPATIENT,
    coalesce_s: float = 0.02,
    **more: float,
) -> AsyncIterator[Dispatcher]:
    """An agent, impatient by default; `more` of its settings of the API server, `seen` of an earlier life."""
    settings = AgentSettings.model_validate(
        {
            "cluster": "east",
            "kubeconfig": api.kubeconfig(folder),
            "api": {**pace, **more},
            "kubelet": {"interval_s": 0.1},
            "coalesce_s": coalesce_s,
        }
    )
    agent = Agent(settings)
    agent.remember_highest(seen or {})
    await agent.start()
    try:
        yield Dispatcher(agent)
    finally:
        await agent.stop()


async def test_an_agent_says_who_it_is_and_what_there_is(tmp_path: Path) -> None:
    async with fake_api(nodes=3) as api:
        api.put("pods", pod_object("mine", containers=[needs(cpu="1")]))
        api.put("pods", pod_object("other", schedulerName="default-scheduler"))
        async with an_agent(api, tmp_path) as dispatcher:
            await dispatcher.poll_until(dispatcher.well)
            hello = await dispatcher.agent.hello()
            assert (hello.cluster, hello.cluster_uid, hello.server_version) == ("east", "cluster-uid", "v1.36.3")
            assert hello.incarnation == dispatcher.incarnation
            assert (dispatcher.nodes, set(dispatcher.pods)) == ({"n0", "n1", "n2"}, {"mine"})


async def test_a_long_poll_ends_with_the_first_change(tmp_path: Path) -> None:
    async with fake_api() as api, an_agent(api, tmp_path) as dispatcher:
        await dispatcher.poll_until(dispatcher.well)
        poll = asyncio.create_task(dispatcher.poll_until(lambda: "new" in dispatcher.pods))
        api.put("pods", pod_object("new"))
        await poll
        assert dispatcher.last is not None
        assert not dispatcher.last.full


async def test_a_long_poll_without_news_ends_after_its_time(tmp_path: Path) -> None:
    async with fake_api(nodes=0) as api, an_agent(api, tmp_path) as dispatcher:
        await dispatcher.poll_until(dispatcher.well)
        changes = await dispatcher.poll(0.05)
        assert (changes.full, changes.nodes, changes.pods, changes.revision) == (False, (), (), changes.since)


async def test_readings_come_from_the_metrics_api_where_no_kubelet_answers(tmp_path: Path) -> None:
    async with fake_api(nodes=1) as api:
        api.metrics = [{"metadata": {"name": "n0"}, "timestamp": "2026-01-01T00:00:00Z", "usage": {"cpu": "1"}}]
        async with an_agent(api, tmp_path) as dispatcher:
            await dispatcher.poll_until(lambda: dispatcher.last is not None and dispatcher.last.readings)
            assert dispatcher.last is not None
            reading = dispatcher.last.readings[0]
            assert (reading.node, reading.cpu, reading.net, reading.source) == ("n0", 0.25, None, "metrics.k8s.io")


async def test_an_agent_without_an_api_server_answers_and_says_why(tmp_path: Path) -> None:
    async with fake_api() as api:
        await api.stop()
        async with an_agent(api, tmp_path) as dispatcher:
            await dispatcher.poll_until(lambda: dispatcher.last is not None and "127.0.0.1" in dispatcher.last.problem)
            assert dispatcher.last is not None
            assert (dispatcher.last.synced, dispatcher.last.api_ok) == (False, False)
            assert (await dispatcher.agent.hello()).cluster_uid == ""
            await api.start()
            await dispatcher.poll_until(dispatcher.well)


@pytest.mark.parametrize("fault", ["gone", "hangs", "500"])
async def test_a_lost_api_server_is_told_and_its_return_too(tmp_path: Path, fault: str) -> None:
    async with fake_api() as api, an_agent(api, tmp_path) as dispatcher:
        await dispatcher.poll_until(dispatcher.well)
        if fault == "gone":
            await api.stop()
        elif fault == "hangs":
            api.frozen.clear()
        else:
            api.status = 500
        await dispatcher.poll_until(dispatcher.lost)
        assert dispatcher.last is not None
        assert dispatcher.last.problem
        assert dispatcher.nodes == {"n0", "n1"}
        api.put("nodes", node_object("late"))
        if fault == "gone":
            await api.start()
        api.frozen.set()
        api.status = 200
        await dispatcher.poll_until(lambda: dispatcher.well() and "late" in dispatcher.nodes)


async def test_objects_beside_pods_and_nodes_are_told_as_they_come_and_go(tmp_path: Path) -> None:
    async with fake_api() as api:
        api.put("namespaces", {"metadata": {"name": "shop", "labels": {"team": "a"}}})
        async with an_agent(api, tmp_path) as dispatcher:
            await dispatcher.poll_until(dispatcher.well)
            assert dispatcher.objects == {("Namespace", "shop"): Namespace("shop", {"team": "a"})}
            api.put("storageclasses", {"metadata": {"name": "fast"}, "provisioner": "csi.example.com"})
            await dispatcher.poll_until(lambda: len(dispatcher.objects) > 1)
            assert dispatcher.objects["StorageClass", "fast"] == StorageClass("fast", "csi.example.com")
            api.delete("namespaces", "shop")
            await dispatcher.poll_until(lambda: set(dispatcher.objects) == {("StorageClass", "fast")})


async def test_a_kind_that_is_forbidden_is_told_of_one_that_is_not_served_is_not_and_the_agent_goes_on(
    tmp_path: Path,
) -> None:
    async with fake_api() as api:
        api.refused |= {"persistentvolumes": 403, "storageclasses": 404}
        async with an_agent(api, tmp_path) as dispatcher:
            await dispatcher.poll_until(lambda: dispatcher.well() and dispatcher.agent.health.problem)
            assert dispatcher.agent.health.problem == "PersistentVolume: 403 no persistentvolumes for you"
            assert dispatcher.nodes == {"n0", "n1"}
            api.put("pods", pod_object("new"))
            await dispatcher.poll_until(lambda: "new" in dispatcher.pods)


async def test_a_pod_that_names_another_scheduler_gets_one_event(tmp_path: Path) -> None:
    async with fake_api() as api, an_agent(api, tmp_path) as dispatcher:
        await dispatcher.poll_until(dispatcher.well)
        lost = pod_object("lost", schedulerName="other", metadata={"annotations": {names.SCHEDULE: "true"}})
        api.put("pods", lost)
        await until(lambda: api.posted)
        event = api.posted[0]
        assert (event["type"], event["regarding"]["name"], len(api.posted)) == ("Warning", "lost", 1)
        assert "lost" not in dispatcher.pods


async def test_a_pod_that_shows_where_it_was_bound_to_is_told_with_the_next_one(tmp_path: Path) -> None:
    """Also if it showed before the dispatcher asked."""
    async with fake_api() as api:
        pods = ("one", "two")
        for name in pods:
            api.put("pods", pod_object(name))
        async with an_agent(api, tmp_path, pace=PATIENT, coalesce_s=0.1) as dispatcher:
            await dispatcher.poll_until(lambda: dispatcher.well() and len(dispatcher.pods) == len(pods))
            bound = {"nodeName": "n1", "metadata": {"annotations": {names.EPOCH: "1"}}}
            api.put("pods", pod_object("one", **bound))
            await until(lambda: dispatcher.agent.cache.pods_on("n1"))
            api.put("pods", pod_object("two", **bound))
            told = await dispatcher.poll()
            assert sorted(pod.name for pod in told.pods) == ["one", "two"]


async def test_a_typo_on_a_pod_is_one_event_however_often_the_pod_changes(tmp_path: Path) -> None:
    async with fake_api() as api, an_agent(api, tmp_path) as dispatcher:
        await dispatcher.poll_until(dispatcher.well)
        typo = {f"{names.PREFIX}scheduel": "true"}
        for name in ("web", "web", "done"):
            api.put("pods", pod_object(name, schedulerName="other", metadata={"annotations": typo}))
        await until(lambda: len(api.posted) >= 2)
        told = [(one["reason"], one["regarding"]["name"]) for one in api.posted]
        assert sorted(told) == [("AnnotationNotUnderstood", "done"), ("AnnotationNotUnderstood", "web")]
        assert f"did you mean {names.SCHEDULE}?" in api.posted[0]["note"]


async def test_a_task_that_loses_its_cancellation_does_not_hold_up_the_end(tmp_path: Path) -> None:
    lost: list[bool] = []

    async def lose_one() -> None:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            lost.append(True)
        await asyncio.sleep(3600)

    async with fake_api() as api, an_agent(api, tmp_path) as dispatcher:
        await dispatcher.poll_until(dispatcher.well)
        dispatcher.agent._tasks.append(asyncio.create_task(lose_one()))
        await asyncio.sleep(0)
    assert lost


def went_back(api: FakeApi) -> None:
    """The pod "kept" alone was there when the backup was made."""
    kept = api.objects["pods"]["kept"]
    api.restore("pods", [kept], version=int(kept["metadata"]["resourceVersion"]))


async def test_a_server_that_went_back_is_told_with_what_is_missing_until_an_operator_confirms(tmp_path: Path) -> None:
    async with fake_api() as api, an_agent(api, tmp_path, pace=PATIENT, truth_s=0.1) as dispatcher:
        api.put("pods", pod_object("kept"))
        api.put("pods", pod_object("lost"))
        await dispatcher.poll_until(lambda: dispatcher.well() and len(dispatcher.pods) == 2)
        assert not dispatcher.restored()
        known = api.version
        went_back(api)
        while "lost" in dispatcher.pods:
            changes = await dispatcher.poll(0.1)
        assert (changes.pods_gone, changes.pods_missing) == (("uid-lost",), ("uid-lost",))
        assert (changes.restored, changes.api_ok) == (True, True)
        assert f"went back from version {known} to {api.version}" in changes.problem
        api.put("pods", pod_object("new"))
        await dispatcher.poll_until(lambda: "new" in dispatcher.pods)
        assert dispatcher.restored()
        dispatcher.agent._executor.accepted_leader.confirm_restored()
        changes = await dispatcher.poll()
        assert (changes.restored, changes.problem, changes.pods, changes.pods_gone) == (False, "", (), ())
        assert changes.confirmed == 1


async def test_what_was_written_is_not_remembered_of_a_server_that_went_back(tmp_path: Path) -> None:
    async with fake_api() as api, an_agent(api, tmp_path, pace=PATIENT, truth_s=0.05) as dispatcher:
        api.put("pods", pod_object("kept"))
        api.put("pods", pod_object("lost"))
        await dispatcher.poll_until(lambda: dispatcher.well() and dispatcher.pods)
        mirrored = dispatcher.agent._executor._local.mirrored
        mirrored.put("uid-kept", Mirrored(b"", "Succeeded", str(api.version)))
        went_back(api)
        await dispatcher.poll_until(dispatcher.restored)
        assert mirrored.get("uid-kept") is None


async def test_a_server_that_went_back_is_held_for_its_time_and_no_longer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    later = 0.0
    monkeypatch.setattr(health, "time", SimpleNamespace(monotonic=lambda: time.monotonic() + later))
    async with (
        fake_api() as api,
        an_agent(api, tmp_path, pace=PATIENT, truth_s=0.05, restored_hold_s=600) as dispatcher,
    ):
        api.put("pods", pod_object("kept"))
        await dispatcher.poll_until(lambda: dispatcher.well() and dispatcher.pods)
        api.put("nodes", node_object("later"))
        await dispatcher.poll_until(lambda: "later" in dispatcher.nodes)
        went_back(api)
        await dispatcher.poll_until(dispatcher.restored)
        later = 300.0
        await dispatcher.poll(0.2)
        assert dispatcher.restored()
        later = 600.0
        await dispatcher.poll_until(lambda: dispatcher.well() and not dispatcher.restored())


async def test_a_new_life_of_the_agent_knows_that_the_server_went_back_meanwhile_or_before(tmp_path: Path) -> None:
    async with fake_api() as api:
        api.put("pods", pod_object("kept"))
        api.put("pods", pod_object("lost"))
        async with an_agent(api, tmp_path, pace=PATIENT) as dispatcher:
            await dispatcher.poll_until(dispatcher.well)
            seen = dispatcher.agent.highest_seen()
            assert (seen["pods"], len(seen)) == (api.version, 15)
        went_back(api)
        for _ in range(2):  # the second life ends while the server is held
            async with an_agent(api, tmp_path, seen, pace=PATIENT, truth_s=0.1) as dispatcher:
                await dispatcher.poll_until(lambda: dispatcher.restored() and dispatcher.well())
                assert dispatcher.agent.highest_seen()["pods"] == seen["pods"]
                seen = dispatcher.agent.highest_seen()


@pytest.mark.parametrize(
    ("settings", "key"),
    [({"cluster": "East"}, "cluster"), ({"cluster": "a", "api": {"prob_s": 1}}, "api.prob_s")],
)
def test_bad_settings_name_their_key(settings: dict[str, object], key: str) -> None:
    with pytest.raises(ValidationError) as error:
        AgentSettings.model_validate(settings)
    assert ".".join(map(str, error.value.errors()[0]["loc"])) == key


def test_the_limit_of_open_files_is_raised_but_never_lowered() -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (256, before[1]))
        assert allow_open_files(300) == 300
        assert allow_open_files(200) == 300
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_garbage_is_looked_for_less_often() -> None:
    before = gc.get_threshold()
    gc.set_threshold(700, 10, 10)  # as Python starts
    try:
        collect_less_often()
        assert gc.get_threshold() > (10_000, 10, 10)
        assert gc.isenabled()
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()


async def test_an_agent_of_a_cluster_that_is_served_under_another_name_tells_nothing_of_it(tmp_path: Path) -> None:
    values = json.dumps({"cluster": "west"})
    async with fake_api() as api:
        api.state = {
            "metadata": {"resourceVersion": "1", "annotations": {state.VALUES: values}},
            "spec": {"leaseTransitions": 4},
        }
        async with an_agent(api, tmp_path) as dispatcher:
            wrong = 'served as "west", and shall be "east"'
            await dispatcher.poll_until(lambda: dispatcher.last is not None and wrong in dispatcher.last.problem)
            hello = await dispatcher.agent.hello()
            assert (hello.cluster_uid, hello.obeys) == ("", 4)
            assert dispatcher.last is not None
            assert (dispatcher.last.cluster_uid, dispatcher.last.synced, dispatcher.last.api_ok) == ("", False, False)


async def test_an_agent_with_another_key_than_its_cluster_signs_with_tells_nothing_of_it_until_an_operator_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agent_module, "RECALL_S", 0.05)
    values = {state.VALUES: json.dumps({state.OWN_KEYS: "ANOTHER KEY"})}
    async with fake_api() as api:
        api.state = {"metadata": {"resourceVersion": "1", "annotations": values}, "spec": {}}
        async with an_agent(api, tmp_path) as dispatcher:
            wrong = "signs with the key ANOTHER"
            await dispatcher.poll_until(lambda: dispatcher.last is not None and wrong in dispatcher.last.problem)
            assert dispatcher.last is not None
            assert (dispatcher.last.cluster_uid, dispatcher.last.synced, dispatcher.last.api_ok) == ("", False, False)
            word = f"{names.FORGET_KEYS}east"
            api.state["metadata"]["annotations"][word] = "true"
            await dispatcher.poll_until(lambda: api.state["metadata"]["annotations"][word].startswith(state.ASKS))
            annotations = api.state["metadata"]["annotations"]
            annotations[word] = annotations[word].removeprefix(state.ASKS)
            await dispatcher.poll_until(lambda: dispatcher.last is not None and dispatcher.last.synced)
            assert dispatcher.last.cluster_uid
