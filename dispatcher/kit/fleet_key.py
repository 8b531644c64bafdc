"""The law of `fleet_key`: what a plugin makes of other clusters than a row's own is in it, or in
its class key.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence

import msgspec

from dispatcher.kit.call_plugin import answer_in_words
from dispatcher.kit.edge_case_fleet import NO_NODES, odd_pods
from dispatcher.scheduling.fleet.fleet import FleetState
from dispatcher.scheduling.fleet.view import view_of
from dispatcher.scheduling.framework import Filter, FleetView, Plugin, PodInfo, Score
from shared.model.crossing import Opening
from shared.model.node import Taint

_Answers = tuple[Hashable, Hashable, str]  # class key, fleet key, answer
_ALL = ("*",)


def _not_ready(fleet: FleetState) -> None:
    fleet.set_cluster(NO_NODES, ready=False, synced=True)


def _opens(fleet: FleetState) -> None:
    fleet.set_cluster(NO_NODES, ready=True, synced=True, opens=(Opening(_ALL, _ALL, _ALL),))


def _close(fleet: FleetState) -> None:
    for home in fleet.clusters:
        for other in fleet.clusters:
            if other is not home:
                fleet.set_closed(home.name, other.name, closed=True)


def _taint_proxies(fleet: FleetState) -> None:
    for home in fleet.clusters:
        for other in fleet.clusters:
            if other is not home:
                fleet.set_proxy_taints(home.name, other.name, (Taint("law.example/closed"),))


# No row changes with any of these, so nobody is asked again. What is said of it, what happens, and
# what tells of it.
CLUSTER_EVENTS: Sequence[tuple[str, Callable[[FleetState], None], str]] = (
    ("a cluster without nodes opens to other tolerations", _opens, "fleet.clusters"),
    ("a cluster without nodes becomes not Ready", _not_ready, "fleet.clusters"),
    ("clusters are closed to the pod's home", _close, "fleet.closed"),
    ("proxy nodes of the pod's home are tainted", _taint_proxies, "fleet.proxy_taints"),
)


def fleet_key_law(plugin: Plugin, fleet: FleetState) -> Iterator[str]:
    """No answer changes for a pod whose keys stay, when clusters of no row change. It changes the
    clusters.
    """
    if not isinstance(plugin, Filter | Score):
        return  # asked about each pod
    view = view_of(fleet)
    pods = [*odd_pods(), *pods_that_name(NO_NODES, plugin, view)]
    before = [_answers_of(plugin, pod_info, view) for pod_info in pods]
    for what, happens, where in CLUSTER_EVENTS:
        happens(fleet)
        after = [_answers_of(plugin, pod_info, view) for pod_info in pods]
        if any(
            was[:2] == now[:2] and was[2] != now[2] for was, now in zip(before, after, strict=True)
        ):
            yield (
                f"{what}: its answer is another one, but class_key and fleet_key are not; "
                f"let fleet_key say what it makes of {where}"
            )
        before = after


def _answers_of(plugin: Plugin, pod_info: PodInfo, view: FleetView) -> _Answers:
    return (
        plugin.class_key(pod_info),
        plugin.fleet_key(pod_info, view),
        answer_in_words(plugin, pod_info, view),
    )


def pods_that_name(value: str, plugin: Plugin, view: FleetView) -> list[PodInfo]:
    """Pods with this value in a label or annotation of pods that the plugin asks for."""
    found = list[PodInfo]()
    for field in ("labels", "annotations"):
        for pod_info in odd_pods():
            asked = _Asked(getattr(pod_info.pod, field))
            _answers_of(plugin, _with(pod_info, field, asked), view)
            found += [_with(pod_info, field, {**asked, key: value}) for key in asked.keys_asked]
    return found


def _with(pod_info: PodInfo, field: str, texts: dict[str, str]) -> PodInfo:
    return msgspec.structs.replace(
        pod_info, pod=msgspec.structs.replace(pod_info.pod, **{field: texts})
    )


class _Asked(dict[str, str]):
    """Labels or annotations that remember what was asked for."""

    def __init__(self, texts: Iterable[tuple[str, str]] | dict[str, str]) -> None:
        super().__init__(texts)
        self.keys_asked: dict[str, None] = {}

    def get(self, key: str, default: str | None = None) -> str | None:  # type: ignore[override]
        self.keys_asked[key] = None
        return super().get(key, default)

    def __getitem__(self, key: str) -> str:
        self.keys_asked[key] = None
        return super().__getitem__(key)

    def __contains__(self, key: object) -> bool:
        if isinstance(key, str):
            self.keys_asked[key] = None
        return super().__contains__(key)
