"""What is assumed when a pod is decided, and how it is given back: the node's room, Reserve
plugins, Permit.
"""

from collections.abc import Callable, Mapping, Sequence, Set
from functools import partial
from itertools import pairwise
from types import MappingProxyType
from typing import Any

import msgspec
import numpy as np

from dispatcher.scheduling.fleet.columns import RowList
from dispatcher.scheduling.fleet.fleet import FleetState
from dispatcher.scheduling.fleet.view import view_of
from dispatcher.scheduling.framework import (
    CycleState,
    Plugin,
    PodInfo,
    Refuse,
    Reserve,
    Skip,
)
from dispatcher.scheduling.framework.asked import Asked
from dispatcher.scheduling.framework.points import (
    ExplainingPlugin,
    Faults,
    Plan,
    PluginError,
    books_many,
    explained,
    guarded,
)
from dispatcher.scheduling.framework.value_columns import Column, each
from dispatcher.scheduling.records.decision import Decision
from dispatcher.scheduling.records.decision_record import Explainers
from shared.model.pod import PodId

_LONGEST_WAIT_S = 900.0  # kube-scheduler's bound on the wait of a Permit plugin
_Item = tuple[PodId, PodInfo]


class Book(msgspec.Struct, gc=False):
    """What Reserve plugins have booked: for a pod as it was then, on a row (-1: its node was not
    known).
    """

    pod_info: PodInfo
    row: int

    def show(self, pod_info: PodInfo) -> None:
        """A later version of the pod, which asks for the same: it serves as well where it is the
        same object and all that says what it is has stayed, and the earlier one is not kept for the
        sake of the books.
        """
        was = self.pod_info.pod
        pod = pod_info.pod
        alike = was.labels == pod.labels or was.app_labels == pod.app_labels
        if alike and was.uid == pod.uid and was.annotations == pod.annotations:
            # no cluster shows it: it is given back as it was booked
            counts_as = self.pod_info.counts_as
            same = pod_info.counts_as == counts_as
            self.pod_info = (
                pod_info if same else msgspec.structs.replace(pod_info, counts_as=counts_as)
            )


