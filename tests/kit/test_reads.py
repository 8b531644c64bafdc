"""Plugins that say which fields they read are held to it, and are not asked of other pods."""

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import pytest

from dispatcher.kit import a_pod, broken_laws
from dispatcher.kit.interface_law import broken_form
from dispatcher.plugins.registry import REGISTRY, PluginContext, PluginSpec, build
from dispatcher.scheduling.framework import (
    SKIP,
    Codes,
    CycleState,
    Filter,
    FleetView,
    Permit,
    Plugin,
    PodInfo,
    Refuse,
    Reserve,
    Rows,
    Skip,
)
from dispatcher.scheduling.framework.asked import AskedByFields, reads_of
from dispatcher.scheduling.framework.points import Plan
from dispatcher.scheduling.profile import DEFAULT_PROFILE
from shared.model import names
from shared.model.pod import HostPort, Pod, SpreadConstraint, Volume
from shared.model.refusal import ClusterRefusal
from tests.scheduling.tiny_plugins import profile

COLOUR = "global-dispatcher.io/colour"


class ByColour(Filter[str], Reserve[str], Permit[str]):
    """Pods that name a colour, or have ports; each test lets it lie of one point."""

    name: ClassVar[str] = "ByColour"
    reads: tuple[str, ...] = (COLOUR, "ports")

    def _colour(self, pod_info: PodInfo) -> str | None:
        return pod_info.pod.annotations.get(COLOUR)

    def class_key(self, pod_info: PodInfo) -> Any:
        return self._colour(pod_info)

    def pre_filter(self, pod_info: PodInfo, fleet: FleetView) -> str | Refuse | Skip:
        return self._colour(pod_info) or SKIP

    def filter(self, state: str, fleet: FleetView, rows: Rows) -> Codes:
        return np.zeros(len(fleet.nodes.live[rows]), dtype=np.uint16)

    def reserve(self, cycle: CycleState, pod_info: PodInfo, row: int, fleet: FleetView) -> Refuse | None:
        return None

    def unreserve(self, pod_info: PodInfo, row: int, fleet: FleetView) -> None:
        return None

    def permit(self, cycle: CycleState, pod_info: PodInfo, row: int, fleet: FleetView) -> Refuse | float | None:
        return None


class ByAnotherKey(ByColour):
    """It looks at an annotation that it does not name."""

    reads = (COLOUR,)

    def _colour(self, pod_info: PodInfo) -> str | None:
        return pod_info.pod.annotations.get(COLOUR) or pod_info.pod.annotations.get("global-dispatcher.io/shade")


class ByVolumes(ByColour):
    reads = (COLOUR,)

    def class_key(self, pod_info: PodInfo) -> Any:
        return self._colour(pod_info) or pod_info.pod.volumes or None


class ByClosedClusters(ByColour):
    """What it makes of clusters is nothing that a pod says."""

    reads = (COLOUR,)

    def fleet_key(self, pod_info: PodInfo, fleet: FleetView) -> Any:
        return fleet.closed.get(pod_info.home)


class ByNeighbours(ByColour):
    """Pods that run may repel one that says nothing."""

    reads = ("pod_anti_affinity",)

    def pre_filter(self, pod_info: PodInfo, fleet: FleetView) -> Any:
        return SKIP if not fleet.affinity.terms_about(pod_info) else "repelled"


class BookingAll(ByColour):
    reads = (COLOUR,)

    def reserve(self, cycle: CycleState, pod_info: PodInfo, row: int, fleet: FleetView) -> Any:
        return None if self._colour(pod_info) else Refuse("no")  # type: ignore[arg-type]


class LettingWait(ByColour):
    reads = (COLOUR,)

    def permit(self, cycle: CycleState, pod_info: PodInfo, row: int, fleet: FleetView) -> Any:
        return 5.0


class Inheriting(ByColour):
    """It says nothing of fields itself: it is asked of every pod."""

    def class_key(self, pod_info: PodInfo) -> Any:
        return pod_info.pod.namespace


def test_who_says_truly_what_it_reads_breaks_no_law() -> None:
    assert broken_laws(ByColour()) == []


@pytest.mark.parametrize(
    ("plugin", "want"),
    [
        (ByAnotherKey(), "class_key must be None, not 'west'"),
        (ByVolumes(), "class_key must be None"),
        (ByClosedClusters(), "when clusters are closed to the pod's home, fleet_key must be None"),
        (ByNeighbours(), "when a pod that repels all others runs, pre_filter must answer SKIP"),
        (BookingAll(), "reserve must book nothing, and refuse nothing"),
        (LettingWait(), "permit must answer None"),
    ],
    ids=["annotation", "field", "clusters", "pods", "reserve", "permit"],
)
def test_who_looks_at_more_than_it_says_is_told(plugin: Plugin, want: str) -> None:
    assert any(want in text for text in broken_laws(plugin)), broken_laws(plugin)


