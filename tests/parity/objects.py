"""Manifests of what stands beside nodes and pods, as the agents read them."""

from typing import Any

from tests.parity.case import Object


def record_of(obj: Object) -> Any:
    """The record of dispatcher.model.objects; None for a kind that has no say in placement by itself."""
    return None
