"""Services of a source's namespace where its delegates run: there before these, as at home, deleted after the last."""

from collections.abc import Callable, Iterable
from contextlib import suppress
from copy import deepcopy
from typing import Any
from unittest.mock import patch

import msgspec
import pytest

from agents.executor.context import service_table
from agents.executor.context.local import Moment
from agents.executor.context.reconcile_task import ReconcileTask
from agents.executor.crossing.policy import Accept, ExecutorPolicy
from agents.executor.duties.service_upkeep import STALE_S, reconcile_tasks, withdraw
from agents.executor.intents.procedures import carry_out
from agents.executor.objects import pages, service_content, services
from agents.executor.objects.service_content import (
    HEADLESS,
    MANAGED_BY,
    SERVICE_NAME,
    Content,
    Endpoint,
    Filled,
    Port,
    Service,
    ServicesError,
    Slice,
    checked,
    content_of,
    read_service,
    read_slice,
)
from agents.executor.relayed import giving
from shared.kube.http import Request, Response
from shared.messages import BOUND, DONE, OF_CLUSTER, REFUSED, UNKNOWN, CreateDelegate, Evict, Outcome, Peer
from shared.messages.relay import (
    CONTENT,
    DENIED,
    OBJECTS,
    Given,
    GivenObjects,
    PodWants,
    RelayAsk,
    WantedObject,
    decode_given,
    decode_signed_given,
)
from shared.model import names
from tests.agents.executor.two_clusters import HOME, THERE, TwoClusters, moment
from tests.agents.executor.world import NOW, World, pod_object, run, source_of

SERVICES = "/api/v1/namespaces/default/services"
SLICES = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"
IMPORTS = "/apis/multicluster.x-k8s.io/v1alpha1/namespaces/default/serviceimports"
LISTS = ("services", "endpointslices", "serviceimports", "pods")
Object = dict[str, Any]


def service(name: str = "web", **spec: Any) -> Object:
    ports = [{"name": "http", "port": 80, "protocol": "TCP", "targetPort": 8080}]
    whole = {"type": "ClusterIP", "clusterIP": "10.96.0.7", "selector": {"app": name}, "ports": ports, **spec}
    return {"metadata": {"name": name, "namespace": "default"}, "spec": whole}


def endpoint(address: str, **more: Any) -> Object:
    ready = {"ready": True, "serving": True, "terminating": False}
    pod = {"kind": "Pod", "name": "web-0", "namespace": "default", "uid": "u"}
    return {"addresses": [address], "conditions": ready, "nodeName": "n9", "targetRef": pod, **more}


def endpoint_slice(*endpoints: Object, of: str = "web", name: str = "web-abcde", **labels: str) -> Object:
    marks = {SERVICE_NAME: of, MANAGED_BY: "endpointslice-controller.k8s.io", **labels}
    ports = [{"name": "http", "port": 8080, "protocol": "TCP"}]
    metadata = {"name": name, "namespace": "default", "labels": marks}
    return {"metadata": metadata, "addressType": "IPv4", "ports": ports, "endpoints": list(endpoints)}


class Fleet(TwoClusters):
    """Both clusters are in one pod network, and have their Services follow."""

    def __init__(self, *, rows: tuple[Accept, ...] = (Accept(),), networks: tuple[str, str] = ("flat", "flat")) -> None:
        super().__init__()
        self.networks = networks
        self.rows = rows
        self.begin()
        self.served: set[str] = set()
        self.lost: set[str] = set()
        self.forbidden: frozenset[str] = frozenset()
        self.range = "10.96."

    def begin(self) -> None:
        """Agents that were started, and heard what the dispatcher is told."""
        both = (
            Peer(HOME, ready=True, uid="a-cluster-uid", follows=("Service",), network=self.networks[0]),
            Peer(THERE, ready=True, uid="b-cluster-uid", follows=("Service",), network=self.networks[1]),
        )
        for world, network in zip((self.home, self.there), self.networks, strict=True):
            world.local.serves = True
            world.local.peers.update(both, NOW.mono, network=network)
        self.there.local.policy = ExecutorPolicy(self.rows)

    def put(self, obj: Object) -> None:
        """What is written at home."""
        at = SLICES if "addressType" in obj else SERVICES
        self.home.api.put(f"{at}/{obj['metadata']['name']}", obj)

    def order(self, name: str = "x", *, calls: bool = True) -> CreateDelegate:
        return msgspec.structs.replace(self.orders(self.claims(pod_object(name))), services=calls)

    def create(self, name: str = "x", *, calls: bool = True, after_s: float = 0.0) -> Outcome:
        return self.carries_out(self.order(name, calls=calls), moment(after_s))

    def at_target(self, request: Request) -> Response:
        plural = request.path.rpartition("/")[2]
        if request.method in self.forbidden and "endpointslices" in request.path:
            return Response(403, b'{"kind": "Status", "message": "endpointslices is forbidden"}')
        return self._list(self.there, request) if plural in LISTS and request.method == "GET" else self._one(request)

    def _one(self, request: Request) -> Response:
        if request.path.endswith("selfsubjectaccessreviews"):
            asked = msgspec.json.decode(request.body)["spec"]["resourceAttributes"]
            allowed = {"allowed": asked["verb"] == "delete" and asked["resource"] not in self.lost}
            return Response(201, msgspec.json.encode({"status": allowed}))
        if request.method in ("POST", "PUT") and request.path.startswith(SERVICES):
            address = msgspec.json.decode(request.body)["spec"].get("clusterIP", "None")
            if address != "None" and not address.startswith(self.range):
                return Response(422, b'{"kind": "Status", "message": "failed to allocate IP"}')
        return self.there.api.answer(request)

    def _list(self, world: World, request: Request) -> Response:
        if "serviceimports" in request.path and "imports" not in self.served:
            return Response(404, b"404 page not found")
        where, _, plural = request.path.rpartition("/")
        selector = request.params.get("labelSelector", "")
        key, _, value = selector.partition("=")
        found = []
        for path, obj in world.api.objects.items():
            labels = obj["metadata"].get("labels") or {}
            shown = path.startswith(where) and path.split("/")[-2] == plural
            if shown and (not key or (key in labels and value in ("", labels[key]))):
                found.append(obj)
        return Response(200, msgspec.json.encode({"items": found, "metadata": {}}))

    def at_home(self, request: Request) -> Response:
        plural = request.path.rpartition("/")[2]
        return self._list(self.home, request) if plural in LISTS else self.home.api.answer(request)

    def here(self, name: str = "web") -> Object | None:
        return self.there.api.objects.get(f"{SERVICES}/{name}")

    def slices(self) -> list[Object]:
        return [obj for path, obj in self.there.api.objects.items() if path.startswith(SLICES)]

    def addresses(self) -> list[str]:
        return sorted(one for found in self.slices() for end in found["endpoints"] for one in end["addresses"])

    def told(self) -> str:
        """What is told of delegates, and so at home."""
        return b" ".join(event.body for event in self.there.local.events).decode()

    def due(self, now: Moment) -> Iterable[ReconcileTask]:
        return reconcile_tasks(self.there.local, now)

    def tend_until(self, after_s: float, since_s: float = 0.0) -> None:
        for at in range(int(since_s), int(after_s) + 1, 10):
            assert bool(self.tend(at)) <= bool(self.cut)