@pytest.mark.parametrize("reads", ["ports", ("port",), ["ports"], (1,)], ids=str)
def test_fields_that_no_pod_has_are_told_and_nobody_relies_on_them(reads: Any) -> None:
    wrong = type("Wrong", (ByColour,), {"reads": reads})
    assert any("reads must be" in text for text in broken_form(PluginSpec(wrong)))
    assert any("reads must be" in text for text in broken_laws(wrong()))
    assert reads_of(wrong()) == ()


@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("Nearness", {"app": True}),
        ("NodeAffinity", {"added_affinity": [{"key": "disk", "operator": "In", "values": ["ssd"]}]}),
        ("FaultDomainSpread", {"defaulting": "App"}),
        ("FaultDomainSpread", {"defaulting": "System"}),
        ("FaultDomainSpread", {"defaults": [{"key": "zone", "max_skew": 1, "hard": True}]}),
        ("EgressPrice", {"prices": [{"from": "*", "to": "*", "per_gib": 1.0}]}),
    ],
)
def test_plugins_of_ours_keep_it_with_other_arguments_too(name: str, args: Mapping[str, Any]) -> None:
    assert broken_laws(REGISTRY[name].make(args, PluginContext())) == []


def asked(pod_info: PodInfo) -> set[str]:
    plan = Plan.of(DEFAULT_PROFILE, build(DEFAULT_PROFILE, PluginContext()))
    return {plugin.name for _, plugin in plan.asked(pod_info).keyed}


@pytest.mark.parametrize(
    ("field", "who"),
    [
        ({"ports": (HostPort(80),)}, {"NodePorts"}),
        (
            {"volumes": (Volume("claim", "data"),)},
            {"VolumeBinding", "VolumeZone", "VolumeRestrictions", "NodeVolumeLimits"},
        ),
        ({"spread": (SpreadConstraint("zone"),)}, {"FaultDomainSpread"}),
        ({"node_selector": {"disk": "ssd"}}, {"NodeAffinity", "NamedNodes"}),
        ({"annotations": {names.DATA: ""}}, {"DataLocality"}),
        ({"annotations": {names.CLUSTERS: "a"}}, set[str]()),
    ],
)
def test_plugins_are_asked_of_pods_that_have_what_they_read(field: Mapping[str, Any], who: set[str]) -> None:
    plain = {"labels": {}, **field}
    assert asked(a_pod(**plain)) - asked(a_pod(labels={})) == who


def test_what_clusters_said_is_read_as_well_as_what_the_pod_says() -> None:
    refused = PodInfo(a_pod().pod, "east", (ClusterRefusal("west", "no", 0.0, 9.0),))
    assert asked(refused) - asked(a_pod()) == {"ClusterRefused"}


def test_who_inherits_is_asked_of_every_pod_until_it_says_what_it_reads() -> None:
    plan = Plan.of(profile(ByColour=1), [Inheriting()])
    assert plan.class_key(a_pod(namespace="a")) != plan.class_key(a_pod(namespace="b"))


def test_kinds_of_pods_are_forgotten_before_they_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dispatcher.scheduling.framework.asked._MOST_KINDS", 4)
    asked_of = AskedByFields(Plan.of(DEFAULT_PROFILE, build(DEFAULT_PROFILE, PluginContext())).everybody)
    for at in range(64):
        some = {name: told for bit, (name, told) in enumerate(FIELDS.items()) if at >> bit & 1}
        first = asked_of(a_pod(**some))
        assert asked_of(a_pod(**some)) is first
        assert len(asked_of._kinds) <= 4


FIELDS: dict[str, Any] = {
    "ports": (HostPort(80),),
    "volumes": (Volume("claim", "data"),),
    "node_selector": {"disk": "ssd"},
    "features": ("a",),
    "resource_claims": ("gpu",),
    "node": "n1",
}


def test_every_field_that_a_plugin_of_ours_reads_is_one_that_pods_have() -> None:
    told = {one: reads for one, spec in REGISTRY.items() if (reads := spec.plugin.reads)}
    assert set(FIELDS) <= {name for reads in told.values() for name in reads}
    assert set(FIELDS) <= set(Pod.__struct_fields__)
