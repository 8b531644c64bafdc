import pytest

from dispatcher.scheduling.fleet.fleet import FleetState
from dispatcher.scheduling.fleet.view import view_of
from dispatcher.scheduling.framework.hints import ClusterEvent
from shared.model.crossing import Opening
from shared.model.names import ACCEPT, SERVICES
from shared.model.objects import Namespace, PriorityClass, Service
from shared.model.pod import Need, Needs
from shared.model.wake_events import WakeEvent
from tests.builders import PodBuilder, fleet, pod
from tests.plugins.asking import make, reasons, whys

ABSENT = "node(s) were in a cluster without the pod's namespace"
CLOSED = "node(s) were in a cluster where the pod's namespace is closed to pods of other clusters"


def with_namespaces(**shown: tuple[Namespace, ...]) -> FleetState:
    state = fleet(a=["n"], b=["n"], c=["n"])
    for cluster, namespaces in shown.items():
        for one in namespaces:
            state.kept.put(cluster, one)
    return state


SHOP, OTHER = Namespace("shop"), Namespace("other")


@pytest.mark.parametrize(
    ("state", "namespace", "want"),
    [
        (with_namespaces(), "shop", {}),
        (with_namespaces(b=(SHOP,), c=(SHOP, OTHER)), "shop", {}),
        (with_namespaces(b=(SHOP,), c=(OTHER,)), "shop", {"c/n": ABSENT}),
        (with_namespaces(a=(OTHER,), b=(SHOP,), c=(SHOP,)), "shop", {}),
        (with_namespaces(b=(Namespace("shop", {ACCEPT: "False"}),)), "shop", {"b/n": CLOSED}),
        (with_namespaces(b=(Namespace("shop", {ACCEPT: "no"}),)), "shop", {"b/n": CLOSED}),
        (with_namespaces(b=(Namespace("shop", {ACCEPT: "true"}),)), "shop", {}),
        (with_namespaces(b=(Namespace("kube-system"),)), "kube-system", {"b/n": CLOSED, "c/n": CLOSED}),
    ],
    ids=[
        "none shown",
        "there",
        "absent in one",
        "its own needs none",
        "closed by label",
        "by any other word, as its agent has it",
        "open by label",
        "kube-*",
    ],
)
def test_a_pod_goes_to_others_only_where_its_namespace_is_there_and_open(
    state: FleetState, namespace: str, want: dict[str, str]
) -> None:
    assert reasons(make("NamespaceOpen"), pod().namespace(namespace), state) == want


@pytest.mark.parametrize(
    ("namespace", "creates", "want"),
    [
        ("shop", ("sh*",), {}),
        ("shop", ("web",), {"b/n": ABSENT}),
        ("kube-public", ("*",), {"b/n": CLOSED}),
        ("other", ("*",), {"b/n": CLOSED}),
    ],
    ids=["made there", "another one is made there", "kube-*", "there, and closed"],
)
def test_a_missing_namespace_keeps_no_pod_from_a_cluster_that_makes_it(
    namespace: str, creates: tuple[str, ...], want: dict[str, str]
) -> None:
    state = with_namespaces(b=(Namespace("other", {ACCEPT: "false"}),))
    row = Opening(("*",), ("*",), (), closed=(), creates=creates)
    state.set_cluster("b", ready=True, synced=True, opens=(row,))
    found = reasons(make("NamespaceOpen"), pod().namespace(namespace), state)
    assert {node: why for node, why in found.items() if node == "b/n"} == want


def test_one_that_is_closed_by_a_pattern_is_not_made() -> None:
    state = with_namespaces(b=(OTHER,))
    row = Opening(("*",), ("*",), (), closed=("shop",), creates=("*",))
    state.set_cluster("b", ready=True, synced=True, opens=(row,))
    assert reasons(make("NamespaceOpen"), pod().namespace("shop"), state) == {"b/n": CLOSED}


def test_why_a_namespace_is_closed_is_told_with_the_mark_that_closes_it() -> None:
    state = with_namespaces(b=(Namespace("shop", {ACCEPT: "false"}),))
    mark = (
        'its Namespace there has global-dispatcher.io/accept with another value than "true", as label or as annotation'
    )
    (refused,) = whys(make("NamespaceOpen"), pod().namespace("shop"), state).values()
    assert [why.detail for why in refused] == [f"{CLOSED} ({mark})"]


def test_only_the_pods_own_namespace_is_worth_a_new_try() -> None:
    plugin, placed = make("NamespaceOpen"), pod().namespace("shop").placed()
    assert plugin.hint(ClusterEvent(WakeEvent.NAMESPACE, "b", None, SHOP), placed)
    assert not plugin.hint(ClusterEvent(WakeEvent.NAMESPACE, "b", None, OTHER), placed)
    assert plugin.hint(ClusterEvent(WakeEvent.CLUSTER_CHANGED), placed)