def with_web(**more: Any) -> Fleet:
    fleet = Fleet(**more)
    fleet.put(service())
    fleet.put(endpoint_slice(endpoint("10.1.0.5"), endpoint("10.2.0.6")))
    return fleet


# --- made before the delegate
# ----------------------------------------------------------------------------------------------------------------------


def test_what_a_pod_may_call_is_there_before_its_delegate_and_leads_where_it_leads_at_home() -> None:
    fleet = with_web()
    assert fleet.create().verdict == BOUND
    made = [what.partition("/namespaces/default/")[2].partition("/")[0] for verb, what, _ in fleet.there.api.done]
    assert made[:3] == ["services", "endpointslices", "pods"]
    assert (fleet.here() or {})["spec"] == {
        "type": "ClusterIP",
        "clusterIP": "10.96.0.7",
        "ports": [{"name": "http", "port": 80, "protocol": "TCP"}],
    }
    (found,) = fleet.slices()
    assert found["metadata"]["labels"][MANAGED_BY] == "global-dispatcher.io"
    assert found["metadata"]["labels"][SERVICE_NAME] == "web"
    assert HEADLESS not in found["metadata"]["labels"]
    assert fleet.addresses() == ["10.1.0.5", "10.2.0.6"]
    assert all(one.keys() == {"addresses", "conditions"} for one in found["endpoints"])


def test_where_its_address_of_home_cannot_be_had_it_has_another_one_and_keeps_it() -> None:
    fleet = with_web()
    fleet.range = "10.100."
    assert fleet.create().verdict == BOUND
    made = fleet.here() or {}
    assert "clusterIP" not in made["spec"]
    made["spec"]["clusterIP"] = "10.100.0.9"  # the server's own choice
    fleet.tend_until(60)
    assert fleet.here() is made
    fleet.put(service(sessionAffinity="ClientIP"))
    fleet.tend_until(120, 70)
    spec = (fleet.here() or {})["spec"]
    assert (spec["clusterIP"], spec["sessionAffinity"]) == ("10.100.0.9", "ClientIP")


def test_one_that_somebody_makes_an_alias_is_mended_also_where_its_address_of_home_cannot_be_had() -> None:
    fleet = with_web()
    fleet.range = "10.100."
    fleet.create()
    (fleet.here() or {})["spec"].update(type="ExternalName", externalName="evil.example")
    fleet.tend_until(60)
    spec = (fleet.here() or {})["spec"]
    assert (spec["type"], spec.get("externalName"), spec.get("clusterIP")) == ("ClusterIP", None, None)


def test_a_headless_service_keeps_the_names_of_its_pods() -> None:
    fleet = Fleet()
    fleet.put(service(clusterIP="None", publishNotReadyAddresses=True))
    starting = {"ready": False, "serving": False, "terminating": False}
    fleet.put(endpoint_slice(endpoint("10.1.0.5", hostname="web-0"), endpoint("10.1.0.6", conditions=starting)))
    assert fleet.create().verdict == BOUND
    spec = (fleet.here() or {})["spec"]
    assert (spec["clusterIP"], spec["publishNotReadyAddresses"]) == ("None", True)
    (found,) = fleet.slices()
    assert found["metadata"]["labels"][HEADLESS] == ""
    assert [one.get("hostname") for one in found["endpoints"]] == ["web-0", None]
    assert found["endpoints"][1]["conditions"] == starting


