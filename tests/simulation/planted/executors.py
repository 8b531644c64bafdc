"""Two executors of one cluster at the same time."""

from collections.abc import Iterator

from tests.simulation.planted.scripted import Hint, Scene, Wait
from tests.simulation.planted.table import Patches, plant


def a_second_executor(at: Scene) -> Iterator[Wait]:
    """The agent of a cluster is scaled to two, and pods go on coming."""
    yield 30.0
    at.act("second-executor", "west", 60.0)
    for number in range(8):
        at.submit(f"p{number}", "west", cpu=100)
        yield 6.0


def a_node_that_was_given_up(at: Scene) -> Iterator[Wait]:
    """The agent's machine loses its API server, its pod is started elsewhere, and the machine comes back."""
    yield 10.0
    at.weather("west", 60.0, cut_there=True, cut_back=True)
    at.act("second-executor", "west", 120.0)
    for number in range(8):
        at.submit(f"p{number}", "west", cpu=100)
        yield 10.0


def a_machine_that_slept(at: Scene) -> Iterator[Wait]:
    """The agent stands still in the middle of its work; another acts meanwhile, and it goes on where it was."""
    yield 5.0
    at.strike("west", "bind", lambda: at.act("agent-pauses", "west", 45.0), moment="before")
    at.act("second-executor", "west", 90.0)
    for number in range(8):
        at.submit(f"p{number}", "west", cpu=100)
        yield 8.0


@plant("an executor without its Lease acts", hint=Hint(a_second_executor))
def executor_without_its_lease_acts(patches: Patches) -> None:
    from agents.runtime.executor_lease import ExecutorLease

    patches.set(ExecutorLease, "problem", "")
    patches.set(ExecutorLease, "permit", lambda self: lambda: "")


@plant("an executor that slept goes on where it was", hint=Hint(a_machine_that_slept))
def executor_acts_on_after_its_lease(patches: Patches) -> None:
    from shared.kube.elector import Elector

    patches.set(Elector, "valid", lambda self: self.leader == self.identity)
