"""Compiled forms of hot loops over rows: what their NumPy forms answer, bit for bit, several times
faster.

The NumPy form of a policy is the one to read. A kernel is beside it and is used once `compile_all`
was called; until then, and where Numba is not installed, NumPy answers. Machine code is kept in
Numba's cache on disk, so that only the first process on a machine waits for the compiler. No fast
math: sums, products and roundings are IEEE's, in order.
"""

from collections.abc import Callable, Sequence
from typing import Annotated, Any, get_type_hints

import numpy as np
from numpy.typing import NDArray

_COMPILED: list["Kernel"] = []

# Fields of a named tuple of columns, with the kind of argument that each one is.
IntColumn = Annotated[NDArray[np.int64], "ints"]
FloatColumn = Annotated[NDArray[np.float64], "floats"]
ShareColumn = Annotated[NDArray[np.float32], "shares"]
WholeNumber = Annotated[int, "int"]
Number = Annotated[float, "float"]


class Kernel:
    """A loop over columns. `fast`: the compiled function, None until there is one.

    `takes`: what its arguments are, in order: texts of kinds, and NamedTuple classes for columns
    that are known by name (`fast` is handed those one by one: `fast(*columns, now)`). `formulas`:
    functions that it calls and that stand for the NumPy form as well (`least`, `most`, `choose`).

    Kinds: `ints`, `floats`, `shares` (float32), `marks` (uint16), `wholes` (int32) and `bools` are
    columns that are read, `out` (float64), `out_shares`, `out_ints`, `out_marks`, `out_wholes` and
    `out_bools` are such that are written, `cells` (int64, [columns, rows]) are several of them,
    `int` and `float` are plain numbers.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        *takes: str | type[tuple[Any, ...]],
        formulas: Sequence[Any] = (),
    ) -> None:
        self.function = function
        self.takes = takes
        self.formulas = formulas
        self.fast: Any = None
        self._made: Any = None

    def compile(self) -> None:
        """Make `fast`, or load it from disk where there is a folder for it; ImportError without
        Numba.
        """
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
            "bools": types.Array(types.boolean, 1, "C", readonly=True),
            "cells": types.Array(types.int64, 2, "C"),
            "out": types.Array(types.float64, 1, "C"),
            "out_shares": types.Array(types.float32, 1, "C"),
            "out_ints": types.Array(types.int64, 1, "C"),
            "out_marks": types.Array(types.uint16, 1, "C"),
            "out_wholes": types.Array(types.int32, 1, "C"),
            "out_bools": types.Array(types.boolean, 1, "C"),
        }
        _tell(numba, self.formulas)
        takes = [kinds[kind] for part in self.takes for kind in _kinds_of(part)]
        if all(isinstance(part, str) for part in self.takes):
            return kept(numba, self.function, [tuple(takes)])
        return kept(numba, _flat(numba, self.function, self.takes), [tuple(takes)])


def _kinds_of(part: str | type[tuple[Any, ...]]) -> list[str]:
    if isinstance(part, str):
        return part.split()
    return [hint.__metadata__[0] for hint in get_type_hints(part, include_extras=True).values()]


def _flat(
    numba: Any, function: Callable[..., Any], takes: Sequence[str | type[tuple[Any, ...]]]
) -> Callable[..., Any]:
    """`function` with an argument for each column of its tuples: a call checks them much faster
    than within a tuple.

    It is code of the same file, so that the compiler keeps it on disk as it does the function
    itself.
    """
    names = []
    values = []
    scope: dict[str, Any] = {
        "__name__": function.__module__,
        "function": numba.njit(error_model="numpy")(function),
    }
    for at, part in enumerate(takes):
        own = [f"a{at}_{one}" for one in range(len(_kinds_of(part)))]
        names += own
        if isinstance(part, str):
            values += own
        else:
            scope[f"tuple{at}"] = part
            values.append(f"tuple{at}({', '.join(own)})")
    source = (
        f"def {function.__name__}_flat({', '.join(names)}):\n    return "
        f"function({', '.join(values)})\n"
    )
    exec(compile(source, function.__code__.co_filename, "exec"), scope)  # noqa: S102 - of our own names alone
    flat: Callable[..., Any] = scope[f"{function.__name__}_flat"]
    return flat


def kept(numba: Any, function: Callable[..., Any], *signatures: Any, **how: bool) -> Any:
    """Compile with a cache on disk; where no folder can be written, every process compiles for
    itself.
    """
    try:
        return numba.njit(*signatures, cache=True, error_model="numpy", **how)(function)
    except RuntimeError:
        return numba.njit(*signatures, error_model="numpy", **how)(function)


def kernel(
    *takes: str | type[tuple[Any, ...]], formulas: Sequence[Any] = ()
) -> Callable[[Callable[..., Any]], Kernel]:
    """Make a function a kernel (see `Kernel`)."""

    def made(function: Callable[..., Any]) -> Kernel:
        return entered(Kernel(function, *takes, formulas=formulas))

    return made


# --- formulas that stand once: over columns in NumPy, number by number in a kernel
# ------------------------------------


def least(one: Any, limit: Any) -> Any:
    """The lesser of the two; not a number if `one` is none."""
    return np.minimum(one, limit)


def most(one: Any, floor: Any) -> Any:
    """The greater of the two; not a number if `one` is none."""
    return np.maximum(one, floor)


def choose(condition: Any, one: Any, other: Any) -> Any:
    """`one` where the condition holds, else `other`."""
    return np.where(condition, one, other)


_NUMBER_BY_NUMBER: dict[Any, Callable[..., Any]] = {
    least: lambda one, limit: limit if one > limit else one,
    most: lambda one, floor: floor if one < floor else one,
    choose: lambda condition, one, other: one if condition else other,
}


_TOLD: set[Any] = set()


def _tell(numba: Any, formulas: Sequence[Any]) -> None:
    """Tell the compiler, once each, what these functions are within compiled code."""
    for one in (least, most, choose, *formulas):
        if one not in _TOLD:
            _TOLD.add(one)
            if one in _NUMBER_BY_NUMBER:
                numba.extending.overload(one, strict=False)(_typed(_NUMBER_BY_NUMBER[one]))
            else:
                numba.extending.register_jitable(one)


def _typed(body: Callable[..., Any]) -> Callable[..., Any]:
    if body.__code__.co_argcount == 2:
        return lambda one, other: body
    return lambda condition, one, other: body


# --------------------------------------------------------------------------------------------------


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
