"""The queue's groups against a naive account of them: who is here, who stands for whom, and who is counted where."""

from collections.abc import Callable

from hypothesis import given, settings
from hypothesis import strategies as st

from dispatcher.scheduling.framework import PodInfo
from dispatcher.scheduling.framework.hints import ClusterEvent
from dispatcher.scheduling.queue import SchedulingQueue
from dispatcher.scheduling.queued import QueuedPod
from shared.model.pod import Group, Pod, PodId
from shared.model.reasons import Reasons
from shared.model.wake_events import WakeEvent
from tests.laws.examples import examples
from tests.scheduling.tiny_plugins import ByPriority

LEAST = (1, 2, 3)
REASONS = frozenset((Reasons.INSUFFICIENT,))
Step = tuple[str, int, int]


def member(group: int, at: int, *, gated: bool = False, size: int = 0) -> tuple[PodId, PodInfo]:
    told = Group("PodGroup", f"g{group}", "", LEAST[group], "cluster")
    labels = {"size": str(size)}
    pod = Pod(f"g{group}-{at}", "default", f"g{group}-{at}", group=told, gated=gated, labels=labels)
    return ("east", pod.uid), PodInfo(pod, "east")


class Naive:
    """A queue of groups, and beside it where each pod is: "waits", "gated", "placed", or nothing."""

    def __init__(self) -> None:
        self.queue = SchedulingQueue(ByPriority(), lambda pod_info: pod_info.pod.labels["size"])
        self.where: dict[PodId, str] = {}
        self.infos: dict[PodId, PodInfo] = {}
        self.now = 0.0

    def do(self, step: Step) -> None:
        kind, group, at = step
        self.now += 1.0
        pod_id, pod_info = member(group, at, gated=kind == "gated", size=at % 2)
        getattr(self, kind)(pod_id, pod_info)
        self.check()

    def comes(self, pod_id: PodId, pod_info: PodInfo) -> None:
        if self.where.get(pod_id) != "placed":
            self.queue.add(pod_id, pod_info, self.now)
            self.where[pod_id], self.infos[pod_id] = "waits", pod_info

    def gated(self, pod_id: PodId, pod_info: PodInfo) -> None:
        if self.where.get(pod_id) != "placed":
            self.queue.add(pod_id, pod_info, self.now)
            self.where[pod_id], self.infos[pod_id] = "gated", pod_info

    def goes(self, pod_id: PodId, pod_info: PodInfo) -> None:
        self.queue.remove(pod_id)
        self.queue.member_displaced(pod_id, pod_info)
        self.where.pop(pod_id, None)

    def shows(self, pod_id: PodId, pod_info: PodInfo) -> None:
        """Its cluster shows it bound."""
        self.queue.remove(pod_id)
        self.queue.member_placed(pod_id, pod_info)
        self.where[pod_id] = "placed"

    def happens(self, pod_id: PodId, pod_info: PodInfo) -> None:
        self.queue.wake(ClusterEvent(WakeEvent.POD_REMOVED), self.now)

    def refused(self, pod_id: PodId, pod_info: PodInfo) -> None:
        self._decide(lambda items: self.queue.group_refused(items, items[0], REASONS, self.now))

    def placed(self, pod_id: PodId, pod_info: PodInfo) -> None:
        def place(items: list[QueuedPod]) -> None:
            for item in items:
                self.queue.member_placed(item.pod_id, item.pod_info)
                self.where[item.pod_id] = "placed"

        self._decide(place)

    def given_back(self, pod_id: PodId, pod_info: PodInfo) -> None:
        """All that are decided lose their places at once."""

        def lose(items: list[QueuedPod]) -> None:
            for item in items:
                self.queue.member_placed(item.pod_id, item.pod_info)
            for item in items:
                self.queue.retry(item, self.now)

        self._decide(lose)

    def _decide(self, then: Callable[[list[QueuedPod]], None]) -> None:
        for lead in self.queue.pop_class(self.now, 10):
            assert self.queue.is_lead(lead)
            expected = {
                one for one, where in self.where.items() if where == "waits" and _group(one) == _group(lead.pod_id)
            }
            items = self.queue.take_group(lead)
            assert {item.pod_id for item in items} == expected
            assert items == sorted(items, key=lambda item: (item.queued_at, item.pod_id))
            then(items)

    def check(self) -> None:
        queue = self.queue
        for at, least in enumerate(LEAST):
            waits = {one for one, where in self.where.items() if _group(one) == f"g{at}" and where == "waits"}
            has = {one for one, where in self.where.items() if _group(one) == f"g{at}" and where == "placed"}
            group = next((one for one in queue.groups if one.group.name == f"g{at}"), None)
            assert (set(group.members), group.placed) == (waits, has) if group else not (waits or has)
            states = {queue.state_of(one) for one in waits}
            assert len(states) <= 1, "all of a group are where the one is that stands for them"
            whole = len(waits) + len(has) >= least
            assert ("gated" not in states) if whole else states <= {"gated"}
            assert (group is not None and group.lead is not None) == (whole and bool(waits))
        assert all(queue.groups.beside(one) == len(queue.groups) for one in queue.groups), "one namespace"
        assert len(queue.groups._in_namespace) == bool(queue.groups), "nothing is kept of those that are gone"
        counts = queue.counts()
        assert sum(counts.values()) == sum(where != "placed" for where in self.where.values())
        leads = sum(one.lead is not None for one in queue.groups)
        assert counts["active"] + counts["backoff"] + counts["unschedulable"] == leads


def _group(pod_id: PodId) -> str:
    return pod_id[1].partition("-")[0]


KINDS = ("comes", "comes", "comes", "gated", "goes", "shows", "refused", "placed", "given_back", "happens")


@settings(max_examples=examples(400), deadline=None)
@given(st.lists(st.tuples(st.sampled_from(KINDS), st.integers(0, 2), st.integers(0, 4)), max_size=40))
def test_groups_in_the_queue_are_as_a_naive_account_has_them(steps: list[Step]) -> None:
    naive = Naive()
    for step in steps:
        naive.do(step)


def test_groups_of_another_namespace_are_not_waited_for() -> None:
    queue = SchedulingQueue(ByPriority(), lambda pod_info: pod_info.pod.name)
    refused = frozenset((Reasons.INSUFFICIENT,))

    def refuse(*names: str) -> list[float]:
        for name in names:
            told = Group("PodGroup", name, "", 1, "cluster")
            pod_info = PodInfo(Pod(name, name.partition("-")[0], name, group=told), "east")
            queue.add(("east", name), pod_info, 0.0)
        leads = [queue.pop_class(0.0, 1)[0] for _ in names]
        for lead in leads:
            queue.group_refused(queue.take_group(lead), lead, refused, 0.0)
        queue.wake(WakeEvent.POD_REMOVED, 0.0)
        return [lead.ready_at for lead in leads]

    refuse(*(f"many-{at}" for at in range(800)))
    assert queue.counts()["backoff"] == 800
    assert refuse("other-1") == [1.0]
    assert refuse("many-more")[0] > 9.0