def test_what_the_dispatcher_does_not_ask_for_and_what_a_row_does_without_is_not_made() -> None:
    for fleet, calls in ((with_web(), False), (with_web(rows=(Accept(services="none"),)), True)):
        assert fleet.create(calls=calls).verdict == BOUND
        assert (len(fleet.asks), fleet.here()) == (0, None)


def test_replicas_that_come_together_ask_once() -> None:
    fleet = with_web()
    assert {fleet.create(name).verdict for name in ("x", "y", "z")} == {BOUND}
    assert len(fleet.asks) == 1


@pytest.mark.parametrize("has", ["10.96.", "10.100."], ids=["address of home", "another address"])
def test_of_two_orders_at_once_both_find_what_one_has_made(has: str) -> None:
    fleet = with_web()
    fleet.range = has
    orders = [fleet.order("x"), fleet.order("y")]
    under_way = [carry_out(one, 1, fleet.there.local, NOW) for one in orders]
    asked = [next(one) for one in under_way]
    outcomes: dict[int, Outcome] = {}
    while len(outcomes) < len(orders):
        for at, one in enumerate(under_way):
            if at not in outcomes:
                try:
                    asked[at] = one.send(fleet.answer(asked[at]))
                except StopIteration as end:
                    outcomes[at] = end.value
    assert {one.verdict for one in outcomes.values()} == {BOUND}
    assert len(fleet.slices()) == 1


def test_a_slice_of_others_under_the_name_of_one_of_ours_is_left_alone() -> None:
    fleet = with_web()
    fleet.create("x")
    (ours,) = fleet.slices()
    name = f"{SLICES}/{ours['metadata']['name']}"
    fleet = with_web()
    theirs = fleet.there.api.put(name, endpoint_slice(endpoint("10.9.9.9")))
    outcome = fleet.create("y")
    assert (outcome.verdict, outcome.passing) == (REFUSED, True)
    assert "is there, and is none of ours" in outcome.message
    assert fleet.slices() == [theirs]


def test_many_endpoints_are_in_slices_of_a_hundred() -> None:
    fleet = Fleet()
    fleet.put(service())
    fleet.put(endpoint_slice(*(endpoint(f"10.1.{n // 200}.{n % 200}") for n in range(250))))
    assert fleet.create().verdict == BOUND
    assert sorted(len(one["endpoints"]) for one in fleet.slices()) == [50, 100, 100]


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda fleet: setattr(fleet, "cut", "no way"), "cannot be asked for Services"),
        (
            lambda fleet: fleet.home.local.peers.update(
                (Peer(THERE, ready=True, uid="b-cluster-uid", network="own"),), 0, network="flat"
            ),
            "`network`",
        ),
        (lambda fleet: setattr(fleet.home.local, "serves", False), 'cluster "a" gives no Services'),
        (lambda fleet: setattr(fleet.there.local, "serves", False), "set its `executor.services`"),
        (lambda fleet: setattr(fleet, "forbidden", frozenset(("GET",))), "needs the rights to Services"),
        (lambda fleet: fleet.put(service("alias", type="ExternalName")), '"default/alias" of cluster "a" is an Ext'),
        (lambda fleet: [fleet.put(service(f"s{n}")) for n in range(200)], "has 201 Services, and at most 200 cross"),
    ],
    ids=["cut off", "not one network", "home gives none", "none are made", "no right", "ExternalName", "too many"],
)
def test_without_them_it_is_refused_and_told_why(spoil: Callable[[Fleet], object], said: str) -> None:
    fleet = with_web()
    spoil(fleet)
    outcome = fleet.create()
    assert (outcome.verdict, outcome.scope) == (REFUSED, OF_CLUSTER)
    assert said in outcome.message
    assert fleet.there.api.pods() == []


def test_an_external_name_is_had_of_the_target_itself() -> None:
    fleet = with_web()
    fleet.put(service("alias", type="ExternalName", externalName="db.example.com"))
    own = fleet.there.api.put(f"{SERVICES}/alias", service("alias"))
    assert fleet.create().verdict == BOUND
    assert fleet.here("alias") == own


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda fleet: None, ""),
        (lambda fleet: setattr(fleet.there.local, "serves", False), "set its `executor.services`"),
        (lambda fleet: setattr(fleet, "forbidden", frozenset(("GET",))), "needs the rights to Services"),
        (lambda fleet: [fleet.put(service("alias", type="ExternalName")), fleet.tend_until(30)], "create it there"),
    ],
    ids=["as before", "none are made", "no right", "one is lacking"],
)
def test_nobody_is_evicted_for_a_pod_that_would_be_refused_for_its_services(
    spoil: Callable[[Fleet], object], said: str
) -> None:
    fleet = with_web()
    fleet.create("first")
    spoil(fleet)
    order = fleet.order("urgent")
    victim = fleet.there.submit(pod_object("low", nodeName="n1"))
    evict = Evict("e", victim, 1, "n1", 100, "", source=order.source, manifest=order.manifest, services=True)
    asked = len(fleet.asks)
    outcome = run(carry_out(evict, 1, fleet.there.local, moment(30)), fleet.answer)
    assert (outcome.verdict, said in outcome.message) == (REFUSED if said else DONE, True)
    assert len(fleet.asks) == asked, "home gives nothing for a pod that it has not claimed"
    plain = msgspec.structs.replace(evict, services=False)
    assert run(carry_out(plain, 1, fleet.there.local, moment(30)), fleet.answer).verdict == DONE


