"""Fields of an object by path, as people write them: `spec.containers[*].ports[*].hostPort`.

Many paths are looked for in one walk: a pod has few of the fields that could be in it.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Generic, NamedTuple, TypeVar

Object = dict[str, Any]
Trail = tuple[str | int, ...]
L = TypeVar("L")


class Tree(Generic[L]):
    """Paths by their steps, and at the end of each what it stands for."""

    def __init__(self, paths: Iterable[tuple[str, L]]) -> None:
        self.branches: dict[tuple[str, bool], Tree[L]] = {}
        self.leaves: list[L] = []
        for path, leaf in paths:
            self._grow(path, leaf)

    def _grow(self, path: str, leaf: L) -> None:
        tree = self
        for step in path.split("."):
            tree = tree.branches.setdefault(
                (step.removesuffix("[*]"), step.endswith("[*]")), Tree(())
            )
        tree.leaves.append(leaf)


class Hit(NamedTuple, Generic[L]):
    """A field that is set, what its path stands for, and its value."""

    leaf: L
    trail: Trail
    value: Any

    @property
    def field(self) -> str:
        """The field as people write it, with its indexes."""
        return "".join(
            f"[{step}]" if isinstance(step, int) else f".{step}" for step in self.trail
        ).removeprefix(".")


def walk(holder: Any, tree: Tree[L], trail: Trail = ()) -> Iterator[Hit[L]]:
    """Everything set that the paths name. TypeError where the object is of another shape than they
    are.
    """
    if not isinstance(holder, dict):
        raise TypeError(trail)
    for (name, each), below in tree.branches.items():
        value = holder.get(name)
        if value is None:
            continue
        here = (*trail, name)
        if not each:
            yield from _at(value, below, here)
        elif isinstance(value, list):
            for index, entry in enumerate(value):
                yield from _at(entry, below, (*here, index))
        else:
            raise TypeError(here)


def _at(value: Any, tree: Tree[L], trail: Trail) -> Iterator[Hit[L]]:
    if tree.branches:
        yield from walk(value, tree, trail)
    if value is not None:
        for leaf in tree.leaves:
            yield Hit(leaf, trail, value)
