"""Pods that are less important where they go than at home: the first of a kind that is placed so
says it in an event.
"""

from collections.abc import Iterable

from dispatcher.scheduling.core.once_an_hour import OnceAnHour
from dispatcher.scheduling.core.state import CoreState
from dispatcher.scheduling.records.decision import Decision
from shared.messages import LOWER_PRIORITY
from shared.model import names
from shared.model.crossing import class_named, priority_there, rows_for
from shared.model.pod import Pod

_Kind = tuple[str, str, str, str]  # home, namespace, class, cluster


class LowerPriority:
    """Remembers of what it was told."""

    def __init__(self, state: CoreState) -> None:
        self._state = state
        self._told = OnceAnHour[_Kind]()

    def placed(self, decisions: Iterable[Decision], now: float) -> None:
        """Pods got their places."""
        for kind, one in _by_kind(decisions).items():
            if not self._told.is_due(kind, now):
                continue
            text = lower_priority(self._state, one.pod_info.pod, one.pod_id[0], one.cluster)
            if text:
                self._told.note(kind, now)
                tracked = self._state.tracked.active[one.pod_id]
                self._state.report_waiting(tracked, text, LOWER_PRIORITY)


def _by_kind(decisions: Iterable[Decision]) -> dict[_Kind, Decision]:
    """One of those with a class that go to another cluster, by home, namespace, class and cluster."""
    found: dict[_Kind, Decision] = {}
    for one in decisions:
        pod = one.pod_info.pod
        need = class_named(pod.needs)
        if need is not None and one.cluster != one.pod_id[0]:
            found.setdefault((one.pod_id[0], pod.namespace, need.word, one.cluster), one)
    return found


def lower_priority(state: CoreState, pod: Pod, home: str, cluster: str) -> str:
    """In words, that a pod of `home` is less important in `cluster`; '' if it is not, or if that is
    not known.
    """
    need = class_named(pod.needs)
    view = state.clusters.get(cluster)
    if need is None or view is None or cluster == home:
        return ""
    rows = rows_for(home, pod.namespace, view.opens)
    value = priority_there(pod, rows, view.priority_classes)
    if value is None or value >= pod.priority:
        return ""
    return (
        f"{need.field} {need.why}, of priority {pod.priority} at home and {value} in cluster "
        f"{cluster}: pods there of more than {value} go before it, and may be what it is evicted "
        f"for; raise it there, or name clusters where it is as high ({names.CLUSTERS})"
    )
