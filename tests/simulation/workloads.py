"""What people do in the plans: each workload a script that acts, and yields what has to be reached before it goes on.

A plan compares ends, so none may hang on who is quicker: a node that another scheduler fills while a bind is under way,
for example, may end in a kubelet's refusal, with us as with kube-scheduler.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple, Protocol

from shared.model.pod import Toleration
from shared.model.tenant import Share, Tenant
from tests.simulation.acts import plain_pod
from tests.simulation.faults import OF_TEAM
from tests.simulation.judges.facts import FINALIZER, PREFIX
from tests.simulation.world.apiserver import NAMESPACES, PODS, Hook, status
from tests.simulation.world.controllers import ReplicaSet, path_of
from tests.simulation.world.fleet import Cluster, Fleet, Sizes
from tests.simulation.world.objects import Object, Place, class_of

Awaited = Callable[[], bool]


class Run(Protocol):
    """What a script needs of the run of a plan."""

    fleet: Fleet

    def later(self, after_s: float, call: Callable[[], Any]) -> None:
        """Somebody does something in a while."""


Script = Callable[[Run], Iterator[Awaited]]


class Workload(NamedTuple):
    """A script, and the fleet that it is for. `races`: what runs for a moment may differ from run to run."""

    script: Script
    sizes: Sizes = Sizes()
    races: bool = False


WORKLOADS: dict[str, Workload] = {}


def workload(sizes: Sizes | None = None, *, races: bool = False) -> Callable[[Script], Script]:
    """An entry of the table, named after the function."""

    def add(script: Script) -> Script:
        name = script.__name__.strip("_").replace("_", "-")
        WORKLOADS[name] = Workload(script, sizes or Sizes(), races)
        return script

    return add


# --- what scripts are made of ----------------------------------------------------------------------------------------


def _at(pod: str) -> tuple[str, str]:
    """(cluster, path) of `name` in cluster north, or of `cluster/name`."""
    cluster, _, name = pod.rpartition("/")
    return cluster or "north", f"{NAMESPACES}/default/pods/{name}"


def shows(run: Run, phase: str, *pods: str) -> Awaited:
    """Whether these pods show this phase; "" that they are gone."""

    def reached() -> bool:
        found = [run.fleet.clusters[cluster].api.kept(path) for cluster, path in map(_at, pods)]
        return all((kept.obj["status"].get("phase") if kept else "") == phase for kept in found)

    return reached


def submit(run: Run, pod: str, away: str, cpu: int = 300, priority: int = 0, marks: Mapping[str, str] = {}) -> None:
    """A user's pod, for these clusters alone."""
    cluster, path = _at(pod)
    made = plain_pod(path.rpartition("/")[2], "default", cpu, clusters=away, **marks)
    made["spec"]["priorityClassName"] = class_of(priority)
    run.fleet.clusters[cluster].api.ask("user", "POST", f"{NAMESPACES}/default/pods", made)


def delete(run: Run, pod: str) -> None:
    """kubectl delete pod."""
    cluster, path = _at(pod)
    run.fleet.clusters[cluster].api.ask("user", "DELETE", path)


def drain(cluster: Cluster, most: int = 100) -> None:
    """kubectl drain."""
    for pod in cluster.api.pods()[:most]:
        cluster.api.ask("admin", "DELETE", path_of(pod))


def _fill(cluster: Cluster) -> None:
    for number, node in enumerate(cluster.nodes):
        rival = plain_pod(f"rival{number}", "default", 3900, scheduler="default-scheduler")
        rival["spec"]["nodeName"] = node
        cluster.api.ask("rival", "POST", f"{NAMESPACES}/default/pods", rival)


def _free(cluster: Cluster) -> None:
    for number in range(len(cluster.nodes)):
        cluster.api.ask("rival", "DELETE", f"{NAMESPACES}/default/pods/rival{number}")


