"""Makes a failing story smaller: fewer faults, less work, and it still breaks the same promise."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeVar

from tests.simulation.faults import Story

T = TypeVar("T")


def minimised(story: Story, fails: Callable[[Story], bool], tries: int = 60) -> Story:
    """The smallest story found by dropping halves, quarters ... single faults, then submissions (delta debugging)."""
    left = [tries]

    def still(candidate: Story) -> bool:
        left[0] -= 1
        return left[0] >= 0 and fails(candidate)

    faults = _smaller(story.faults, lambda some: still(replace(story, faults=tuple(some))))
    story = replace(story, faults=tuple(faults))
    work = _smaller(story.work, lambda some: still(replace(story, work=tuple(some))))
    return replace(story, work=tuple(work))


def _smaller(items: Sequence[T], fails: Callable[[Sequence[T]], bool]) -> Sequence[T]:
    size = max(1, len(items) // 2)
    while items:
        for at in range(0, len(items), size):
            fewer = [*items[:at], *items[at + size :]]
            if fails(fewer):
                items = fewer
                break
        else:
            if size == 1:
                return items
            size = max(1, size // 2)
    return items
