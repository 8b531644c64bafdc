"""VolumeBinding: kube-scheduler's published cases, restated."""

from typing import Any

import msgspec
import pytest

from dispatcher.scheduling.fleet.fleet import FleetState
from dispatcher.scheduling.fleet.view import view_of
from dispatcher.scheduling.framework import SKIP, CycleState, PodInfo, Refuse
from dispatcher.scheduling.framework.lifecycle import Order
from shared.messages import BindVolume, PodRef, SelectNode
from shared.model.labels import LabelSelector
from shared.model.names import ZONE
from shared.model.objects import (
    AnyObject,
    CSIDriver,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)
from shared.model.pod import CLAIM, GCE_DISK, Volume
from tests.builders import PodBuilder, fleet, node, pod
from tests.plugins.asking import make, reasons, refused, scores, state_of
from tests.plugins.storage import (
    CLASSES,
    GIB,
    NOW,
    STATIC,
    WAIT,
    bound,
    claim,
    ephemeral,
    in_zone,
    keep,
    on,
    storing,
    using,
    volume,
)

AFFINITY = "node(s) didn't match PersistentVolume's node affinity"
BINDING = "node(s) didn't find available persistent volumes to bind"
SPACE = "node(s) did not have enough free storage"
MISSING = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
ZONES = (node("n1").labels(zone="z1"), node("n2").labels(zone="z2"))


def state_with(*found: AnyObject) -> FleetState:
    """Nodes n1 in z1 and n2 in z2."""
    return storing(*found, nodes=ZONES)


# --- before nodes are looked at --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asking", "found", "says"),
    [
        pytest.param(using("data"), (), 'persistentvolumeclaim "data" not found', id="no claim"),
        pytest.param(
            using("a", "b"), (bound("a", "pv"),), 'persistentvolumeclaim "b" not found', id="one of two is not there"
        ),
        pytest.param(
            using("data"),
            (claim("data", storage_class=NOW),),
            "pod has unbound immediate PersistentVolumeClaims",
            id="immediate",
        ),
        pytest.param(
            using("data"),
            (claim("data", storage_class=None),),
            "pod has unbound immediate PersistentVolumeClaims",
            id="of no class",
        ),
        pytest.param(
            using("data"),
            (claim("data", storage_class="unheard-of"),),
            "pod has unbound immediate PersistentVolumeClaims",
            id="of an unknown class",
        ),
        pytest.param(
            using("data"),
            (claim("data", volume="pv1"),),
            "pod has unbound immediate PersistentVolumeClaims",
            id="bound by its user, but not yet",
        ),
        pytest.param(
            using("a", "b"),
            (bound("a", "pv"), claim("b", storage_class=NOW)),
            "pod has unbound immediate PersistentVolumeClaims",
            id="one bound, one not",
        ),
        pytest.param(
            using("data"),
            (bound("data", "pv1", phase="Lost"),),
            'persistentvolumeclaim "data" bound to non-existent persistentvolume "pv1"',
            id="lost",
        ),
        pytest.param(
            using("data"),
            (bound("data", "pv1", terminating=True),),
            'persistentvolumeclaim "data" is being deleted',
            id="leaving",
        ),
        pytest.param(
            ephemeral(),
            (),
            'waiting for ephemeral volume controller to create the persistentvolumeclaim "p1-v"',
            id="ephemeral, not made yet",
        ),
        pytest.param(
            ephemeral(),
            (bound("p1-v", "pv", owner_uid="somebody"),),
            "PVC default/p1-v was not created for pod default/p1 (pod is not owner)",
            id="ephemeral, of another pod",
        ),
    ],
)
def test_a_claim_that_cannot_be_used_yet_refuses_the_pod(
    asking: PodBuilder, found: tuple[AnyObject, ...], says: str
) -> None:
    assert refused(make("VolumeBinding"), asking, state_with(*found)) == says


def test_a_pod_without_claims_is_no_matter() -> None:
    assert state_of(make("VolumeBinding"), pod(), state_with()) is SKIP


