"""What another tenants file means for those who are there, in words."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from dispatcher.scheduling.tenants.tree import TenantTree
from shared.model.resources import format_quantity
from shared.model.tenant import Tenant, part_of, resource_of

_OF_PLACES = frozenset({"clusters", "nodes", "max_priority", "spread"})


@dataclass(frozen=True)
class Standing:
    """How tenants stand at one moment: what each is charged, with its parts; what of that counts for
    its limits, as its parts keep the rest for themselves; and what it could use of each resource.
    """

    tenants: Mapping[str, Tenant]
    used: Mapping[str, Mapping[str, int]]
    counted: Mapping[str, Mapping[str, int]]
    limits: Mapping[str, Mapping[str, int]]

    @classmethod
    def of(cls, tree: TenantTree, totals: Mapping[str, int]) -> "Standing":
        """As they stand now; `totals`: what Ready clusters can allocate."""
        tree.settle(totals)
        nodes = tree.nodes
        return cls(
            {name: node.tenant for name, node in nodes.items()},
            {name: node.whole() for name, node in nodes.items()},
            {name: dict(node.usage) for name, node in nodes.items()},
            {name: dict(node.potential) for name, node in nodes.items()},
        )


def changes(before: Standing, after: Standing) -> Iterator[str]:
    """One line a change, tenants by name: who came and went, what each may use and is charged now,
    and who is above that.
    """
    for name in sorted(before.tenants.keys() - after.tenants.keys()):
        had = ", ".join(f"{_named(key)} {_amount(key, one)}" for key, one in _sorted(before, name))
        yield f"tenant {name} is no more{f': it was charged {had}' if had else ''}"
    for name in sorted(after.tenants):
        new = after.tenants[name]
        old = before.tenants.get(name)
        if old is None:
            yield f"tenant {name} is new"
        elif old.parent != new.parent:
            above, before_it = (one.parent or "nobody" for one in (new, old))
            yield f"tenant {name} is part of {above}, no more of {before_it}"
        elif _policy(old) != _policy(new):
            changed = _changed(old, new)
            stay = "" if _OF_PLACES.isdisjoint(changed) else ", pods that have a place keep it"
            yield f"tenant {name}: {', '.join(changed)} changed{stay}"
        yield from _amounts(name, before, after)


def _sorted(standing: Standing, name: str) -> list[tuple[str, int]]:
    return sorted((key, one) for key, one in standing.used[name].items() if one)


def _policy(tenant: Tenant) -> Mapping[str, object]:
    return {
        "namespaces": tenant.namespaces,
        "weight": tenant.weight,
        "clusters": tenant.clusters,
        "nodes": (tenant.selector, tenant.exclusive, tenant.tolerations),
        "max_priority": tenant.max_priority,
        "spread": tenant.spread,
        "reclaim": tenant.reclaim,
        "reclaim_strategies": tenant.reclaim_strategies,
        "min_runtime_s": tenant.min_runtime_s,
    }


def _changed(old: Tenant, new: Tenant) -> list[str]:
    said = _policy(new)
    return [key for key, value in _policy(old).items() if said[key] != value]


def _amounts(name: str, before: Standing, after: Standing) -> Iterator[str]:
    limits = after.limits[name]
    had = before.limits.get(name, {})
    used = after.used[name]
    charged = before.used.get(name, {})
    for key in sorted(limits.keys() | had.keys()):
        limit = limits.get(key)
        uses = used.get(key, 0)
        moved = [] if limit == had.get(key) else [f"may use {_shown(key, had.get(key), limit)}"]
        if uses != charged.get(key, 0):
            moved.append(f"is charged {_shown(key, charged.get(key, 0), uses)}")
        above = 0 if limit is None else max(0, after.counted[name].get(key, 0) - limit)
        if above and moved:
            moved.append(
                f"is {_amount(key, above)} above that: its pods stay, and none of more comes until "
                "enough have ended"
            )
        elif limit is not None and had.get(key) is not None and limit > had[key]:
            moved.append(f"has {_amount(key, limit - had[key])} more for pods that wait")
        if moved:
            yield f"tenant {name}: {_named(key)} {', '.join(moved)}"


def _named(key: str) -> str:
    part = part_of(key)
    return f"{resource_of(key)} on {part.words}" if part else key


def _amount(key: str, amount: int | None) -> str:
    return "without limit" if amount is None else format_quantity(resource_of(key), amount)


def _shown(key: str, old: int | None, new: int | None) -> str:
    return f"{_amount(key, new)} (before: {_amount(key, old)})"
