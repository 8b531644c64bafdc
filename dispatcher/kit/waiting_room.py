"""The waiting room for the tests of a Permit plugin: pods come one by one, wait, and go on."""

from collections.abc import Sequence

from dispatcher.kit.samples import a_fleet, a_node
from dispatcher.scheduling.fleet.fleet import FleetState
from dispatcher.scheduling.fleet.view import view_of
from dispatcher.scheduling.framework import CycleState, Permit, Plugin, PodInfo, Refuse
from shared.model.pod import PodId
from shared.model.reasons import Why


class Room:
    """Holds the pods that the plugin lets wait; `gone` are the names of those that went on,
    `refused` says why not.

    Every pod has its place on the first node of `fleet` (one node of cluster east if none is given)
    while it waits.
    """

    def __init__(self, plugin: Plugin, fleet: FleetState | None = None) -> None:
        self.fleet = fleet or a_fleet({"east": [a_node("n1")]})
        self.gone: list[str] = []
        self.refused: dict[str, str] = {}
        self._plugin, self._view = plugin, view_of(self.fleet)
        self._waiting: dict[PodId, tuple[PodInfo, float]] = {}
        plugin.attach(self)

    def come(self, *pods: PodInfo) -> None:
        """Ask the plugin about each pod, as after Reserve."""
        for pod_info in pods:
            pod_id = (pod_info.home, pod_info.pod.uid)
            self.fleet.place(pod_id, pod_info, *self.fleet.name_of(0), assumed=True)
            answer = (
                self._asked(self._plugin, pod_info) if isinstance(self._plugin, Permit) else None
            )
            if answer is None:
                self.gone.append(pod_info.pod.name)
            elif isinstance(answer, Refuse):
                self._end(pod_id, pod_info, answer.why)
            else:
                self._waiting[pod_id] = (pod_info, self.fleet.now + answer)

    def _asked(self, plugin: Permit, pod_info: PodInfo) -> Refuse | float | None:
        cycle = CycleState({plugin.name: plugin.pre_filter(pod_info, self._view)})
        return plugin.permit(cycle, pod_info, 0, self._view)

    def later(self, seconds: float) -> None:
        """Time passes; who waited too long gives the place back."""
        self.fleet.now += seconds
        for pod_id, (pod_info, until) in list(self._waiting.items()):
            if self.fleet.now >= until:
                del self._waiting[pod_id]
                self._end(pod_id, pod_info, None)

    @property
    def names(self) -> list[str]:
        """Who waits."""
        return [pod_info.pod.name for pod_info, _ in self._waiting.values()]

    def waiting(self) -> Sequence[tuple[PodId, PodInfo]]:
        """For the plugin: all pods that wait, longest first."""
        return [(pod_id, pod_info) for pod_id, (pod_info, _) in self._waiting.items()]

    def allow(self, pod_id: PodId, plugin: str) -> None:
        """For the plugin: the pod goes on."""
        pod_info, _ = self._waiting.pop(pod_id, (None, 0.0))
        if pod_info is not None:
            self.gone.append(pod_info.pod.name)

    def reject(self, pod_id: PodId, plugin: str, why: Why) -> None:
        """For the plugin: the pod gives its place back."""
        pod_info, _ = self._waiting.pop(pod_id, (None, 0.0))
        if pod_info is not None:
            self._end(pod_id, pod_info, why)

    def _end(self, pod_id: PodId, pod_info: PodInfo, why: Why | None) -> None:
        self.fleet.remove(pod_id)
        self.refused[pod_info.pod.name] = why.text if why else "waited for too long"
