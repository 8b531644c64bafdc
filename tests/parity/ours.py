"""Our side: the same manifests through the agents' decoding into a fleet of one cluster, judged by our core.

The tables are asked of the plugins one by one, as the framework's contract says; the decision and the message are the
scheduler's own, and must agree with the tables.
"""

import json
from collections.abc import Iterable

import numpy as np

from agents.kube.convert import pod_seen
from agents.kube.nodes import node_seen
from dispatcher.plugins.registry import PluginContext, build
from dispatcher.scheduling.cycle.cycle import Scheduler, Unschedulable
from dispatcher.scheduling.fleet.fleet import FleetState
from dispatcher.scheduling.fleet.nominations import Nominations, Nominee
from dispatcher.scheduling.fleet.view import view_of
from dispatcher.scheduling.framework import Bools, CountedPlugin, PodInfo, Refuse, Score, Skip
from dispatcher.scheduling.framework.lifecycle import PreScore
from dispatcher.scheduling.framework.pod_info import Domains
from dispatcher.scheduling.framework.points import Plan
from dispatcher.scheduling.records.decision import Decision
from shared.model.pod import Pod, PodId
from tests.parity.case import PLUGIN_SCORES, Case, Object, Verdict, key_of
from tests.parity.objects import record_of
from tests.parity.profile import ALIASES, DEFAULT, profiles

CLUSTER = "parity"


class OurSide:
    """One case in our core: nodes, objects and bound pods are in the fleet, pods are judged and booked one by one.

    `ids`: of those that run, by namespace/name.
    """

    def __init__(self, case: Case) -> None:
        self.fleet = FleetState()
        self.ids: dict[str, PodId] = {}
        self.fleet.set_cluster(CLUSTER, ready=True, synced=True)
        self._schedulers = {
            name: Scheduler(profile, build(profile, PluginContext()), self.fleet)
            for name, profile in profiles().items()
        }
        nominations = Nominations(self.fleet)
        for scheduler in self._schedulers.values():
            scheduler.share(nominations)
            scheduler.post_filters.may_evict = lambda occupant, home: True
        self._keep(case.objects)
        for node in case.nodes:
            seen = node_seen(_raw(node))
            assert seen is not None
            self.fleet.put_node(CLUSTER, seen.node)
        for pod in case.bound:
            self.book(pod, pod["spec"]["nodeName"])

    def book(self, pod: Object, node: str) -> None:
        """Enter a pod where it is; one that has ended takes nothing."""
        found = self._running({**pod, "spec": {**pod["spec"], "nodeName": node}})
        if found is not None and not found.terminal:
            self.ids[key_of(pod)] = (CLUSTER, found.uid)
            self._schedulers[DEFAULT].restore((CLUSTER, found.uid), PodInfo(found, CLUSTER), CLUSTER, node)

    def _running(self, pod: Object) -> Pod | None:
        return _pod(pod)

    def _keep(self, objects: Iterable[Object]) -> None:
        for obj in objects:
            record = record_of(obj)
            if record is not None:
                self.fleet.kept.put(CLUSTER, record)

    def follow(self, verdict: Verdict) -> None:
        """What came of a verdict beside the pod's own place: claims have volumes, victims are gone."""
        self._keep(verdict.changed)
        for key in verdict.victims:
            self._schedulers[DEFAULT].forget(self.ids[key])

    def judge(self, pod: Object, only_in: Domains | None = None) -> Verdict:
        """What our core says of a pending pod, on the nodes of a domain if one is given; nothing is booked."""
        found = _pod(pod)
        assert found is not None, f"pod {key_of(pod)} is not read as ours"
        placed, pod_id = PodInfo(found, CLUSTER, only_in=only_in), (CLUSTER, found.uid)
        scheduler = self._schedulers[found.scheduler_name]
        if found.nominated_node:
            scheduler.nominations.put(Nominee(pod_id, placed, CLUSTER, found.nominated_node))
        with scheduler.nominations.aside_for(pod_id, placed):
            verdict = self._tables(scheduler.plan, placed, key_of(pod))
        result = scheduler.schedule(placed, pod_id)
        scheduler.forget(pod_id)
        scheduler.nominations.drop(pod_id)
        return self._told(verdict, result, found)

    def _told(self, verdict: Verdict, result: Decision | Unschedulable, found: Pod) -> Verdict:
        if isinstance(result, Unschedulable):
            verdict.message = result.message
            # Pods that are on their way out already are not evicted once more.
            leaving = [one.pod_info.pod for one in result.victims if not one.pod_info.pod.terminating]
            verdict.victims = frozenset(pod.key for pod in leaving)
            unfit = found.problems or found.gated
            assert unfit or not verdict.feasible, f"{verdict.pod}: fits {verdict.feasible}, yet: {result.message}"
            verdict.feasible, verdict.scores, verdict.totals = frozenset(), None, None
        elif result.node == found.nominated_node:
            # A promised node is tried first, and alone.
            assert result.node in (verdict.feasible or ())
            return Verdict(verdict.pod, result.node, frozenset((result.node,)))
        else:
            self._agrees(verdict, result)
        return verdict

    def _agrees(self, verdict: Verdict, decision: Decision) -> None:
        verdict.node = decision.node
        assert verdict.totals is not None, f"{verdict.pod}: placed on {decision.node}, refused by the tables"
        assert decision.context.feasible == len(verdict.totals)
        best = max(verdict.totals.values())
        assert abs(decision.score - best) < 1e-6, f"{verdict.pod}: placed at {decision.score}, the best is {best}"
        assert abs(verdict.totals[decision.node] - best) < 1e-6

    def _tables(self, plan: Plan, pod_info: PodInfo, name: str) -> Verdict:
        fleet, view = self.fleet, view_of(self.fleet)
        states: dict[str, object] = {}
        for plugin in plan.class_plugins:
            states[plugin.name] = state = plugin.pre_filter(pod_info, view)
            if isinstance(state, Refuse):
                return Verdict(name, feasible=frozenset())
        fits: Bools = fleet.live.copy()
        for one in plan.filters:
            if not isinstance(states[one.name], Skip):
                fits &= one.filter(states[one.name], view, slice(0, fleet.n)) == 0
        rows = np.flatnonzero(fits)
        nodes = [fleet.name_of(int(row))[1] for row in rows]
        scores: PLUGIN_SCORES = {}
        totals = np.zeros(len(rows))
        for scored in plan.scores if len(rows) else ():
            if isinstance(states[scored.plugin.name], Skip):
                continue
            state = states[scored.plugin.name]
            if isinstance(scored.plugin, PreScore):
                state = scored.plugin.pre_score(state, pod_info, view, rows)
                if isinstance(state, Skip):
                    continue
            if isinstance(scored.plugin, CountedPlugin):
                state = scored.plugin.pre_score_domains(state, view, rows)
            values = _normalised(scored.plugin, scored.plugin.score(state, view, rows))
            totals += scored.weight * values
            kube_name = ALIASES.get(scored.plugin.name, scored.plugin.name)
            scores[kube_name] = dict(zip(nodes, values.tolist(), strict=True))
        return Verdict(name, "", frozenset(nodes), scores, dict(zip(nodes, totals.tolist(), strict=True)))


def _normalised(
    plugin: Score, raw: np.ndarray[tuple[int], np.dtype[np.float64]]
) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    return plugin.normalize(raw) if plugin.normalizes else raw


def _pod(pod: Object) -> Pod | None:
    seen = pod_seen(_raw(pod))
    assert seen is not None
    return seen.pod


def _raw(obj: Object) -> bytes:
    return json.dumps(obj).encode()
