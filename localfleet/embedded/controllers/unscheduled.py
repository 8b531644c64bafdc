"""A pod that is left to kube-scheduler, which no embedded cluster has, is told what would place it."""

from collections.abc import Iterable

from localfleet.embedded.controllers.world import Ref, World
from localfleet.embedded.meta import Object, is_terminating
from localfleet.embedded.recorder import WARNING, Recorder
from shared.model import names

_TOLD = (
    "no kube-scheduler runs in an embedded cluster, so this pod stays Pending: "
    f'give it (or its template) the annotation {names.SCHEDULE}: "true", and Global Dispatcher '
    "places it"
)


class UnscheduledController:
    """Records an event about each pod that nobody will place."""

    name = "default-scheduler"

    def __init__(self, world: World, recorder: Recorder) -> None:
        self._world = world
        self._recorder = recorder

    def keys(self, ref: Ref, obj: Object, old: Object | None) -> Iterable[Ref]:
        """A new pod that waits for kube-scheduler."""
        if ref.resource == "pods" and old is None and _waits(obj):
            yield ref

    def reconcile(self, key: Ref, now: float) -> float | None:
        """One pod."""
        pod = self._world.get(key)
        if pod is not None and _waits(pod):
            self._recorder.record(pod, "Pod", WARNING, "FailedScheduling", _TOLD)
        return None


def _waits(pod: Object) -> bool:
    spec = pod["spec"]
    return (
        spec.get("schedulerName") == "default-scheduler"
        and not spec.get("nodeName")
        and not is_terminating(pod)
    )