# --- what is there already
# ----------------------------------------------------------------------------------------------------------------------


def test_what_is_not_known_of_the_target_is_not_taken_for_absent() -> None:
    fleet = with_web()
    fleet.put(service("old", type="ExternalName", externalName="db.example.com"))
    asked = fleet.answer
    at = f"{SERVICES}/old"
    with patch.object(fleet, "answer", lambda one: Response(500) if one.path == at else asked(one)):
        outcome = fleet.create()
    assert (outcome.verdict, "cannot be written" in outcome.message or "500" in outcome.message) == (UNKNOWN, True)


def test_a_service_of_the_target_is_never_touched_and_its_owner_at_home_is_told() -> None:
    fleet = with_web()
    own = msgspec.json.encode(fleet.there.api.put(f"{SERVICES}/web", service()))
    assert fleet.create().verdict == BOUND
    fleet.tend_until(60)
    assert msgspec.json.encode(fleet.here()) == own
    assert fleet.slices() == []
    assert "web is there already, and not as at home" in fleet.told()


@pytest.mark.parametrize("headless", [True, False])
def test_one_that_says_so_is_joined_by_addresses_alone(headless: bool) -> None:
    fleet = with_web()
    own = service(clusterIP="None" if headless else "10.96.0.9")
    own["metadata"]["annotations"] = {names.JOIN: "true"}
    before = msgspec.json.encode(fleet.there.api.put(f"{SERVICES}/web", own))
    assert fleet.create().verdict == BOUND
    assert msgspec.json.encode(fleet.here()) == before
    assert fleet.addresses() == ["10.1.0.5", "10.2.0.6"]
    assert (HEADLESS in fleet.slices()[0]["metadata"]["labels"]) == headless


def test_where_it_is_imported_by_the_multi_cluster_services_api_none_is_made() -> None:
    fleet = with_web()
    fleet.served.add("imports")
    fleet.there.api.put(f"{IMPORTS}/web", {"metadata": {"name": "web"}})
    assert fleet.create().verdict == BOUND
    assert (fleet.here(), fleet.slices()) == (None, [])
    assert "web is there as a ServiceImport" in fleet.told()


def test_of_two_homes_with_one_service_the_first_has_it_and_the_other_is_told() -> None:
    fleet = with_web()
    assert fleet.create().verdict == BOUND
    other = service_table.Space("c", "c-uid", "default")
    held = fleet.there.local.services.put(other, NOW.mono)
    content = content_of([read_service(msgspec.json.encode(service()))], [], "default")
    run(services._write_all(held, content, fleet.there.local, NOW), fleet.answer)
    assert held.left == {"web": "leads to the pods of another cluster there"}
    assert fleet.addresses() == ["10.1.0.5", "10.2.0.6"]


# --- kept
# ----------------------------------------------------------------------------------------------------------------------


def test_addresses_ports_and_services_follow_home_within_half_a_minute() -> None:
    fleet = with_web()
    fleet.create()
    fleet.put(endpoint_slice(endpoint("10.1.0.9")))
    fleet.put(service(ports=[{"name": "http", "port": 8000}]))
    fleet.put(service("db", clusterIP="None"))
    fleet.tend_until(30)
    assert fleet.addresses() == ["10.1.0.9"]
    assert (fleet.here() or {})["spec"]["ports"][0]["port"] == 8000
    assert fleet.here("db")
    del fleet.home.api.objects[f"{SERVICES}/web"]
    fleet.tend_until(60, 40)
    assert (fleet.here(), fleet.slices()) == (None, [])


def test_what_becomes_headless_is_made_anew() -> None:
    fleet = with_web()
    fleet.create()
    uid = (fleet.here() or {})["metadata"]["uid"]
    fleet.put(service(clusterIP="None"))
    fleet.tend_until(30)
    found = fleet.here() or {}
    assert found["spec"]["clusterIP"] == "None"
    assert found["metadata"]["uid"] != uid
    assert HEADLESS in fleet.slices()[0]["metadata"]["labels"]


@pytest.mark.parametrize(
    "edit",
    [
        lambda api: api.objects[f"{SERVICES}/web"]["spec"].update(selector={"app": "mine"}),
        lambda api: api.objects[f"{SERVICES}/web"]["spec"].update(type="NodePort"),
        lambda api: api.objects[f"{SERVICES}/web"]["spec"].update(externalIPs=["192.0.2.1"]),
        lambda api: api.objects[f"{SERVICES}/web"]["spec"].update(internalTrafficPolicy="Local"),
        lambda api: api.objects.pop(f"{SERVICES}/web"),
        lambda api: next(o for p, o in api.objects.items() if p.startswith(SLICES)).update(endpoints=[]),
        lambda api: [api.objects.pop(p) for p in list(api.objects) if p.startswith(SLICES)],
    ],
    ids=[
        "selector",
        "node port",
        "external address",
        "node-local",
        "deleted",
        "endpoints",
        "slices deleted",
    ],
)
def test_what_somebody_changes_there_is_mended_within_a_minute(edit: Callable[[Any], object]) -> None:
    fleet = with_web()
    fleet.create()
    before = dict((fleet.here() or {})["spec"]), fleet.addresses()
    edit(fleet.there.api)
    fleet.tend_until(60)
    assert ((fleet.here() or {})["spec"], fleet.addresses()) == before


