"""Services of a source's namespace where its delegates run: there before these, as at home, deleted after the last."""

from collections.abc import Callable
from contextlib import suppress
from copy import deepcopy
from typing import Any
from unittest.mock import patch

import msgspec
import pytest

from agents.executor.context import service_table
from agents.executor.context.local import Moment
from agents.executor.crossing.policy import Accept, ExecutorPolicy
from agents.executor.intents.procedures import carry_out
from agents.executor.objects import service_content, services
from agents.executor.objects.copies import PeerAsk
from agents.executor.objects.service_content import (
    HEADLESS,
    MANAGED_BY,
    SERVICE_NAME,
    Content,
    Endpoint,
    Port,
    Service,
    ServicesError,
    Slice,
    checked,
    content_of,
    read_service,
    read_slice,
)
from agents.executor.objects.services import STALE_S, reconcile_tasks
from agents.executor.relayed import giving
from shared.kube.http import Request, Response
from shared.messages import BOUND, CLAIMED, OF_CLUSTER, REFUSED, UNKNOWN, Claim, CreateDelegate, Outcome, Peer
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
    encode_relay,
)
from shared.model import names
from tests.agents.executor.world import NOW, World, node_object, pod_object, run, source_of

HOME, THERE = "a", "b"
SERVICES = "/api/v1/namespaces/default/services"
SLICES = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"
IMPORTS = "/apis/multicluster.x-k8s.io/v1alpha1/namespaces/default/serviceimports"
LISTS = ("services", "endpointslices", "serviceimports", "pods")
Object = dict[str, Any]


def moment(after_s: float) -> Moment:
    return Moment(NOW.mono + after_s, NOW.wall + after_s)


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


class Fleet:
    """Pods of cluster a go to b; both are in one pod network, and have their Services follow."""

    def __init__(self, *, rows: tuple[Accept, ...] = (Accept(),), networks: tuple[str, str] = ("flat", "flat")) -> None:
        self.networks = networks
        self.rows = rows
        self.home = World(cluster=HOME, peers=(THERE,))
        self.there = World(node_object(cpu="100", pods="100"), cluster=THERE)
        self.begin()
        self.asks = 0
        self.cut = ""
        self.gives: Callable[[GivenObjects], GivenObjects] = lambda given: given
        self.served: set[str] = set()
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
        self.ref = self.home.submit(pod_object(name))
        claimed = self.home.do(Claim("c", self.ref, 1, THERE, "n1", "b-cluster-uid"))
        assert claimed.verdict == CLAIMED, claimed.message
        source = source_of(self.ref, 1, HOME)
        order = CreateDelegate("i", self.ref, 1, source, "n1", claimed.manifest, record=claimed.record)
        return msgspec.structs.replace(order, services=calls)

    def create(self, name: str = "x", *, calls: bool = True, after_s: float = 0.0) -> Outcome:
        order = self.order(name, calls=calls)
        outcome = run(carry_out(order, 1, self.there.local, moment(after_s)), self.answer)
        self.there.sync()
        return outcome

    def answer(self, request: Request) -> Response:
        """Of b's API server, or of the agent of a."""
        if isinstance(request, PeerAsk):
            return self._given(request)
        plural = request.path.rpartition("/")[2]
        if request.method in self.forbidden and "endpointslices" in request.path:
            return Response(403, b'{"kind": "Status", "message": "endpointslices is forbidden"}')
        return self._list(self.there, request) if plural in LISTS and request.method == "GET" else self._one(request)

    def _one(self, request: Request) -> Response:
        if request.method == "POST" and request.path == SERVICES:
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

    def _given(self, ask: PeerAsk) -> Response:
        self.asks += 1
        if self.cut:
            return Response(0, self.cut.encode())
        asked = RelayAsk(source_of(self.ref, 1), THERE, "b-cluster-uid", b"", OBJECTS, "GET", wants=ask.wants)
        answer = run(giving.answer(asked, b"", self.home.local), self._at_home)
        given = self.gives(decode_given(decode_signed_given(answer).given))
        return Response(200, encode_relay(given))

    def _at_home(self, request: Request) -> Response:
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

    def tend(self, after_s: float) -> list[str]:
        """What is due so long afterwards, done; what went wrong."""
        self.there.sync()
        tasks = list(reconcile_tasks(self.there.local, moment(after_s)))
        return [problem for task in tasks if (problem := run(task.procedure, self.answer))]

    def tend_until(self, after_s: float, since_s: float = 0.0) -> None:
        for at in range(int(since_s), int(after_s) + 1, 10):
            assert bool(self.tend(at)) <= bool(self.cut)

    def ends(self) -> None:
        """The last delegate goes."""
        for path in [path for path in self.there.api.objects if "/pods/" in path]:
            del self.there.api.objects[path]


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
        assert (fleet.asks, fleet.here()) == (0, None)


def test_replicas_that_come_together_ask_once() -> None:
    fleet = with_web()
    assert {fleet.create(name).verdict for name in ("x", "y", "z")} == {BOUND}
    assert fleet.asks == 1


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
    asked = fleet.asks
    fleet.tend(60)
    assert fleet.asks == asked + 1


def test_addresses_that_a_new_pod_was_given_meanwhile_are_not_taken_away() -> None:
    fleet = with_web()
    fleet.create()
    fleet.there.sync()
    (space,) = fleet.there.local.services.known
    taking_away = services.withdraw(space, fleet.there.local, moment(STALE_S))
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


def test_the_name_of_the_api_servers_service_does_not_cross() -> None:
    content = content_of([read_service(msgspec.json.encode(service("kubernetes")))], [], "team")
    assert (content.services, list(content.left)) == ((), ["kubernetes"])
    hostile = msgspec.structs.replace(content, services=(Service("kubernetes"),), left={})
    with pytest.raises(ServicesError):
        checked(hostile.encoded)


@pytest.mark.parametrize("body", [b"", b"[]", b'{"services":[{}]}', b"\xff", b'{"left":{"a":"\xff"}}'])
def test_what_cannot_be_read_is_refused(body: bytes) -> None:
    fleet = with_web()
    fleet.gives = lambda given: GivenObjects((Given(CONTENT, body),))
    outcome = fleet.create()
    assert outcome.verdict == REFUSED
    assert "gives what cannot be read" in outcome.message


def test_what_crosses_is_read_back_from_what_is_made_of_it() -> None:
    space = service_table.Space(HOME, "uid", "default")
    made = service_content.slice_object(LED, "n", space, headless=False, found=None)
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
    answer = run(giving.answer(asked, b"", fleet.home.local), fleet._at_home)
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
