"""What takes back, step by step, whatever is done to the pods of a fleet in a what-if."""

from collections.abc import Callable, Iterable
from functools import partial
from typing import TypeVar

Step = Callable[[], object]
_Of = TypeVar("_Of")


class UndoSteps:
    """Steps in the order in which they were noted. `open`: how many what-ifs are, one within
    another; they go on in the same list, so each ends by itself. Without any nothing is to be noted.
    """

    def __init__(self) -> None:
        self._steps: list[Step] = []
        self.open = 0

    def begin(self) -> int:
        """Open a what-if; to where `undo` takes it back."""
        self.open += 1
        return len(self._steps)

    def note(self, step: Step) -> None:
        """Something was done, and this is its exact inverse as long as all that comes later is
        taken back first.
        """
        self._steps.append(step)

    def note_each(self, step: Callable[[_Of], object], of: Iterable[_Of]) -> None:
        """`note` what takes back each of these, in this order."""
        self._steps += [partial(step, one) for one in of]

    def undo(self, begun: int) -> None:
        """Take back all that was noted since `begun`, the last first."""
        while len(self._steps) > begun:
            self._steps.pop()()

    def end(self) -> None:
        """Close the what-if that was opened last; what is not taken back yet stays, unless one
        around it is undone.
        """
        self.open -= 1
        if not self.open:
            self._steps.clear()
