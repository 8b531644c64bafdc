"""How much CPU tenants of a simulation may use, by plain sums over their tree: nobody there lends less than all."""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from shared.model.tenant import Share, Tenant
from tests.simulation.world.fleet import Fleet
from tests.simulation.world.objects import Object


class Limit(NamedTuple):
    """`most` milli-CPU for all pods of the namespaces that it `owns`."""

    name: str
    owns: Callable[[str, str], bool]
    most: int


def tenants_since(fleet: Fleet, at: float) -> list[tuple[Tenant, ...]]:
    """Those that a decision may have gone by that was taken at that time, or since."""
    return [fleet.sizes.tenants, *(before for until, before in fleet.tenants_before if until >= at)]


def limits_of(tenants: Sequence[Tenant]) -> Iterator[Limit]:
    """Of each tenant that has one of its own or of those that are part of it."""
    by_name = {one.name: one for one in tenants}

    def is_part(one: Tenant, whole: Tenant) -> bool:
        return one is whole or (one.parent != "" and is_part(by_name[one.parent], whole))

    for whole in tenants:
        parts = [one for one in tenants if is_part(one, whole)]
        given = [_cpu(one.nominal) for one in parts if "cpu" in one.nominal]
        if whole.parent and "cpu" not in whole.borrowing_limit:
            continue
        if given or whole.parent:
            most = sum(given) + (_cpu(whole.borrowing_limit) if whole.parent else 0)
            yield Limit(whole.name, _owned_by(parts), most)


def given_to(tenants: Sequence[Tenant], cluster: str, namespace: str) -> list[Object]:
    """The tolerations that pods of a namespace are given by its tenant, and by those that it is part of."""
    by_name = {one.name: one for one in tenants}
    tenant = next((one for one in tenants if one.owns(cluster, namespace)), None)
    given = []
    while tenant is not None:
        for one in tenant.tolerations:
            words = {"key": one.key, "operator": one.operator, "value": one.value, "effect": one.effect}
            given.append({key: word for key, word in words.items() if word})
        tenant = by_name.get(tenant.parent)
    return given


def _owned_by(tenants: Sequence[Tenant]) -> Callable[[str, str], bool]:
    return lambda cluster, namespace: any(one.owns(cluster, namespace) for one in tenants)


def _cpu(shares: dict[str, Share]) -> int:
    return shares["cpu"].absolute or 0
