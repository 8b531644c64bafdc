"""One half of an agent by itself: what it watches, what it answers, and where the observer has its knowledge from."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from agents.executor.trust.state import CONFIRMED, OWN_KEYS, PATH, VALUES
from agents.runtime import agent as agent_module
from agents.runtime.agent import Agent, WrongRole
from agents.runtime.executor_record import NO_KEYS, ExecutorRecord
from agents.runtime.settings import AgentSettings
from shared.kube.client import KubeClient
from shared.kube.session import Access
from shared.messages import Bind, IntentBatch, Peer, Peers, PodRef
from shared.model.names import CONFIRM_RESTORED, DELEGATE_LABEL
from tests.agents.kube.fake_server import FakeApi, fake_api, until
from tests.agents.kube.objects import pod_object
from tests.agents.runtime.whole_agent import IMPATIENT, Dispatcher, went_back
from tests.system.ray_fleet import free_ports

BATCH = IntentBatch("d", 1, (Bind("i1", PodRef("default", "web", "u1"), 1, "n0"),), 20.0)
WRITES = ("POST", "PATCH", "PUT", "DELETE")


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agent_module, "RECALL_S", 0.05)


@asynccontextmanager
async def half(
    api: FakeApi, folder: Path, role: str, links: dict[str, Any] | None = None, **more: float
) -> AsyncIterator[Dispatcher]:
    told = {"cluster": "east", "role": role, "kubeconfig": api.kubeconfig(folder), "kubelet": {"interval_s": 0.1}}
    told |= {"links": links} if links else {}
    if role == "observer":
        told["key_file"] = str(folder / "there-is-none.pem")
    agent = Agent(AgentSettings.model_validate({**told, "api": {**IMPATIENT, **more}}))
    await agent.start()
    try:
        yield Dispatcher(agent)
    finally:
        await agent.stop()


async def obeys(executor: Dispatcher, epoch: int, api: FakeApi) -> None:
    """As a dispatcher does, tell the peers anew until the executor has written down that it obeys."""
    async with asyncio.timeout(60.0):
        while OWN_KEYS not in str(api.state):
            await executor.agent.set_peers(Peers("d", epoch, ()))
            await asyncio.sleep(0.05)


async def test_an_observer_lists_once_it_knows_the_executors_keys_and_says_what_it_waits_for(tmp_path: Path) -> None:
    async with fake_api() as api, AsyncExitStack() as stack:
        observer = await stack.enter_async_context(half(api, tmp_path, "observer"))
        await observer.poll_until(lambda: observer.last is not None and observer.last.problem == NO_KEYS)
        assert observer.last is not None
        assert (observer.last.synced, observer.nodes) == (False, set())
        executor = await stack.enter_async_context(half(api, tmp_path, "executor"))
        await obeys(executor, 3, api)
        await observer.poll_until(observer.well)
        await until(lambda: observer.agent._obeys == 3)
        hello = await observer.agent.hello()
        assert (observer.nodes, hello.cluster_uid, hello.obeys, hello.keys) == ({"n0", "n1"}, "cluster-uid", 3, ())
        assert (await executor.agent.hello()).keys


async def test_each_half_answers_what_is_its_own_alone(tmp_path: Path) -> None:
    async with fake_api() as api, half(api, tmp_path, "observer") as one, half(api, tmp_path, "executor") as other:
        with pytest.raises(WrongRole, match="orders are its executor's"):
            await one.agent.execute(BATCH)
        for asked in (other.agent.changes("", 0, 0.0), other.agent.telemetry()):
            with pytest.raises(WrongRole, match="reports are its observer's"):
                await asked
        assert (await one.agent.set_peers(Peers("d", 1, ()))).word == ""
        assert (await other.agent.set_peers(Peers("d", 1, ()))).word != ""


async def test_the_observer_tries_pods_of_others_of_its_network_and_answers_theirs(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    links = {"pod_address": "127.0.0.1", "pod_port": port, "allow": [f"127.0.0.2/32:{port}"]}
    west = Peer("west", ready=True, uid="uid-west", pod_address=f"127.0.0.2:{port}", network="flat")
    told = Peers("d", 1, (west,), network="flat")
    async with fake_api() as api, half(api, tmp_path, "observer", links=links) as observer:
        await observer.agent.set_peers(told)
        await until(lambda: observer.agent._pods.address)
        ack = await observer.agent.set_peers(told)
        assert ack.pod_address == f"127.0.0.1:{port}"
        assert [(one.cluster, one.address) for one in ack.reaches] == [("west", west.pod_address)]
        alone = await observer.agent.set_peers(msgspec.structs.replace(told, network="own"))
        assert alone.reaches == ()
    async with fake_api() as api, half(api, tmp_path, "executor", links=links) as executor:
        ack = await executor.agent.set_peers(told)
        assert (ack.pod_address, ack.reaches) == ("", ())


async def test_an_executor_watches_what_it_checks_orders_against_and_asks_no_kubelet(tmp_path: Path) -> None:
    async with fake_api() as api, half(api, tmp_path, "executor") as executor:
        await until(lambda: executor.agent.cache.synced)
        adopters = {"ReplicaSet", "ReplicationController", "DaemonSet"}
        assert set(executor.agent.cache.kinds) == {"Namespace", "PodDisruptionBudget", "PriorityClass"} | adopters
        assert not [one for one in api.requests if "metrics.k8s.io" in one or "volume" in one or "storage" in one]


async def test_an_observer_alone_watches_no_kind_that_only_executors_ask_for(tmp_path: Path) -> None:
    async with fake_api() as api, half(api, tmp_path, "observer") as observer:
        assert {"DaemonSet", "ReplicaSet"} & set(observer.agent.cache.kinds) == {"ReplicaSet"}


async def test_an_observer_writes_nothing_also_where_there_is_something_to_warn_of(tmp_path: Path) -> None:
    async with fake_api() as api, AsyncExitStack() as stack:
        executor = await stack.enter_async_context(half(api, tmp_path, "executor"))
        await obeys(executor, 1, api)
        await executor.agent.stop()
        api.requests.clear()
        api.posted.clear()
        observer = await stack.enter_async_context(half(api, tmp_path, "observer"))
        api.put("pods", pod_object("forged", metadata={"labels": {DELEGATE_LABEL: "true"}}))
        await observer.poll_until(observer.well)
        assert api.posted == []
        asked = [
            one for one in api.requests if not one.endswith("/token")
        ]  # a key to ask kubelets with changes nothing
        assert not [one for one in asked if one.startswith(WRITES)]


async def test_an_operators_word_that_the_executor_heeds_reaches_the_observer(tmp_path: Path) -> None:
    async with fake_api() as api, AsyncExitStack() as stack:
        executor = await stack.enter_async_context(half(api, tmp_path, "executor"))
        await obeys(executor, 1, api)
        observer = await stack.enter_async_context(half(api, tmp_path, "observer", truth_s=0.05))
        api.put("pods", pod_object("kept"))
        api.put("pods", pod_object("lost"))
        await observer.poll_until(lambda: observer.well() and len(observer.pods) == 2)
        went_back(api)
        await observer.poll_until(observer.restored)
        leader = executor.agent._executor.accepted_leader
        leader._local.state.words = {CONFIRM_RESTORED: "said"}
        leader._questions[CONFIRM_RESTORED] = "said"
        await leader._heed()
        await observer.poll_until(lambda: not observer.restored())
        assert observer.last is not None
        assert observer.last.confirmed == 1


class Heard:
    """What an observer is told of the record."""

    def __init__(self) -> None:
        self.keys: list[tuple[str, ...]] = []
        self.confirmed = 0
        self.record = ExecutorRecord("east", self.keys.append, self._confirm)

    def _confirm(self) -> None:
        self.confirmed += 1


@asynccontextmanager
async def reading(api: FakeApi, folder: Path) -> AsyncIterator[KubeClient]:
    client = KubeClient(Access(api.kubeconfig(folder), ""))
    yield client
    await client.close()


def store(api: FakeApi, **values: str) -> None:
    api.state = {
        "metadata": {
            "name": PATH.rpartition("/")[2],
            "resourceVersion": "7",
            "annotations": {VALUES: json.dumps(values)},
        },
        "spec": {"leaseTransitions": 5, "holderIdentity": "d"},
    }


async def test_a_confirmation_from_before_the_restore_is_no_answer_to_it(tmp_path: Path) -> None:
    async with fake_api() as api, reading(api, tmp_path) as client:
        heard = Heard()
        for said, after in (("1000.0", 0), ("no time", 0), ("9e12", 1), ("9e12", 1)):
            store(api, **{OWN_KEYS: "A", CONFIRMED: said})
            await heard.record.read(client)
            assert heard.confirmed == after
        assert (heard.keys, heard.record.epoch, heard.record.problem) == ([("A",)], 5, "")


async def test_new_keys_are_told_and_a_lease_that_was_lost_takes_none_away(tmp_path: Path) -> None:
    async with fake_api() as api, reading(api, tmp_path) as client:
        heard = Heard()
        await heard.record.read(client)
        assert (heard.record.problem, heard.keys) == (NO_KEYS, [])
        for keys in ("A", "B A", ""):
            store(api, **{OWN_KEYS: keys, "cluster": "east"})
            await heard.record.read(client)
        assert (heard.keys, heard.record.problem, heard.record.not_ours) == ([("A",), ("B", "A")], "", "")


async def test_an_observer_of_a_cluster_under_another_name_tells_of_nobody(tmp_path: Path) -> None:
    async with fake_api() as api, half(api, tmp_path, "observer") as observer:
        store(api, **{OWN_KEYS: "A", "cluster": "north"})
        await observer.poll_until(lambda: 'is served as "north"' in observer.agent.health.problem)
        assert (await observer.agent.hello()).cluster_uid == ""