def test_addresses_of_a_home_that_is_silent_are_taken_away_and_come_again() -> None:
    fleet = with_web()
    fleet.create()
    fleet.cut = "partition"
    fleet.tend_until(STALE_S - 10)
    assert fleet.addresses() == ["10.1.0.5", "10.2.0.6"]
    fleet.tend_until(STALE_S, STALE_S)
    assert fleet.slices() == []
    assert fleet.here(), "its name still resolves"
    fleet.cut = ""
    fleet.tend_until(STALE_S + 30, STALE_S + 10)
    assert fleet.addresses() == ["10.1.0.5", "10.2.0.6"]


def test_a_restarted_agent_takes_them_away_though_it_has_never_heard_of_home() -> None:
    fleet = with_web()
    fleet.create()
    fleet.there.restart()
    fleet.there.local.serves = True
    fleet.cut = "partition"
    fleet.tend_until(STALE_S + 10)
    assert fleet.slices() == []


def test_a_pod_that_home_knows_no_more_does_not_stand_for_its_namespace() -> None:
    fleet = with_web()
    fleet.create("x")
    fleet.create("y")
    del fleet.home.api.objects["/api/v1/namespaces/default/pods/x"]
    fleet.put(endpoint_slice(endpoint("10.1.0.9")))
    fleet.tend_until(60)
    assert fleet.addresses() == ["10.1.0.9"]


def test_of_a_home_that_cannot_be_asked_one_pod_stands_for_all() -> None:
    fleet = with_web()
    for name in ("x", "y", "z"):
        fleet.create(name)
    fleet.cut = "partition"
    asked = len(fleet.asks)
    fleet.tend(60)
    assert len(fleet.asks) == asked + 1


def test_addresses_that_a_new_pod_was_given_meanwhile_are_not_taken_away() -> None:
    fleet = with_web()
    fleet.create()
    fleet.there.sync()
    (space,) = fleet.there.local.services.known
    taking_away = withdraw(space, fleet.there.local, moment(STALE_S))
    first = next(taking_away)
    fleet.create("y", after_s=STALE_S)
    answer = fleet.answer(first)
    with suppress(StopIteration):
        while True:
            answer = fleet.answer(taking_away.send(answer))
    assert fleet.addresses() == ["10.1.0.5", "10.2.0.6"]


# --- deleted
# ----------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("restarted", [False, True])
def test_they_go_with_the_last_delegate(restarted: bool) -> None:
    fleet = with_web()
    fleet.create()
    fleet.tend_until(60)
    assert fleet.here()
    fleet.ends()
    if restarted:
        fleet.there.restart()
        fleet.begin()
    fleet.tend_until(200, 70)
    assert (fleet.here(), fleet.slices()) == (None, [])
    assert fleet.there.local.services.bytes_of(HOME) == 0


def test_what_a_restore_brings_back_without_its_pods_is_found_and_goes() -> None:
    fleet = with_web()
    fleet.create()
    kept = deepcopy({path: one for path, one in fleet.there.api.objects.items() if path.startswith((SERVICES, SLICES))})
    fleet.ends()
    fleet.tend_until(200)
    assert fleet.here() is None
    for path, one in kept.items():
        fleet.there.api.put(path, one)
    fleet.there.local.server_went_back()
    fleet.tend_until(400, 210)
    assert (fleet.here(), fleet.slices()) == (None, [])


def test_they_stay_while_the_api_server_shows_a_delegate_that_the_watch_does_not() -> None:
    fleet = with_web()
    fleet.create()
    hidden = {path: obj for path, obj in fleet.there.api.objects.items() if "/pods/" in path}
    for path in hidden:
        del fleet.there.api.objects[path]
    fleet.there.sync()
    fleet.there.api.objects.update(hidden)
    for at in range(0, 100, 10):
        for task in list(reconcile_tasks(fleet.there.local, moment(at))):
            run(task.procedure, fleet.answer)
    assert fleet.here()


def test_addresses_go_with_the_service_they_were_made_for_and_never_to_one_that_is_made_after_it() -> None:
    fleet = with_web()
    fleet.create()
    (found,) = fleet.slices()
    owner = {"apiVersion": "v1", "kind": "Service", "name": "web", "uid": (fleet.here() or {})["metadata"]["uid"]}
    assert found["metadata"]["ownerReferences"] == [{**owner, "blockOwnerDeletion": False}]
    del fleet.there.api.objects[f"{SERVICES}/web"]
    fleet.tend_until(60)
    (again,) = fleet.slices()
    assert again["metadata"]["ownerReferences"][0]["uid"] == (fleet.here() or {})["metadata"]["uid"]
    assert again["metadata"]["uid"] != found["metadata"]["uid"], "Kubernetes deletes the first by its UID"


