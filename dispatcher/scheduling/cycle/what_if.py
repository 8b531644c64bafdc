"""What if these pods were gone, and those were decided? Pods of several classes and profiles, booked
and undone together.

All is done on the one live fleet, by the ordinary decision path: columns, counts by domain, affinity
terms, volumes, nominations, and what Reserve plugins book. At the end it is undone in reverse order,
or kept by `commit`, as if each had been decided in that order without a what-if. One within another
is a part of it, with an end of its own. The words are those of the cluster autoscaler's
ClusterSnapshot (Fork, Revert, Commit), which copies what it changes.

No effect leaves: whom Permit makes wait is told at the commit, and PostFilter's nominations end with
the what-if. A plugin's fault is counted, as it is one. Not supported, and a RuntimeError at the end:
that nodes change meanwhile, or the clock moves.
"""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import groupby
from types import TracebackType

from dispatcher.scheduling.cycle.batches import Item, Result
from dispatcher.scheduling.cycle.cycle import Scheduler
from dispatcher.scheduling.fleet.nominations import Nominations
from dispatcher.scheduling.framework import PodInfo
from dispatcher.scheduling.records.decision import Decision
from shared.model.pod import PodId

_OnWait = Callable[[Decision], None]


class WhatIf:
    """One what-if over the fleet of these schedulers; `of` says whose a pod is. Used once."""

    def __init__(
        self,
        schedulers: Sequence[Scheduler],
        of: Callable[[PodInfo], Scheduler],
        nominations: Nominations,
    ) -> None:
        self._schedulers = schedulers
        self._of = of
        self._nominations = nominations
        self._fleet = schedulers[0].fleet
        self._steps = self._fleet.undo_steps
        self._on_wait: list[_OnWait | None] = []
        self._waiting: list[tuple[_OnWait, Decision]] = []
        self._committed = False

    def __enter__(self) -> "WhatIf":
        self._standing = self._fleet.changes.position, self._fleet.now
        self._begun = self._steps.begin()
        self._steps.note(self._fleet.terms.kept())
        self._steps.note(self._nominations.kept())
        for one in self._schedulers:
            self._steps.note(one.future.kept())
            self._on_wait.append(one.on_wait)
            one.on_wait = None if one.on_wait is None else partial(self._wait, one.on_wait)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        keep = self._committed and error is None
        for one, on_wait in zip(self._schedulers, self._on_wait, strict=True):
            one.on_wait = on_wait
        try:
            if not keep:
                self._steps.undo(self._begun)
        finally:
            self._steps.end()
        if self._standing != (self._fleet.changes.position, self._fleet.now):
            raise RuntimeError("nodes or the time have changed in a what-if")
        for on_wait, decision in self._waiting if keep else ():
            on_wait(decision)

    def take_away(self, pod_id: PodId) -> None:
        """As if the pod had left its place: its room, and what is booked for it. LookupError if it
        has none.
        """
        if self._fleet.occupant(pod_id) is None:
            raise LookupError(f"pod {pod_id[1]} of cluster {pod_id[0]} is nowhere")
        for one in self._schedulers:
            if one.holds(pod_id):
                self._steps.note(one.give_book(pod_id))
        self._fleet.remove(pod_id)
        self._nominations.left(pod_id)

    def schedule(self, items: Sequence[Item]) -> list[Result]:
        """Decide pods in order, those that follow each other and are of one class together, and book
        their places. ValueError for one that has a place, or comes twice.
        """
        results = list[Result]()
        self._are_nowhere(items)
        for _, run in groupby(items, lambda item: self._of(item[1]).classify(item[1])):
            results += self._schedule_class(list(run), alike=False)
        return results

    def schedule_class(self, items: Sequence[Item], *, alike: bool) -> list[Result]:
        """The same for pods that are known to be of one class; `alike`: all are of one template and
        home, too.
        """
        self._are_nowhere(items)
        return self._schedule_class(items, alike=alike)

    def _are_nowhere(self, items: Sequence[Item]) -> None:
        pod_ids = {pod_id for pod_id, _ in items}
        if len(pod_ids) < len(items):
            raise ValueError("a pod is decided twice")
        held = [pod_id for one in self._schedulers for pod_id in one.held_of(pod_ids)]
        for cluster, uid in held or self._fleet.placed_of(pod_ids):
            raise ValueError(
                f"pod {uid} of cluster {cluster} has a place: it is to be taken away first"
            )

    def commit(self) -> None:
        """Keep it all, once the context ends without an error."""
        self._committed = True

    def _schedule_class(self, items: Sequence[Item], *, alike: bool) -> list[Result]:
        scheduler = self._of(items[0][1])
        try:
            return scheduler.schedule_class(items, alike=alike)
        finally:  # whatever was booked before it raised
            booked = [pod_id for pod_id, _ in items if scheduler.holds(pod_id)]
            self._steps.note_each(scheduler.give_book, booked)

    def _wait(self, on_wait: _OnWait, decision: Decision) -> None:
        self._waiting.append((on_wait, decision))
