"""What the tenants file says of a tenant's pods beside what they use: where they go, and by which priority."""

from typing import Any

import pytest

from dispatcher.plugins.registry import REGISTRY, PluginContext, build
from dispatcher.scheduling.cycle.cycle import Decision, Scheduler
from dispatcher.scheduling.fleet.fleet import FleetState
from dispatcher.scheduling.fleet.view import view_of
from dispatcher.scheduling.framework import Refuse
from dispatcher.scheduling.framework.hints import ClusterEvent
from dispatcher.scheduling.profile import DEFAULT_PROFILE
from dispatcher.scheduling.quota import QuotaLedger
from shared.model.tenant import FleetPart, Share, Tenant, quota_key
from shared.model.wake_events import WakeEvent
from tests.builders import PodBuilder, fleet, node, pod
from tests.plugins.asking import reasons, scores


def plugin(name: str, *tenants: Tenant, ledger: QuotaLedger | None = None) -> Any:
    return REGISTRY[name].make({}, PluginContext(quota=ledger or QuotaLedger(tenants)))


def of(namespace: str, name: str = "p1") -> PodBuilder:
    return pod(name).namespace(namespace)


def pools() -> FleetState:
    return fleet(
        west=[node("ml1").labels(pool="ml"), node("w1")],
        east=[node("ml2").labels(pool="ml"), node("e1").labels(pool="other")],
    )


ML = Tenant("ml", ("ml",), {}, selector={"pool": "ml"}, exclusive=True)
VISION = Tenant("vision", ("vision",), {}, parent="ml", clusters=("west",))
OTHER = Tenant("other", ("other",), {})
KEPT = "node(s) were kept for tenant ml"


def not_of(name: str) -> str:
    return f"node(s) were not among those of tenant {name}"


@pytest.mark.parametrize(
    ("namespace", "want"),
    [
        ("ml", {"west/w1": not_of("ml"), "east/e1": not_of("ml")}),
        ("vision", {name: not_of("vision") for name in ("west/w1", "east/ml2", "east/e1")}),
        ("other", {"west/ml1": KEPT, "east/ml2": KEPT}),
        ("nobodys", {"west/ml1": KEPT, "east/ml2": KEPT}),
    ],
)
def test_pods_keep_to_the_nodes_of_their_tenant_and_off_those_that_are_kept(
    namespace: str, want: dict[str, str]
) -> None:
    asking = of(namespace).tolerates(operator="Exists").labels(tenant="ml")
    assert reasons(plugin("TenantNodes", ML, VISION, OTHER), asking, pools()) == want


def test_what_tenants_keep_from_each_other_is_held_once_however_many_they_are() -> None:
    tenants = [Tenant(f"t{at}", (f"t{at}",), {}, selector={"pool": f"p{at}"}, exclusive=True) for at in range(50)]
    places = QuotaLedger(tenants).places
    found = [places.of(one.name) for one in tenants]
    assert len({id(one.kept) for one in found if one is not None}) == 1
    assert {len(list(one.for_others)) for one in found if one is not None} == {49}


def test_nodes_that_a_tenant_keeps_in_some_clusters_are_free_in_others() -> None:
    kept = Tenant("ml", ("ml",), {}, selector={"pool": "ml"}, exclusive=True, clusters=("west",))
    assert reasons(plugin("TenantNodes", kept), of("x"), pools()) == {"west/ml1": KEPT}


def test_clusters_that_a_tenant_may_not_use_are_closed_as_a_whole() -> None:
    asked = plugin("TenantNodes", ML, VISION)
    state = pools()
    closed = asked.closed_clusters(of("vision").placed(), view_of(state))
    assert [state.clusters[at].name for at, code in enumerate(closed) if code] == ["east"]
    assert asked.closed_clusters(of("ml").placed(), view_of(state)) is None


@pytest.mark.parametrize("name", ["TenantNodes", "TenantNodeQuota", "TenantSpread"])
def test_who_asks_for_nothing_pays_nothing(name: str) -> None:
    asked = plugin(name, Tenant("t", ("t",), {"cpu": Share(ratio=0.5)}))
    assert asked.class_key(of("t").placed()) is None
    assert reasons(asked, of("t"), pools()) == {}


@pytest.mark.parametrize(
    ("namespace", "priority", "why"),
    [
        ("a", 100, ""),
        ("a", 101, "priority is above what the tenant may use: 101, max_priority of tenant all is 100"),
        ("b", 50, ""),
        ("b", 51, "priority is above what the tenant may use: 51, max_priority of tenant b is 50"),
        ("nobodys", 10**9, ""),
    ],
)
def test_no_pod_above_the_ceiling_enters_the_queue(namespace: str, priority: int, why: str) -> None:
    tenants = (
        Tenant("all", (), {}, max_priority=100),
        Tenant("a", ("a",), {}, parent="all", max_priority=1000),
        Tenant("b", ("b",), {}, parent="all", max_priority=50),
    )
    found = plugin("TenantPriority", *tenants).pre_enqueue(of(namespace).priority(priority).placed())
    assert (found.why.text if isinstance(found, Refuse) else "") == why


def test_nodes_with_the_fewest_pods_of_the_tenant_are_best() -> None:
    tenants = (Tenant("all", ("all",), {}, spread=True), Tenant("a", ("a",), {}, parent="all"), OTHER)
    asked = plugin("TenantSpread", *tenants)
    state = fleet(west=[node("n1"), node("n2"), node("n3")])
    for at, (namespace, where) in enumerate((("all", "n1"), ("a", "n1"), ("a", "n2"), ("other", "n3"))):
        state.place(
            ("west", f"u{at}"), of(namespace, f"p{at}").uid(f"u{at}").placed("west"), "west", where, assumed=True
        )
    for namespace in ("all", "a"):
        assert scores(asked, of(namespace), state) == {"n1": 0.0, "n2": 50.0, "n3": 100.0}
    assert scores(asked, of("other"), state) == {}