def _no_quota() -> Hook:
    """A ResourceQuota that is used up for pods of other clusters."""

    def hook(actor: str, place: Place, obj: Object) -> tuple[int, bytes] | None:
        away = place.resource == PODS and actor.startswith("agent/")
        return status(403, "exceeded quota: compute, requested: cpu=300m", "Forbidden") if away else None

    return hook


# --- scripts ---------------------------------------------------------------------------------------------------------


@workload()
def _home(run: Run) -> Iterator[Awaited]:
    submit(run, "a", "north")
    submit(run, "b", "north")
    yield shows(run, "Running", "a", "b")


@workload()
def _away(run: Run) -> Iterator[Awaited]:
    submit(run, "a", "west")
    yield shows(run, "Running", "a")


@workload()
def _two_targets(run: Run) -> Iterator[Awaited]:
    submit(run, "a", "west")
    submit(run, "b", "east")
    yield shows(run, "Running", "a", "b")


@workload()
def _two_homes(run: Run) -> Iterator[Awaited]:
    """Each cluster is home of one pod and target of another."""
    submit(run, "a", "west")
    submit(run, "west/b", "north")
    yield shows(run, "Running", "a", "west/b")
    delete(run, "a")
    delete(run, "west/b")
    yield shows(run, "", "a", "west/b")


@workload()
def _deleted(run: Run) -> Iterator[Awaited]:
    submit(run, "a", "west")
    yield shows(run, "Running", "a")
    delete(run, "a")
    yield shows(run, "", "a")


@workload(races=True)
def _deleted_at_once(run: Run) -> Iterator[Awaited]:
    """While it is being placed."""
    submit(run, "a", "west")
    run.later(0.055, partial(delete, run, "a"))
    yield shows(run, "", "a")


@workload()
def _recreated(run: Run) -> Iterator[Awaited]:
    """Another pod under the same name."""
    submit(run, "a", "west")
    yield shows(run, "Running", "a")
    delete(run, "a")
    yield shows(run, "", "a")
    submit(run, "a", "west")
    yield shows(run, "Running", "a")


@workload()
def _drained(run: Run) -> Iterator[Awaited]:
    submit(run, "a", "west")
    yield shows(run, "Running", "a")
    drain(run.fleet.clusters["west"])
    yield shows(run, "", "a")


@workload()
def _replaced(run: Run) -> Iterator[Awaited]:
    """Two replicas, one of which is drained."""
    north, west = run.fleet.clusters["north"], run.fleet.clusters["west"]
    template = plain_pod("web", "default", 300, clusters="west")
    north.controllers.sets.append(ReplicaSet("web", "default", 2, template))

    def both() -> bool:
        pods = north.api.pods()
        return len(pods) == 2 and all(pod["status"].get("phase") == "Running" for pod in pods)

    yield both
    drain(west, most=1)
    yield lambda: not both()
    yield both


@workload()
def _ended(run: Run) -> Iterator[Awaited]:
    submit(run, "a", "west")
    yield shows(run, "Running", "a")
    for container in run.fleet.clusters["west"].kubelets.running.values():
        container.ends_at = 0.0
    yield shows(run, "Succeeded", "a")


@workload()
def _ended_and_deleted(run: Run) -> Iterator[Awaited]:
    submit(run, "a", "west")
    yield shows(run, "Running", "a")
    for container in run.fleet.clusters["west"].kubelets.running.values():
        container.ends_at, container.ends_as = 0.0, "Failed"
    yield shows(run, "Failed", "a")
    delete(run, "a")
    yield shows(run, "", "a")


@workload()
def _refused(run: Run) -> Iterator[Awaited]:
    """The only cluster refuses it; a moment later it would take it."""
    west, hook = run.fleet.clusters["west"].api, _no_quota()
    west.hooks.append(hook)
    submit(run, "a", "west")
    run.later(14.0, partial(west.hooks.remove, hook))
    yield shows(run, "Running", "a")