# --- claims that have a volume ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asking", "found", "want"),
    [
        pytest.param(using("data"), (bound("data", "pv1"), volume("pv1")), {}, id="a volume that is everywhere"),
        pytest.param(
            using("data"),
            (bound("data", "pv1"), volume("pv1", node_affinity=in_zone("z1"))),
            {"n2": AFFINITY},
            id="in z1",
        ),
        pytest.param(
            using("data"),
            (bound("data", "pv1"), volume("pv1", node_affinity=in_zone("z3"))),
            {"n1": AFFINITY, "n2": AFFINITY},
            id="nowhere here",
        ),
        pytest.param(using("data"), (bound("data", "pv1"),), {"n1": MISSING, "n2": MISSING}, id="the volume is gone"),
        pytest.param(
            using("a", "b"),
            (
                bound("a", "pv1"),
                bound("b", "pv2"),
                volume("pv1", node_affinity=in_zone("z1")),
                volume("pv2", node_affinity=in_zone("z2")),
            ),
            {"n1": AFFINITY, "n2": AFFINITY},
            id="two zones at once",
        ),
        pytest.param(
            using("a", "b"),
            (bound("a", "pv1"), bound("b", "gone"), volume("pv1", node_affinity=in_zone("z1"))),
            {"n1": MISSING, "n2": AFFINITY},
            id="the first that fails is told",
        ),
        pytest.param(
            ephemeral(), (bound("p1-v", "pv1", owner_uid="uid-p1"), volume("pv1")), {}, id="ephemeral, made for the pod"
        ),
    ],
)
def test_a_bound_claim_keeps_its_pod_where_the_volume_is(
    asking: PodBuilder, found: tuple[AnyObject, ...], want: dict[str, str]
) -> None:
    assert reasons(make("VolumeBinding"), asking, state_with(*found)) == want


# --- claims that wait for their pod: volumes that are there ----------------------------------------------------------


def free(name: str, gib: int = 1, *zones: str, **fields: Any) -> PersistentVolume:
    """A volume of the class that provides none."""
    affinity = {"node_affinity": in_zone(*zones)} if zones else {}
    return volume(name, gib, STATIC, **affinity, **fields)


@pytest.mark.parametrize(
    ("wanted", "offered", "fits"),
    [
        pytest.param({}, {}, True, id="one that suits"),
        pytest.param({"gib": 5}, {"gib": 5}, True, id="just large enough"),
        pytest.param({"gib": 5}, {"gib": 4}, False, id="too small"),
        pytest.param({}, {"phase": "Released"}, False, id="not available"),
        pytest.param({}, {"phase": "Pending"}, False, id="not yet available"),
        pytest.param({}, {"claim": "default/other"}, False, id="of another claim"),
        pytest.param({}, {"claim": "default/data"}, True, id="kept for it by name"),
        pytest.param({}, {"claim": "default/data", "claim_uid": "uid-data"}, True, id="kept for it by name and uid"),
        pytest.param({}, {"claim": "default/data", "claim_uid": "older"}, False, id="kept for one of that name before"),
        pytest.param({"gib": 5}, {"claim": "default/data", "gib": 4}, False, id="kept for it, but too small"),
        pytest.param({}, {"claim": "default/data", "phase": "Pending"}, True, id="kept for it, phase does not matter"),
        pytest.param({"access_modes": ("ReadWriteMany",)}, {}, False, id="other access modes"),
        pytest.param({}, {"access_modes": ("ReadWriteMany", "ReadWriteOnce")}, True, id="more access modes"),
        pytest.param({"block": True}, {}, False, id="block wanted, files offered"),
        pytest.param({"block": True}, {"block": True}, True, id="block for block"),
        pytest.param({"attributes_class": "gold"}, {}, False, id="attributes wanted"),
        pytest.param({"attributes_class": "gold"}, {"attributes_class": "gold"}, True, id="attributes for attributes"),
        pytest.param({}, {"terminating": True}, False, id="leaving"),
        pytest.param({"selector": LabelSelector({"disk": "ssd"})}, {}, False, id="labels wanted"),
        pytest.param({"selector": LabelSelector({"disk": "ssd"})}, {"labels": {"disk": "ssd"}}, True, id="by labels"),
    ],
)
def test_a_claim_finds_a_volume_that_suits(wanted: dict[str, Any], offered: dict[str, Any], fits: bool) -> None:
    gib = offered.pop("gib", 1) if "gib" in offered else 1
    state = state_with(claim("data", wanted.get("gib", 1), STATIC, **_without(wanted)), free("pv1", gib, **offered))
    found = reasons(make("VolumeBinding"), using("data"), state)
    assert found == ({} if fits else {"n1": BINDING, "n2": BINDING})


def _without(fields: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in fields.items() if key != "gib"}