ALL = ("*",)
SECRET = Needs(of_policy=(Need("secrets", "db", "spec.volumes[0].secret.secretName", 'is Secret "db"'),))
BARRED = Needs("spec.hostNetwork reaches into the node")
UNKNOWN_LIST = Needs(of_policy=(Need("moods", "x", "spec.mood", "is x"),))
MANY = Needs(of_policy=tuple(Need("secrets", f"s{n}", f"spec.volumes[{n}]", f'is Secret "s{n}"') for n in range(5)))
TOLD_OF_MANY = (
    'spec.volumes[0] is Secret "s0"; spec.volumes[1] is Secret "s1"; spec.volumes[2] is Secret "s2" and 2 more; they '
    'take it only if a row of their `executor.accept` has "s0" in `secrets` or `secrets_follow` and "s1" in `secrets` '
    'or `secrets_follow` and "s2" in `secrets` or `secrets_follow` and 2 more'
)
OLDER = Opening(ALL, ALL, ALL)
PLAIN = Opening(ALL, ALL, (), closed=())


@pytest.mark.parametrize(
    ("needs", "opens", "why"),
    [
        pytest.param(None, (PLAIN,), "", id="needs nothing"),
        pytest.param(SECRET, None, "", id="an agent that does not tell its policy"),
        pytest.param(SECRET, (OLDER,), "", id="one that tells of tolerations alone"),
        pytest.param(BARRED, None, "spec.hostNetwork reaches into the node", id="never crosses"),
        pytest.param(SECRET, (PLAIN,), '"db" in `secrets`', id="not let in"),
        pytest.param(SECRET, (Opening(ALL, ALL, (), (), secrets=("d*",)),), "", id="let in"),
        pytest.param(SECRET, (Opening(ALL, ALL, (), (), secrets_follow=("d*",)),), "", id="a copy is taken"),
        pytest.param(
            SECRET, (Opening(ALL, ALL, (), (), secrets_follow=("e*",)),), "secrets_follow", id="copies of others are"
        ),
        pytest.param(SECRET, (PLAIN, Opening(("a",), ALL, (), (), secrets=("db",))), "", id="let in by one of two"),
        pytest.param(SECRET, (PLAIN, Opening(("c",), ALL, (), (), secrets=("db",))), "secrets", id="from another"),
        pytest.param(MANY, (PLAIN,), TOLD_OF_MANY, id="several, told at once"),
        pytest.param(UNKNOWN_LIST, (PLAIN,), "", id="a need that only newer agents know"),
        pytest.param(None, (Opening(("c",), ALL, (), ()),), CLOSED, id="accepted from another cluster alone"),
        pytest.param(None, (Opening(ALL, ALL, (), ("sh*",)),), CLOSED, id="closed by a pattern"),
    ],
)
def test_a_pod_goes_only_where_the_policy_lets_in_what_it_needs(
    needs: Needs | None, opens: tuple[Opening, ...] | None, why: str
) -> None:
    state = fleet(a=["n"], b=["n"])
    for cluster in "ab":  # at home no policy for others holds
        state.set_cluster(cluster, ready=True, synced=True, opens=opens)
    found = reasons(make("NamespaceOpen"), pod().namespace("shop").set(needs=needs), state)
    assert set(found) == ({"b/n"} if why else set())
    assert all(why in text for text in found.values())


CLASS = Needs(of_policy=(Need("max_priority", "high", "spec.priorityClassName", 'is PriorityClass "high"'),))


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (None, 'is PriorityClass "high", which does not exist in that cluster: create it there'),
        (7, ""),
        (8, "whose value in that cluster is 8"),
    ],
)
def test_a_pod_goes_only_where_it_can_be_as_important_as_its_class_says(value: int | None, why: str) -> None:
    state = fleet(a=["n"], b=["n"])
    classes = () if value is None else (PriorityClass("high", value),)
    opens = (Opening(ALL, ALL, (), (), max_priority=7),)
    for cluster in "ab":
        known = (PriorityClass("other", 1), *classes)
        state.set_cluster(cluster, ready=True, synced=True, opens=opens, priority_classes=known)
    found = reasons(make("NamespaceOpen"), pod().namespace("shop").set(needs=CLASS), state)
    assert set(found) == ({"b/n"} if why else set())
    assert all(why in text and "global-dispatcher.io/priority: none" in text for text in found.values())


RUNTIME = Needs(of_policy=(Need("runtime_class", "gvisor", "spec.runtimeClassName", 'is RuntimeClass "gvisor"'),))


