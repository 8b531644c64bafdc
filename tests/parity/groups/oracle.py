"""kube-scheduler's algorithm for a group (schedule_one_podgroup.go), by the oracle for single pods.

In each domain the members are decided one after the other on its nodes alone, as long as `minCount` can be reached. Of
the domains that hold so many it takes one that holds most; of these the first (kube-scheduler: by what is taken then).
If there is none, it looks once more as if all pods of lower priority were gone, of whom most come back then.
"""

from collections.abc import Sequence
from dataclasses import replace

from tests.parity.case import Case, Object, Verdict, key_of
from tests.parity.groups.case import Gang, GroupVerdict
from tests.parity.groups.victims import Evictions
from tests.parity.oracle.judge import Oracle
from tests.parity.profile import PREEMPTING


def oracle_verdict(fleet: Case, gang: Gang, groups: Sequence[Object] = ()) -> GroupVerdict:
    """What becomes of a gang on a fleet as it is. `groups`: of pods of the fleet."""
    found = _look(fleet, gang)
    evictions = Evictions(Oracle(fleet), gang, groups, fleet.objects, [one["metadata"]["name"] for one in fleet.nodes])
    lower = [seat.pod for unit in evictions.units for seat in unit]
    if not found.placed and lower and gang.members[0]["spec"].get("schedulerName") == PREEMPTING:
        found.emptied = _look(replace(fleet, bound=[pod for pod in fleet.bound if pod not in lower]), gang)
        if found.emptied.placed:
            found.emptied.victims = evictions.where_they_are(found.emptied.placed)
    return found


def _look(fleet: Case, gang: Gang) -> GroupVerdict:
    found, placed = GroupVerdict(gang), dict[str, dict[str, str]]()
    for domain, names in gang.domains(fleet.nodes).items():
        nodes = [node for node in fleet.nodes if node["metadata"]["name"] in names]
        found.tables[domain], there = _in_domain(replace(fleet, nodes=nodes), gang)
        if len(there) >= gang.needed:
            placed[domain] = there
    if placed:
        most = max(map(len, placed.values()))
        alone = len(placed) == 1
        found.shares = {domain: None if alone else len(there) * 100 // most for domain, there in placed.items()}
        found.chosen = next(domain for domain, there in placed.items() if len(there) == most)
        found.placed = placed[found.chosen]
    return found


def _in_domain(fleet: Case, gang: Gang) -> tuple[list[Verdict], dict[str, str]]:
    oracle, tables, placed = Oracle(fleet), list[Verdict](), dict[str, str]()
    for at, pod in enumerate(gang.members):
        if len(placed) + len(gang.members) - at < gang.needed:
            break
        verdict = oracle.judge(pod)
        scored = len(verdict.feasible or ()) > 1
        tables.append(replace(verdict, node="") if scored else Verdict(verdict.pod))
        if verdict.node:
            oracle.book(pod, verdict.node)
            placed[key_of(pod)] = verdict.node
    return tables, placed


def after(fleet: Case, verdict: GroupVerdict) -> Case:
    """The fleet as the next gang meets it."""
    last = verdict.emptied or verdict
    members = [_on(pod, last.placed[key_of(pod)]) for pod in verdict.gang.members if key_of(pod) in last.placed]
    stay = [pod for pod in fleet.bound if key_of(pod) not in last.victims]
    return replace(fleet, bound=[*stay, *members])


def _on(pod: Object, node: str) -> Object:
    return {**pod, "spec": {**pod["spec"], "nodeName": node}}
