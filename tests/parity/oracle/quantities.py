"""Quantities as exact fractions."""

import re
from fractions import Fraction
from functools import lru_cache

_TEXT = re.compile(r"([0-9.]+)(?:[eE]([+-]?[0-9]+)|([a-zA-Z]*))")
_SUFFIX = {
    "": Fraction(1),
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 10**3),
    **{name: Fraction(10 ** (3 * at)) for at, name in enumerate("kMGTPE", 1)},
    **{f"{name}i": Fraction(1024**at) for at, name in enumerate("KMGTPE", 1)},
}
Amounts = dict[str, Fraction]


@lru_cache(maxsize=4096)
def fraction(text: str) -> Fraction:
    """What a quantity says."""
    number, exponent, suffix = _TEXT.fullmatch(text).groups()  # type: ignore[union-attr]
    return Fraction(number) * (Fraction(10) ** int(exponent) if exponent else _SUFFIX[suffix or ""])


def up(value: Fraction) -> int:
    """Rounded up."""
    return -(-value.numerator // value.denominator)


def units(name: str, value: Fraction) -> int:
    """Milli-cores of CPU, whole units of everything else, rounded up."""
    return up(value * 1000 if name == "cpu" else value)
