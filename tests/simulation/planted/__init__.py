"""Faults planted into the product on purpose: a table, filled by the modules beside."""

from tests.simulation.planted import (
    attempts,
    drains,
    ends,
    forged,
    identity,
    late,
    leaders,
    namesakes,
    rooms,
    watching,
    writes,
)
from tests.simulation.planted.table import (
    NOT_CAUGHT,
    PLANTED,
    Hunted,
    Patches,
    crash,
    hunt,
    in_place,
    search,
    told_with,
)

__all__ = [
    "NOT_CAUGHT",
    "PLANTED",
    "Hunted",
    "Patches",
    "attempts",
    "crash",
    "drains",
    "ends",
    "forged",
    "hunt",
    "identity",
    "in_place",
    "late",
    "leaders",
    "namesakes",
    "rooms",
    "search",
    "told_with",
    "watching",
    "writes",
]
