"""The real side: kube-scheduler with its gates for groups, given one gang after the other.

The first pod of a gang has a scheduling gate until the others are there, so that all are tried in one cycle. (A
PodGroup that comes after its pods is tried with as many of them as kube-scheduler has moved until then.)
"""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from localfleet.controlplane.plane import ControlPlane
from tests.parity.case import Case, Object, key_of
from tests.parity.creatable import held
from tests.parity.groups.case import Gang, GroupCase, GroupVerdict
from tests.parity.groups.log import GroupCycle, GroupLog
from tests.parity.kube import parity_plane, unweighted
from tests.parity.profile import DEFAULT, WEIGHTS
from tests.parity.store import Store

GATES = ("GenericWorkload", "TopologyAwareWorkloadScheduling")
SERVED = "scheduling.k8s.io/v1beta1"
_PODS = "/api/v1/namespaces/{}/pods"
_GROUPS = "/apis/scheduling.k8s.io/v1beta1/namespaces/{}/podgroups"
_IN_FLIGHT = 8


class KubeGroups:
    """Made by `kube_groups`."""

    def __init__(self, plane: ControlPlane) -> None:
        self._api = plane.admin
        self._plane = plane
        self._log = GroupLog(plane.directory / "kube-scheduler.log")
        self._store = Store(plane.admin)
        self._made: dict[str, Case] = {}

    def prepare(self, cases: Sequence[GroupCase]) -> None:
        """Create what stands before kube-scheduler starts, then start it."""
        for case in cases:
            fleet = case.fleet
            objects = [self._store.share(obj) for obj in fleet.objects]
            bound = self._store.create_all(fleet.bound)
            self._made[fleet.name] = Case(fleet.name, [one for one in objects if one], [], bound, [])
        self._plane.begin("kube-scheduler")
        self._taken()

    def play(self, case: GroupCase) -> tuple[Case, list[GroupVerdict]]:
        """The fleet as it was made, and the verdict on each gang, as it was made, in order; members that have found a
        place stay, the others go before the next gang comes.
        """
        made = self._made[case.fleet.name]
        made.nodes = self._store.create_all(case.fleet.nodes)
        names = {node["metadata"]["name"] for node in made.nodes}
        self._log.follow(lambda: names <= self._log.nodes, f"nodes {sorted(names)} came")
        told = [self._verdict(gang, made.nodes) for gang in case.gangs]
        with ThreadPoolExecutor(_IN_FLIGHT) as pool:
            list(pool.map(lambda name: self._api.delete(f"/api/v1/nodes/{name}"), names))
        self._log.follow(lambda: not names & self._log.nodes, f"nodes {sorted(names)} went")
        self._taken()
        return made, told

    def _verdict(self, gang: Gang, nodes: list[Object]) -> GroupVerdict:
        log = self._log
        namespace = gang.group["metadata"]["namespace"]
        group = {**self._api.create(_GROUPS.format(namespace), gang.group), "kind": "PodGroup"}
        log.follow(lambda: gang.key in log.groups, f"group {gang.key} came")
        first, *others = gang.members
        made = [self._store.create(pod) for pod in (held(first), *others)]
        self._taken()
        path = f"{_PODS.format(namespace)}/{first['metadata']['name']}"
        freed = {**self._api.patch(path, {"spec": {"schedulingGates": None}}), "kind": "Pod"}
        log.follow(lambda: gang.key in log.cycles, f"a verdict on group {gang.key}")
        cycle = log.cycles[gang.key]
        members = _as_tried([freed, *(pod for pod in made[1:] if pod is not None)], cycle)
        placed = self._placed(gang, set(map(key_of, members)), cycle.scheduled)
        for pod in members:
            if key_of(pod) not in placed:
                self._store.delete(pod)
        return _verdict(Gang(group, members, gang.placed), cycle, placed, nodes)

    def _placed(self, gang: Gang, keys: set[str], count: int) -> dict[str, str]:
        """The nodes of so many members, as soon as these are bound."""
        found: dict[str, str] = {}

        def bound() -> bool:
            for key in keys - found.keys():
                taken = self._log.take(key)
                if taken is not None and taken.node:
                    found[key] = taken.node
            return len(found) >= count

        self._log.follow(bound, f"{count} members of {gang.key} are bound")
        return found

    def _taken(self) -> None:
        """All was taken by the API server as it was written."""
        assert not self._store.refusals, self._store.refusals


def _as_tried(members: list[Object], cycle: GroupCycle) -> list[Object]:
    """In the order in which kube-scheduler decides them, those last to which it did not come."""
    tried = [one.pod for one in max(cycle.tables.values(), key=len)]
    return sorted(members, key=lambda pod: tried.index(key_of(pod)) if key_of(pod) in tried else len(tried))


def _verdict(gang: Gang, cycle: GroupCycle, placed: dict[str, str], nodes: list[Object]) -> GroupVerdict:
    domains = gang.domains(nodes)
    found = {domain for domain, names in domains.items() if not names.isdisjoint(placed.values())}
    assert len(found) == bool(placed), f"{gang.key} is in the domains {found}"
    chosen = found.pop() if found else None
    weights = WEIGHTS[DEFAULT]
    tables = {domain: [unweighted(one, weights) for one in told] for domain, told in cycle.tables.items()}
    shares: dict[str, int | None] = {**cycle.shares}
    if chosen is not None and not shares:
        shares = {chosen: None}
    return GroupVerdict(gang, placed, tables, shares, chosen, cycle.message)


@contextmanager
def kube_groups(cases: Sequence[GroupCase]) -> Iterator[KubeGroups]:
    """A kube-scheduler that knows the cases. Its processes end with the block."""
    with parity_plane(GATES, SERVED) as plane:
        scheduler = KubeGroups(plane)
        scheduler.prepare(cases)
        yield scheduler
