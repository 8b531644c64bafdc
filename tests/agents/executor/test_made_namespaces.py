"""Namespaces that are made for pods of other clusters, and removed once nothing is in them: on an embedded server."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import msgspec
import pytest

from agents.executor.context.local import Moment
from agents.executor.crossing.manifest import sanitise
from agents.executor.crossing.policy import Accept, ExecutorPolicy, MadeNamespaces
from agents.executor.duties import empty_namespaces
from agents.executor.intents.procedures import carry_out
from agents.kube.objects import KINDS
from agents.observer.seen import ObjectSeen
from shared.kube.http import Procedure, Request, Response
from shared.messages import BOUND, OF_CLUSTER, REFUSED, UNKNOWN, Outcome, PodRef
from shared.model.names import ACCEPT, MADE_FOR, MADE_OF
from tests.agents.executor.world import NAMESPACES, NOW, World, node_object, order_for, pod_object
from tests.embedded.api_client import ApiClient, serving

T = TypeVar("T")
Object = dict[str, Any]
AFTER_S = 600.0
TEAMS = MadeNamespaces(("team-*",), {"pod-security.kubernetes.io/enforce": "baseline"}, remove_after_s=AFTER_S)
MAKES = ExecutorPolicy(namespaces=TEAMS)
TEAM = "/api/v1/namespaces/team-a"
_seen = next(kind.seen for kind in KINDS if kind.name == NAMESPACES)


class Target:
    """The executor of cluster b before an embedded server; what it asked. Its watch shows namespaces at `sync`."""

    def __init__(self, client: ApiClient, policy: ExecutorPolicy) -> None:
        self.client, self.world = client, World(cluster="b", policy=policy)
        self.asked: list[Request] = []
        self._orders = 0
        self.instead: Callable[[Request], Response | None] = lambda request: None
        self.before: Callable[[Request], Any] | None = None

    async def sync(self) -> None:
        listed = (await self.client.get("/api/v1/namespaces")).ok()["items"]
        self.world.cache.begin(NAMESPACES)
        seen = [_seen(msgspec.json.encode(one)) for one in listed]
        self.world.cache.page(NAMESPACES, [one for one in seen if isinstance(one, ObjectSeen)])
        self.world.cache.end(NAMESPACES)

    async def create(self, namespace: str = "team-a", name: str = "web", now: Moment = NOW, **spec: Any) -> Outcome:
        """The answer to an order for a pod of cluster a."""
        manifest = sanitise(msgspec.json.encode(pod_object(name, namespace, **spec)))
        self._orders += 1
        order = order_for(PodRef(namespace, name, f"u-{self._orders}"), 1, "n1", manifest)
        return await self.drive(carry_out(order, 1, self.world.local, now))

    async def tend(self, seconds: float) -> list[str]:
        """What is due after so many seconds, and what went wrong with it."""
        await self.sync()
        now = NOW._replace(mono=NOW.mono + seconds)
        due = list(empty_namespaces.reconcile_tasks(self.world.local, now))
        return [await self.drive(one.procedure) for one in due]

    async def drive(self, procedure: Procedure[T]) -> T:
        try:
            request = next(procedure)
            while True:
                request = procedure.send(await self._answer(request))
        except StopIteration as end:
            result: T = end.value
            return result

    async def _answer(self, request: Request) -> Response:
        self.asked.append(request)
        if self.before is not None:
            await self.before(request)
        if (instead := self.instead(request)) is not None:
            return instead
        call = self.client.call(request.method, request.path, request.body or None, kind=request.content_type)
        if request.params:
            call.close()
            call = self.client.call(request.method, request.path, **request.params)
        answer = await call
        return Response(answer.status, msgspec.json.encode(answer.body))

    async def there(self, namespace: str = "team-a") -> Object | None:
        answer = await self.client.get(f"/api/v1/namespaces/{namespace}")
        return answer.ok() if answer.status != 404 else None


@asynccontextmanager
async def target(policy: ExecutorPolicy = MAKES) -> AsyncIterator[Target]:
    async with serving() as (client, _):
        await client.make("/api/v1/nodes", node_object())
        found = Target(client, policy)
        await found.sync()
        yield found


async def test_a_missing_namespace_is_made_as_the_target_says_and_the_pod_runs_in_it() -> None:
    async with target() as it:
        assert (await it.create()).verdict == BOUND
        made = await it.there()
        assert made is not None
        assert made["metadata"]["labels"] == {
            "kubernetes.io/metadata.name": "team-a",
            "pod-security.kubernetes.io/enforce": "baseline",
            MADE_FOR: "a",
        }
        assert set(made["metadata"]["annotations"]) == {MADE_OF}
        (pod,) = (await it.client.get(f"{TEAM}/pods")).ok()["items"]
        assert pod["spec"]["nodeName"] == "n1"


REFUSALS: dict[str, tuple[str, ExecutorPolicy, str]] = {
    "no pattern covers it": ("shop", MAKES, 'namespace "shop" does not exist in cluster "b"'),
    "it would be Kubernetes' own": (
        "kube-x",
        ExecutorPolicy(namespaces=MadeNamespaces(("*",))),
        'namespace "kube-x" is Kubernetes\' own',
    ),
    "it is closed": ("team-a", ExecutorPolicy(closed=("team-*",), namespaces=TEAMS), "in its `executor.closed`"),
    "no row accepts it": (
        "team-a",
        ExecutorPolicy(accept=(Accept(clusters=("c",)),), namespaces=TEAMS),
        'does not accept pods of namespace "team-a" of cluster "a"',
    ),
}


@pytest.mark.parametrize("what", REFUSALS)
async def test_no_namespace_is_made_where_the_policy_would_not_let_the_pod_into_one(what: str) -> None:
    namespace, policy, said = REFUSALS[what]
    async with target(policy) as it:
        outcome = await it.create(namespace)
        assert (outcome.verdict, outcome.scope) == (REFUSED, OF_CLUSTER)
        assert said in outcome.message
        assert [one.path for one in it.asked if one.method != "GET"] == []
        assert await it.there(namespace) is None


async def test_one_that_vanishes_while_a_pod_is_on_its_way_is_not_made_against_the_policy() -> None:
    policy = ExecutorPolicy(accept=(Accept(local_accounts=("app",)),), namespaces=TEAMS)
    async with target(policy) as it:
        await it.client.make("/api/v1/namespaces", {"metadata": {"name": "shop"}})
        await it.client.make("/api/v1/namespaces/shop/serviceaccounts", {"metadata": {"name": "app"}})
        await it.sync()

        account = "/api/v1/namespaces/shop/serviceaccounts/app"

        async def vanish(request: Request) -> None:
            if request.path == account:
                await it.client.delete("/api/v1/namespaces/shop")
                await it.sync()

        it.before, it.instead = vanish, on("GET", account, Response(200, b"{}"))
        outcome = await it.create("shop", serviceAccountName="app", serviceAccount="app")
        assert outcome.verdict == REFUSED
        assert await it.there("shop") is None


async def test_a_pod_that_is_refused_for_itself_makes_no_namespace() -> None:
    async with target() as it:
        volumes = [{"name": "v", "secret": {"secretName": "db"}}]
        assert (await it.create(volumes=volumes)).verdict == REFUSED
        assert await it.there() is None


async def test_the_next_pods_ask_for_no_namespace_again() -> None:
    async with target() as it:
        await it.create()
        it.asked.clear()
        assert (await it.create(name="two")).verdict == BOUND
        await it.sync()
        assert (await it.create(name="three", now=NOW._replace(mono=NOW.mono + 60))).verdict == BOUND
        assert [one.path for one in it.asked if one.path.endswith(("/namespaces", "/team-a"))] == []


@pytest.mark.parametrize(
    ("metadata", "verdict"),
    [
        ({}, BOUND),
        ({"labels": {ACCEPT: "true"}}, BOUND),
        ({"labels": {ACCEPT: "false"}}, REFUSED),
        ({"annotations": {ACCEPT: "no"}}, REFUSED),
    ],
)
async def test_one_that_somebody_made_meanwhile_is_read_before_a_pod_goes_into_it(
    metadata: Object, verdict: str
) -> None:
    async with target() as it:
        await it.client.make("/api/v1/namespaces", {"metadata": {"name": "team-a", **metadata}})
        outcome = await it.create()
        assert outcome.verdict == verdict
        assert verdict == BOUND or "has the label, or annotation" in outcome.message
        made = await it.there()
        assert made is not None
        assert MADE_FOR not in made["metadata"].get("labels", {})


async def test_one_that_is_being_deleted_is_waited_for() -> None:
    async with target() as it:
        await it.client.make("/api/v1/namespaces", {"metadata": {"name": "team-a"}})
        await it.client.make(f"{TEAM}/configmaps", {"metadata": {"name": "c", "finalizers": ["example.com/x"]}})
        await it.client.delete(TEAM)
        outcome = await it.create()
        assert (outcome.verdict, outcome.passing) == (REFUSED, True)
        assert "is being deleted" in outcome.message


def on(method: str, path: str, response: Response) -> Callable[[Request], Response | None]:
    return lambda one: response if (one.method, one.path) == (method, path) else None


async def test_an_executor_without_the_right_says_how_to_give_it() -> None:
    async with target() as it:
        it.instead = on("POST", "/api/v1/namespaces", Response(403, b'{"kind": "Status", "message": "forbidden"}'))
        outcome = await it.create()
        assert (outcome.verdict, outcome.scope) == (REFUSED, OF_CLUSTER)
        assert "`config.executor.namespaces` of the chart" in outcome.message


async def test_whether_one_was_made_may_stay_unknown() -> None:
    async with target() as it:
        it.instead = on("POST", "/api/v1/namespaces", Response(0, b"reset"))
        assert (await it.create()).verdict == UNKNOWN


async def test_one_other_cluster_has_half_of_them_made_and_all_have_no_more_than_that() -> None:
    few = MadeNamespaces(("team-*",), most=4)
    async with target(ExecutorPolicy(namespaces=few)) as it:
        for name in ("team-a", "team-b"):
            assert (await it.create(name, name)).verdict == BOUND
        for shown in (False, True):
            if shown:
                await it.sync()
            outcome = await it.create("team-c", "more")
            assert outcome.verdict == REFUSED
            assert '2 were made there for cluster "a" already; raise its `executor.namespaces.most`' in outcome.message
        for name in ("team-x", "team-y"):
            labels = {MADE_FOR: "c"}
            await it.client.make("/api/v1/namespaces", {"metadata": {"name": name, "labels": labels}})
        await it.client.patch("/api/v1/namespaces/team-b", {"metadata": {"labels": {MADE_FOR: "c"}}})
        await it.sync()
        assert "4 were made there already" in (await it.create("team-c", "more")).message


# --- removal


async def emptied(it: Target) -> None:
    """The namespace was made, and its pod is gone."""
    assert (await it.create()).verdict == BOUND
    (pod,) = (await it.client.get(f"{TEAM}/pods")).ok()["items"]
    await it.client.delete(f"{TEAM}/pods/{pod['metadata']['name']}", {"gracePeriodSeconds": 0})
    assert (await it.client.get(f"{TEAM}/pods")).ok()["items"] == []


async def test_an_empty_one_is_removed_once_no_order_has_named_it_for_long() -> None:
    async with target() as it:
        await emptied(it)
        assert await it.tend(AFTER_S - 1) == []
        assert await it.there() is not None
        made = await it.there()
        assert made is not None
        assert await it.tend(AFTER_S) == [""]
        assert await it.there() is None
        (deletion,) = [one for one in it.asked if one.method == "DELETE"]
        only = {key: made["metadata"][key] for key in ("uid", "resourceVersion")}
        assert msgspec.json.decode(deletion.body)["preconditions"] == only
        assert await it.tend(AFTER_S + 1) == []
        assert (await it.create()).verdict == BOUND


async def test_none_of_kubernetes_own_is_looked_at_whatever_its_labels() -> None:
    async with target() as it:
        await it.client.make("/api/v1/namespaces", {"metadata": {"name": "kube-x", "labels": {MADE_FOR: "a"}}})
        await it.tend(0)
        assert await it.tend(2 * AFTER_S) == []


async def test_none_is_removed_by_default() -> None:
    async with target(ExecutorPolicy(namespaces=MadeNamespaces(("team-*",)))) as it:
        await emptied(it)
        assert await it.tend(10 * AFTER_S) == []
        assert await it.there() is not None


CONTENTS: dict[str, tuple[str, Object]] = {
    "a pod": ("/api/v1/namespaces/team-a/pods", {**pod_object("x", "team-a"), "apiVersion": "v1", "kind": "Pod"}),
    "a ConfigMap": (f"{TEAM}/configmaps", {"metadata": {"name": "settings"}}),
    "a Secret": (f"{TEAM}/secrets", {"metadata": {"name": "db"}}),
    "a ServiceAccount": (f"{TEAM}/serviceaccounts", {"metadata": {"name": "app"}}),
    "an object of another group": (
        "/apis/coordination.k8s.io/v1/namespaces/team-a/leases",
        {"metadata": {"name": "x"}, "spec": {}},
    ),
    "a claim": (
        f"{TEAM}/persistentvolumeclaims",
        {
            "metadata": {"name": "d"},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
        },
    ),
}


@pytest.mark.parametrize("what", CONTENTS)
async def test_one_with_anything_in_it_stays(what: str) -> None:
    path, body = CONTENTS[what]
    async with target() as it:
        await emptied(it)
        await it.client.make(path, body)
        assert await it.tend(AFTER_S) == [""]
        assert await it.there() is not None
        assert [one for one in it.asked if one.method == "DELETE"] == []


async def test_events_alone_keep_none() -> None:
    async with target() as it:
        await emptied(it)
        told = {"metadata": {"name": "e"}, "involvedObject": {"namespace": "team-a", "kind": "Pod"}, "reason": "x"}
        await it.client.make(f"{TEAM}/events", told)
        assert await it.tend(AFTER_S) == [""]
        assert await it.there() is None


@pytest.mark.parametrize(
    "metadata",
    [
        {"labels": {"owner": "alice"}},
        {"labels": {"pod-security.kubernetes.io/enforce": "privileged"}},
        {"labels": {"pod-security.kubernetes.io/enforce": None}},
        {"annotations": {"example.com/owner": "alice"}},
        {"annotations": {MADE_OF: None}},
        {"labels": {MADE_FOR: None}},
    ],
)
async def test_one_that_somebody_has_written_to_is_his(metadata: Object) -> None:
    async with target() as it:
        await emptied(it)
        (await it.client.patch(TEAM, {"metadata": metadata})).ok()
        await it.tend(AFTER_S)
        assert await it.there() is not None
        assert [one for one in it.asked if one.method == "DELETE"] == []


async def test_one_that_somebody_writes_to_while_it_is_looked_at_stays() -> None:
    async with target() as it:
        await emptied(it)

        async def relabelled(request: Request) -> None:
            if request.method == "DELETE":
                (await it.client.patch(TEAM, {"metadata": {"labels": {"owner": "alice"}}})).ok()

        it.before = relabelled
        (problem,) = await it.tend(AFTER_S)
        assert "HTTP 409" in problem
        assert await it.there() is not None


FAILURES = {
    "a kind cannot be listed": (f"{TEAM}/secrets", Response(403, b"{}")),
    "an API group does not answer": ("/apis/apps/v1", Response(503, b"{}")),
    "a group tells of a kind that has no list": (
        "/apis/apps/v1",
        Response(200, b'{"resources": [{"name": "odds", "namespaced": true, "verbs": ["get"]}]}'),
    ),
    "discovery cannot be read": ("/apis", Response(200, b"[]")),
}


@pytest.mark.parametrize("what", FAILURES)
async def test_one_of_which_not_all_is_known_stays_and_is_looked_at_no_more_often(what: str) -> None:
    path, response = FAILURES[what]
    async with target() as it:
        await emptied(it)
        it.instead = on("GET", path, response)
        (problem,) = await it.tend(AFTER_S)
        assert "is not known" in problem
        assert await it.there() is not None
        assert await it.tend(AFTER_S + 10) == []
        assert len(await it.tend(2 * AFTER_S)) == 1


def order_at(it: Target, method: str, path: str, began_s: float = AFTER_S + 1) -> list[Outcome]:
    """An order comes while this request is on its way; what becomes of it. It may have begun before, and waited."""
    answers: list[Outcome] = []

    async def order(request: Request) -> None:
        if (request.method, request.path) == (method, path) and not answers:
            answers.append(await it.create(name="late", now=NOW._replace(mono=NOW.mono + began_s)))

    it.before = order
    return answers


@pytest.mark.parametrize("began_s", [AFTER_S + 1, AFTER_S - 1])
async def test_an_order_that_comes_while_one_is_looked_at_keeps_it(began_s: float) -> None:
    async with target() as it:
        await emptied(it)
        last = "/apis/storage.k8s.io/v1/namespaces/team-a/csistoragecapacities"  # pods were listed before, in vain
        answers = order_at(it, "GET", last, began_s)
        assert await it.tend(AFTER_S) == [""]
        assert [one.verdict for one in answers] == [BOUND]
        assert [one for one in it.asked if one.method == "DELETE"] == []


async def test_an_order_that_comes_while_one_is_deleted_is_tried_again_soon() -> None:
    async with target() as it:
        await emptied(it)
        answers = order_at(it, "DELETE", TEAM)
        assert await it.tend(AFTER_S) == [""]
        (late,) = answers
        assert (late.verdict, late.passing) == (REFUSED, True)
        assert "is being removed" in late.message
        assert await it.there() is None
        afterwards = NOW._replace(mono=NOW.mono + AFTER_S + 2)
        gone = await it.create(name="gone", now=afterwards)
        assert (gone.verdict, gone.passing) == (REFUSED, True)  # the watch still shows the namespace
        await it.sync()
        assert (await it.create(name="again", now=afterwards)).verdict == BOUND


async def test_after_a_restart_it_is_waited_as_long_again() -> None:
    async with target() as it:
        await emptied(it)
        it.world.restart()
        assert await it.tend(2 * AFTER_S) == []
        assert await it.tend(3 * AFTER_S) == [""]
        assert await it.there() is None