class AssumedPods:
    """What one profile has assumed and reserved. `on_wait` is called with every decision that
    Permit makes wait.
    """

    def __init__(self, plan: Plan, fleet: FleetState, faults: Faults) -> None:
        self.plan = plan
        self.fleet = fleet
        self._faults = faults
        self.view = view_of(fleet)  # for points whose answers nobody keeps
        self.on_wait: Callable[[Decision], None] | None = None
        # Pod plugins that check and book a whole batch at once, whatever rows it goes to.
        self.bulk = [one for one in plan.reserves if books_many(one) and one in plan.pod_plugins]
        in_bulk = [one.name for one in self.bulk]
        self._bulk_explainers = [
            one for one in plan.everybody.pod_explainers if one.name in in_bulk
        ]
        # Class plugins that book a whole batch at once, each pod on its row.
        self.bulk_by_row = [
            one for one in plan.reserves if books_many(one) and one not in plan.pod_plugins
        ]
        self._reserved: dict[PodId, Book] = {}

    def skips(self, plugin: Plugin, answer_of: Callable[[str], object]) -> bool:
        """Whether PreFilter of a filter or score has answered SKIP for the class, so that it books
        nothing, either.
        """
        return plugin in self.plan.class_plugins and isinstance(answer_of(plugin.name), Skip)

    # --- a decision
    # ----------------------------------------------------------------------------------------------

    def book(self, cycle: CycleState, asked: Asked, decision: Decision) -> Refuse | None:
        """Reserve with the plugins that are `asked`, and place the pod. A Refuse books nothing."""
        pod_id = decision.pod_id
        pod_info = decision.pod_info.at(decision.cluster)
        row = decision.row
        refused = self._reserve(cycle, asked, pod_info, row)
        if refused is not None:
            return refused
        self._reserved[pod_id] = Book(pod_info, row)
        self.fleet.place(pod_id, pod_info, decision.cluster, decision.node, assumed=True)
        try:
            refused = self._permit(cycle, asked, decision)
        except PluginError:
            self.forget(pod_id)
            raise
        if refused is not None:
            self.forget(pod_id)
        return refused

    def fitting(self, items: Sequence[_Item]) -> int:
        """How many of the first of these pods of one class pass the pod plugins that check many at
        once.
        """
        most = len(items)
        for plugin in self.bulk:
            if most:
                most = guarded(
                    plugin, plugin.fits, None, [one for _, one in items[:most]], self.view
                )
        return most

    def explained(
        self, by_class: Explainers, decisions: Sequence[Decision], ats: Sequence[int]
    ) -> dict[str, Column]:
        """What plugins that look further than the row explain of the places of a batch, before any
        of it is booked: those of `by_class` answer for all, others for each variant of its pods,
        which begin at `ats`. A plugin that fails explains nothing.
        """
        pods = [one.pod_info for one in decisions]
        rows = np.asarray([one.row for one in decisions], dtype=np.intp)
        spans = list(pairwise([*[at for at in ats if at < len(pods)], len(pods)]))
        found = dict[str, Column]()
        asked: list[tuple[ExplainingPlugin, Callable[[], Column | None]]] = [
            *[
                (one, partial(explained, one, state, pods, self.view, rows))
                for one, state in by_class
            ],
            *[
                (one, partial(self._by_variant, one, pods, rows, spans))
                for one in self._bulk_explainers
            ],
        ]
        for plugin, ask in asked:
            try:
                told = ask()
            except PluginError as error:
                self._faults.note(error)  # a decision stands without its comments, too
            else:
                if told is not None:
                    found[plugin.name] = told
        return found

    def _by_variant(
        self,
        plugin: Any,  # a Reserve plugin that explains
        pods: Sequence[PodInfo],
        rows: RowList,
        spans: Sequence[tuple[int, int]],
    ) -> Column | None:
        """None of a plugin that skips the class: what says SKIP of the first pod says so of all."""
        columns = list[Column]()
        for at, end in spans:
            state = guarded(plugin, plugin.pre_filter, pods[at], self.view)
            if isinstance(state, Skip):
                return None
            columns.append(explained(plugin, state, pods[at:end], self.view, rows[at:end]))
        if len(columns) == 1:
            return columns[0]
        counts = [end - at for at, end in spans]
        values = zip(columns, counts, strict=True)
        return each([one for column, count in values for one in column.values(count)])

    def book_all(
        self,
        decisions: Sequence[Decision],
        answer_of: Callable[[str], object],
        asked: Asked,
        *,
        alike: bool = False,
    ) -> None:
        """Place pods, each on its row, where of all that are `asked` only those of `bulk` and
        `bulk_by_row` have something to book, `alike` or not (see FleetState.assume_all). With a
        PluginError nothing is booked.
        """
        pod_ids = [one.pod_id for one in decisions]
        pods = [one.pod_info for one in decisions]
        rows = self.fleet.kept_rows([one.row for one in decisions])
        done: list[Reserve] = []
        try:
            for by_row in self.bulk_by_row:
                done.append(by_row)  # what it holds when it raises half-way is given back, too
                guarded(by_row, by_row.reserve_all, answer_of(by_row.name), pods, rows, self.view)
            for plugin in self.bulk:
                guarded(plugin, plugin.reserve_all, None, pods, rows, self.view)
                done.append(plugin)
        except PluginError:
            for pod_info, row in zip(pods, rows, strict=True):
                self._unreserve(done, pod_info, row)
            raise
        if not all(self.skips(one, answer_of) for one in asked.late):
            answers = {one.name: answer_of(one.name) for one in asked.late}
            for decision in decisions:
                decision.cycle = CycleState(answers)
        self._reserved.update(zip(pod_ids, map(Book, pods, rows), strict=True))
        self.fleet.assume_all(list(zip(pod_ids, pods, strict=True)), rows, alike=alike)

    def _reserve(
        self, cycle: CycleState, asked: Asked, pod_info: PodInfo, row: int
    ) -> Refuse | None:
        done: list[Reserve] = []
        for plugin in asked.reserves:
            try:
                refused = guarded(plugin, plugin.reserve, cycle, pod_info, row, self.view)
            except PluginError:
                self._unreserve(done, pod_info, row)
                raise
            if refused is not None:
                self._unreserve(done, pod_info, row)
                return refused
            done.append(plugin)
        return None

    def _unreserve(
        self, plugins: Sequence[Reserve], pod_info: PodInfo, row: int
    ) -> dict[str, Callable[[], object] | None]:
        """What each says that books the same again, by name."""
        again = dict[str, Callable[[], object] | None]()
        for plugin in reversed(plugins):
            try:
                again[plugin.name] = guarded(plugin, plugin.unreserve, pod_info, row, self.view)
            except PluginError as error:
                self._faults.note(error)  # the others must still give back
        return again

    def _permit(self, cycle: CycleState, asked: Asked, decision: Decision) -> Refuse | None:
        for plugin in asked.permits:
            answer = guarded(
                plugin, plugin.permit, cycle, decision.pod_info, decision.row, self.view
            )
            if isinstance(answer, Refuse):
                return answer
            if answer:
                decision.wait(plugin.name, min(answer, _LONGEST_WAIT_S))
        if asked.late and not all(self.skips(one, cycle.read) for one in asked.late):
            decision.cycle = cycle.kept([one.name for one in asked.late])
        if decision.waits and self.on_wait is not None:
            self.on_wait(decision)
        return None

    # --- places
    # ----------------------------------------------------------------------------------------------

    def forget(self, pod_id: PodId) -> None:
        """Give a place back, also of a pod that has ended: the inverse of deciding it. Unknown pods
        are ignored.
        """
        self.give_book(pod_id)
        self.fleet.remove(pod_id)

    def holds_to_size(self, pod_info: PodInfo) -> bool:
        """Whether a Reserve plugin allows the pod no larger size than was booked."""
        said = (guarded(one, one.too_large, pod_info, self.view) for one in self.plan.reserves)
        return any(one is not None for one in said)

    def holds(self, pod_id: PodId) -> bool:
        """Whether this profile has booked the pod."""
        return pod_id in self._reserved

    def held_of(self, pod_ids: Set[PodId]) -> Set[PodId]:
        """Those of the pods that it has booked."""
        return self._reserved.keys() & pod_ids

    def show(self, pod_id: PodId, pod_info: PodInfo) -> None:
        """Take another version of a pod that was decided for the one that was: it asks for the
        same.
        """
        occupant = self.fleet.occupant(pod_id)
        booked = self._reserved.get(pod_id)
        if occupant is None or booked is None:
            raise LookupError(f"pod {pod_id[1]} of cluster {pod_id[0]} is not booked")
        there = pod_info.at(occupant.cluster)
        self.fleet.stays(occupant, there, assumed=occupant.assumed)
        booked.show(there)

    def restore(self, pod_id: PodId, pod_info: PodInfo, cluster: str, node: str) -> None:
        """Enter a pod where its cluster shows it: confirms what was assumed, and charges without
        the right to refuse.

        Charges follow the pod: what was booked for an older version or another place is given back
        first.
        """
        known = self.fleet.occupant(pod_id)
        booked = self._reserved.get(pod_id)
        pod_info = pod_info.at(cluster) if pod_info.refused else pod_info
        same = known is not None and known.node == node and known.cluster == cluster
        if booked is not None and same and booked.pod_info.pod.requests == pod_info.pod.requests:
            booked.show(pod_info)
        else:
            if booked is not None:
                self._unreserve(self.plan.reserves, booked.pod_info, booked.row)
            row = self.fleet.row_of(cluster, node)
            self.take_book(pod_id, pod_info, -1 if row is None else row)
        self.fleet.place(pod_id, pod_info, cluster, node, assumed=False)

    def confirm(self, pod_id: PodId, pod_info: PodInfo) -> None:
        """`restore` a pod where its own cluster shows it; nearly always it is as it was assumed
        there.
        """
        known = self.fleet.occupant(pod_id)
        booked = self._reserved.get(pod_id)
        pod = pod_info.pod
        there = known is not None and known.node == pod.node and known.cluster == pod_info.home
        same = there and booked is not None and booked.pod_info.pod.requests == pod.requests
        if (
            known is None
            or booked is None
            or not same
            or not self.fleet.stays(known, pod_info, assumed=False)
        ):
            self.restore(pod_id, pod_info, pod_info.home, pod.node)
        else:
            booked.show(pod_info)

    def _charge(
        self,
        pod_info: PodInfo,
        row: int,
        again: Mapping[str, Callable[[], object] | None] = MappingProxyType({}),
    ) -> None:
        """Book with every Reserve plugin, by what it said `again` if it did; `row` is -1 while the
        node is not known.
        """
        for plugin in self.plan.reserves:
            same = again.get(plugin.name)
            try:
                if same is not None:
                    guarded(plugin, same)
                else:
                    guarded(plugin, plugin.restore, pod_info, row, self.view)
            except PluginError as error:
                self._faults.note(error)

    def give_book(self, pod_id: PodId) -> Callable[[], None]:
        """Give back what the plugins have booked for a pod, if anything; what books the same again."""
        book = self._reserved.pop(pod_id, None)
        if book is None:
            return _nothing
        again = self._unreserve(self.plan.reserves, book.pod_info, book.row)

        def book_again() -> None:
            self._charge(book.pod_info, book.row, again)
            self._reserved[pod_id] = book

        return book_again

    def give_books(self) -> dict[PodId, Book]:
        """Give back what the plugins have booked, for another scheduler to book; the pods stay in
        their places.
        """
        books = self._reserved
        self._reserved = {}
        for book in books.values():
            self._unreserve(self.plan.reserves, book.pod_info, book.row)
        return books

    def take_book(self, pod_id: PodId, pod_info: PodInfo, row: int) -> None:
        """Book a pod that is there, without the right to refuse."""
        self._charge(pod_info, row)
        self._reserved[pod_id] = Book(pod_info, row)


def _nothing() -> None:
    """Nothing was booked."""
