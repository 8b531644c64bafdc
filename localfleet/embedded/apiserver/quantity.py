"""resource.Quantity of apimachinery: its value and the form in which it is stored, cheap for
hostile text too.

Follows apimachinery/pkg/api/resource (ParseQuantity, CanonicalizeBytes) and the rounding up to
thousandths that the API server does to every amount (SetDefaults_ResourceList).
"""

import re
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

GRAMMAR = r"'^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
UNREADABLE = f"quantities must match the regular expression {GRAMMAR}"
UNKNOWN_SUFFIX = "unable to parse quantity's suffix"

_PARTS = re.compile(r"([+-]?)0*([0-9]*)(?:\.([0-9]*))?([eEinumkKMGTP]*[-+]?[0-9]*)", re.ASCII)
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL_NAME = {power: suffix for suffix, power in _DECIMAL.items()}
_BINARY_NAME = {power: suffix for suffix, power in _BINARY.items()}
_EXPONENT = re.compile(r"[eE]([+-]?[0-9]+)", re.ASCII)
_LARGEST = 2**63 - 1
_NANO = -9
_MILLI = -3
_FAST_DIGITS = 18  # what surely fits an int64
_MAX_EXPONENT = 2**31 - 1
_MAX_POWER = 60  # 10 to a hostile power is never computed; nothing is compared with so much


class QuantityError(ValueError):
    """Text that is no quantity, in apimachinery's words."""


class _Amount(NamedTuple):
    """`digits` times ten to the `exponent`; `form` is decimal, binary or exponent; `kept` text is
    stored as it came.
    """

    digits: int
    exponent: int
    form: str
    kept: str = ""


@lru_cache(maxsize=4096)
def parse(text: str) -> Fraction:
    """The value of a quantity as it is stored. Exponents beyond 60 count as 60."""
    amount = _read(text)
    return amount.digits * Fraction(10) ** max(min(amount.exponent, _MAX_POWER), -_MAX_POWER)


@lru_cache(maxsize=4096)
def canonical(text: str) -> str:
    """The form in which Kubernetes stores `text`: '0.5' -> '500m', '1024Mi' -> '1Gi'."""
    amount = _read(text)
    if amount.kept:
        return amount.kept
    if amount.digits == 0:
        return "0"
    if amount.form == "binary":
        whole = _whole(amount)
        if whole is not None and abs(whole) >= 1024:
            return _binary_text(whole)
    return _decimal_text(amount)


def _whole(amount: _Amount) -> int | None:
    if amount.exponent >= 0:
        return int(amount.digits * 10**amount.exponent)
    whole, rest = divmod(amount.digits, 10**-amount.exponent)
    return None if rest else whole


def _binary_text(whole: int) -> str:
    power = 0
    while whole % 1024 == 0 and power < 60:
        whole = whole // 1024
        power = power + 10
    return f"{whole}{_BINARY_NAME[power]}" if power else str(whole)


def _decimal_text(amount: _Amount) -> str:
    digits = amount.digits
    exponent = amount.exponent
    while digits % 10 == 0:
        digits = digits // 10
        exponent = exponent + 1
    digits = digits * 10 ** (exponent % 3)
    exponent = exponent - exponent % 3
    if amount.form == "exponent":
        return f"{digits}e{exponent}" if exponent else str(digits)
    # a power without a name is lost, as it is in Go
    return f"{digits}{_DECIMAL_NAME.get(exponent, '')}"


def _read(text: str) -> _Amount:
    match = _PARTS.fullmatch(text)
    if match is None or not text:
        raise QuantityError(UNREADABLE)
    sign = match[1]
    number = match[2] or "0"
    fraction = match[3] or ""
    suffix = match[4]
    form, power = _unit(suffix)
    found = _fast(text, number, fraction, form, power) or _slow(number, fraction, form, power)
    if sign == "-":
        return found._replace(digits=-found.digits)
    return found


def _unit(suffix: str) -> tuple[str, int]:
    """The form that a suffix stands for, and its power of ten, or of two for a binary one."""
    if suffix in _DECIMAL:
        return "decimal", _DECIMAL[suffix]
    if suffix in _BINARY:
        return "binary", _BINARY[suffix]
    match = _EXPONENT.fullmatch(suffix)
    if match is None:
        raise QuantityError(UNKNOWN_SUFFIX)
    digits = match[1].lstrip("+-").lstrip("0") or "0"
    power = min(int(digits[:10]), _MAX_EXPONENT)
    return "exponent", -power if match[1].startswith("-") else power


def _fast(text: str, number: str, fraction: str, form: str, power: int) -> _Amount | None:
    """What fits an int64: here text that is canonical already is kept as it came."""
    shifted = number + fraction
    if form == "binary":
        value = int(number) << power
        if fraction or 15 - len(number) - power * 3 // 10 - 1 < 0 or value > _LARGEST:
            return None
        return _Amount(value, 0, form, text if int(number) & 7 else "")
    exponent = power - len(fraction)
    if len(shifted) > _FAST_DIGITS or exponent < _NANO:
        return None
    if exponent < _MILLI:
        return _rounded(int(shifted), exponent, form, _MILLI)
    plain = exponent % 3 == 0 and not shifted.endswith("000") and shifted[0] != "0"
    return _Amount(int(shifted), exponent, form, text if plain else "")


def _slow(number: str, fraction: str, form: str, power: int) -> _Amount:
    digits = int((number + fraction)[: _MAX_POWER * 2])
    exponent = -len(fraction)
    dropped = max(len(number + fraction) - _MAX_POWER * 2, 0)
    if form != "binary":
        return _rounded(digits, exponent + power + dropped, form, _MILLI)
    amount = _rounded(digits << power, exponent + dropped, form, _NANO)
    if amount.digits > _LARGEST * 10 ** max(-amount.exponent, 0) or amount.exponent > 0:
        return _Amount(_LARGEST, 0, form)
    if amount.digits < 10 ** max(-amount.exponent, 0):
        form = "decimal"
    return _rounded(amount.digits, amount.exponent, form, _MILLI)


def _rounded(digits: int, exponent: int, form: str, least: int) -> _Amount:
    """Rounded up to ten to the `least`."""
    if exponent >= least or not digits:
        return _Amount(digits, max(exponent, least) if not digits else exponent, form)
    if least - exponent > len(str(digits)):
        return _Amount(1, least, form)
    return _Amount(-(-digits // 10 ** (least - exponent)), least, form)
