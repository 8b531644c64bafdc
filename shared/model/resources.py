"""Resource quantities as bounded integers: CPU in milli-cores, everything else in its base unit
(bytes, counts).

Kubernetes' quantity grammar (apimachinery `resource.Quantity`), with hard bounds on length,
exponent and value, so that hostile text costs nothing to refuse. Requests round up, capacity rounds
down.
"""

import re
from collections.abc import Iterable, Mapping
from fractions import Fraction

from shared.model.axis import Axis
from shared.model.bounds import MAX_AMOUNT

CPU = "cpu"
MEMORY = "memory"
EPHEMERAL_STORAGE = "ephemeral-storage"
PODS = "pods"
BASE_RESOURCES = (CPU, MEMORY, EPHEMERAL_STORAGE, PODS)

MAX_QUANTITY = MAX_AMOUNT
_SCALAR_PREFIXES = ("hugepages-", "attachable-volumes-")
_MAX_TEXT = 40
_MAX_EXPONENT = 24

_NUMBER = re.compile(
    r"([+-]?)([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:([eE])([+-]?[0-9]+)|([numkMGTPE]|[KMGTPE]i)?)"
)
_SUFFIX = {
    None: Fraction(1),
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 1000),
    "k": Fraction(10**3),
    "M": Fraction(10**6),
    "G": Fraction(10**9),
    "T": Fraction(10**12),
    "P": Fraction(10**15),
    "E": Fraction(10**18),
    "Ki": Fraction(2**10),
    "Mi": Fraction(2**20),
    "Gi": Fraction(2**30),
    "Ti": Fraction(2**40),
    "Pi": Fraction(2**50),
    "Ei": Fraction(2**60),
}
Resources = dict[str, int]


class QuantityError(ValueError):
    """A quantity that cannot be read; the text says which and why, shortened to be safe to show."""


def is_extended(resource: str) -> bool:
    """Whether a resource is an extended one: its name has a prefix that is not Kubernetes' own."""
    return (
        "/" in resource
        and "kubernetes.io/" not in resource
        and not resource.startswith("requests.")
    )


def is_scalar(resource: str) -> bool:
    """Whether kube-scheduler counts a resource besides CPU, memory and storage: extended, huge
    pages, attachments.
    """
    return (
        is_extended(resource)
        or "kubernetes.io/" in resource
        or resource.startswith(_SCALAR_PREFIXES)
    )


def unit_scale(resource: str) -> int:
    """Internal units per base unit of `resource`: 1000 for CPU (milli-cores), else 1."""
    return 1000 if resource == CPU else 1


def parse_quantity(
    text: object, *, scale: int = 1, round_up: bool = True, cap: bool = False
) -> int:
    """Read a Kubernetes quantity as a non-negative integer in 1/`scale` units.

    `cap`: more than 2**62 internal units is 2**62 and no error, as API servers cap quantities at
    2**63 - 1. Raises QuantityError for bad grammar, a negative value, more than 40 characters, an
    exponent beyond +-24, or a value above 2**62 internal units.
    """
    raw = text if isinstance(text, str) else str(text) if isinstance(text, int | float) else ""
    shown = raw[:_MAX_TEXT] + ("..." if len(raw) > _MAX_TEXT else "")
    if len(raw) > _MAX_TEXT:
        raise QuantityError(f"quantity {shown!r} is longer than {_MAX_TEXT} characters")
    match = _NUMBER.fullmatch(raw)
    if match is None:
        raise QuantityError(
            f"quantity {shown!r} is not a number with an optional suffix such as m, k, Mi, Gi"
        )
    sign, digits, has_exponent, exponent, suffix = match.groups()
    factor = _power_of_ten(exponent, shown) if has_exponent else _SUFFIX[suffix]
    value = Fraction(digits) * factor * scale
    if sign == "-" and value:
        raise QuantityError(f"quantity {shown!r} is negative")
    if cap:
        value = min(value, Fraction(MAX_QUANTITY))
    whole = (
        -(-value.numerator // value.denominator)
        if round_up
        else value.numerator // value.denominator
    )
    if whole > MAX_QUANTITY:
        raise QuantityError(f"quantity {shown!r} is larger than any node can hold (limit 2^62)")
    return whole


def _power_of_ten(exponent: str, shown: str) -> Fraction:
    # Compared by length first: int() of a huge exponent, or 10 to its power, must never be
    # computed.
    if len(exponent) > 4 or abs(int(exponent)) > _MAX_EXPONENT:
        raise QuantityError(f"quantity {shown!r} has an exponent beyond +-{_MAX_EXPONENT}")
    power = int(exponent)
    return Fraction(10**power) if power >= 0 else Fraction(1, 10**-power)


def parse_resources(raw: Mapping[str, object], *, where: str, round_up: bool = True) -> Resources:
    """Read a map of resource name to quantity; QuantityError names `where` and the key."""
    parsed: Resources = {}
    for name, text in raw.items():
        try:
            parsed[name] = parse_quantity(text, scale=unit_scale(name), round_up=round_up)
        except QuantityError as error:
            raise QuantityError(f"{where}[{name[:80]}]: {error}") from None
    return parsed


def add(total: Resources, more: Mapping[str, int]) -> Resources:
    """Add `more` into `total` in place, saturating at MAX_QUANTITY; returns `total`."""
    for name, value in more.items():
        total[name] = min(total.get(name, 0) + value, MAX_QUANTITY)
    return total


def maximum(total: Resources, more: Mapping[str, int]) -> Resources:
    """Raise each entry of `total` to at least that of `more`, in place; returns `total`."""
    for name, value in more.items():
        total[name] = max(total.get(name, 0), value)
    return total


_BINARY = ((2**40, "Ti"), (2**30, "Gi"), (2**20, "Mi"), (2**10, "Ki"))


def format_quantity(resource: str, value: int) -> str:
    """Show an internal quantity the way kubectl would: '250m', '2', '1536Mi', '17'."""
    if resource == CPU:
        return str(value // 1000) if value % 1000 == 0 else f"{value}m"
    if resource in (MEMORY, EPHEMERAL_STORAGE):
        for unit, suffix in _BINARY:
            if value and value % unit == 0:
                return f"{value // unit}{suffix}"
    return str(value)


class ResourceAxis(Axis):
    """The order of resources; new (extended) ones append."""

    def __init__(self, names: Iterable[str] = BASE_RESOURCES) -> None:
        super().__init__(names)

    def intern(self, name: str) -> int:
        """Column of `name`, appended if new."""
        found = self._column.get(name)
        return self.append(name) if found is None else found
