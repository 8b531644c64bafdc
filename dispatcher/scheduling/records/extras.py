"""What plugins explained of decisions when they were taken: values, functions that return them, or
one function for all decisions of a batch.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from dispatcher.scheduling.framework.domain_counts import ExplainPods, told_of
from dispatcher.scheduling.framework.value_columns import Column, each, fields
from shared.model.pod import PodId


class BatchExplanation:
    """Explains pods that were decided together: one object, shared by all their records."""

    __slots__ = ("_explain", "_pod_ids")

    def __init__(self, pod_ids: Sequence[PodId], explain: ExplainPods) -> None:
        self._pod_ids = pod_ids
        self._explain = explain

    def of(self, pod_ids: Sequence[PodId]) -> Column:
        """The explanations of these, in the order in which they were decided."""
        wanted = set(pod_ids)
        return told_of(
            self._explain, [at for at, pod_id in enumerate(self._pod_ids) if pod_id in wanted]
        )


def extras_of(
    pod_ids: Sequence[PodId], extras: Sequence[Mapping[str, Any]], later: dict[str, Column]
) -> Column:
    """What was noted for each, by plugin, and one column a plugin for all; where both have one,
    `later` counts.
    """
    noted = tuple(extras[0])
    if any(tuple(one) != noted for one in extras):
        rows = fields(later).values(len(extras))
        alone = zip(pod_ids, extras, rows, strict=True)
        return each(
            [
                {name: _value_of(pod_id, value) for name, value in one.items()} | row
                for pod_id, one, row in alone
            ]
        )
    return fields(
        {**{name: _of_all(pod_ids, [one[name] for one in extras]) for name in noted}, **later}
    )


def _of_all(pod_ids: Sequence[PodId], noted: Sequence[Any]) -> Column:
    first = noted[0]
    if isinstance(first, BatchExplanation) and all(one is first for one in noted):
        return first.of(pod_ids)
    return each([_value_of(pod_id, one) for pod_id, one in zip(pod_ids, noted, strict=True)])


def _value_of(pod_id: PodId, noted: Any) -> Any:
    if isinstance(noted, BatchExplanation):
        return noted.of([pod_id]).values(1)[0]
    return noted() if callable(noted) else noted
