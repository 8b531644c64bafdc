"""Clusters are not noted by a view: a plugin that looks at others than a row's own says so in its fleet key."""

from collections.abc import Hashable
from typing import ClassVar

import numpy as np
import pytest

from dispatcher.kit import broken_laws
from dispatcher.scheduling.framework import SKIP, Codes, Depends, Filter, FleetView, PodInfo, Refuse, Rows, Skip, refuse
from shared.model.reasons import Reasons

PARTNER = "global-dispatcher.io/x-partner"
LET_STANDING_KEY_SAY = (
    "its answer is another one, but class_key and fleet_key are not; let fleet_key say what it makes of fleet."
)


class OpenHomes(Filter[frozenset[int]]):
    """No pod goes where its home has cordoned the proxy node."""

    name: ClassVar[str] = "OpenHomes"
    keyed_by_template = True

    def __init__(self, depends: Depends = Depends.STATIC) -> None:
        self.depends = depends  # type: ignore[misc]

    def class_key(self, pod_info: PodInfo) -> Hashable:
        return pod_info.home

    def pre_filter(self, pod_info: PodInfo, fleet: FleetView) -> frozenset[int]:
        shut = fleet.closed.get(pod_info.home, frozenset())
        return frozenset(at for at, one in enumerate(fleet.clusters) if one.name in shut)

    def filter(self, state: frozenset[int], fleet: FleetView, rows: Rows) -> Codes:
        shut = np.isin(fleet.nodes.cluster[rows], list(state))
        return np.where(shut, fleet.reasons.code(Reasons.POLICY, self.name), 0).astype(np.uint16)


class Partner(Filter[None]):
    """A pod runs only while the cluster is Ready that its annotation names."""

    name: ClassVar[str] = "Partner"
    depends: ClassVar[Depends] = Depends.STATIC
    keyed_by_template = True

    def class_key(self, pod_info: PodInfo) -> Hashable:
        return pod_info.pod.annotations.get(PARTNER)

    def pre_filter(self, pod_info: PodInfo, fleet: FleetView) -> Refuse | Skip:
        name = pod_info.pod.annotations.get(PARTNER)
        return SKIP if name is None or self._is_well(name, fleet) else refuse(Reasons.POLICY, self.name)

    def _is_well(self, name: str, fleet: FleetView) -> bool:
        return any(one.name == name and one.ready for one in fleet.clusters)

    def filter(self, state: None, fleet: FleetView, rows: Rows) -> Codes:
        return np.zeros(len(fleet.nodes.live[rows]), dtype=np.uint16)


class LabelledPartner(Partner):
    """The same by a label."""

    def class_key(self, pod_info: PodInfo) -> Hashable:
        return pod_info.pod.labels.get("partner")

    def pre_filter(self, pod_info: PodInfo, fleet: FleetView) -> Refuse | Skip:
        name = pod_info.pod.labels.get("partner")
        return SKIP if name is None or self._is_well(name, fleet) else refuse(Reasons.POLICY, self.name)


class OpenPartner(Partner):
    """The same, while it opens to anything."""

    def _is_well(self, name: str, fleet: FleetView) -> bool:
        return any(one.name == name and not one.opens for one in fleet.clusters)


@pytest.mark.parametrize("depends", [Depends.STATIC, Depends.NODE, Depends.FLEET])
def test_who_reads_closed_without_a_fleet_key_is_told(depends: Depends) -> None:
    assert broken_laws(OpenHomes(depends)) == [f"clusters are closed to the pod's home: {LET_STANDING_KEY_SAY}closed"]


@pytest.mark.parametrize(
    ("plugin", "what"),
    [
        (Partner(), "becomes not Ready"),
        (LabelledPartner(), "becomes not Ready"),
        (OpenPartner(), "opens to other tolerations"),
    ],
)
def test_who_reads_clusters_without_a_fleet_key_is_told(plugin: Partner, what: str) -> None:
    assert f"a cluster without nodes {what}: {LET_STANDING_KEY_SAY}clusters" in broken_laws(plugin)


class KeyedHomes(OpenHomes):
    def fleet_key(self, pod_info: PodInfo, fleet: FleetView) -> Hashable:
        return fleet.closed.get(pod_info.home)


class KeyedPartner(Partner):
    def fleet_key(self, pod_info: PodInfo, fleet: FleetView) -> Hashable:
        name = pod_info.pod.annotations.get(PARTNER)
        return name is not None and self._is_well(name, fleet)


@pytest.mark.parametrize("plugin", [KeyedHomes(), KeyedPartner()])
def test_with_a_fleet_key_all_is_well(plugin: Partner) -> None:
    assert broken_laws(plugin) == []
