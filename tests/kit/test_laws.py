from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import pytest

from dispatcher.kit import Room, a_fleet, a_node, a_pod, broken_laws, scores
from dispatcher.kit.interface_law import broken_form
from dispatcher.plugins.registry import REGISTRY, PluginContext, PluginSpec
from dispatcher.scheduling.framework import (
    SKIP,
    ClusterScore,
    Codes,
    CountedPlugin,
    CycleState,
    Depends,
    Filter,
    FleetView,
    Floats,
    Permit,
    Plugin,
    PodInfo,
    Refuse,
    Reserve,
    RoomFilter,
    Rows,
    Score,
    refuse,
)
from dispatcher.scheduling.framework.counted import pods_by_domain
from dispatcher.scheduling.framework.domain_counts import CountRules, MaxCount
from dispatcher.scheduling.framework.lifecycle import PreBind, PreEnqueue, PreScore, RowList
from dispatcher.scheduling.framework.plugin import WaitingRoom
from shared.model.reasons import Reason, Reasons, Why
from shared.model.wake_events import NODES


class Harmless(Filter, Score, Reserve, Permit, PreEnqueue, PreBind):
    """Keeps every law; each test breaks one of them."""

    name: ClassVar[str] = "Harmless"

    def __init__(self) -> None:
        self.booked = 0

    def class_key(self, pod_info: PodInfo) -> Any:
        return None

    def filter(self, state: object, fleet: FleetView, rows: Rows) -> Codes:
        return np.zeros(len(fleet.nodes.live[rows]), dtype=np.uint16)

    def score(self, state: object, fleet: FleetView, rows: Rows) -> Floats:
        return np.zeros(len(fleet.nodes.live[rows])) + self.booked

    def reserve(self, cycle: CycleState, pod_info: PodInfo, row: int, fleet: FleetView) -> Refuse | None:
        self.booked += 1
        return None

    def unreserve(self, pod_info: PodInfo, row: int, fleet: FleetView) -> None:
        self.booked -= 1

    def permit(self, cycle: CycleState, pod_info: PodInfo, row: int, fleet: FleetView) -> Refuse | float | None:
        return 5.0

    def pre_enqueue(self, pod_info: PodInfo) -> Refuse | None:
        return None

    def pre_bind(self, cycle: CycleState, pod_info: PodInfo, row: int, fleet: FleetView) -> None:
        return None

    def explain(self, state: object, pod_info: PodInfo, fleet: FleetView, row: int) -> Any:
        return {}

    def explain_rows(self, state: object, pod_info: PodInfo, fleet: FleetView, rows: Rows) -> Any:
        return [self.explain(state, pod_info, fleet, 0)] * length(fleet, rows)


def length(fleet: FleetView, rows: Rows) -> int:
    return len(fleet.nodes.live[rows])


def always_one(state: object, fleet: FleetView, rows: Rows) -> Any:
    return np.full(length(fleet, rows), 999, dtype=np.uint16)


def in_words(state: object, fleet: FleetView, rows: Rows) -> Any:
    code = np.uint16(fleet.reasons.code("no way"))  # type: ignore[arg-type]
    return np.where(fleet.nodes.label("example.com/odd")[rows] >= 0, code, np.uint16(0))


def fails_for_some(state: object, fleet: FleetView, rows: Rows) -> Any:
    return 1 // (0 if np.nansum(fleet.nodes.metric("watts")) else 1) * np.zeros(length(fleet, rows), dtype=np.uint16)


class Forgetful(Harmless):
    """Says that it books again what it gave back, and does not."""

    def unreserve(self, pod_info: PodInfo, row: int, fleet: FleetView) -> Any:
        self.booked -= 1
        return list


class Restless(Harmless):
    """Its key grows with every question."""

    asked = 0

    def class_key(self, pod_info: PodInfo) -> Any:
        self.asked += 1
        return self.asked


