"""An API server that went back to a backup: what its agent tells until an operator confirms."""

import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from agents.executor.context.local import Mirrored
from agents.runtime import health
from tests.agents.kube.fake_server import fake_api
from tests.agents.kube.objects import node_object, pod_object
from tests.agents.runtime.whole_agent import PATIENT, an_agent, went_back


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
            assert (seen["pods"], len(seen)) == (api.version, 17)
        went_back(api)
        for _ in range(2):  # the second life ends while the server is held
            async with an_agent(api, tmp_path, seen, pace=PATIENT, truth_s=0.1) as dispatcher:
                await dispatcher.poll_until(lambda: dispatcher.restored() and dispatcher.well())
                assert dispatcher.agent.highest_seen()["pods"] == seen["pods"]
                seen = dispatcher.agent.highest_seen()
