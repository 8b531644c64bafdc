"""Quantities: Kubernetes' grammar, bounded."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.model.resources import (
    MAX_QUANTITY,
    QuantityError,
    ResourceAxis,
    add,
    format_quantity,
    parse_quantity,
    parse_resources,
)


@pytest.mark.parametrize(
    ("text", "scale", "want"),
    [
        pytest.param("1", 1, 1, id="a plain number"),
        pytest.param("100m", 1000, 100, id="milli-cores"),
        pytest.param("0.1", 1000, 100, id="a decimal core"),
        pytest.param("1u", 1000, 1, id="less than a milli-core rounds up"),
        pytest.param("1.5Gi", 1, 1610612736, id="a binary suffix with a fraction"),
        pytest.param("2G", 1, 2_000_000_000, id="a decimal suffix"),
        pytest.param("1e3", 1, 1000, id="an exponent"),
        pytest.param("5E-1", 1000, 500, id="a negative exponent"),
        pytest.param("5E", 1, None, id="exa is a suffix, not an exponent"),
        pytest.param(".5", 1000, 500, id="no leading digit"),
        pytest.param("-0", 1, 0, id="minus nothing"),
        pytest.param(3, 1000, 3000, id="a JSON number"),
    ],
)
def test_quantity_is_read_as_kubernetes_reads_it(text: object, scale: int, want: int | None) -> None:
    if want is None:
        with pytest.raises(QuantityError, match="larger than any node"):
            parse_quantity(text, scale=scale)
    else:
        assert parse_quantity(text, scale=scale) == want


@pytest.mark.parametrize(
    ("text", "says"),
    [
        pytest.param("1e999999", "exponent", id="an absurd exponent"),
        pytest.param("1e" + "9" * 30, "exponent", id="an exponent of thirty digits"),
        pytest.param("-1", "negative", id="negative"),
        pytest.param("9" * 40, "larger than any node", id="forty digits"),
        pytest.param("9" * 5000, "longer than 40", id="five thousand digits"),
        pytest.param("", "not a number", id="nothing"),
        pytest.param("1 Gi", "not a number", id="a space inside"),
        pytest.param("1\n", "not a number", id="a newline at the end"),
        pytest.param("NaN", "not a number", id="not a number"),
        pytest.param("\N{FULLWIDTH DIGIT ONE}", "not a number", id="a digit of another script"),
        pytest.param(None, "not a number", id="null"),
        pytest.param({"a": 1}, "not a number", id="an object"),
    ],
)
def test_quantity_that_makes_no_sense_is_refused_with_its_text(text: object, says: str) -> None:
    with pytest.raises(QuantityError, match=says):
        parse_quantity(text)


@pytest.mark.parametrize(
    ("text", "scale", "want"),
    [
        ("9E", 1, MAX_QUANTITY),
        ("9E", 1000, MAX_QUANTITY),
        ("9223372036854775807", 1, MAX_QUANTITY),
        ("8Ei", 1, MAX_QUANTITY),
        ("9" * 40, 1, MAX_QUANTITY),
        ("4E", 1, 4 * 10**18),
        ("8Gi", 1, 8 * 2**30),
    ],
)
def test_an_amount_beyond_all_that_is_counted_is_the_largest_there_is(text: str, scale: int, want: int) -> None:
    assert parse_quantity(text, scale=scale, cap=True) == want


def test_resources_error_names_place_and_key() -> None:
    with pytest.raises(QuantityError, match=r"containers\[0\]\.requests\[cpu\]: quantity '-1' is negative"):
        parse_resources({"cpu": "-1"}, where="containers[0].requests")


@given(st.text(max_size=60))
def test_any_text_is_a_bounded_integer_or_a_clear_refusal(text: str) -> None:
    try:
        value = parse_quantity(text, scale=1000)
    except QuantityError as error:
        assert "quantity" in str(error)
        assert len(str(error)) < 400
    else:
        assert 0 <= value <= MAX_QUANTITY


@given(st.integers(min_value=0, max_value=MAX_QUANTITY), st.sampled_from(["cpu", "memory", "pods", "example.com/x"]))
def test_formatting_and_reading_again_changes_nothing(value: int, resource: str) -> None:
    scale = 1000 if resource == "cpu" else 1
    assert parse_quantity(format_quantity(resource, value), scale=scale) == value


@given(st.integers(min_value=0, max_value=10**9))
def test_requests_round_up_and_capacity_rounds_down(nano: int) -> None:
    up = parse_quantity(f"{nano}n", scale=1000)
    down = parse_quantity(f"{nano}n", scale=1000, round_up=False)
    assert down <= nano / 10**6 <= up
    assert up - down <= 1


def test_sums_saturate_instead_of_overflowing() -> None:
    assert add({"cpu": MAX_QUANTITY}, {"cpu": MAX_QUANTITY, "pods": 1}) == {"cpu": MAX_QUANTITY, "pods": 1}


def test_axis_appends_new_resources_and_never_moves_old_ones() -> None:
    axis = ResourceAxis()
    before = list(axis.names)
    column = axis.intern("example.com/gpu")
    assert axis.names[: len(before)] == before
    assert axis.column("example.com/gpu") == column == axis.intern("example.com/gpu")
    assert axis.column("example.com/none") is None
