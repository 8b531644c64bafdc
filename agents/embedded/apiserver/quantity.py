"""resource.Quantity of apimachinery: its value and its canonical form, with bounds that make hostile text cheap."""

import re
from fractions import Fraction
from functools import lru_cache

GRAMMAR = r"'^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
UNREADABLE = f"quantities must match the regular expression {GRAMMAR}"
UNKNOWN_SUFFIX = "unable to parse quantity's suffix"

_PARTS = re.compile(r"([+-]?)([0-9]+(?:\.[0-9]*)?|\.[0-9]+)([eEinumkKMGTP]*)([+-]?[0-9]*)")
_DECIMAL = {"n": -3, "u": -2, "m": -1, "": 0, "k": 1, "M": 2, "G": 3, "T": 4, "P": 5, "E": 6}
_BINARY = {"Ki": 1, "Mi": 2, "Gi": 3, "Ti": 4, "Pi": 5, "Ei": 6}
_DECIMAL_NAME = {power: suffix for suffix, power in _DECIMAL.items()}
_BINARY_NAME = {power: suffix for suffix, power in _BINARY.items()}
_LARGEST = Fraction(2**63 - 1)
_SMALLEST = Fraction(1, 10**9)
_MAX_DIGITS = 60  # more whole digits than this are beyond 2^63 in any unit that can shrink them


class QuantityError(ValueError):
    """Text that is no quantity, in apimachinery's words."""


@lru_cache(maxsize=4096)
def parse(text: str) -> Fraction:
    """The value of a quantity, rounded up to 1e-9 and capped at +-(2^63 - 1) as Kubernetes does."""
    return _read(text)[0]


@lru_cache(maxsize=4096)
def canonical(text: str) -> str:
    """The form in which Kubernetes stores `text`: '0.5' -> '500m', '1024Mi' -> '1Gi'."""
    value, binary, exponent = _read(text)
    if binary and abs(value) >= 1024:
        return _binary_form(value)
    mantissa, power = _decimal_form(value)
    if exponent:
        return f"{mantissa}e{power * 3}" if power else str(mantissa)
    return f"{mantissa}{_DECIMAL_NAME[power]}"


def _read(text: str) -> tuple[Fraction, bool, bool]:
    match = _PARTS.fullmatch(text)
    if match is None:
        raise QuantityError(UNREADABLE)
    sign, digits, suffix, exponent = match.groups()
    factor = _factor(suffix, exponent)
    whole = digits.partition(".")[0].lstrip("0")
    if len(whole) > _MAX_DIGITS or factor is None:
        value = _LARGEST if digits.strip("0.") else Fraction(0)
    else:
        value = min(Fraction(digits[: _MAX_DIGITS * 2]) * factor, _LARGEST)
    rounded = Fraction(-(-value * 10**9 // 1), 10**9) if value.denominator > 1 else value
    return (-rounded if sign == "-" else rounded), suffix in _BINARY, bool(exponent)


def _factor(suffix: str, exponent: str) -> Fraction | None:
    """What one unit is worth; None if that is beyond every bound."""
    if suffix in ("e", "E") and exponent:
        if exponent in ("+", "-"):
            raise QuantityError(UNREADABLE)
        return _power_of_ten(exponent)
    if exponent:
        raise QuantityError(UNKNOWN_SUFFIX)
    if suffix in _BINARY:
        return Fraction(1024 ** _BINARY[suffix])
    if suffix in _DECIMAL:
        return Fraction(1000) ** _DECIMAL[suffix]
    raise QuantityError(UNKNOWN_SUFFIX)


def _power_of_ten(exponent: str) -> Fraction | None:
    # Compared by length first: 10 to a hostile power must never be computed.
    digits = exponent.lstrip("+-").lstrip("0")
    if len(digits) > 2:
        return _SMALLEST / 10**_MAX_DIGITS if exponent.startswith("-") else None
    return Fraction(10) ** int(exponent)


def _binary_form(value: Fraction) -> str:
    number = -(-value.numerator // value.denominator)
    power = 0
    while number and number % 1024 == 0 and power < 6:
        number, power = number // 1024, power + 1
    return f"{number}{_BINARY_NAME[power]}" if power else str(number)


def _decimal_form(value: Fraction) -> tuple[int, int]:
    power = 0
    while value.denominator != 1:
        value, power = value * 1000, power - 1
    number = value.numerator
    while number and number % 1000 == 0 and power < 6:
        number, power = number // 1000, power + 1
    return number, power
