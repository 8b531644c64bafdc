"""Sizes of images, of which kube-scheduler believes whoever tells first."""

from collections.abc import Sequence

from tests.parity.case import Object


def sizes_on(node: Object) -> dict[str, int]:
    """Image name -> bytes, as the node says."""
    images = (node.get("status") or {}).get("images") or ()
    return {name: image.get("sizeBytes", 0) for image in reversed(images) for name in image.get("names") or ()}


def first_sizes(nodes: Sequence[Object]) -> dict[str, int]:
    """Image name -> bytes as the node said that came first, by its resourceVersion, else by its place in the list."""
    told: dict[str, int] = {}
    for node in sorted(nodes, key=lambda one: int(one["metadata"].get("resourceVersion") or 0)):
        for name, size in sizes_on(node).items():
            told.setdefault(name, size)
    return told
