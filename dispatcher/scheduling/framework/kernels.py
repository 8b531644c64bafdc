"""Compiled forms of hot loops over rows: what their NumPy forms answer, bit for bit, several times faster.

The NumPy form of a policy is the one to read. A kernel is beside it and is used once `compile_all` was called; until
then, and where Numba is not installed, NumPy answers. Machine code is kept in Numba's cache on disk, so that only the
first process on a machine waits for the compiler. No fast math: sums, products and roundings are IEEE's, in order.
"""

from collections.abc import Callable
from typing import Any

_COMPILED: list["Kernel"] = []


class Kernel:
    """A loop over columns. `takes`: the kinds of its arguments; `fast`: the compiled function, None until there is one.

    Kinds: `ints`, `floats`, `shares` (float32), `marks` (uint16) and `wholes` (int32) are columns that are read, `out`
    (float64), `out_shares`, `out_ints`, `marks_out` and `wholes_out` are such that are written, `int` and `float` are
    plain numbers.
    """

    def __init__(self, function: Callable[..., Any], takes: str) -> None:
        self.function, self.takes = function, takes
        self.fast: Any = None
        self._made: Any = None

    def compile(self) -> None:
        """Make `fast`, or load it from disk where there is a folder for it; ImportError without Numba."""
        import numba

        self._made = self._made or self._compiled(numba)
        self.fast = self._made

    def _compiled(self, numba: Any) -> Any:
        types = numba.types
        kinds = {
            "int": types.int64,
            "float": types.float64,
            "ints": types.Array(types.int64, 1, "C", readonly=True),
            "floats": types.Array(types.float64, 1, "C", readonly=True),
            "shares": types.Array(types.float32, 1, "C", readonly=True),
            "marks": types.Array(types.uint16, 1, "C", readonly=True),
            "wholes": types.Array(types.int32, 1, "C", readonly=True),
            "out": types.Array(types.float64, 1, "C"),
            "marks_out": types.Array(types.uint16, 1, "C"),
            "wholes_out": types.Array(types.int32, 1, "C"),
            "out_shares": types.Array(types.float32, 1, "C"),
            "out_ints": types.Array(types.int64, 1, "C"),
        }
        signature = tuple(kinds[kind] for kind in self.takes.split())
        return kept(numba, self.function, [signature])


def kept(numba: Any, function: Callable[..., Any], *signatures: Any, **how: bool) -> Any:
    """Compile with a cache on disk; where no folder can be written, every process compiles for itself."""
    try:
        return numba.njit(*signatures, cache=True, error_model="numpy", **how)(function)
    except RuntimeError:
        return numba.njit(*signatures, error_model="numpy", **how)(function)


def kernel(takes: str) -> Callable[[Callable[..., Any]], Kernel]:
    """Make a function a kernel (see `Kernel`)."""

    def made(function: Callable[..., Any]) -> Kernel:
        return entered(Kernel(function, takes))

    return made


def entered(one: Kernel) -> Kernel:
    """A kernel, from now on one of those that `compile_all` makes."""
    _COMPILED.append(one)
    return one


def compile_all() -> bool:
    """Compile every kernel that was imported, or load it; False where Numba is missing."""
    try:
        for one in _COMPILED:
            one.compile()
    except ImportError:
        return False
    return True


def use_numpy() -> None:
    """Back to the NumPy forms."""
    for one in _COMPILED:
        one.fast = None


def kernels() -> tuple[Kernel, ...]:
    """All that were imported."""
    return tuple(_COMPILED)
