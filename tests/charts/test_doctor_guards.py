"""What doctor says of admission policies of the agent's chart that are not there."""

from typing import Any, cast

import pytest

from dispatcher.cli.diagnosis import NOTE
from dispatcher.cli.joining import install
from dispatcher.cli.joining.agents import DEPLOYMENTS
from dispatcher.cli.joining.guards import BINDINGS, POLICIES, unguarded
from dispatcher.cli.operate.members import Member, MemberError
from tests.charts.rendering import Helm, Object, of_kind
from tests.charts.test_split_agent import SPLIT

OPENED = {"relay": "all", "services": True, "namespaces": {"create": ["team-*"]}}
EVERYTHING = {**SPLIT, "relay": {"certificate": "csr"}, "config": {"executor": OPENED}}
ONE_PROCESS = {**SPLIT, "gateway": {**SPLIT["gateway"], "split": False}}


class Cluster:
    """With the objects of a rendered chart."""

    name = "east"

    def __init__(self, objects: list[Object], refuses: dict[str, int] | None = None) -> None:
        self.objects, self.refuses = objects, refuses or {}

    async def items(self, path: str, **query: str) -> list[Object]:
        if path in self.refuses:
            raise MemberError(self.refuses[path], f"{path} is refused")
        kinds = {DEPLOYMENTS: "Deployment", POLICIES: "ValidatingAdmissionPolicy"}
        return of_kind(self.objects, kinds.get(path, "ValidatingAdmissionPolicyBinding"))

    async def call(self, method: str, path: str) -> Object:
        (found,) = [one for one in of_kind(self.objects, "ConfigMap") if path.endswith(one["metadata"]["name"])]
        return found


async def told(cluster: Cluster) -> list[Any]:
    return await unguarded(cast(Member, cluster))


@pytest.mark.parametrize("values", [SPLIT, ONE_PROCESS, EVERYTHING], ids=["split", "one", "everything"])
async def test_each_policy_of_the_chart_is_looked_for_and_found(helm: Helm, values: Object) -> None:
    objects = helm.template("agent", values)
    policies = [one["metadata"]["name"] for one in of_kind(objects, "ValidatingAdmissionPolicy")]
    assert await told(Cluster(objects)) == []
    for gone in policies:
        left = [one for one in objects if (one["kind"], one["metadata"]["name"]) != (BINDING, gone)]
        (found,) = await told(Cluster(left))
        assert f"nothing is refused by {gone}, for system:serviceaccount:" in found.text


BINDING = "ValidatingAdmissionPolicyBinding"


@pytest.mark.parametrize("value", ["guardPolicy", "reserveKeys"])
async def test_what_is_turned_off_is_a_note_with_the_value_that_turns_it_on(helm: Helm, value: str) -> None:
    (found,) = await told(Cluster(helm.template("agent", {**SPLIT, value: {"enabled": False}})))
    assert (found.level, found.about, found.fix.split(" in ")[0]) == (
        NOTE,
        "policies of the agent",
        f"set {value}.enabled",
    )


async def test_a_binding_that_only_warns_refuses_nothing(helm: Helm) -> None:
    objects = helm.template("agent", SPLIT)
    for one in of_kind(objects, BINDING):
        one["spec"]["validationActions"] = ["Warn"]
    assert len(await told(Cluster(objects))) == 2


@pytest.mark.parametrize(("status", "notes"), [(403, 1), (500, 1), (404, 0), (0, 0)])
async def test_what_the_api_server_does_not_tell_is_said_with_what_to_do_about_its_answer(
    helm: Helm, status: int, notes: int
) -> None:
    found = await told(Cluster(helm.template("agent", SPLIT), {POLICIES: status}))
    assert len(found) == notes
    assert all(f"not known: {POLICIES} is refused" in one.text for one in found)
    assert all(("give the context the right" in one.fix) is (status == 403) for one in found)


async def test_where_run_starts_the_agent_the_policy_of_install_is_looked_for() -> None:
    there = install.guard()
    without_binding = of_kind(there, "ValidatingAdmissionPolicy")
    assert await unguarded(cast(Member, Cluster(there)), run_starts_agents=True) == []
    for objects in ([], without_binding):
        (found,) = await unguarded(cast(Member, Cluster(objects)), run_starts_agents=True)
        assert found.text == (
            "nothing is refused by global-dispatcher-reserve-gone: what is changed on a pod that runs in another "
            "cluster, and does not reach it, is taken all the same, in silence"
        )
        assert found.fix == "run `global-dispatcher install --context CONTEXT`"


async def test_where_a_chart_guards_the_policy_of_install_is_not_asked_for(helm: Helm) -> None:
    assert await unguarded(cast(Member, Cluster(helm.template("agent"))), run_starts_agents=True) == []


async def test_nothing_is_asked_where_no_agent_runs() -> None:
    assert await told(Cluster([], {POLICIES: 403, BINDINGS: 403})) == []
