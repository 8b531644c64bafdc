"""The grain of records: those of a batch tell of its beginning what those of single pods tell of their own turn."""

import json
import re
from collections.abc import Callable, Sequence
from typing import Any

from dispatcher.scheduling.cycle.batches import Result

Record = dict[str, Any]


def recorded(results: Sequence[Result]) -> list[Record]:
    """Summary and record of each."""
    found: list[Record] = json.loads(json.dumps([{"summary": one.summary(), **one.record()} for one in results]))
    return found


def as_in_batches(alone: Sequence[Record], together: Sequence[Record]) -> list[Record]:
    """What pods that were decided one by one would be told `alone`, had they been decided in the batches in which they
    were `together`: the same, but what is counted is what the first pod of the batch met. Those that are in batches
    already stay as they are.
    """
    found = []
    for at, (one, other) in enumerate(zip(alone, together, strict=True)):
        batch = other.get("batch")
        if batch is None or one.get("batch") is not None:
            found.append(one)
            continue
        begin = at + 1 - batch["place"]
        first = alone[begin]
        counted = {name: first[name] for name in ("rejected", "feasible", "evaluated")}
        summary = re.sub(r"\d+ of (\d+ nodes fit)", rf"{first['feasible']} of \1", one["summary"])
        extras = dict(one["extras"])
        if "FaultDomainSpread" in extras:
            extras["FaultDomainSpread"] = _spread(alone[begin : at + 1])
        if "TenantQuota" in extras:
            of_tenant = _first(alone[begin : at + 1], lambda told: told["extras"]["TenantQuota"]["tenant"])
            extras["TenantQuota"] = of_tenant["extras"]["TenantQuota"]
        found.append({**one, **counted, "summary": summary, "extras": extras, "batch": batch})
    return found


def _first(batch: Sequence[Record], what: Callable[[Record], Any]) -> Record:
    """The first of a batch of which the same is told as of the last."""
    return next(one for one in batch if what(one) == what(batch[-1]))


def _spread(batch: Sequence[Record]) -> Record:
    """What the last pod of a batch is told: in the domain that it went to counts what the first one there met."""
    judged = [one["extras"]["FaultDomainSpread"] for one in batch if "FaultDomainSpread" in one["extras"]]
    found = {}
    for level, last in judged[-1].items():
        levels = [one[level] for one in judged]
        met = next(one for one in levels if one["domain"] == last["domain"])
        begin = levels[0]
        count = None if met["skew"] is None else met["skew"] + met["min"]
        if len(judged) < len(batch):  # the first pod of an app: there was none
            begin = {"min": 0, "counts": dict.fromkeys(begin["counts"], 0)}
            count = None if count is None else 0
        skew = None if count is None else count - begin["min"]
        found[level] = {**last, "min": begin["min"], "counts": begin["counts"], "skew": skew}
    return found
