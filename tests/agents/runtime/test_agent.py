"""One whole agent against a fake API server: what the dispatcher sees of it."""

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from pydantic import ValidationError

from agents.executor.context.local import Reported
from agents.runtime.settings import AgentSettings
from shared.messages import UNKNOWN, Bind, IntentBatch, PodRef
from shared.model import names
from shared.model.objects import Namespace, StorageClass
from tests.agents.kube.fake_server import FakeApi, fake_api, until
from tests.agents.kube.objects import Object, needs, node_object, pod_object
from tests.agents.runtime.whole_agent import PATIENT, an_agent


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


def _events(api: FakeApi) -> list[str]:
    return [one["reason"] for one in api.posted if one.get("kind") == "Event"]


async def test_of_two_agents_of_a_cluster_one_acts_and_the_other_says_so_until_its_turn_comes(tmp_path: Path) -> None:
    async with fake_api() as api:
        api.put("pods", pod_object("mine", containers=[needs(cpu="1")]))
        asks = {"annotations": {names.SCHEDULE: "true"}}
        api.put("pods", pod_object("other", schedulerName="default-scheduler", metadata=asks))
        order = IntentBatch("life-1", 1, (Bind("i", PodRef("default", "mine", "uid-mine"), 1, "n0"),))
        async with AsyncExitStack() as stack:
            first = await stack.enter_async_context(an_agent(api, tmp_path))
            await first.poll_until(first.well)
            await until(lambda: _events(api) == ["OtherScheduler"])
            async with an_agent(api, tmp_path) as second:
                await second.poll_until(lambda: second.last is not None and "waits" in second.last.problem)
                assert second.lost()
                (outcome,) = (await second.agent.execute(order)).outcomes
                assert outcome.verdict == UNKNOWN
                assert outcome.message.startswith("this executor waits: ")
                assert [one for one in api.posted if one.get("kind") == "Binding"] == []
                remembered = second.agent._executor.local.reported
                remembered.put("uid-mine", Reported("Unschedulable", "no room", 0.0, 0.0, ""))
                holder = api.executor_lease["spec"]["holderIdentity"]
                await stack.aclose()
                assert api.executor_lease["spec"]["holderIdentity"] != holder  # it was given up
                await second.poll_until(second.well)
                await second.agent.execute(order)
                assert [one["target"]["name"] for one in api.posted if one.get("kind") == "Binding"] == ["n0"]
                await until(lambda: "Scheduled" in _events(api))
                assert _events(api).count("OtherScheduler") == 1  # the first has told
                assert remembered.get("uid-mine") is None  # the first may have written something else since


async def test_a_pod_whose_pod_group_is_missing_goes_on_when_the_group_appears(tmp_path: Path) -> None:
    async with fake_api() as api:
        api.scheduling = "v1beta1"
        api.put("pods", pod_object("one", schedulingGroup={"podGroupName": "web"}))
        async with an_agent(api, tmp_path) as dispatcher:
            await dispatcher.poll_until(dispatcher.well)
            assert "PodGroup 'web' is missing" in dispatcher.pods["one"].problems[0]
            policy: Object = {"basic": {}}
            spec = {"schedulingPolicy": policy}
            api.put("podgroups", {"metadata": {"name": "web", "namespace": "default"}, "spec": spec})
            await dispatcher.poll_until(lambda: not dispatcher.pods["one"].problems)


async def test_groups_of_other_projects_that_cannot_be_listed_hold_no_more_than_their_own_pods(tmp_path: Path) -> None:
    async with fake_api() as api:
        api.put("pods", pod_object("one"))
        of_volcano = {"annotations": {"scheduling.k8s.io/group-name": "train"}}
        api.put("pods", pod_object("two", metadata=of_volcano))
        failing = "/apis/scheduling.volcano.sh/v1beta1/podgroups"
        async with an_agent(api, tmp_path) as dispatcher:
            await dispatcher.poll_until(dispatcher.well)
            assert dispatcher.pods["one"].problems == ()
            assert "does not serve podgroups.scheduling.volcano.sh" in dispatcher.pods["two"].problems[0]
            await until(lambda: sum(failing in one for one in api.requests) > 1)  # it is asked again and again
            await dispatcher.poll(0.3)
            assert dispatcher.last is not None
            assert dispatcher.last.problem == ""


async def test_an_api_server_without_pod_groups_is_well(tmp_path: Path) -> None:
    async with fake_api() as api, an_agent(api, tmp_path) as dispatcher:
        await dispatcher.poll_until(dispatcher.well)
        await dispatcher.poll(0.3)
        assert dispatcher.last is not None
        assert dispatcher.last.problem == ""


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
        while changes.revision != changes.since:  # of kinds that were listed later there may be news
            changes = await dispatcher.poll(0.05)
        assert (changes.full, changes.nodes, changes.pods) == (False, (), ())


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


@pytest.mark.parametrize(
    ("settings", "key"),
    [({"cluster": "East"}, "cluster"), ({"cluster": "a", "api": {"prob_s": 1}}, "api.prob_s")],
)
def test_bad_settings_name_their_key(settings: dict[str, object], key: str) -> None:
    with pytest.raises(ValidationError) as error:
        AgentSettings.model_validate(settings)
    assert ".".join(map(str, error.value.errors()[0]["loc"])) == key
