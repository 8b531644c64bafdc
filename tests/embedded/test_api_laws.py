"""Laws of the API server's pure parts."""

import json
from fractions import Fraction

import msgspec
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from localfleet.embedded.apiserver import quantity
from localfleet.embedded.apiserver.patch import patching
from localfleet.embedded.apiserver.schema import object_type
from localfleet.embedded.apiserver.show import tables
from localfleet.embedded.apiserver.status import ApiError
from localfleet.embedded.apiserver.validate import label_query
from shared.model.resources import parse_quantity

_NUMBERS = st.decimals(min_value=0, max_value=10**12, places=3).map(str)
_SUFFIXES = st.sampled_from(["", "n", "u", "m", "k", "M", "G", "T", "Ki", "Mi", "Gi", "Ti", "e3", "E-2"])
BEYOND_EXA = 10**21  # there the real server itself loses the power of ten, and so does ours
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-1000, 1000) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=10,
)


@given(_NUMBERS, _SUFFIXES)
def test_the_canonical_form_is_stable_and_means_the_same(number: str, suffix: str) -> None:
    text = number + suffix
    assume(quantity.parse(text) < BEYOND_EXA)
    canonical = quantity.canonical(text)
    assert quantity.canonical(canonical) == canonical
    value, stored = quantity.parse(text), quantity.parse(canonical)
    assert value <= stored <= value + 1
    assert stored == value


@given(_NUMBERS, _SUFFIXES)
def test_the_dispatcher_reads_quantities_as_the_server_stores_them(number: str, suffix: str) -> None:
    value = quantity.parse(number + suffix)
    if value < Fraction(2**62):
        assert parse_quantity(quantity.canonical(number + suffix)) >= value


@given(st.text(max_size=60))
def test_any_text_is_a_quantity_or_a_clear_error(text: str) -> None:
    try:
        assert isinstance(quantity.parse(text), Fraction)
    except quantity.QuantityError as error:
        assert len(str(error)) < 200


@given(st.dictionaries(st.text(max_size=4), _JSON, max_size=4), st.dictionaries(st.text(max_size=4), _JSON, max_size=4))
def test_a_merge_patch_applied_twice_is_applied_once(target: dict[str, object], patch: dict[str, object]) -> None:
    before = json.dumps(target)
    once = patching.merge(target, patch)
    assert patching.merge(once, patch) == once
    assert json.dumps(target) == before


@given(st.text(max_size=40))
def test_any_text_is_a_label_selector_or_a_400(text: str) -> None:
    try:
        label_query.parse(text)
    except ApiError as error:
        assert error.code == 400


@given(_JSON)
def test_reading_any_json_as_a_pod_gives_a_clean_pod_or_a_clear_error(found: object) -> None:
    kind = object_type("core.v1.Pod")
    body = {"metadata": found, "spec": {"containers": found, "nodeSelector": found}}
    try:
        clean = kind.read(body, "", [])
    except ValueError as error:
        assert "cannot unmarshal" in str(error) or "quantities" in str(error)
        return
    unknown: list[str] = []
    again = kind.read(msgspec.json.decode(msgspec.json.encode(clean)), "", unknown)
    assert (again, unknown) == (clean, [])


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        *((-5, "<invalid>"), (0, "0s"), (119, "119s"), (120, "2m"), (200, "3m20s"), (600, "10m"), (7200, "120m")),
        *((3 * 3600, "3h"), (3 * 3600 + 60, "3h1m"), (9 * 3600 + 60, "9h"), (47 * 3600, "47h"), (48 * 3600, "2d")),
        *((50 * 3600, "2d2h"), (8 * 86400, "8d"), (400 * 86400, "400d"), (800 * 86400, "2y70d")),
        (9 * 365 * 86400, "9y"),
    ],
)  # fmt: skip
def test_ages_are_written_as_kubectl_writes_them(seconds: int, shown: str) -> None:
    assert tables.duration(seconds) == shown
