"""Who of a tenant that has borrowed would be evicted first, by the very order of reclaim."""

from collections.abc import Iterator, Mapping, Sequence

from dispatcher.scheduling.core import SchedulerCore
from dispatcher.scheduling.quota import QuotaLedger, format_quota
from dispatcher.scheduling.tenants.reclaim import Candidate, first_of, policy_of
from dispatcher.scheduling.views.pieces import Pieces, Row
from shared.model.pod import PodId
from shared.model.tenant import LOWER_PRIORITY, NEVER, part_of, resource_of

_MOST_TOLD = 20  # pods of a group, tenants
_AT_ONCE = 50  # tenants that may ask, each some 0.1 ms
# policy and victims, by id -> these, and for whose pods they would go
_First = dict[tuple[str, tuple[PodId, ...]], tuple[Sequence[Candidate], list[str]]]


def victims_view(core: SchedulerCore, ledger: QuotaLedger, tenant: str) -> Pieces:
    """For each resource that a tenant has borrowed one row for each pod, or group, that would go
    first if another tenant asked now for what is missing of it, and for whose pods that would be;
    or why nobody would. No row for a tenant that has borrowed nothing.
    """
    node = ledger.tree.nodes.get(tenant)
    borrowed = [name for name in sorted(node.quota) if node.borrowed(name)] if node else []
    reclaiming = core.reclaiming
    if reclaiming is None or node is None or not borrowed:
        return
    generation = ledger.generation  # with another tenants file the list ends
    candidates: Mapping[str, Sequence[Candidate]] = {}
    for found in reclaiming.borrowers.soonest(tenant, borrowed, core.fleet.now):
        candidates = found
        yield []
        if ledger.generation != generation:
            return
    others = [one.name for one in node.root.subtree() if one is not node]
    reclaims = [one for one in others if policy_of(ledger.tree.nodes[one])[0] != NEVER]
    for resource, some in candidates.items():
        first: _First = {}
        for at in range(0, len(others), _AT_ONCE):
            names = others[at : at + _AT_ONCE]
            going = reclaiming.going(core.fleet.now)
            gone = frozenset(going)
            with reclaiming.aside(going):
                left = [one for one in some if one.pod_id not in gone]
                _look(ledger, resource, left, names, first)
            yield []
            if ledger.generation != generation:
                return
        whose = {
            "resource": resource_of(resource),
            "of": part.words if (part := part_of(resource)) else "the fleet",
            "borrowed": format_quota(resource, node.borrowed(resource)),
        }
        rows = [_row(core, *which, policy) for (policy, _), which in first.items()]
        yield [{**whose, **row} for row in rows or [_nobody(reclaims, any_may_go=bool(some))]]


def _look(
    ledger: QuotaLedger,
    resource: str,
    candidates: Sequence[Candidate],
    names: Sequence[str],
    first: _First,
) -> None:
    """Note who would go for pods of these tenants."""
    for name in names:
        victims = first_of(ledger.tree, name, resource, candidates)
        if victims:
            policy = policy_of(ledger.tree.nodes[name])[0]
            key = policy, tuple(one.pod_id for one in victims)
            first.setdefault(key, (victims, []))[1].append(name)


def _row(
    core: SchedulerCore, victims: Sequence[Candidate], names: Sequence[str], policy: str
) -> Row:
    pods = list(_pods(core, victims))
    priority = max(one.priority for one in victims)
    alone = len(victims) == 1
    who = f"pod {pods[0]['namespace']}/{pods[0]['name']}" if pods else "a pod that has just gone"
    more = "" if alone else f" and the others of its group, {len(victims)} pods"
    where = f" on {pods[0]['cluster']}/{pods[0]['node']}" if pods and alone else ""
    whose = ", ".join(names[:_MOST_TOLD]) + (" and others" if len(names) > _MOST_TOLD else "")
    higher = " of a higher priority" if policy == LOWER_PRIORITY else ""
    return {
        "pods": pods,
        "count": len(victims),
        "priority": priority,
        "for": names[:_MOST_TOLD],
        "policy": policy,
        "text": f"{who}{more}{where} (priority {priority}), for pods{higher} of {whose}",
    }


def _pods(core: SchedulerCore, victims: Sequence[Candidate]) -> Iterator[Row]:
    for one in victims[:_MOST_TOLD]:
        occupant = core.fleet.occupant(one.pod_id)
        if occupant is not None:
            yield {
                "namespace": occupant.pod_info.pod.namespace,
                "name": occupant.pod_info.pod.name,
                "source": one.pod_id[0],
                "cluster": occupant.cluster,
                "node": occupant.node,
            }


def _nobody(reclaims: Sequence[str], *, any_may_go: bool) -> Row:
    if not reclaims:
        why = "`reclaim` is 'never' for all others of its tree"
    elif not any_may_go:
        why = (
            "none of its pods may be evicted now: they run for less than `min_runtime_s`, budgets "
            "keep them, they are on their way out, or their agents evict nobody"
        )
    else:
        whose = ", ".join(reclaims[:_MOST_TOLD])
        why = f"all that may reclaim use what they were given themselves: {whose}"
    return {
        "pods": [],
        "count": 0,
        "priority": None,
        "for": [],
        "policy": "",
        "text": f"none: {why}",
    }