@pytest.mark.parametrize(
    ("claims", "volumes", "want"),
    [
        pytest.param(("data",), (free("pv1", 1, "z1"),), {"n2": BINDING}, id="where the volume is"),
        pytest.param(("data",), (free("pv1", 1, "z1"), free("pv2", 1, "z2")), {}, id="one in each zone"),
        pytest.param(
            ("data",), (free("pv1", 1, "z1", claim="default/data"), free("pv2", 1, "z2")), {"n2": BINDING}, id="kept"
        ),
        pytest.param(
            ("data", "more"), (free("pv1", 1, "z1"),), {"n1": BINDING, "n2": BINDING}, id="two claims, one volume"
        ),
        pytest.param(
            ("data", "more"),
            (free("pv1", 1, "z1"), free("pv2", 1, "z1"), free("pv3", 1, "z2")),
            {"n2": BINDING},
            id="two and two",
        ),
    ],
)
def test_static_volumes_are_matched_node_by_node(
    claims: tuple[str, ...], volumes: tuple[PersistentVolume, ...], want: dict[str, str]
) -> None:
    state = state_with(*(claim(name, 1, STATIC) for name in claims), *volumes)
    assert reasons(make("VolumeBinding"), using(*claims), state) == want


def test_small_claims_leave_large_volumes_to_large_ones() -> None:
    volumes = (free("big", 10, "z1"), free("small", 1, "z1"))
    state = state_with(claim("large", 10, STATIC), claim("tiny", 1, STATIC), *volumes)
    plugin, asking = make("VolumeBinding"), using("large", "tiny")
    assert reasons(plugin, asking, state) == {"n2": BINDING}
    assert plugin.reserve(CycleState(), asking.placed(), 0, view_of(state)) is None
    kept = {one.name: one.claim for one in state.kept.of("a", PersistentVolume).values()}
    assert kept == {"big": "default/large", "small": "default/tiny"}


# --- claims that wait for their pod: volumes that are to be made -----------------------------------------------------


@pytest.mark.parametrize(
    ("found", "want"),
    [
        pytest.param((claim("data"),), {}, id="provided anywhere"),
        pytest.param(
            (claim("data", storage_class=STATIC),), {"n1": BINDING, "n2": BINDING}, id="a class that provides none"
        ),
        pytest.param((claim("data", selected_node="n2"),), {"n1": BINDING}, id="a node is chosen"),
        pytest.param((claim("data", selected_node="gone"),), {"n1": BINDING, "n2": BINDING}, id="a node that is gone"),
        pytest.param(
            (claim("data", storage_class="zonal"), StorageClass("zonal", "csi", True, in_zone("z1"))),
            {"n2": BINDING},
            id="allowed topologies",
        ),
        pytest.param(
            (claim("data", storage_class="zonal"), StorageClass("zonal", "csi", True, in_zone("z1") + in_zone("z2"))),
            {},
            id="one or the other topology",
        ),
        pytest.param(
            (
                claim("data", storage_class="zonal"),
                StorageClass("zonal", "csi", True, in_zone("z1")),
                volume("pv", 1, "zonal"),
            ),
            {},
            id="a volume that is there needs no topology",
        ),
    ],
)
def test_a_class_provides_where_it_may(found: tuple[AnyObject, ...], want: dict[str, str]) -> None:
    assert reasons(make("VolumeBinding"), using("data"), state_with(*found)) == want


def space(name: str, zone: str, gib: int | None, **fields: Any) -> CSIStorageCapacity:
    defaults: dict[str, Any] = {"topology": LabelSelector({ZONE: zone}), "storage_class": WAIT}
    defaults["capacity"] = None if gib is None else gib * GIB
    return CSIStorageCapacity("kube-system", name, **{**defaults, **fields})


TELLS = CSIDriver("csi.example.com", storage_capacity=True)


