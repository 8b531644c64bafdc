"""A pod that runs as the ServiceAccount of its name in another cluster: with tokens of that, never of its own."""

from typing import Any

import msgspec
import pytest

from agents.executor.context.local import Moment
from agents.executor.crossing.manifest import sanitise
from agents.executor.crossing.policy import Accept, ExecutorPolicy
from agents.executor.crossing.restrict import needed
from agents.executor.intents.procedures import carry_out
from agents.executor.objects import mutations
from shared.kube.http import Request, Response
from shared.messages import BOUND, OF_CLUSTER, REFUSED, Outcome, PodRef
from shared.model import names
from tests.agents.executor.world import NOW, World, order_for, pod_object, run

Object = dict[str, Any]
APP = "/api/v1/namespaces/default/serviceaccounts/app"
MOUNT = {"name": "kube-api-access-x", "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"}
GIVEN = {"name": "kube-api-access-x", "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}}
VAULT = {"name": "v", "projected": {"sources": [{"serviceAccountToken": {"path": "t", "audience": "vault"}}]}}


def submitted(account: str = "app", *, token: bool = True, named_twice: bool = True, **spec: Any) -> Object:
    """A pod as its API server stores it, with the token that admission has given it."""
    spec["serviceAccountName"] = account
    if named_twice:
        spec["serviceAccount"] = account
    pod = pod_object(**spec)
    if token:
        pod["spec"]["volumes"] = [*pod["spec"].get("volumes", ()), GIVEN]
        pod["spec"]["containers"][0]["volumeMounts"] = [MOUNT]
    return pod


class Target:
    """Cluster b, whose policy has this row; what it was asked about ServiceAccounts."""

    def __init__(self, *, there: bool = True, answer: Response | None = None, **row: Any) -> None:
        self.world = World(cluster="b", policy=ExecutorPolicy(accept=(Accept(**row),)))
        self.asked: list[str] = []
        self._answer, self._orders = answer, 0
        if there:
            self.world.api.put(APP, {"metadata": {"name": "app"}})

    def create(self, pod: Object, now: Moment = NOW) -> Outcome:
        self._orders += 1
        ref = PodRef("default", "web", f"u-{self._orders}")
        order = order_for(ref, 1, "n1", sanitise(msgspec.json.encode(pod)))
        return run(carry_out(order, 1, self.world.local, now), self._said)

    def _said(self, request: Request) -> Response:
        if "/serviceaccounts/" not in request.path:
            return self.world.api.answer(request)
        self.asked.append(request.path)
        return self._answer or self.world.api.answer(request)

    @property
    def spec(self) -> Object:
        (pod,) = self.world.api.pods()
        spec: Object = pod["spec"]
        return spec


OWN: Object = {"local_accounts": ("app",)}


@pytest.mark.parametrize("token", [True, False], ids=["with a token at home", "without one"])
def test_a_pod_runs_as_the_account_of_its_name_with_a_token_if_it_has_one_at_home(token: bool) -> None:
    target = Target(**OWN)
    assert target.create(submitted(token=token)).verdict == BOUND
    assert target.spec["serviceAccountName"] == "app"
    assert target.spec["automountServiceAccountToken"] is token
    assert "volumes" not in target.spec  # the token of home stays there: admission gives one of its own
    assert "volumeMounts" not in target.spec["containers"][0]


def test_tokens_that_the_pod_asks_for_are_those_of_the_account_there() -> None:
    target = Target(**OWN)
    assert target.create(submitted(volumes=[VAULT])).verdict == BOUND
    assert target.spec["volumes"] == [VAULT]


def test_a_pod_that_says_that_it_needs_no_account_runs_without_one() -> None:
    target = Target(**OWN)
    pod = submitted()
    pod["metadata"]["annotations"] = {names.SERVICE_ACCOUNT: "none"}
    assert target.create(pod).verdict == BOUND
    assert {"serviceAccountName", "serviceAccount"}.isdisjoint(target.spec)
    assert target.asked == []


def test_a_cluster_without_the_account_refuses_the_pod_before_anything_is_made() -> None:
    target = Target(there=False, **OWN)
    outcome = target.create(submitted())
    assert (outcome.verdict, outcome.scope) == (REFUSED, OF_CLUSTER)
    assert outcome.message.startswith(
        'ServiceAccount "default/app" (spec.serviceAccountName) does not exist in cluster "b": make it there'
    )
    assert target.world.api.done == []


@pytest.mark.parametrize("code", [403, 0, 500])
def test_where_that_is_not_known_the_api_server_says_so(code: int) -> None:
    assert Target(answer=Response(code, b"{}"), **OWN).create(submitted()).verdict == BOUND


def test_it_is_looked_for_once_for_the_replicas_of_a_controller() -> None:
    target = Target(**OWN)
    for second, looks in ((0, 1), (5, 1), (20, 2)):
        assert target.create(submitted(), NOW._replace(mono=NOW.mono + second)).verdict == BOUND
        assert len(target.asked) == looks


def test_the_account_that_every_namespace_has_is_not_looked_for() -> None:
    target = Target(local_accounts=("default",))
    assert target.create(submitted("default", volumes=[VAULT])).verdict == BOUND
    assert (target.spec["serviceAccountName"], target.asked) == ("default", [])


@pytest.mark.parametrize(
    ("row", "token", "there"),
    [
        ({"local_accounts": ("default",)}, True, True),
        ({"local_accounts": ("*",)}, True, True),
        ({"local_accounts": ("*",)}, False, False),
        ({"local_accounts": ("app",)}, True, False),
        ({"service_accounts": ("*",)}, True, False),
        ({}, True, False),
    ],
    ids=["named", "any", "none at home", "another", "without", "no row"],
)
def test_an_ordinary_pod_has_a_token_of_the_default_account_there_where_a_row_lends_it(
    row: dict[str, Any], token: bool, there: bool
) -> None:
    target = Target(**row)
    assert target.create(submitted("default", token=token)).verdict == BOUND
    assert target.spec["automountServiceAccountToken"] is there
    assert target.spec.get("serviceAccountName") == ("default" if there else None)
    assert target.asked == []
    assert "volumes" not in target.spec  # of home's token nothing crosses: admission there gives one


def test_that_a_pod_has_such_a_token_asks_for_nothing_and_is_said_once() -> None:
    clean = sanitise(msgspec.json.encode(submitted("default")))
    assert sanitise(clean) == clean
    assert list(needed(msgspec.json.decode(clean))) == []


def test_an_agent_of_an_older_version_at_home_does_not_say_of_such_a_token_and_there_is_none() -> None:
    target = Target(local_accounts=("*",))
    pod = msgspec.json.decode(sanitise(msgspec.json.encode(submitted("default"))))
    del pod["spec"]["serviceAccount"]
    assert target.create(pod).verdict == BOUND
    assert target.spec["automountServiceAccountToken"] is False


def test_an_ordinary_pod_that_says_that_it_needs_no_account_has_no_token() -> None:
    target = Target(local_accounts=("*",))
    pod = submitted("default")
    pod["metadata"]["annotations"] = {names.SERVICE_ACCOUNT: "none"}
    assert target.create(pod).verdict == BOUND
    assert target.spec["automountServiceAccountToken"] is False


@pytest.mark.parametrize(
    ("row", "account"),
    [
        ({"service_accounts": ("app",)}, None),
        ({"service_accounts": ("app",), "local_accounts": ("app",)}, "app"),
        ({"service_accounts": ("app",), "local_accounts": ("other",)}, None),
    ],
    ids=["without", "the account there goes before", "another account"],
)
def test_a_row_says_whether_it_runs_without_its_account_or_with_that_there(
    row: dict[str, Any], account: str | None
) -> None:
    target = Target(**row)
    assert target.create(submitted()).verdict == BOUND
    assert target.spec.get("serviceAccountName") == account
    assert "serviceAccount" not in target.spec or account


def test_without_a_row_it_is_refused_and_both_remedies_are_told() -> None:
    outcome = Target().create(submitted())
    assert outcome.verdict == REFUSED
    for word in ("`service_accounts`", "`local_accounts`", names.SERVICE_ACCOUNT):
        assert word in outcome.message


def test_a_source_whose_agent_does_not_tell_of_the_token_at_home_is_to_be_upgraded() -> None:
    outcome = Target(**OWN).create(submitted(named_twice=False))
    assert (outcome.verdict, outcome.scope) == (REFUSED, OF_CLUSTER)
    assert "of an older version" in outcome.message


@pytest.mark.parametrize("pod", [submitted(), submitted(token=False), submitted("default", volumes=[VAULT])])
def test_sanitising_a_manifest_again_changes_nothing(pod: Object) -> None:
    once = sanitise(msgspec.json.encode(pod))
    assert sanitise(once) == once


@pytest.mark.parametrize(("asked_for", "told"), [(True, ""), (False, "spec.volumes, spec.containers[0].volumeMounts")])
def test_the_token_that_admission_gives_is_told_of_only_where_nobody_asked_for_it(asked_for: bool, told: str) -> None:
    posted = pod_object(serviceAccountName="app", automountServiceAccountToken=asked_for)
    made = submitted(automountServiceAccountToken=asked_for)
    assert set(mutations.altered(*map(msgspec.json.encode, (posted, made))).split(", ")) == set(told.split(", "))
