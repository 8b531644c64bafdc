"""What the demo's clusters are: embedded ones unless told otherwise (`real` has the other kind)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from agents.runtime.settings import KubeletSettings
from localfleet.embedded.fleet import ClusterSpec, EmbeddedFleet

Say = Callable[[str], None]
_PODS_NOTE = "No container really runs: logs say so, wherever a pod runs, and exec is refused.\n"


@dataclass(frozen=True)
class Running:
    """Clusters that answer: a kubeconfig with a context each, how all are stopped, what to call as
    kubectl, and a note for the user about their pods ('': none).
    """

    kubeconfig: Path
    stop: Callable[[], None]
    kubectl: str = "kubectl"
    pods_note: str = ""


class Clusters(Protocol):
    """A kind of clusters. `live_load`: whether their nodes tell how busy they are; `note`: what to
    know of scores.
    """

    live_load: bool
    note: str
    kubelet: KubeletSettings

    def prepare(self, count: int, say: Say) -> None:
        """What may take minutes and may be interrupted; CommandError when `count` clusters cannot
        be had here.
        """

    def announce(self, count: int) -> str:
        """What is being started, in words."""

    def start(self, specs: Sequence[ClusterSpec], directory: Path) -> Running:
        """Start all at once, files in `directory`. FleetError, with none left running, when one
        does not come up.
        """


class EmbeddedClusters:
    """Our own API servers with fake kubelets, which tell a made-up load."""

    live_load = True
    note = ""
    kubelet = KubeletSettings(interval_s=2.0)  # a demo is short: load shall show while one watches

    def prepare(self, count: int, say: Say) -> None:
        """Nothing."""

    def announce(self, count: int) -> str:
        """In words."""
        return f"{count} clusters"

    def start(self, specs: Sequence[ClusterSpec], directory: Path) -> Running:
        """A process a cluster."""
        fleet = EmbeddedFleet.start(specs, directory)
        return Running(fleet.kubeconfig, fleet.stop, pods_note=_PODS_NOTE)
