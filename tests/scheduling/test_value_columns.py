"""Values kept as columns come out as they went in, also after they were written."""

import json
import math
from typing import Any

import msgspec
import numpy as np
import pytest

from dispatcher.scheduling.framework.value_columns import (
    Column,
    Each,
    Same,
    Table,
    each,
    fields,
    numbers,
    picked,
    taken,
    where,
)


def read(column: Column, count: int) -> list[Any]:
    """From memory and as written, told apart by type and sign too."""
    table = Table(count, column)
    written = msgspec.msgpack.decode(msgspec.msgpack.encode(table), type=Table)
    assert repr(written.rows()) == repr(table.rows())
    return table.rows()


@pytest.mark.parametrize(
    "values",
    [
        [0.1, 0.2, 1e300],
        [0.0, -0.0],
        [math.inf, -math.inf, math.nan],
        [1, 2, 3],
        [0, 2**7],
        [*range(-200, 200)],
        [2**40, *range(40)],
        [-(2**20), *range(40)],
        [5] * 40,
        [True, False],
        [1.5],
    ],
)
def test_numbers_keep_type_sign_and_all_digits(values: list[Any]) -> None:
    assert repr(read(numbers(np.asarray(values)), len(values))) == repr(values)


def test_short_numbers_are_told_as_wide_ones() -> None:
    shares = np.asarray([0.1, 0.7], dtype=np.float32)
    assert read(numbers(shares), 2) == [float(one) for one in shares]


@pytest.mark.parametrize("values", [[0.12345, 2.00005, 1.00015], [0.12345] * 3])
def test_numbers_are_rounded_as_python_rounds(values: list[float]) -> None:
    assert read(numbers(np.asarray(values), 4), 3) == [round(one, 4) for one in values]


@pytest.mark.parametrize("values", [["a", "b", "a"], ["a", "a"], [None, 3, None]])
def test_few_different_values_stand_once(values: list[Any]) -> None:
    assert read(picked(values), len(values)) == values


def test_one_or_the_other_by_record() -> None:
    column = where(numbers(np.asarray([True, False, True])), numbers(np.asarray([1.0, 2.0, 3.0])), Same(None))
    assert read(column, 3) == [1.0, None, 3.0]
    assert read(where(Same(value=False), Same(1), Same("unknown")), 2) == ["unknown", "unknown"]


@pytest.mark.parametrize("places", [[0, 2], [1], [0, 1, 2]])
def test_some_records_have_the_values_that_they_have_among_all(places: list[int]) -> None:
    mask = numbers(np.asarray([True, False, True]))
    column = fields(
        {
            "number": numbers(np.asarray([0.12345, 2.5, -0.0]), 2),
            "either": where(mask, picked(["x", "y", "x"]), Same(None)),
            "any": each([{"a": 1}, [], "s"]),
            "same": Same("z"),
        }
    )
    whole = read(column, 3)
    assert read(taken(column, places), len(places)) == [whole[at] for at in places]


def test_maps_keep_the_order_of_their_keys() -> None:
    column = fields({"b": numbers(np.asarray([1, 2])), "a": fields({"z": Same([]), "y": each(["s", {"t": 1}])})})
    rows = read(column, 2)
    assert json.dumps(rows) == '[{"b": 1, "a": {"z": [], "y": "s"}}, {"b": 2, "a": {"z": [], "y": {"t": 1}}}]'


def test_what_is_the_same_in_all_records_is_written_once() -> None:
    same = fields({"weights": Same([1.0] * 100), "name": Same("n" * 1000)})
    assert len(msgspec.msgpack.encode(Table(1000, same))) < 2500
    assert read(fields({}), 2) == [{}, {}]
    assert isinstance(each([1, 1.0]), Each)