@pytest.mark.parametrize("opens", [None, (Opening(ALL, ALL, (), ()),)], ids=["policy unknown", "policy known"])
@pytest.mark.parametrize(
    ("there", "goes"),
    [(None, True), (("gvisor", "kata"), True), (("kata",), False), ((), False)],
    ids=["not known", "there", "others", "none"],
)
def test_a_pod_goes_only_where_its_runtime_class_is(
    there: tuple[str, ...] | None, goes: bool, opens: tuple[Opening, ...] | None
) -> None:
    state = fleet(a=["n"], b=["n"])
    state.set_cluster("a", ready=True, synced=True, runtime_classes=())
    state.set_cluster("b", ready=True, synced=True, opens=opens, runtime_classes=there)
    found = reasons(make("NamespaceOpen"), pod().namespace("shop").set(needs=RUNTIME), state)
    assert set(found) == (set() if goes else {"b/n"})
    assert all('is RuntimeClass "gvisor", which does not exist in that cluster' in text for text in found.values())


def with_services(
    *names: str, home_labels: dict[str, str] | None = None, row: str = "", networks: tuple[str, str] = ("own", "own")
) -> FleetState:
    """Services web and db are at home in a, these in b; c does not show any."""
    state = fleet(a=["n"], b=["n"], c=["n"])
    state.kept.put("a", OTHER)
    state.kept.put("a", Namespace("shop", home_labels or {}))
    for cluster, there in (("a", ("web", "db")), ("b", names)):
        state.kept.put(cluster, Service("default", "kubernetes"))
        for name in there:
            state.kept.put(cluster, Service("shop", name))
    rows = (Opening(ALL, ALL, (), (), services=row),)
    state.set_cluster("a", ready=True, synced=True, network=networks[0])
    state.set_cluster("b", ready=True, synced=True, opens=rows, network=networks[1])
    return state


def with_copies() -> FleetState:
    """In b they are made for pods of another cluster."""
    state = with_services("db", "web")
    for name in ("db", "web"):
        state.kept.put("b", Service("shop", name, copied=True))
    return state


def calls_none() -> PodBuilder:
    return pod().namespace("shop").set(annotations={SERVICES: "none"})


@pytest.mark.parametrize(
    ("state", "asking", "lacks"),
    [
        pytest.param(with_services(), pod().namespace("shop"), "db, web", id="all are missing"),
        pytest.param(with_services("db"), pod().namespace("shop"), "web", id="one is missing"),
        pytest.param(with_services("db", "web", "more"), pod().namespace("shop"), "", id="all are there"),
        pytest.param(with_services(), pod().namespace("default"), "", id="the API server's is everywhere"),
        pytest.param(with_services(), calls_none(), "", id="the pod calls none"),
        pytest.param(
            with_services(home_labels={SERVICES: "none"}), pod().namespace("shop"), "", id="nor its namespace"
        ),
        pytest.param(with_services(row="none"), pod().namespace("shop"), "", id="a row says so"),
        pytest.param(with_services(networks=("flat", "flat")), pod().namespace("shop"), "", id="they follow it"),
        pytest.param(with_services(networks=("flat", "hall")), pod().namespace("shop"), "db, web", id="two networks"),
        pytest.param(with_services(networks=("flat", "own")), pod().namespace("shop"), "db, web", id="none of one"),
        pytest.param(with_copies(), pod().namespace("shop"), "db, web", id="copies lead to pods of others"),
    ],
)
def test_a_pod_goes_only_where_the_services_of_its_namespace_are(
    state: FleetState, asking: PodBuilder, lacks: str
) -> None:
    found = reasons(make("NamespaceOpen"), asking, state)
    assert set(found) == ({"b/n"} if lacks else set())
    assert all(f"namespace: {lacks};" in text and SERVICES in text for text in found.values())


def test_a_service_that_comes_wakes_pods_of_its_namespace() -> None:
    plugin, placed = make("NamespaceOpen"), pod().namespace("shop").placed()
    assert plugin.hint(ClusterEvent(WakeEvent.SERVICE, "b", None, Service("shop", "web")), placed)
    assert not plugin.hint(ClusterEvent(WakeEvent.SERVICE, "b", None, Service("other", "web")), placed)


@pytest.mark.parametrize(
    ("state", "asking", "shared"),
    [
        (with_services(), pod().namespace("other"), True),
        (with_services(), pod().namespace("shop"), False),
        (with_services(), calls_none(), True),
        (with_services(), calls_none().set(needs=SECRET), False),
    ],
    ids=["no services", "services of its home", "which it does not call", "needs"],
)
def test_pods_of_several_homes_share_an_answer_only_where_it_matters_to_nobody_where_they_are_from(
    state: FleetState, asking: PodBuilder, shared: bool
) -> None:
    assert (make("NamespaceOpen").key_without_home(asking.placed(), view_of(state)) is not None) == shared