def test_a_service_that_is_made_anew_by_another_meanwhile_gets_no_addresses() -> None:
    fleet = with_web()
    asked = fleet.answer

    def answer(request: Request) -> Response:
        answered = asked(request)
        if request.method in ("POST", "PUT") and request.path.startswith(SERVICES):
            fleet.there.api.put(f"{SERVICES}/web", service(selector={"app": "mine"}))["metadata"]["uid"] = "mine"
        return answered

    with patch.object(fleet, "answer", answer):
        outcome = fleet.create()
    assert (outcome.verdict, "was made anew meanwhile" in outcome.message) == (UNKNOWN, True)
    assert fleet.slices() == []


def test_slices_of_an_older_version_get_their_owner() -> None:
    fleet = with_web()
    fleet.create()
    (found,) = fleet.slices()
    owners = found["metadata"].pop("ownerReferences")
    fleet.tend_until(60)
    assert [one["metadata"]["ownerReferences"] for one in fleet.slices()] == [owners]


def begins_anew(fleet: Fleet, *, serves: bool = True) -> None:
    fleet.there.restart()
    fleet.begin()
    fleet.there.local.serves = serves


def not_at_once(fleet: Fleet, forbidden: frozenset[str] = frozenset()) -> Callable[[Request], Response]:
    """Answers of an API server that lets nobody list in all namespaces at once, nor in these."""
    asked = fleet.answer

    def answer(request: Request) -> Response:
        whole = request.path in ("/api/v1/services", "/apis/discovery.k8s.io/v1/endpointslices")
        barred = whole or any(f"/namespaces/{name}/" in request.path for name in forbidden)
        return Response(403, b"{}") if barred and request.method == "GET" else asked(request)

    return answer


@pytest.mark.parametrize(("forbidden", "found"), [((), True), (("team",), True), (("default",), False)])
def test_an_agent_of_some_namespaces_finds_there_what_an_earlier_life_has_made(
    forbidden: tuple[str, ...], found: bool
) -> None:
    fleet = with_web()
    fleet.there.api.namespaces.add("team")
    fleet.create()
    fleet.ends()
    begins_anew(fleet)
    with patch.object(fleet, "answer", not_at_once(fleet, frozenset(forbidden))):
        fleet.tend_until(200)
    assert (fleet.here() is None) == found


def test_a_namespace_that_cannot_be_listed_just_now_is_listed_later() -> None:
    fleet = with_web()
    fleet.create()
    fleet.ends()
    begins_anew(fleet)
    limited = not_at_once(fleet)
    fails = lambda request: Response(500) if "/namespaces/" in request.path else limited(request)  # noqa: E731
    with patch.object(fleet, "answer", fails):
        assert len(fleet.tend(0)) == 1
    with patch.object(fleet, "answer", limited):
        fleet.tend_until(200, 10)
    assert fleet.here() is None


@pytest.mark.parametrize("why", ["switched off", "services: none"])
def test_where_none_are_wanted_any_more_those_that_are_there_go(why: str) -> None:
    fleet = with_web()
    fleet.create()
    if why == "services: none":
        fleet.rows = (Accept(services="none"),)
    begins_anew(fleet, serves=why != "switched off")
    mine = fleet.there.api.put(f"{SERVICES}/mine", service("mine"))
    fleet.tend_until(20)
    assert (fleet.here(), fleet.slices(), fleet.here("mine")) == (None, [], mine)
    assert fleet.there.api.pods(), "its delegates go on"
    assert fleet.there.local.services.known == {}


@pytest.mark.parametrize("lost", ["services", "endpointslices"])
def test_where_the_rights_went_with_the_setting_nothing_else_is_asked_or_said(lost: str) -> None:
    fleet = with_web()
    fleet.create()
    begins_anew(fleet, serves=False)
    fleet.lost.add(lost)
    seen: list[str] = []
    asked = fleet.answer

    def answer(request: Request) -> Response:
        seen.append(request.path)
        return asked(request)

    with patch.object(fleet, "answer", answer):
        fleet.tend_until(30)
    assert {path.rpartition("/")[2] for path in seen} == {"selfsubjectaccessreviews"}
    assert fleet.here()


def test_what_it_may_is_asked_again_where_the_server_fails() -> None:
    fleet = with_web()
    fleet.create()
    begins_anew(fleet, serves=False)
    with patch.object(fleet, "answer", lambda request: Response(0, b"reset")):
        assert len(fleet.tend(0)) == 1
    fleet.tend_until(30, 10)
    assert fleet.here() is None


def test_those_that_cannot_be_deleted_are_told_with_what_deletes_them() -> None:
    fleet = with_web()
    fleet.create()
    begins_anew(fleet, serves=False)
    asked = fleet.answer
    kept = lambda request: Response(403, b"{}") if request.method == "DELETE" else asked(request)  # noqa: E731
    with patch.object(fleet, "answer", kept):
        assert fleet.tend(0) == []
        (said,) = fleet.tend(10)
    assert "kubectl delete services,endpointslices -A -l global-dispatcher.io/copy" in said


