"""Where generated cases take their choices from: hypothesis, which shrinks, or a seeded generator, which is fast."""

import random
from collections.abc import Sequence
from typing import Protocol, TypeVar

from hypothesis import strategies as st

T = TypeVar("T")


class Dice(Protocol):
    """A source of choices; the plainest one is the first, or the lowest."""

    def number(self, low: int, high: int) -> int:
        """A whole number of low..high."""
        ...


class SeededDice:
    """Choices by a seed."""

    def __init__(self, seed: int | str) -> None:
        self._random = random.Random(seed)

    def number(self, low: int, high: int) -> int:
        """Uniform."""
        return self._random.randint(low, high)


class DrawnDice:
    """Choices by hypothesis."""

    def __init__(self, draw: st.DrawFn) -> None:
        self._draw = draw

    def number(self, low: int, high: int) -> int:
        """As hypothesis likes."""
        return self._draw(st.integers(low, high))


def chance(dice: Dice, percent: int) -> bool:
    """True in so many of a hundred cases; the plain choice is False."""
    return dice.number(0, 99) >= 100 - percent


def pick(dice: Dice, choices: Sequence[T]) -> T:
    """One of them."""
    return choices[dice.number(0, len(choices) - 1)]


def some(dice: Dice, choices: Sequence[T], most: int) -> list[T]:
    """None to `most` different ones, in their order."""
    wanted = {dice.number(0, len(choices) - 1) for _ in range(dice.number(0, most))}
    return [choices[at] for at in sorted(wanted)]
