"""The law of `reads`: of a pod without any of these fields a plugin has nothing to say, whatever
else the pod has and the fleet holds (`framework.asked`).
"""

from collections.abc import Iterator
from typing import Any

import msgspec

from dispatcher.kit.edge_case_fleet import odd_pods
from dispatcher.kit.fleet_key import CLUSTER_EVENTS, pods_that_name
from dispatcher.kit.samples import a_pod, seat
from dispatcher.scheduling.fleet.fleet import FleetState
from dispatcher.scheduling.fleet.view import view_of
from dispatcher.scheduling.framework import (
    CycleState,
    FleetView,
    Permit,
    Plugin,
    PodInfo,
    Reserve,
    Skip,
)
from dispatcher.scheduling.framework.asked import are_fields, reads_of
from dispatcher.scheduling.framework.lifecycle import PreBind
from shared.model.labels import LabelSelector
from shared.model.pod import Pod, PodAffinity, PodAffinityTerm
from shared.model.refusal import ClusterRefusal

_BARE = a_pod("bare", labels={})


def reads_law(plugin: Plugin, fleet: FleetState) -> Iterator[str]:
    """It changes the fleet."""
    if not are_fields(plugin.reads):
        yield f"reads must be fields of Pod or PodInfo, or keys of annotations, not {plugin.reads!r:.80}"
    reads = reads_of(plugin)
    if not reads:
        return
    view = view_of(fleet)
    named = pods_that_name("west", plugin, view)
    pods = [_without(one, reads) for one in (*odd_pods(), _with_everything(), *named)]
    yield from _said(plugin, pods, view, "")
    _let_some_repel(fleet)
    yield from _said(plugin, pods, view, " when a pod that repels all others runs")
    for what, happens, _ in CLUSTER_EVENTS:
        happens(fleet)
        yield from _said(plugin, pods, view, f" when {what}")


def _said(plugin: Plugin, pods: list[PodInfo], view: FleetView, when: str) -> Iterator[str]:
    """What it says of pods of which it has nothing to say."""
    for pod_info in pods:
        told = (
            f"of pod {pod_info.pod.name}, which has nothing of what it reads"
            f" ({', '.join(plugin.reads)}),{when and when + ','}"
        )
        key = plugin.class_key(pod_info)
        if key is not None:
            yield f"{told} class_key must be None, not {key!r:.80}"
        standing = plugin.fleet_key(pod_info, view)
        if standing is not None:
            yield f"{told} fleet_key must be None, not {standing!r:.80}"
        state = plugin.pre_filter(pod_info, view)
        if not isinstance(state, Skip):
            yield f"{told} pre_filter must answer SKIP, not {state!r:.80}"
        cycle = CycleState({plugin.name: state})
        if isinstance(plugin, Reserve):
            answer = plugin.reserve(cycle, pod_info, 0, view)
            if answer is None:
                plugin.unreserve(pod_info, 0, view)
            else:
                yield f"{told} reserve must book nothing, and refuse nothing"
        if isinstance(plugin, Permit) and plugin.permit(cycle, pod_info, 0, view) is not None:
            yield f"{told} permit must answer None"
        if isinstance(plugin, PreBind) and plugin.pre_bind(cycle, pod_info, 0, view):
            yield f"{told} pre_bind must order nothing"


def _without(pod_info: PodInfo, reads: tuple[str, ...]) -> PodInfo:
    """The same pod, with these fields empty."""
    pod = pod_info.pod
    empty = {one: _empty(getattr(_BARE.pod, one)) for one in reads if one in Pod.__struct_fields__}
    texts = {key: text for key, text in pod.annotations.items() if key not in reads}
    pod = msgspec.structs.replace(pod, **({"annotations": texts} | empty))
    told = {one: _empty(getattr(_BARE, one)) for one in reads if one in PodInfo.__struct_fields__}
    return msgspec.structs.replace(pod_info, **({"pod": pod} | told))


def _empty(value: Any) -> Any:
    return type(value)()


def _with_everything() -> PodInfo:
    """A pod with all fields that any odd pod has."""
    found: dict[str, Any] = {}
    for one in odd_pods():
        plain = _BARE.pod
        every = {name: getattr(one.pod, name) for name in Pod.__struct_fields__}
        found |= {name: told for name, told in every.items() if told != getattr(plain, name)}
    more = {
        "name": "everything",
        "images": ("web",),
        "volume_images": ("data",),
        "resource_claims": ("gpu",),
        "pod_anti_affinity": _REPELS,
    }
    pod = msgspec.structs.replace(_BARE.pod, **(found | more))
    refused = (ClusterRefusal("west", "no", 0.0, 9.0),)
    return PodInfo(pod, _BARE.home, refused, (300, 2**31))


def _let_some_repel(fleet: FleetState) -> None:
    seat(fleet, a_pod("repels", labels={}, pod_anti_affinity=_REPELS), "west", "w3")


_REPELS = PodAffinity(
    (PodAffinityTerm("zone", LabelSelector(), namespace_selector=LabelSelector()),)
)