@pytest.mark.parametrize(
    ("found", "want"),
    [
        pytest.param((), {}, id="a driver that does not tell"),
        pytest.param((CSIDriver("csi.example.com"),), {}, id="a driver that need not tell"),
        pytest.param((TELLS,), {"n1": SPACE, "n2": SPACE}, id="no space told of"),
        pytest.param((TELLS, space("s1", "z1", 10)), {"n2": SPACE}, id="enough in one zone"),
        pytest.param((TELLS, space("s1", "z1", 4)), {"n1": SPACE, "n2": SPACE}, id="too little"),
        pytest.param((TELLS, space("s1", "z1", 10, maximum=GIB)), {"n1": SPACE, "n2": SPACE}, id="in pieces too small"),
        pytest.param((TELLS, space("s1", "z1", 4, maximum=10 * GIB)), {"n2": SPACE}, id="the largest piece decides"),
        pytest.param((TELLS, space("s1", "z1", None)), {"n1": SPACE, "n2": SPACE}, id="no amount"),
        pytest.param((TELLS, space("s1", "z1", 10, topology=None)), {"n1": SPACE, "n2": SPACE}, id="nobody reaches it"),
        pytest.param((TELLS, space("s1", "z1", 10, topology=LabelSelector())), {}, id="everybody reaches it"),
        pytest.param(
            (TELLS, space("s1", "z1", 10, storage_class="x")), {"n1": SPACE, "n2": SPACE}, id="of another class"
        ),
        pytest.param((TELLS, space("s1", "z1", 4), space("s2", "z2", 10)), {"n1": SPACE}, id="two spaces"),
    ],
)
def test_a_new_volume_needs_space_where_the_driver_tells_it(found: tuple[AnyObject, ...], want: dict[str, str]) -> None:
    assert reasons(make("VolumeBinding"), using("data"), state_with(claim("data", 5), *found)) == want


def there(name: str, gib: int, zone: str) -> PersistentVolume:
    """A volume of the class that provides others, too."""
    return volume(name, gib, WAIT, node_affinity=in_zone(zone))


@pytest.mark.parametrize(
    ("found", "want"),
    [
        pytest.param((), {"n1": 0, "n2": 0}, id="nothing is told"),
        pytest.param((TELLS, space("s1", "z1", 10), space("s2", "z2", 20)), {"n1": 50, "n2": 75}, id="capacities"),
        pytest.param(
            (TELLS, space("s1", "z1", 5), space("s2", "z2", 6)), {"n1": 0, "n2": 17}, id="down to whole numbers"
        ),
        pytest.param((there("a", 5, "z1"), there("b", 50, "z2")), {"n1": 0, "n2": 90}, id="volumes that are there"),
        pytest.param(
            (TELLS, space("s1", "z1", 10), space("s2", "z2", 20), there("b", 50, "z2")),
            {"n1": 50, "n2": 90},
            id="a volume there goes before a capacity",
        ),
    ],
)
def test_the_more_room_the_storage_has_left_the_better(found: tuple[AnyObject, ...], want: dict[str, float]) -> None:
    assert scores(make("VolumeBinding"), using("data"), state_with(claim("data", 5), *found)) == want


def test_two_claims_of_one_class_share_its_capacity() -> None:
    state = state_with(claim("a", 5), claim("b", 10), TELLS, space("s1", "z1", 20), space("s2", "z2", 60))
    assert scores(make("VolumeBinding"), using("a", "b"), state) == {"n1": 25, "n2": 75}


def test_reasons_are_told_together_and_in_order() -> None:
    state = state_with(
        bound("old", "pv1"),
        volume("pv1", node_affinity=in_zone("z1"), claim="default/old"),
        claim("a", storage_class=STATIC),
        claim("b"),
        TELLS,
    )
    found = reasons(make("VolumeBinding"), using("old", "a"), state)
    assert found == {"n1": BINDING, "n2": f"{AFFINITY}, {BINDING}"}
    found = reasons(make("VolumeBinding"), using("old", "b"), state)
    assert found == {"n1": SPACE, "n2": f"{AFFINITY}, {SPACE}"}


def test_nodes_of_other_clusters_are_no_home_for_claims() -> None:
    state = keep(fleet(a=["n1"], b=["n1"]), *CLASSES, claim("data"))
    found = reasons(make("VolumeBinding"), using("data"), state)
    assert found == {"b/n1": "node(s) were in another cluster than the pod's volumes"}


# --- what is held ----------------------------------------------------------------------------------------------------


def test_a_volume_that_is_held_for_one_claim_is_not_given_to_another() -> None:
    state = state_with(claim("one", 1, STATIC), claim("two", 1, STATIC), free("pv1", 1, "z1"))
    plugin, first, second = make("VolumeBinding"), using("one"), using("two", name="p2")
    assert plugin.reserve(CycleState(), first.placed(), 0, view_of(state)) is None
    assert reasons(plugin, first, state) == {"n2": BINDING}
    assert reasons(plugin, second, state) == {"n1": BINDING, "n2": BINDING}
    plugin.unreserve(first.placed(), 0, view_of(state))
    assert reasons(plugin, second, state) == {"n2": BINDING}


