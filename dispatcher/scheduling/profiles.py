"""Several profiles over one fleet: which scheduler decides which pod, by its spec.schedulerName."""

from collections.abc import Hashable, Iterator, Sequence

from dispatcher.model.pod import Pod
from dispatcher.model.reasons import Reason, Why
from dispatcher.scheduling.cycle import Result, Scheduler
from dispatcher.scheduling.fleet_occupants import PodId
from dispatcher.scheduling.framework import Placed


class Profiles:
    """Schedulers by schedulerName, over one fleet; ValueError for none, or for one name twice."""

    def __init__(self, schedulers: Sequence[Scheduler]) -> None:
        self._by_name = {one.plan.profile: one for one in schedulers}
        if not schedulers or len(self._by_name) < len(schedulers):
            raise ValueError("profiles need at least one, and each its own schedulerName")
        self._first = schedulers[0]

    def __iter__(self) -> Iterator[Scheduler]:
        return iter(self._by_name.values())

    def unknown(self, pod: Pod) -> Why | None:
        """Why no profile is the pod's; None if one is."""
        return None if pod.scheduler_name in self._by_name else Why(Reason.NO_PROFILE, ", ".join(self._by_name))

    def of(self, placed: Placed) -> Scheduler:
        """The scheduler of a pod; a delegate, or a pod found bound that names none, is the first one's."""
        return self._by_name.get(placed.pod.scheduler_name, self._first)

    def classify(self, placed: Placed) -> Hashable:
        """The name of the pod's class, for the queue; pods of two profiles are never of one class."""
        scheduler = self.of(placed)
        return scheduler.plan.profile, scheduler.classify(placed)

    def schedule_class(self, items: Sequence[tuple[PodId, Placed]]) -> list[Result]:
        """Decide pods that are all of one class, in order."""
        return self.of(items[0][1]).schedule_class(items) if items else []

    # --- places ------------------------------------------------------------------------------------------------------

    def _holding(self, pod_id: PodId) -> Scheduler | None:
        return next((one for one in self if one.holds(pod_id)), None)

    def forget(self, pod_id: PodId) -> None:
        """Give a place back, with the profile that booked it."""
        (self._holding(pod_id) or self._first).forget(pod_id)

    def restore(self, pod_id: PodId, placed: Placed, cluster: str, node: str) -> None:
        """Enter a pod where its cluster shows it, with the profile that booked it or its own: Scheduler.restore."""
        (self._holding(pod_id) or self.of(placed)).restore(pod_id, placed, cluster, node)

    def take_over(self, old: "Profiles") -> None:
        """Book all that other profiles have booked, in the order in which they did."""
        books = [(pod_id, *book) for one in old for pod_id, book in one.give_books().items()]
        for pod_id, placed, row in books:
            self.of(placed).take_book(pod_id, placed, row)

    def take_troubles(self) -> list[str]:
        """What plugins failed with since the last call."""
        return [text for one in self for text in one.take_troubles()]