class Unequal(Harmless):
    """One key for all pods, but an answer by name."""

    def pre_filter(self, pod_info: PodInfo, fleet: FleetView) -> object:
        return float(len(pod_info.pod.name))

    def score(self, state: Any, fleet: FleetView, rows: Rows) -> Floats:
        return np.full(length(fleet, rows), state)


class Named(Harmless):
    """Its key is the pod's name, though it says that it goes by the template."""

    keyed_by_template = True

    def class_key(self, pod_info: PodInfo) -> Any:
        return pod_info.pod.name


class StandingByName(Harmless):
    """What else tells its pods apart is their names, though it says that it goes by the template."""

    keyed_by_template = True

    def class_key(self, pod_info: PodInfo) -> Any:
        return None

    def fleet_key(self, pod_info: PodInfo, fleet: FleetView) -> Any:
        return pod_info.pod.name


class OfNodes(ClusterScore):
    """It looks at single nodes, though it says that it goes by cluster."""

    name: ClassVar[str] = "OfNodes"

    def class_key(self, pod_info: PodInfo) -> Any:
        return None

    def score(self, state: Any, fleet: FleetView, rows: Rows) -> Floats:
        return (fleet.nodes.rank[rows] % 7).astype(np.float64)


# what is broken: (method, what it does instead, words of the finding)
BREAKS: dict[str, tuple[str, Callable[..., Any], str]] = {
    "an unhashable key": ("class_key", lambda pod_info: [pod_info.pod.name], "cannot be hashed"),
    "an exception": ("filter", lambda state, fleet, rows: 1 // 0, "raises ZeroDivisionError"),
    "a mask": ("filter", lambda state, fleet, rows: fleet.nodes.live[rows], "must answer [6] uint16, not [6] bool"),
    "a list": ("filter", lambda state, fleet, rows: [0], "must answer [6] uint16, not list"),
    "an unknown code": ("filter", always_one, "code 999, which is none"),
    "no number": (
        "score",
        lambda state, fleet, rows: np.full(length(fleet, rows), np.nan),
        "finite numbers, not nan (east/e1)",
    ),
    "another scale": ("score", lambda state, fleet, rows: np.full(length(fleet, rows), 101.0), "must lie in 0..100"),
    "a score by position": ("score", lambda state, fleet, rows: np.arange(float(length(fleet, rows))), "row by row"),
    "a booking that stays": ("unreserve", lambda pod_info, row, fleet: None, "does not undo"),
    "an explanation of objects": ("explain", lambda state, pod_info, fleet, row: {"row": np.int64(1)}, "no plain JSON"),
    "rows without an explanation": (
        "explain_rows",
        lambda state, pod_info, fleet, rows: [],
        "each row what explain says",
    ),
    "a wait of no time": ("permit", lambda cycle, pod_info, row, fleet: -1, "must answer seconds above 0, not -1"),
    "a permit in words": (
        "permit",
        lambda cycle, pod_info, row, fleet: "go",
        "permit must answer None, a Refuse or seconds",
    ),
    "a gate that says no": (
        "pre_enqueue",
        lambda pod_info: False,
        "pre_enqueue must answer None or a Refuse, not bool",
    ),
    "a promise": (
        "pre_bind",
        lambda cycle, pod_info, row, fleet: True,
        "pre_bind must answer None, a Refuse or orders",
    ),
    "a reason in words": ("filter", in_words, "it refuses for 'no way', which is neither in its REASONS nor known"),
    "open rows by hearsay": (
        "open_rows",
        lambda state, fleet: (np.asarray([0]), 1),
        "open_rows must name the live rows",
    ),
    "what only some nodes have": ("filter", fails_for_some, "raises ZeroDivisionError"),
}


def test_a_plugin_that_keeps_the_laws_breaks_none() -> None:
    assert broken_laws(Harmless()) == []


@pytest.mark.parametrize("name", sorted(REGISTRY))
def test_every_plugin_of_ours_keeps_the_laws(name: str) -> None:
    assert broken_form(REGISTRY[name]) == []
    assert broken_laws(REGISTRY[name].make({}, PluginContext())) == []


@pytest.mark.parametrize("what", BREAKS)
def test_a_broken_law_is_told(what: str) -> None:
    method, instead, want = BREAKS[what]
    plugin = Harmless()
    setattr(plugin, method, instead)
    assert any(want in text for text in broken_laws(plugin)), broken_laws(plugin)


@pytest.mark.parametrize(
    ("plugin", "want"),
    [
        (Restless(), "differently when asked again"),
        (Forgetful(), "unreserve returns does not book the same again"),
        (Unequal(), "has the class key of another pod but"),
        (Named(), "class_key tells pods of one template apart"),
        (StandingByName(), "fleet_key tells pods of one template apart"),
        (OfNodes(), "tells nodes of one cluster apart"),
    ],
    ids=["key", "booking", "answer", "template", "fleet key", "cluster"],
)
def test_a_broken_class_is_told(plugin: Plugin, want: str) -> None:
    assert any(want in text for text in broken_laws(plugin)), broken_laws(plugin)


def test_what_it_derives_must_be_what_the_fleet_can_keep() -> None:
    plugin = Harmless()
    plugin.derives = ["deviations"]  # type: ignore[assignment]
    assert broken_laws(plugin) == ["derives must be a framework.derived.Derived, not list"]


def test_an_exception_is_told_with_its_line_in_the_plugin() -> None:
    class Divides(Harmless):
        def score(self, state: object, fleet: FleetView, rows: Rows) -> Floats:
            raise ValueError("no" * 200)

    assert any(text.endswith("in score)") for text in broken_laws(Divides()))


class Pairs(Harmless):
    """Pods go in pairs; the namespace `dull` not at all."""

    def attach(self, room: WaitingRoom) -> None:
        self.room = room

    def permit(self, cycle: CycleState, pod_info: PodInfo, row: int, fleet: FleetView) -> Refuse | float | None:
        if pod_info.pod.namespace == "dull":
            for pod_id, _ in self.room.waiting():
                self.room.reject(pod_id, self.name, Why(Reasons.POLICY, self.name))
            return refuse(Reasons.POLICY, self.name)
        waiting = self.room.waiting()
        for pod_id, _ in waiting:
            self.room.allow(pod_id, self.name)
        return None if waiting else 30.0


def test_pods_wait_in_the_room_until_the_plugin_lets_them_go() -> None:
    room = Room(Pairs())
    room.come(a_pod("a"))
    assert (room.names, room.gone) == (["a"], [])
    room.come(a_pod("b"))
    assert (room.names, sorted(room.gone)) == ([], ["a", "b"])


def test_pods_that_are_refused_or_rejected_or_wait_too_long_give_their_places_back() -> None:
    room = Room(Pairs())
    room.come(a_pod("a"), a_pod("b", namespace="dull"), a_pod("c"))
    room.later(29)
    assert (list(room.refused), room.names) == (["a", "b"], ["c"])
    room.later(1)
    assert room.refused["c"] == "waited for too long"
    assert room.fleet.requested.sum() == 0


class Normal(Score):
    """The lowest raw score is the worst, the highest the best."""

    name: ClassVar[str] = "Normal"

    def class_key(self, pod_info: PodInfo) -> Any:
        return None

    def score(self, state: object, fleet: FleetView, rows: Rows) -> Floats:
        return fleet.nodes.allocatable[0, rows].astype(np.float64)

    def normalize(self, raw: Floats) -> Floats:
        scaled: Floats = 100 * (raw - raw.min()) / max(float(np.ptp(raw)), 1.0)
        return scaled


@pytest.mark.parametrize(
    ("instead", "want"),
    [
        (None, ""),
        (
            lambda raw: 100 * (raw - raw.min()) / (raw.max() - raw.min()),
            "normalize of one score must answer [1] finite",
        ),
        (lambda raw: raw, "normalised scores must lie in 0..100"),
        (lambda raw: np.full(len(raw), len(raw), dtype=float), "when each score comes twice"),
        (lambda raw: raw[:-1], "normalize of the scores must answer [6] finite numbers"),
    ],
    ids=["keeps them", "no range", "no scale", "by how many", "one too few"],
)
def test_the_laws_of_normalising_are_told(instead: Callable[..., Any] | None, want: str) -> None:
    plugin = Normal()
    if instead:
        setattr(plugin, "normalize", instead)  # noqa: B010 - as an author's mistake would
    broken = broken_laws(plugin)
    assert any(want in text for text in broken) if instead else broken == []


class Prepared(PreScore):
    """Its scores rest on how many nodes are feasible."""

    name: ClassVar[str] = "Prepared"

    def class_key(self, pod_info: PodInfo) -> Any:
        return None

    def pre_score(self, state: object, pod_info: PodInfo, fleet: FleetView, rows: RowList) -> object:
        return SKIP if pod_info.pod.name == "never" else float(len(rows))

    def score(self, state: Any, fleet: FleetView, rows: Rows) -> Floats:
        return np.full(length(fleet, rows), state)


def test_a_score_is_asked_with_what_prescore_prepared() -> None:
    fleet = a_fleet({"east": [a_node("n1"), a_node("n2")]})
    assert broken_laws(Prepared()) == []
    assert scores(Prepared(), a_pod(), fleet) == {("east", "n1"): 2.0, ("east", "n2"): 2.0}
    assert scores(Prepared(), a_pod("never"), fleet) == {}


class Boastful(RoomFilter):
    """Refuses in spite of room."""

    name: ClassVar[str] = "Boastful"

    def class_key(self, pod_info: PodInfo) -> Any:
        return None

    def wants(self, state: object) -> Sequence[tuple[str, int]] | None:
        return (("pods", 1),)

    def filter(self, state: object, fleet: FleetView, rows: Rows) -> Codes:
        return np.full(len(fleet.nodes.live[rows]), fleet.reasons.code(Reasons.NOT_READY), dtype=np.uint16)


def test_a_filter_by_room_that_refuses_where_all_is_free_is_told() -> None:
    assert broken_laws(Boastful()) == ["filter refuses a node on which all that wants() tells of is free"]


class Lenient(Boastful):
    """Wants room, and takes a node without any."""

    name: ClassVar[str] = "Lenient"

    def wants(self, state: object) -> Sequence[tuple[str, int]] | None:
        return (("pods", 10**9),)

    def filter(self, state: object, fleet: FleetView, rows: Rows) -> Codes:
        return np.zeros(len(fleet.nodes.live[rows]), dtype=np.uint16)


def test_a_filter_by_room_that_passes_where_none_is_free_is_told() -> None:
    assert "filter lets a node pass on which not all that wants() tells of is free" in broken_laws(Lenient())


class ByPods(Score[None]):
    """Fewer pods are better: on the row itself, or (`everywhere`) on all of them."""

    name: ClassVar[str] = "ByPods"

    def __init__(self, depends: Depends, *, everywhere: bool = False) -> None:
        self.depends, self.everywhere = depends, everywhere  # type: ignore[misc]

    def class_key(self, pod_info: PodInfo) -> Any:
        return None

    def pre_filter(self, pod_info: PodInfo, fleet: FleetView) -> None:
        return None

    def score(self, state: None, fleet: FleetView, rows: Rows) -> Floats:
        pods = fleet.nodes.requested[fleet.axis.column("pods") or 0]
        counted = np.full(fleet.n, pods.sum()) if self.everywhere else pods
        return 100.0 / (1 + counted[rows])


class ByCount(ByPods):
    """The same by a count of pods, which its view notes."""

    def score(self, state: None, fleet: FleetView, rows: Rows) -> Floats:
        count = fleet.topology.count_matching(a_pod().pod, None, "cluster")
        return 100.0 / (1 + count[fleet.topology.domain("cluster")[rows]])


@pytest.mark.parametrize(
    ("plugin", "told"),
    [
        (ByPods(Depends.STATIC), "depends is STATIC, but a placement changes its answers for any row"),
        (ByPods(Depends.NODE), ""),
        (
            ByPods(Depends.NODE, everywhere=True),
            "depends is NODE, but a placement changes its answers for rows of other",
        ),
        (ByPods(Depends.FLEET, everywhere=True), ""),
        (ByCount(Depends.STATIC), ""),
    ],
)
def test_a_placement_changes_no_more_answers_than_depends_says(plugin: Plugin, told: str) -> None:
    broken = broken_laws(plugin)
    assert [one[: len(told)] for one in broken] == ([told] if told else [])


class Racks(CountedPlugin):
    """At most `most` pods of an app in a rack."""

    name: ClassVar[str] = "Racks"
    reason: Reason = Reasons.POLICY
    most = 100

    def class_key(self, pod_info: PodInfo) -> Any:
        return pod_info.pod.namespace, tuple(pod_info.pod.app_labels.items())

    def pre_filter(self, pod_info: PodInfo, fleet: FleetView) -> CountRules:
        racks = pods_by_domain(pod_info.pod, "rack", fleet)
        return CountRules([MaxCount(racks, self.most, fleet.reasons.code(self.reason))])


class Secretive(Racks):
    """Has a reason that it does not tell of, in racks that are fuller than any here."""

    reason = Reason("rack_full", "node(s) were in a full rack", remedy="Add racks.", helped_by=NODES)


class Rackless(Racks):
    """Fails where nodes have racks."""

    def pre_filter(self, pod_info: PodInfo, fleet: FleetView) -> CountRules:
        assert (fleet.topology.domain("rack") < 0).all(), "a node has a rack"
        return super().pre_filter(pod_info, fleet)


class OfAnyApp(Racks):
    """Its key forgets which app is counted."""

    most = 0

    def class_key(self, pod_info: PodInfo) -> Any:
        return pod_info.pod.namespace, bool(pod_info.pod.app_labels)


class OfAnyNamespace(Racks):
    """Its key forgets in which namespace."""

    most = 0

    def class_key(self, pod_info: PodInfo) -> Any:
        return tuple(pod_info.pod.app_labels.items())


class Based(Racks):
    """Its rules have a base, and nothing that it is a part of."""

    def rules(self, state: CountRules, fleet: FleetView) -> CountRules:
        return replace(state, base=1.0)


class Deaf(Racks):
    """It refuses nobody, whatever its rules say."""

    def filter(self, state: CountRules, fleet: FleetView, rows: Rows) -> Codes:  # type: ignore[misc]
        return np.zeros(len(fleet.nodes.live[rows]), dtype=np.uint16)


def test_what_follows_from_rules_is_said_by_these_alone() -> None:
    assert broken_form(PluginSpec(Racks)) == []
    assert broken_form(PluginSpec(Deaf)) == [
        "filter follows from the rules of a CountedPlugin: say it in pre_filter or rules"
    ]


@pytest.mark.parametrize(
    ("plugin", "want"),
    [
        (Racks(), ""),
        (Secretive(), "it refuses for rack_full, which is neither in its REASONS nor known"),
        (Rackless(), "raises AssertionError: a node has a rack"),
        (OfAnyApp(), "pod of-another-app has the class key of another pod"),
        (OfAnyNamespace(), "pod of-another-namespace has the class key of another pod"),
        (Based(), "raises ValueError: rules without score terms have no base"),
    ],
    ids=["racks", "secretive", "rackless", "apps", "namespaces", "base"],
)
def test_rules_over_counts_are_held_to_the_laws(plugin: Plugin, want: str) -> None:
    assert {one[: len(want)] for one in broken_laws(plugin)} == ({want} if want else set())