def test_a_claim_to_be_provided_keeps_later_pods_at_the_chosen_node() -> None:
    state, plugin = state_with(claim("data")), make("VolumeBinding")
    first, second = using("data"), using("data", name="p2")
    assert plugin.reserve(CycleState(), first.placed(), 1, view_of(state)) is None
    assert reasons(plugin, second, state) == {"n1": BINDING}
    assert plugin.reserve(CycleState(), second.placed(), 1, view_of(state)) is None
    plugin.unreserve(first.placed(), 1, view_of(state))
    assert reasons(plugin, second, state) == {"n1": BINDING}
    plugin.unreserve(second.placed(), 1, view_of(state))
    assert reasons(plugin, second, state) == {}


def test_what_the_cluster_reports_meanwhile_shows_through_what_is_held() -> None:
    state, plugin = state_with(claim("data", 1, STATIC), free("pv1", 1, "z1")), make("VolumeBinding")
    assert plugin.reserve(CycleState(), using("data").placed(), 0, view_of(state)) is None
    keep(state, free("pv1", 1, "z1", labels={"touched": "yes"}))
    (shown,) = state.kept.of("a", PersistentVolume).values()
    assert (shown.claim, shown.labels) == ("default/data", {"touched": "yes"})
    plugin.unreserve(using("data").placed(), 0, view_of(state))
    (shown,) = state.kept.of("a", PersistentVolume).values()
    assert (shown.claim, shown.labels) == ("", {"touched": "yes"})


def test_a_place_that_no_longer_serves_the_claims_is_not_reserved() -> None:
    state, plugin = state_with(claim("data", 1, STATIC), free("pv1", 1, "z1")), make("VolumeBinding")
    refusal = plugin.reserve(CycleState(), using("data").placed(), 1, view_of(state))
    assert refusal is not None
    assert refusal.why.text == BINDING


def test_local_volumes_are_found_by_the_name_of_their_node() -> None:
    hosts = [node(f"n{at}") for at in range(5)]
    volumes = [volume(f"pv{at}", 1, STATIC, node_affinity=on("kubernetes.io/hostname", f"n{at}")) for at in (1, 3)]
    state = storing(claim("data", 1, STATIC), *volumes, nodes=tuple(hosts))
    assert set(reasons(make("VolumeBinding"), using("data"), state)) == {"n0", "n2", "n4"}


# --- before the bind -------------------------------------------------------------------------------------------------

POD = PodRef("default", "p1", "uid-p1")


def reserved(asking: PodBuilder, row: int, *found: AnyObject) -> tuple[Any, FleetState]:
    """A plugin that holds what the pod needs on a row."""
    state, plugin = state_with(*found), make("VolumeBinding")
    assert plugin.reserve(CycleState(), asking.placed(), row, view_of(state)) is None
    return plugin, state


def test_a_chosen_volume_is_ordered_until_the_claim_has_it() -> None:
    asking, free_one = using("data"), free("pv1", 1, "z1")
    plugin, state = reserved(asking, 0, claim("data", 1, STATIC), free_one)
    wanted = [Order("a", BindVolume("", POD, 0, "pv1", "default/data", "uid-data"))]
    assert plugin.pre_bind(CycleState(), asking.placed(), 0, view_of(state)) == wanted
    keep(state, msgspec.structs.replace(free_one, claim="default/data", claim_uid="uid-data"))
    assert plugin.pre_bind(CycleState(), asking.placed(), 0, view_of(state)) == wanted
    keep(state, bound("data", "pv1", storage_class=STATIC))
    assert not plugin.pre_bind(CycleState(), asking.placed(), 0, view_of(state))


def test_a_claim_to_be_provided_is_told_its_node_until_it_has_a_volume() -> None:
    asking = using("data")
    plugin, state = reserved(asking, 1, claim("data"))
    wanted = [Order("a", SelectNode("", POD, 0, "default/data", "uid-data", "n2"))]
    assert plugin.pre_bind(CycleState(), asking.placed(), 1, view_of(state)) == wanted
    keep(state, claim("data", selected_node="n2"))
    assert plugin.pre_bind(CycleState(), asking.placed(), 1, view_of(state)) == wanted
    keep(state, bound("data", "made"))
    assert not plugin.pre_bind(CycleState(), asking.placed(), 1, view_of(state))


@pytest.mark.parametrize("asking", [pod(), using("old")], ids=["no claims", "bound claims"])
def test_nothing_is_to_be_done_for_a_pod_whose_claims_are_bound(asking: PodBuilder) -> None:
    plugin, state = reserved(asking, 0, bound("old", "pv1"), volume("pv1"))
    assert not plugin.pre_bind(CycleState(), asking.placed(), 0, view_of(state))


