"""Whether a new node of its own cluster would help a pod that waits: if so, an autoscaler there may make one."""

import dataclasses
from operator import attrgetter

import pytest

from dispatcher.plugins.registry import REGISTRY, PluginContext, build, reasons_of
from dispatcher.plugins.volume_restrictions import CLAIM_IN_USE
from dispatcher.scheduling.cycle.cycle import Scheduler
from dispatcher.scheduling.cycle.profiles import Profiles
from dispatcher.scheduling.framework import PodInfo, Profile
from dispatcher.scheduling.profile import BUILT_IN, DEFAULT_PROFILE
from dispatcher.scheduling.quota import QuotaLedger
from shared.model.names import CLUSTERS, REQUIRE_DATA, STAY
from shared.model.reasons import Reason, Reasons
from shared.model.refusal import ClusterRefusal
from shared.model.wake_events import WakeEvent
from tests.builders import PodBuilder, fleet, node, pod

ALL = reasons_of(REGISTRY).keys()
NO_NODE_HELPS = {one for one in ALL if not one.nodes_help}
FULL = frozenset((Reasons.INSUFFICIENT,))
ONLY_WEST = {"datasets": {"maps": ["west"]}}


def profiles(profile: Profile = DEFAULT_PROFILE) -> Profiles:
    """Of a fleet whose clusters have a node each."""
    plugins = build(profile, PluginContext(quota=QuotaLedger(())))
    return Profiles([Scheduler(profile, plugins, fleet(east=[node("n1")], west=[node("n2")]))])


def with_data() -> Profile:
    uses = tuple(
        dataclasses.replace(one, args=ONLY_WEST) if one.name == "DataLocality" else one
        for one in DEFAULT_PROFILE.plugins
    )
    return dataclasses.replace(DEFAULT_PROFILE, plugins=uses)


@pytest.mark.parametrize("reason", sorted(NO_NODE_HELPS, key=attrgetter("name")), ids=lambda one: one.name)
def test_no_node_helps_a_pod_that_is_refused_as_a_whole(reason: Reason) -> None:
    assert not profiles().nodes_help(pod().placed("east"), FULL | {reason})


def test_what_a_new_node_wakes_nobody_from_is_refused_whatever_nodes_come() -> None:
    of_other_clusters = WakeEvent.NODE_ADDED | WakeEvent.CLUSTER_CHANGED
    assert {one for one in ALL if not one.helped_by & of_other_clusters} <= NO_NODE_HELPS
    assert {one for one in NO_NODE_HELPS if one.helped_by & WakeEvent.NODE_ADDED} == {Reasons.QUOTA}
    told_otherwise = {Reasons.UNANSWERED, Reasons.STILL_ELSEWHERE}
    assert not any(one.resolvable for one in NO_NODE_HELPS - told_otherwise - {CLAIM_IN_USE})


@pytest.mark.parametrize(
    ("waits", "helps"),
    [
        pytest.param(pod(), True, id="may go anywhere"),
        pytest.param(pod().annotation(STAY, "true"), True, id="stays"),
        pytest.param(pod().annotation(CLUSTERS, "east,west"), True, id="may go home, too"),
        pytest.param(pod().annotation(CLUSTERS, "west"), False, id="may not go home"),
        pytest.param(pod().annotation(REQUIRE_DATA, "maps"), False, id="needs data that home has not"),
    ],
)
def test_a_new_node_at_home_helps_a_pod_that_may_go_there_whatever_else_was_full(
    waits: PodBuilder, helps: bool
) -> None:
    assert profiles(with_data()).nodes_help(waits.placed("east"), FULL) is helps


def test_a_new_node_does_not_help_a_pod_that_its_own_cluster_has_refused_for_a_while() -> None:
    at_home, elsewhere = (
        PodInfo(pod().build(), "east", (ClusterRefusal(cluster, "quota", 0.0, 60.0),)) for cluster in ("east", "west")
    )
    assert not profiles().nodes_help(at_home, FULL)
    assert profiles().nodes_help(elsewhere, FULL)


def test_a_profile_that_does_not_go_by_an_annotation_does_not_judge_by_it() -> None:
    assert profiles(BUILT_IN["kube-scheduler"]).nodes_help(pod().annotation(CLUSTERS, "west").placed("east"), FULL)
