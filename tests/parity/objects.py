"""Manifests of what stands beside nodes and pods, as the agents read them."""

import json

from agents.kube.objects import KINDS
from shared.model.objects import AnyObject, DaemonSet, PriorityClass, RuntimeClass
from tests.parity.case import Object

_BY_NAME = {kind.name: kind for kind in KINDS}


def record_of(obj: Object) -> AnyObject | None:
    """The record of an object; None for a kind that has no say here (a PriorityClass is in the pod already)."""
    kind = _BY_NAME.get(obj["kind"])
    seen = kind.seen(json.dumps(obj).encode()) if kind else None
    apart = PriorityClass | RuntimeClass | DaemonSet
    return seen.record if seen and not isinstance(seen.record, apart) else None
