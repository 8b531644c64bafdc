"""Real nodes for tests, as pytest's own thing: `node = real_node(plane)`. A conftest or a test module takes it by name.

Where the machine forbids containers or lacks a program, the tests that need one are skipped with one line.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from localfleet.controlplane import binaries
from localfleet.controlplane.binaries import selected_minor
from localfleet.controlplane.plane import ControlPlane
from tests.controlplane import realnode_host
from tests.controlplane.realnode import RealNode


class RealNodes:
    """Starts nodes that live until the end of the module, or until their `stop`."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._nodes: list[RealNode] = []

    def __call__(self, plane: ControlPlane, name: str = "real", **options: Any) -> RealNode:
        """One node of a plane that is Ready; `options` are further ones of RealNode."""
        node = RealNode(plane, self._directory / f"{plane.name}-{name}", name, **options)
        self._nodes.append(node)
        node.start()
        return node

    def close(self) -> None:
        """Stop all; their logs stay in pytest's folder."""
        for node in self._nodes:
            node.stop()


@pytest.fixture(scope="module")
def real_node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealNodes]:
    """Starts real nodes: `real_node(plane, "worker")`."""
    reason = realnode_host.unavailable() or binaries.unavailable(("kubelet",), selected_minor())
    if reason:
        pytest.skip(reason)
    nodes = RealNodes(tmp_path_factory.mktemp("nodes"))
    yield nodes
    nodes.close()
