"""Whose unused quota others use, and what must come free for a pod that waits for quota."""

from collections.abc import Mapping
from dataclasses import dataclass

from dispatcher.scheduling.tenants.tree import TenantNode


def split(amount: int, parts: Mapping[str, int]) -> dict[str, int]:
    """`amount` in proportion to `parts`, in whole numbers that add up to it: what is left of
    rounding down goes to the largest remainders, of equal ones to the first by name (Hamilton's
    method, as Koordinator splits what is left). No part gets more than it is if `amount` is at most
    their sum.
    """
    whole = sum(parts.values())
    if not whole:
        return dict.fromkeys(parts, 0)
    found = {name: amount * part // whole for name, part in parts.items()}
    order = sorted(parts, key=lambda name: (-(amount * parts[name] % whole), name))
    for name in order[: amount - sum(found.values())]:
        found[name] += 1
    return found


def lent(parent: TenantNode, resource: str) -> dict[str, int]:
    """By child, how much of what it was given and does not use others of the same parent use.

    What is unused and not free any more is lent, and is split over the children in proportion to
    what each does not use: no amount of a resource is anybody's in particular.
    """
    unused = {
        one.name: max(0, one.quota[resource] - max(one.kept[resource], one.usage.get(resource, 0)))
        for one in parent.children
        if resource in one.quota
    }
    free = max(0, parent.quota.get(resource, 0) - parent.usage.get(resource, 0))
    whole = sum(unused.values())
    return split(whole - min(whole, free), unused)


@dataclass(frozen=True)
class Missing:
    """What has to come free in the tree of `node` for a pod of `tenant`: so much of a resource.
    `borrowers`: who has borrowed of it there, most first.
    """

    tenant: str
    node: str
    resource: str
    amount: int
    borrowers: tuple[tuple[str, int], ...]
    within: bool  # whether the tenant would stay within what it was given


def missing(node: TenantNode, asked: Mapping[str, int]) -> Missing | None:
    """For a pod that asks for so much, of the first resource that does not fit, by name."""
    for resource in sorted(asked):
        amount = asked[resource]
        found = node.binding(resource, amount) if amount > 0 else None
        if found is None:
            continue
        at, beyond = found
        limit = at.quota[resource] if at.parent is None else at.ceiling[resource]
        short = at.usage.get(resource, 0) + beyond - limit
        others = (
            (one.name, one.borrowed(resource))
            for one in at.subtree()
            if one is not at and one not in node.path and one.own.get(resource)
        )
        borrowers = sorted((one for one in others if one[1]), key=lambda one: (-one[1], one[0]))
        within = node.usage.get(resource, 0) + amount <= node.quota[resource]
        return Missing(node.name, at.name, resource, short, tuple(borrowers), within)
    return None