def test_marks_that_somebody_forges_keep_no_pod_out() -> None:
    fleet = with_web()
    for n in range(3):
        space = service_table.Space(HOME, f"forged-{n}", "default")
        forged = service_content.service_object(Service(f"s{n}"), space, None)
        fleet.there.api.put(f"{SERVICES}/s{n}", forged)
    with patch.object(service_table, "MOST_SPACES", 1), patch.object(service_table, "MOST_FOUND", 2):
        fleet.tend(0)
        assert len(fleet.there.local.services.known) == 2, "no more of them than may be found at once"
        assert fleet.create().verdict == BOUND
        fleet.tend_until(200, 10)
    assert [path for path in fleet.there.api.objects if path.startswith(SERVICES)] == [f"{SERVICES}/web"]


def test_marks_that_somebody_forges_on_very_much_do_not_keep_what_is_left_of_others() -> None:
    fleet = with_web()
    fleet.create()
    fleet.ends()
    begins_anew(fleet)
    forged = service("forged")
    forged["metadata"] |= {"labels": {names.COPY: "x"}, "annotations": {"note": "x" * 300}}
    fleet.there.api.put("/api/v1/namespaces/other/services/forged", forged)
    with patch.dict(pages.each_allowed.__kwdefaults__, most=200):
        assert fleet.tend(0) == []
    fleet.tend_until(200, 10)
    assert fleet.here() is None


def test_a_service_of_others_is_never_deleted() -> None:
    fleet = with_web()
    fleet.create()
    label = {names.COPY: (fleet.here() or {})["metadata"]["labels"][names.COPY]}
    mine = service("mine")
    mine["metadata"]["labels"] = label
    fleet.there.api.put(f"{SERVICES}/mine", mine)
    fleet.ends()
    fleet.tend_until(200)
    assert fleet.here() is None
    assert fleet.here("mine")


# --- what crosses
# ----------------------------------------------------------------------------------------------------------------------

PLAIN = Service("web", (Port(80, "http"),), address="10.96.0.7")


@pytest.mark.parametrize(
    ("spec", "crosses"),
    [
        ({}, PLAIN),
        ({"externalIPs": ["192.0.2.1"]}, PLAIN),
        ({"type": "NodePort", "ports": [{"name": "http", "port": 80, "nodePort": 30080}]}, PLAIN),
        ({"type": "LoadBalancer", "loadBalancerIP": "192.0.2.1", "loadBalancerSourceRanges": ["0.0.0.0/0"]}, PLAIN),
        ({"selector": None}, PLAIN),
        ({"internalTrafficPolicy": "Local", "trafficDistribution": "PreferClose"}, PLAIN),
        ({"type": "ExternalName", "externalName": "metadata.google.internal"}, None),
        ({"sessionAffinity": "ClientIP"}, Service("web", (Port(80, "http"),), sticky_s=10_800, address="10.96.0.7")),
        ({"clusterIP": "None"}, Service("web", (Port(80, "http"),), headless=True)),
    ],
)
def test_of_a_service_its_name_and_ports_cross_and_nothing_of_its_own_cluster(
    spec: Object, crosses: Service | None
) -> None:
    content = content_of([read_service(msgspec.json.encode(service(**spec)))], [], "default")
    assert content.services == ((crosses,) if crosses else ())
    assert (list(content.left) == ["web"]) == (crosses is None)
    for secret in (b"192.0.2.1", b"30080", b"google", b"app"):
        assert secret not in content.encoded


@pytest.mark.parametrize(
    "found",
    [
        endpoint_slice(endpoint("10.1.0.5"), of="other"),
        endpoint_slice(endpoint("10.1.0.5"), **{MANAGED_BY: "global-dispatcher.io"}),
        {**endpoint_slice(endpoint("db.example.com")), "addressType": "FQDN"},
    ],
    ids=["of no Service", "of other clusters", "of names"],
)
def test_slices_that_lead_nowhere_at_home_do_not_cross(found: Object) -> None:
    read = read_slice(msgspec.json.encode(found))
    assert content_of([read_service(msgspec.json.encode(service()))], [read], "default").slices == ()


def test_what_was_made_for_pods_of_others_is_not_given_on() -> None:
    fleet = with_web()
    fleet.create()
    there = [obj for path, obj in fleet.there.api.objects.items() if path.startswith(SERVICES)]
    assert content_of([read_service(msgspec.json.encode(one)) for one in there], [], "default") == Content()


KUBERNETES = Slice("default", "s", "IPv4", endpoints=(Endpoint(("10.1.0.5",), hostname="kubernetes"),))
LED = Slice("web", "web-1", "IPv4", (Port(8080, "http"),), (Endpoint(("10.1.0.5",)),))


def led(*addresses: str, family: str = "IPv4", **more: Any) -> Content:
    return Content((PLAIN,), (Slice("web", "web-1", family, endpoints=(Endpoint(addresses, **more),)),))


