"""PostFilter: what may be done for a pod that no node takes; the message, the nomination, and the
victims.
"""

from collections import OrderedDict
from collections.abc import Callable, Hashable

import msgspec
import numpy as np

from dispatcher.scheduling.cycle.second_pass import leans_on_pods
from dispatcher.scheduling.fleet.fleet import FleetState
from dispatcher.scheduling.fleet.least_pods import LeastPods
from dispatcher.scheduling.fleet.nominations import Nominations, Nominee
from dispatcher.scheduling.fleet.occupants import Occupant
from dispatcher.scheduling.fleet.trial import (
    KEPT_S,
    FleetTrial,
    PostFilterCache,
    Promised,
    standing_of,
)
from dispatcher.scheduling.fleet.view import view_of
from dispatcher.scheduling.framework import Codes, CycleState
from dispatcher.scheduling.framework.class_keys import ClassKey
from dispatcher.scheduling.framework.lifecycle import NoHelp, Nomination
from dispatcher.scheduling.framework.points import Plan, PluginError, guarded
from dispatcher.scheduling.records.decision import Unschedulable
from shared.model.reasons import Why

_MOST_NO_HELP = 1024  # kinds of pods for which it is kept that no plugin can help
_KINDS = 16  # classes of pods and priorities for which it is kept what evictions would bring


def anybody(occupant: Occupant, home: str) -> bool:
    """Where nobody says who may be evicted, every pod may, as for kube-scheduler."""
    return True


class PostFilters:
    """Runs the PostFilter plugins of one profile. `may_evict`: which pods may be evicted at all."""

    def __init__(
        self,
        plan: Plan,
        fleet: FleetState,
        nominations: Nominations,
        fault: Callable[[PluginError], None],
    ) -> None:
        self._plan = plan
        self._fleet = fleet
        self._nominations = nominations
        self._fault = fault
        self._view = view_of(fleet)
        self.least = LeastPods(fleet)
        self._no_help: OrderedDict[Hashable, tuple[object, float, list[NoHelp]]] = OrderedDict()
        self._known: OrderedDict[Hashable, PostFilterCache] = OrderedDict()
        self.may_evict: Callable[[Occupant, str], bool] = anybody

    def help(
        self, cycle: CycleState, refused: Unschedulable, key: ClassKey, codes: Codes
    ) -> Unschedulable:
        """The refusal with what the plugins did about it. `key`: the class; `codes` [n]: why each
        row is refused.
        """
        if not refused.context.evaluated:  # no node: nobody could make room
            return refused
        return self._run_or_recall(cycle, refused, key, codes)

    def hopeless(
        self, cycle: CycleState, refused: Unschedulable, key: ClassKey, why: Why
    ) -> Unschedulable:
        """The same of a pod that PreFilter refuses wherever it might go: no leaving pod changes
        that.
        """
        fleet = self._fleet
        if not self._plan.post_filters or not fleet.live.any():
            return refused
        code = fleet.reasons.code(why.reason, lasting=True)
        return self._run_or_recall(
            cycle, refused, key, np.where(fleet.live, np.uint16(code), np.uint16(0))
        )

    def _run_or_recall(
        self, cycle: CycleState, refused: Unschedulable, key: ClassKey, first: Codes
    ) -> Unschedulable:
        nominee = self._nominations.of(refused.pod_id)
        pod = refused.pod_info.pod
        kind = (
            key,
            pod.priority,
            pod.preempts,
            pod.needs,
            refused.pod_info.home,
            refused.pod_info.over,
        )
        seen, since, no_help = self._no_help.get(kind, (None, 0.0, []))
        if seen == self._depends_on(nominee) and self._fleet.now - since <= KEPT_S:
            return self._without_help(refused, no_help)
        answers = self._run_plugins(cycle, refused, key, nominee, first)
        if answers and isinstance(answers[-1], Nomination):
            return self._nominated(refused, answers[-1])
        no_help = [one for one in answers if isinstance(one, NoHelp)]
        self._no_help[kind] = self._depends_on(nominee), self._fleet.now, no_help
        self._no_help.move_to_end(kind)
        if len(self._no_help) > _MOST_NO_HELP:
            self._no_help.popitem(last=False)
        return self._without_help(refused, no_help)

    def _depends_on(self, nominee: Nominee | None) -> tuple[object, ...]:
        """All that an answer for pods of one kind rests on: in equal worlds they need not be asked
        for twice.
        """
        fleet = self._fleet
        return (
            *standing_of(fleet),
            tuple(fleet.closed.items()),
            tuple(fleet.proxy_taints.items()),
            nominee,
        )

    def _run_plugins(
        self,
        cycle: CycleState,
        refused: Unschedulable,
        key: ClassKey,
        nominee: Nominee | None,
        first: Codes,
    ) -> list[Nomination | NoHelp]:
        """The plugins' answers, up to the first nomination. `first` [n]: the code by which each row
        was refused.
        """
        pod_info = refused.pod_info
        fleet = self._fleet
        answers = []
        alone = (
            self._nominations.without_all
            if leans_on_pods(pod_info.pod) and self._nominations.any_placed
            else None
        )
        promised = Promised(nominee, alone)
        known = self._known_of((key, pod_info.pod.priority, pod_info.pod.needs, pod_info.home))
        known.forget()
        trial = FleetTrial(
            self._plan,
            fleet,
            pod_info,
            first,
            self.least.refresh(),
            self.may_evict,
            promised,
            known,
        )
        for plugin in self._plan.post_filters:
            try:
                with trial.of(plugin.name):
                    answer = guarded(plugin, plugin.post_filter, cycle, pod_info, trial, self._view)
            except PluginError as error:
                self._fault(error)  # the pod keeps the reasons it has
                continue
            if answer is not None:
                answers.append(answer)
            if isinstance(answer, Nomination):
                break
        known.note()
        return answers

    def _known_of(self, kind: Hashable) -> PostFilterCache:
        known = self._known.pop(kind, None) or PostFilterCache(self._fleet)
        self._known[kind] = known
        if len(self._known) > _KINDS:
            self._known.popitem(last=False)
        return known

    def _without_help(self, refused: Unschedulable, no_help: list[NoHelp]) -> Unschedulable:
        nominee = self._nominations.of(refused.pod_id)
        waits = nominee is not None and nominee.waits_for_quota
        if not waits and not any(one.keeps for one in no_help):
            self._nominations.drop(refused.pod_id)
        message = " ".join([refused.message, *(one.message for one in no_help)])
        kept = self._nominations.of(refused.pod_id)
        refused.message = message
        refused.nominated = (kept.cluster, kept.node) if kept else None
        return refused

    def _nominated(self, refused: Unschedulable, found: Nomination) -> Unschedulable:
        cluster, node = self._fleet.name_of(found.row)
        pod_info = refused.pod_info
        displaced = self._nominations.lower_on(cluster, node, pod_info)
        for pod_id in displaced:
            self._nominations.drop(pod_id)
        victims = frozenset(one.pod_id for one in found.victims)
        self._nominations.put(Nominee(refused.pod_id, pod_info, cluster, node, victims))
        promised = {
            "nominated": (cluster, node),
            "victims": found.victims,
            "displaced": tuple(displaced),
        }
        return msgspec.structs.replace(refused, **promised)
