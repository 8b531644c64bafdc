"""Real kubectl and Helm, for tests with and without a real control plane."""

import shutil

from localfleet.controlplane import binaries


def find(tool: str) -> str | None:
    """The program as it was built for control planes, or the one on PATH."""
    built = binaries.find(tool, binaries.selected_minor())
    return str(built) if built else shutil.which(tool)


KUBECTL = find("kubectl") or ""
NO_KUBECTL = "no kubectl: neither built by localfleet.controlplane.binaries nor on PATH"
