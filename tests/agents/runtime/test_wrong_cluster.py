"""An agent that reaches a cluster of another name, or one that signs with another key, tells nothing of it."""

import json
from pathlib import Path

import pytest

from agents.executor.trust import state
from agents.runtime import agent as agent_module
from shared.model import names
from tests.agents.kube.fake_server import fake_api
from tests.agents.runtime.whole_agent import an_agent


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