@pytest.mark.parametrize(
    "content",
    [
        led("127.0.0.1"),
        led("169.254.169.254"),
        led("224.0.0.1"),
        led("0.0.0.0"),
        led("fe80::1", family="IPv6"),
        led("fd00::1%eth0", family="IPv6"),
        led("::ffff:169.254.169.254", family="IPv6"),
        led("10.1.0.5", family="IPv6"),
        led("10.1.0.5", family="FQDN"),
        led("db.example.com"),
        led(),
        led("10.1.0.5", hostname="A.b"),
        led("10.1.0.5", hostname="a.b"),
        led("10.1.0.5", hostname="a" * 64),
        led("10.1.0.5", hostname="-a"),
        Content((Service("default", headless=True),), (KUBERNETES,)),
        Content((PLAIN, PLAIN)),
        Content((PLAIN,), (LED, LED)),
        Content((), (LED,)),
        Content((Service("../pods"),)),
        Content((Service("web", (Port(0),)),)),
        Content((Service("web", (Port(70_000),)),)),
        Content((Service("web", (Port(80, protocol="ICMP"),)),)),
        Content((Service("web", tuple(Port(n) for n in range(1, 102))),)),
        Content((Service("web", sticky_s=-1),)),
        Content((Service("web", address="169.254.169.254"),)),
        Content((Service("web", address="web.example.com"),)),
        Content((PLAIN,), (msgspec.structs.replace(LED, name="a/b"),)),
        Content((PLAIN,), tuple(msgspec.structs.replace(LED, name=f"s{n}") for n in range(1_001))),
        Content((PLAIN,), (msgspec.structs.replace(LED, endpoints=(Endpoint(("10.1.0.5",)),) * 5_001),)),
    ],
)
def test_what_no_cluster_can_have_is_refused_of_one_that_is_hostile(content: Content) -> None:
    with pytest.raises(ServicesError):
        checked(content.encoded)


@pytest.mark.parametrize("address", ["fd00:ec2::254", "100.100.100.200", "64:ff9b::a9fe:a9fe", "::127.0.0.1"])
def test_addresses_that_are_some_nodes_own_however_they_are_written_are_refused(address: str) -> None:
    family = "IPv6" if ":" in address else "IPv4"
    assert not service_content._is_address(address, family)
    assert service_content._is_address("fd00::1" if family == "IPv6" else "10.0.0.1", family)


@pytest.mark.parametrize("name", ["kubernetes", "kubernetes-service"])
def test_a_name_that_containers_take_for_the_api_servers_does_not_cross(name: str) -> None:
    content = content_of([read_service(msgspec.json.encode(service(name)))], [], "team")
    assert (content.services, list(content.left)) == ((), [name])
    hostile = msgspec.structs.replace(content, services=(Service(name),), left={})
    with pytest.raises(ServicesError):
        checked(hostile.encoded)


def test_other_hostnames_of_such_a_service_cross() -> None:
    end = msgspec.structs.replace(KUBERNETES.endpoints[0], hostname="web-0")
    content = Content((Service("default", headless=True),), (msgspec.structs.replace(KUBERNETES, endpoints=(end,)),))
    assert checked(content.encoded) == content


@pytest.mark.parametrize("body", [b"", b"[]", b'{"services":[{}]}', b"\xff", b'{"left":{"a":"\xff"}}'])
def test_what_cannot_be_read_is_refused(body: bytes) -> None:
    fleet = with_web()
    fleet.gives = lambda given: GivenObjects((Given(CONTENT, body),))
    outcome = fleet.create()
    assert outcome.verdict == REFUSED
    assert "gives what cannot be read" in outcome.message


def test_what_crosses_is_read_back_from_what_is_made_of_it() -> None:
    space = service_table.Space(HOME, "uid", "default")
    made = service_content.slice_object(LED, "n", space, Filled("u", headless=False), None)
    assert read_slice(msgspec.json.encode(made)).crossing == msgspec.structs.replace(LED, name="n")
    for one in (PLAIN, Service("db", (), headless=True, unready=True), Service("s", (Port(1, "", "UDP"),), sticky_s=5)):
        read = read_service(msgspec.json.encode(service_content.service_object(one, space, None)))
        assert read.crossing == one
        assert read.bare
        assert service_content.space_of(read.metadata) == space


# --- given
# ----------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("pod", ["not claimed", "gone"])
def test_services_are_given_only_of_the_namespace_of_a_pod_that_goes_there(pod: str) -> None:
    fleet = with_web()
    fleet.order("x")
    ref = (
        fleet.home.submit(pod_object("stays")) if pod == "not claimed" else msgspec.structs.replace(fleet.ref, uid="o")
    )
    wants = (PodWants(ref, (WantedObject("Service", "*"),)),)
    asked = RelayAsk(source_of(ref, 1), THERE, "b-cluster-uid", b"", OBJECTS, "GET", wants=wants)
    answer = run(giving.answer(asked, b"", fleet.home.local), fleet.at_home)
    (given,) = decode_given(decode_signed_given(answer).given).given
    assert (given.state, given.content) == (DENIED, b"")


def test_no_more_namespaces_are_here_than_may_be() -> None:
    fleet = with_web()
    for n in range(service_table.MOST_OF_CLUSTER):
        fleet.there.local.services.put(service_table.Space(HOME, "a-cluster-uid", f"n{n}"), NOW.mono)
    outcome = fleet.create()
    assert (outcome.verdict, outcome.passing) == (REFUSED, True)
    assert "at most 1000 and 500 are" in outcome.message


def test_one_that_is_being_deleted_is_waited_for() -> None:
    fleet = with_web()
    held = fleet.there.local.services.put(service_table.Space(HOME, "a-cluster-uid", "default"), NOW.mono)
    held.removing = True
    assert fleet.create().verdict == UNKNOWN
