"""What nodes have in common, each value as a small number: sets of taints, values of a label; and
answers by number.
"""

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

V = TypeVar("V")


class CodedValues(Sequence[V]):
    """The values by code. A code means the same value as long as a node has it; then it may be
    given to another one.

    So nothing that goes by codes may be kept over a change of a node, unless it follows `since`.
    """

    @property
    @abstractmethod
    def position(self) -> int:
        """How many times a value was given a code."""

    @abstractmethod
    def find(self, value: V) -> int | None:
        """The code of a value, None if no node has it; of one that no node has any more, perhaps a
        code of no node.
        """

    @abstractmethod
    def since(self, position: int) -> NDArray[np.intp] | None:
        """The codes that were given to values from `position` on, each once, ascending; None: look
        at all of them.
        """


class ByCode(Generic[V]):
    """What `ask` makes of each value, as an array by code that is kept: only values that are new
    are asked about.

    Example: `ByCode(len, np.int64,
    absent=0).of(fleet.nodes.label_values("rack"))[fleet.nodes.label("rack")]`.
    """

    def __init__(
        self,
        ask: Callable[[V], Any],
        dtype: "type[np.generic]",
        absent: Any,
        shape: tuple[int, ...] = (),
    ) -> None:
        """`absent`: what code -1 gets. An answer is a number, or an array of that `shape`."""
        self._ask = ask
        self._absent = absent
        self._answers: NDArray[Any] = np.zeros((0, *shape), dtype=dtype)
        self._values: CodedValues[V] | None = None
        self._at = self._size = 0

    @property
    def nbytes(self) -> int:
        """The memory that it takes."""
        return self._answers.nbytes

    def of(self, values: CodedValues[V]) -> NDArray[Any]:
        """[len(values) + 1] the answers by code, the last one for code -1. To be used before a node
        changes.
        """
        if values is not self._values:
            self._values = values
            self._at = 0
            self._size = -1
        if self._at != values.position or self._size < 0:
            self._follow(values, values.since(self._at) if self._size >= 0 else None)
        return self._answers[: self._size + 1]

    def _follow(self, values: CodedValues[V], codes: NDArray[np.intp] | None) -> None:
        known = len(self._answers)
        self._size = len(values)
        if self._size >= known:
            more = np.zeros(
                (max(self._size + 1 - known, known), *self._answers.shape[1:]),
                dtype=self._answers.dtype,
            )
            self._answers = np.concatenate([self._answers, more])
        ask = self._ask
        answers = self._answers
        if codes is None:
            answers[: self._size] = np.asarray([*map(ask, values)]).reshape(-1, *answers.shape[1:])
        else:
            answers[codes] = np.asarray([ask(values[code]) for code in codes.tolist()]).reshape(
                -1, *answers.shape[1:]
            )
        answers[self._size] = self._absent
        self._at = values.position
