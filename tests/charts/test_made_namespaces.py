"""Namespaces that the executor makes and removes, and tokens of delegates: by the chart's rights, on a real server."""

from collections.abc import Iterator
from typing import TypeVar

import httpx
import msgspec
import pytest
import yaml

from agents.executor.crossing.policy import ExecutorPolicy, MadeNamespaces
from agents.executor.duties import empty_namespaces
from agents.executor.objects import made_namespaces
from agents.kube.objects import KINDS
from agents.observer.seen import ObjectSeen
from localfleet.controlplane.plane import ControlPlane
from shared.kube.http import Procedure, Request, Response
from shared.messages import PodRef
from shared.model.names import MADE_FOR
from tests.agents.executor.world import NAMESPACES, NOW, World, source_of
from tests.charts.policies import wait_for_policies
from tests.charts.rendering import CHARTS, NAMESPACE, Helm, Object
from tests.charts.test_install import delegate
from tests.controlplane.fixtures import ControlPlanes
from tests.system.cluster_api import eventually

pytestmark = [pytest.mark.real, pytest.mark.timeout(900)]

T = TypeVar("T")
AFTER_S = 600.0
LABELS = {"pod-security.kubernetes.io/enforce": "baseline"}
MAKES = {"create": ["team-*"], "labels": LABELS, "remove_after_s": AFTER_S}
VALUES = {"config": {"executor": {"namespaces": MAKES, "accept": [{"local_accounts": ["app"]}]}}}
SPACES = "/api/v1/namespaces"
_seen = next(kind.seen for kind in KINDS if kind.name == NAMESPACES)


@pytest.fixture(scope="module")
def plane(helm: Helm, control_plane: ControlPlanes) -> ControlPlane:
    """A cluster with the agent's chart."""
    plane = control_plane("made")
    values = ("-f", str(CHARTS / "agent" / "ci" / "example-values.yaml"), "-f", helm.values_file(VALUES))
    where = ("-n", NAMESPACE, "--create-namespace")
    helm("install", "agent", str(CHARTS / "agent"), *where, *values, KUBECONFIG=str(plane.kubeconfig))
    wait_for_policies(plane)
    return plane


@pytest.fixture(scope="module")
def agent(plane: ControlPlane) -> Iterator[httpx.Client]:
    """The account of the executor."""
    api = plane.api_for("agent", NAMESPACE)
    yield api.http
    api.close()


def named(name: str, *, marked: bool = True) -> Object:
    return {"metadata": {"name": name, "labels": {MADE_FOR: "a"} if marked else {}}}


def test_it_makes_and_deletes_no_namespaces_but_those(plane: ControlPlane, agent: httpx.Client) -> None:
    plane.admin.create(SPACES, named("shop", marked=False))
    plane.admin.create(SPACES, named("team-theirs", marked=False))
    answers = {
        "of another name": agent.post(SPACES, json=named("shop-b")),
        "Kubernetes' own": agent.post(SPACES, json=named("kube-x")),
        "without our label": agent.post(SPACES, json=named("team-b", marked=False)),
        "deletes another's": agent.delete(f"{SPACES}/shop"),
        "deletes one that somebody else made": agent.delete(f"{SPACES}/team-theirs"),
    }
    told = {
        what: (answer.status_code, "agent of Global Dispatcher may" in answer.text) for what, answer in answers.items()
    }
    assert told == dict.fromkeys(answers, (422, True)), {what: answer.text for what, answer in answers.items()}
    relabelled = agent.patch(
        f"{SPACES}/shop", json=named("shop"), headers={"Content-Type": "application/merge-patch+json"}
    )
    assert relabelled.status_code == 403


def test_a_delegate_has_the_token_of_an_account_that_a_row_lists_and_of_no_other(
    plane: ControlPlane, agent: httpx.Client
) -> None:
    for name in ("app", "other"):
        plane.admin.create(f"{SPACES}/default/serviceaccounts", {"metadata": {"name": name}})
    pods = f"{SPACES}/default/pods"
    asks = {"automountServiceAccountToken": True}
    refused = agent.post(pods, json=delegate(serviceAccountName="other", **asks))
    assert (refused.status_code, "local_accounts" in refused.text) == (422, True)
    assert agent.post(pods, json=delegate(**asks)).status_code == 422
    # Without the token that admission adds it could ask for one of its own, in a volume.
    asked = {"volumes": [{"name": "t", "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}}]}
    assert agent.post(pods, json=delegate(serviceAccountName="other", **asked)).status_code == 422
    made = agent.post(pods, json=delegate(serviceAccountName="app", **asks))
    assert made.status_code == 201, made.text
    assert "kube-api-access-" in yaml.safe_dump(made.json()["spec"]["volumes"])
    agent.delete(f"{pods}/thief")


def drive(procedure: Procedure[T], agent: httpx.Client) -> T:
    try:
        request: Request = next(procedure)
        while True:
            kind = {"Content-Type": request.content_type} if request.body else {}
            path, body = request.path, request.body or None
            answer = agent.request(request.method, path, params=request.params, content=body, headers=kind)
            request = procedure.send(Response(answer.status_code, answer.content))
    except StopIteration as end:
        result: T = end.value
        return result


def test_the_executor_makes_one_and_removes_it_again_once_it_is_empty(plane: ControlPlane, agent: httpx.Client) -> None:
    settings = MadeNamespaces(("team-*",), LABELS, remove_after_s=AFTER_S)
    world = World(cluster="b", policy=ExecutorPolicy(namespaces=settings))
    source = source_of(PodRef("team-a", "web", "u"), 1)
    assert drive(made_namespaces.make(source, world.local, NOW), agent) is None
    path = f"{SPACES}/team-a"
    eventually(lambda: plane.admin.answers(f"{path}/serviceaccounts/default"), 60)
    seen = _seen(msgspec.json.encode(plane.admin.get(path)))
    assert isinstance(seen, ObjectSeen)
    world.cache.begin(NAMESPACES)
    world.cache.page(NAMESPACES, [seen])
    world.cache.end(NAMESPACES)

    def tend(seconds: float) -> list[str]:
        now = NOW._replace(mono=NOW.mono + seconds)
        return [drive(one.procedure, agent) for one in empty_namespaces.reconcile_tasks(world.local, now)]

    assert tend(0) == []
    plane.admin.create(f"{path}/secrets", {"metadata": {"name": "theirs"}})
    assert tend(AFTER_S) == [""]
    assert "deletionTimestamp" not in plane.admin.get(path)["metadata"]
    plane.admin.delete(f"{path}/secrets/theirs")
    assert tend(2 * AFTER_S) == [""]
    eventually(lambda: not plane.admin.answers(path), 60)