# --- quota of parts of the fleet -------------------------------------------------------------------------------------

GPU = "example.com/gpu"
H100 = FleetPart("", (("gpu", "H100"),))
WEST = FleetPart("west")


def gpus() -> FleetState:
    def one(name: str, kind: str) -> Any:
        return node(name).labels(gpu=kind).resource(GPU, 8)

    return fleet(west=[one("w-h", "H100"), one("w-a", "A100")], east=[one("e-h", "H100"), one("e-a", "A100")])


def limited(parts: dict[FleetPart, int], whole: int = 100, **more: Any) -> Tenant:
    quotas = {quota_key(GPU, part): Share(absolute=most) for part, most in parts.items()}
    return Tenant("ml", ("ml",), {GPU: Share(absolute=whole), **quotas}, **more)


class Stage:
    """A scheduler by the default profile; pods are decided one after the other."""

    def __init__(self, *tenants: Tenant) -> None:
        self.ledger = QuotaLedger(tenants)
        plugins = build(DEFAULT_PROFILE, PluginContext(quota=self.ledger))
        self.fleet = gpus()
        self.scheduler = Scheduler(DEFAULT_PROFILE, plugins, self.fleet)
        self.at = 0

    def place(self, count: int = 1, **selector: str) -> list[str]:
        """Where pods of one GPU each go, '' for nowhere."""
        self.at += 1
        some = [of("ml", f"p{self.at}-{one}").request(GPU, 1).node_selector(selector) for one in range(count)]
        items = [
            (("west", f"u{self.at}-{at}"), one.uid(f"u{self.at}-{at}").placed("west")) for at, one in enumerate(some)
        ]
        return [one.node if isinstance(one, Decision) else "" for one in self.scheduler.schedule_class(items)]


@pytest.mark.parametrize("batch", [1, 12], ids=["one by one", "a batch"])
def test_no_more_goes_to_a_part_of_the_fleet_than_its_quota(batch: int) -> None:
    stage = Stage(limited({H100: 3, WEST: 4}))
    placed = [one for _ in range(24 // batch) for one in stage.place(batch)]
    assert (placed.count("w-h") + placed.count("e-h"), placed.count("w-h") + placed.count("w-a")) == (3, 4)
    assert placed.count("e-a") == 8
    assert "" in placed
    used = stage.ledger.usage("ml")
    assert (used[quota_key(GPU, H100)], used[quota_key(GPU, WEST)]) == (3, 4)


@pytest.mark.parametrize("batch", [1, 8], ids=["one by one", "a batch"])
def test_a_share_of_a_part_follows_its_nodes(batch: int) -> None:
    quarter = Tenant("ml", ("ml",), {quota_key(GPU, H100): Share(ratio=0.25)})
    stage = Stage(quarter)

    def fit() -> int:
        return sum(bool(one) for _ in range(8 // batch) for one in stage.place(batch, gpu="H100"))

    assert fit() == 4
    stage.fleet.put_node("east", node("e-a").labels(gpu="H100").resource(GPU, 8).build())
    assert fit() == 2
    stage.fleet.put_node("east", node("e-h").labels(gpu="A100").resource(GPU, 8).build())
    assert fit() == 0
    stage.fleet.put_node("west", node("w-new").labels(gpu="H100").resource(GPU, 16).build())
    assert fit() == 2


def test_what_is_used_up_is_told_with_tenant_and_nodes() -> None:
    ledger = QuotaLedger([limited({H100: 0})])
    asked = plugin("TenantNodeQuota", ledger=ledger)
    why = "node(s) were in a part of the fleet of which quota is used up: tenant ml, nodes with gpu=H100"
    assert reasons(asked, of("ml").request(GPU, 1), gpus()) == {"west/w-h": why, "east/e-h": why}
    assert reasons(asked, of("ml").cpu(1), gpus()) == {}, "it asks for none"
    there = quota_key(GPU, H100)
    found = ledger.exceeded("ml", {there: 1}, {})
    assert found is not None
    assert found.text == f"tenant ml: {GPU} on nodes with gpu=H100 asked 1, used 0, limit 0"


def test_a_part_is_lent_and_borrowed_like_the_whole() -> None:
    key = quota_key(GPU, H100)
    tree = [Tenant("all", (), {}), limited({H100: 1}, parent="all", borrowing_limit={key: Share(absolute=2)})]
    stage = Stage(*tree, Tenant("lab", ("lab",), {key: Share(absolute=8)}, parent="all"))
    assert [bool(one) for one in stage.place(5, gpu="H100")] == [True] * 3 + [False] * 2
    assert stage.ledger.share("ml", {}) > stage.ledger.share("lab", {})


def test_a_node_of_any_part_is_worth_a_try_and_so_is_what_its_own_tree_gives_back() -> None:
    asked = plugin("TenantNodeQuota", limited({H100: 0}), OTHER)
    key = asked.hint_key(of("ml").request(GPU, 1).placed())
    new = ClusterEvent(WakeEvent.NODE_ADDED, "west", None, node("n").build())
    assert asked.hint_any(new, key)
    for namespace, worth in (("ml", True), ("other", False)):
        gone = ClusterEvent(WakeEvent.QUOTA_FREED | WakeEvent.POD_REMOVED, "west", of(namespace).build())
        assert asked.hint_any(gone, key) is worth