@workload()
def _refused_by_one(run: Run) -> Iterator[Awaited]:
    """One of two clusters refuses it for good: the other runs it."""
    for node in run.fleet.clusters["east"].nodes:  # so that west is tried first
        rival = plain_pod(f"rival-{node}", "default", 3000, scheduler="default-scheduler")
        rival["spec"]["nodeName"] = node
        run.fleet.clusters["east"].api.ask("rival", "POST", f"{NAMESPACES}/default/pods", rival)
    run.fleet.clusters["west"].api.hooks.append(_no_quota())
    yield _soon(run, 3.0)
    submit(run, "a", "east,west")
    yield shows(run, "Running", "a")


@workload()
def _full(run: Run) -> Iterator[Awaited]:
    """No node has room when it comes; a moment later there is."""
    west = run.fleet.clusters["west"]
    _fill(west)
    yield _soon(run, 3.0)
    submit(run, "a", "west")
    yield _soon(run, 6.0)
    _free(west)
    yield shows(run, "Running", "a")


@workload(Sizes(nodes=1))
def _preempted(run: Run) -> Iterator[Awaited]:
    """A pod of higher priority takes the place of one that runs away from home."""
    submit(run, "low", "west", cpu=3000)
    yield shows(run, "Running", "low")
    submit(run, "high", "west", cpu=3000, priority=10)
    yield shows(run, "Running", "high")
    yield shows(run, "", "low")


def _one_tenant(cpu: int, *gives: Toleration) -> tuple[Tenant, ...]:
    return (Tenant("all", ("default",), {"cpu": Share(absolute=cpu)}, tolerations=gives),)


@workload(Sizes(tenants=_one_tenant(500)))
def _over_quota(run: Run) -> Iterator[Awaited]:
    """The second has to wait for the end of the first."""
    submit(run, "a", "west")
    yield shows(run, "Running", "a")
    submit(run, "b", "east")
    yield _soon(run, 5.0)
    delete(run, "a")
    yield shows(run, "Running", "b")


@workload(Sizes(tenants=_one_tenant(500)))
def _group_over_quota(run: Run) -> Iterator[Awaited]:
    """Two that start together wait until the tenants file gives them more."""
    for name in ("a", "b"):
        submit(run, name, "west", marks={"group": "train", "group-min": "2"})
    yield _soon(run, 5.0)
    run.fleet.take_tenants(_one_tenant(600))
    yield shows(run, "Running", "a", "b")


@workload(Sizes(tenants=_one_tenant(900, OF_TEAM)))
def _given(run: Run) -> Iterator[Awaited]:
    """A pod, and two that start together, get a toleration from their tenant first."""
    submit(run, "a", "west")
    for name in ("b", "c"):
        submit(run, name, "west", marks={"group": "train", "group-min": "2"})
    yield shows(run, "Running", "a", "b", "c")


@workload()
def _stripped(run: Run) -> Iterator[Awaited]:
    """Its owner takes our marks off."""
    submit(run, "a", "west")
    yield shows(run, "Running", "a")
    north, (_, path) = run.fleet.clusters["north"].api, _at("a")
    run.fleet.meddled.add(path)
    north.ask("user", "PATCH", path, {"metadata": {"finalizers": None, "annotations": {PREFIX + "claim": None}}})

    def restored() -> bool:
        kept = north.kept(path)
        return kept is not None and FINALIZER in (kept.obj["metadata"].get("finalizers") or ())

    yield restored
    delete(run, "a")
    yield shows(run, "", "a")


@workload()
def _namespace_deleted(run: Run) -> Iterator[Awaited]:
    """The whole namespace in the home cluster."""
    submit(run, "a", "west")
    yield shows(run, "Running", "a")
    run.fleet.clusters["north"].api.ask("admin", "DELETE", f"{NAMESPACES}/default")
    yield lambda: run.fleet.clusters["north"].api.kept(f"{NAMESPACES}/default") is None


def _soon(run: Run, seconds: float) -> Awaited:
    until = run.fleet.now + seconds
    return lambda: run.fleet.now >= until
