"""Methods of a plugin that say at once what its others say one by one: not where a subclass
replaces the others.
"""

from functools import cache


@cache
def in_step(plugin: type, method: str, *others: str) -> bool:
    """Whether the class that each of `others` is inherited from, or a subclass of it, has `method`
    of its own.

    Example: B(A) has `explain`, A has `explain` and `explain_rows`: False of these two in B, since
    A's words for many rows are not B's.
    """
    return all(_first_has(plugin, method, other) for other in others)


def _first_has(plugin: type, method: str, other: str) -> bool:
    for base in plugin.__mro__:
        if method in vars(base) or other in vars(base):
            return method in vars(base)
    return False
