"""What plugins said of decisions when they were taken: values, functions that return them, or one story for a batch."""

from collections.abc import Mapping, Sequence
from typing import Any

from dispatcher.model.pod import PodId
from dispatcher.scheduling.framework.domain_counts import ExplainPods, told_of
from dispatcher.scheduling.framework.value_columns import Column, each, fields


class Together:
    """What a plugin can say of pods that were decided together: the same object for each of them."""

    __slots__ = ("_pod_ids", "_story")

    def __init__(self, pod_ids: Sequence[PodId], story: ExplainPods) -> None:
        self._pod_ids, self._story = pod_ids, story

    def of(self, pod_ids: Sequence[PodId]) -> Column:
        """Of these, in the order in which they were decided."""
        wanted = set(pod_ids)
        return told_of(self._story, [at for at, pod_id in enumerate(self._pod_ids) if pod_id in wanted])


def extras_of(pod_ids: Sequence[PodId], extras: Sequence[Mapping[str, Any]], later: dict[str, Column]) -> Column:
    """What was noted of each, by plugin, and what is said of all, a column a plugin; of the same one `later` counts."""
    noted = tuple(extras[0])
    if any(tuple(one) != noted for one in extras):
        rows = fields(later).values(len(extras))
        alone = zip(pod_ids, extras, rows, strict=True)
        return each([{name: _said(pod_id, told) for name, told in one.items()} | row for pod_id, one, row in alone])
    return fields({**{name: _of_all(pod_ids, [one[name] for one in extras]) for name in noted}, **later})


def _of_all(pod_ids: Sequence[PodId], told: Sequence[Any]) -> Column:
    first = told[0]
    if isinstance(first, Together) and all(one is first for one in told):
        return first.of(pod_ids)
    return each([_said(pod_id, one) for pod_id, one in zip(pod_ids, told, strict=True)])


def _said(pod_id: PodId, told: Any) -> Any:
    if isinstance(told, Together):
        return told.of([pod_id]).values(1)[0]
    return told() if callable(told) else told