@pytest.mark.parametrize(
    ("reports", "says"),
    [
        pytest.param(
            [claim("data", selected_node="n1"), claim("data")],
            'the volume of persistentvolumeclaim "data" could not be provided on node "n1"',
            id="given up by who makes it",
        ),
        pytest.param(
            [claim("data", selected_node="n2")],
            'the volume of persistentvolumeclaim "data" could not be provided on node "n1"',
            id="sent to another node",
        ),
        pytest.param([claim("data", uid="another")], 'persistentvolumeclaim "data" is gone', id="replaced"),
    ],
)
def test_a_choice_that_comes_to_nothing_gives_the_place_back(reports: list[AnyObject], says: str) -> None:
    asking = using("data")
    plugin, state = reserved(asking, 0, claim("data"))
    answer: object = None
    for report in reports:
        keep(state, report)
        answer = plugin.pre_bind(CycleState(), asking.placed(), 0, view_of(state))
    assert isinstance(answer, Refuse)
    assert answer.why.text == f"node(s) could not be prepared for the pod: {says}"


def test_a_volume_that_another_claim_got_gives_the_place_back() -> None:
    asking = using("data")
    plugin, state = reserved(asking, 0, claim("data", 1, STATIC), free("pv1", 1, "z1"))
    keep(state, free("pv1", 1, "z1", claim="default/other"))
    assert isinstance(plugin.pre_bind(CycleState(), asking.placed(), 0, view_of(state)), Refuse)


def test_a_pod_on_its_way_keeps_what_is_held_when_its_profile_is_exchanged() -> None:
    asking = using("data")
    plugin, state = reserved(asking, 1, claim("data"))
    plugin.unreserve(asking.placed(), 1, view_of(state))
    successor = make("VolumeBinding")
    successor.restore(asking.placed(), 1, view_of(state))
    assert successor.pre_bind(CycleState(), asking.placed(), 1, view_of(state))
    bound_one = make("VolumeBinding")
    bound_one.restore(asking.on("n2").placed(), 1, view_of(state))
    assert not bound_one.pre_bind(CycleState(), asking.placed(), 1, view_of(state))


def test_pods_with_claims_of_their_own_are_apart_and_others_are_not() -> None:
    state = storing(
        *(claim(name) for name in ("a", "b", "shared")), claim("s", storage_class=STATIC), volume("v", 1, STATIC)
    )
    plugin = make("VolumeBinding")
    own, other = using("a").placed(), using("b", name="p2").placed()
    plan = plugin.pre_filter(own, view_of(state))
    disk = PodInfo(pod("p3").set(volumes=(Volume(CLAIM, "b"), Volume(GCE_DISK, "d"))).build(), "a")
    view = view_of(state)
    assert plugin.fits(plan, [own, other], view)
    assert not plugin.fits(plan, [own, own], view)
    assert not plugin.fits(
        plan, [using("a", "shared").placed(), using("b", "shared", name="p2").placed()], view_of(state)
    )
    assert not plugin.fits(plan, [own, disk], view)
    assert not plugin.fits(plugin.pre_filter(using("s").placed(), view), [using("s").placed()], view_of(state))


def test_claims_of_many_pods_are_held_as_one_by_one_or_none_of_them() -> None:
    found = [claim("a"), claim("b", selected_node="n2"), claim("c", 2), claim("d")]
    pods = [using("a", "b").placed(), using("c", "d", name="p2").placed()]

    def orders(*, together: bool) -> list[object]:
        state, plugin = storing(*found), make("VolumeBinding")
        view = view_of(state)
        if together:
            plugin.reserve_all(plugin.pre_filter(pods[0], view), pods, [1, 0], view)
        else:
            assert not any(plugin.reserve(CycleState(), one, row, view) for one, row in zip(pods, (1, 0), strict=True))
        held = [order for one in pods for order in plugin.pre_bind(CycleState(), one, 0, view)]
        return [held, dict(state.kept.of("a", PersistentVolumeClaim))]

    assert orders(together=True) == orders(together=False)
    state, plugin = storing(*found), make("VolumeBinding")
    before, view = dict(state.kept.of("a", PersistentVolumeClaim)), view_of(state)
    gone = using("gone", name="p3").placed()
    with pytest.raises(LookupError, match="gone"):
        plugin.reserve_all(plugin.pre_filter(pods[0], view), [*pods, gone], [1, 0, 0], view)
    assert dict(state.kept.of("a", PersistentVolumeClaim)) == before
