"""The real side: kube-scheduler with its gates for groups, given one gang after the other.

The first pod of a gang has a scheduling gate until the others are there, so that all are tried in one cycle. (A
PodGroup that comes after its pods is tried with as many of them as kube-scheduler has moved until then.)
"""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import count

from localfleet.controlplane.plane import ControlPlane
from tests.parity.case import Case, Object, key_of
from tests.parity.creatable import held
from tests.parity.groups.case import Gang, GroupCase, GroupVerdict
from tests.parity.groups.log import GroupCycle, GroupLog
from tests.parity.kube import parity_plane, unweighted
from tests.parity.profile import DEFAULT, PREEMPTING, WEIGHTS
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
        self._groups: dict[str, Object] = {}
        self._started = 0

    def prepare(self, cases: Sequence[GroupCase]) -> None:
        """Create what stands before kube-scheduler starts, then start it."""
        for case in cases:
            fleet = case.fleet
            objects = [self._store.share(obj) for obj in fleet.objects]
            for group in (*case.running, *(gang.group for gang in case.gangs)):
                path = _GROUPS.format(fleet.name)
                self._groups[key_of(group)] = {**self._api.create(path, group), "kind": "PodGroup"}
            bound = self._store.create_all(fleet.bound)
            self._made[fleet.name] = Case(fleet.name, [one for one in objects if one], [], bound, [])
        self._plane.begin("kube-scheduler")
        self._taken()

    def play(self, case: GroupCase) -> tuple[Case, list[GroupVerdict]]:
        """The fleet as it was made, and the verdicts on each gang, as it was made, in order; members that have found a
        place stay, or are promised one; the others go before the next gang comes.
        """
        made = self._made[case.fleet.name]
        made.nodes = self._store.create_all(case.fleet.nodes)
        names = {node["metadata"]["name"] for node in made.nodes}
        self._log.follow(lambda: names <= self._log.nodes, f"nodes {sorted(names)} came")
        told = [verdict for gang in case.gangs for verdict in self._verdicts(gang, made)]
        with ThreadPoolExecutor(_IN_FLIGHT) as pool:
            list(pool.map(lambda name: self._api.delete(f"/api/v1/nodes/{name}"), names))
        self._log.follow(lambda: not names & self._log.nodes, f"nodes {sorted(names)} went")
        self._taken()
        return made, told

    def _verdicts(self, gang: Gang, fleet: Case) -> Iterator[GroupVerdict]:
        """On the gang, and where only some find a place and the others may evict, on those others as well."""
        log = self._log
        group = self._groups[gang.key]
        log.follow(lambda: gang.key in log.groups, f"group {gang.key} came")
        first, *others = gang.members
        of_group = first["spec"]["schedulingGroup"]
        made = [self._store.create(pod) for pod in (held(first), *others)]
        self._taken()
        freed = {**self._api.patch(_path(first), {"spec": {"schedulingGates": None}}), "kind": "Pod"}
        running = [pod for pod in fleet.bound if key_of(pod) not in log.gone]
        placed = [pod["spec"]["nodeName"] for pod in running if pod["spec"].get("schedulingGroup") == of_group]
        tried = Gang(group, [freed, *(pod for pod in made[1:] if pod is not None)], placed)
        for at in count():
            verdict = self._verdict(tried, self._cycle(gang.key, at), fleet.nodes)
            yield verdict
            there = (verdict.emptied or verdict).placed
            rest = [pod for pod in tried.members if key_of(pod) not in there]
            if not (verdict.placed and rest and first["spec"].get("schedulerName") == PREEMPTING):
                break
            tried = Gang(group, rest, [*tried.placed, *verdict.placed.values()])
        for pod in rest:
            self._store.delete(pod)

    def _cycle(self, group: str, at: int) -> GroupCycle:
        cycles = self._log.cycles[group]
        self._log.follow(lambda: len(cycles) > at, f"a verdict on group {group}")
        return cycles[at]

    def _verdict(self, gang: Gang, cycle: GroupCycle, nodes: list[Object]) -> GroupVerdict:
        as_tried = Gang(gang.group, _as_tried(gang.members, cycle), gang.placed)
        placed = self._placed(gang, set(map(key_of, gang.members)), cycle.scheduled)
        verdict = _verdict(as_tried, cycle, placed, nodes)
        if cycle.emptied is not None:
            promised = self._promised(gang.members) if cycle.evicts else {}
            verdict.emptied = emptied = _verdict(as_tried, cycle.emptied, promised, nodes)
            emptied.victims = frozenset(cycle.victims)
            self._evict(as_tried.members, emptied)
        for pod in as_tried.members:
            if key_of(pod) in (verdict.emptied or verdict).placed and pod["spec"]["schedulerName"] == PREEMPTING:
                self._start(pod)
        return verdict

    def _start(self, pod: Object) -> None:
        """Later than all others."""
        self._started += 1
        start = f"2026-02-{self._started // 1440 + 1:02}T{self._started // 60 % 24:02}:{self._started % 60:02}:00Z"
        pod["status"] = {"phase": "Running", "startTime": start}
        self._api.patch(f"{_path(pod)}/status", {"status": pod["status"]})

    def _evict(self, members: list[Object], emptied: GroupVerdict) -> None:
        """Victims go at once, and members are bound where they are promised a place; others wait no more."""
        for pod in members:
            node = emptied.placed.get(key_of(pod))
            if node is not None:
                binding = {"metadata": {"name": pod["metadata"]["name"]}, "target": {"kind": "Node", "name": node}}
                self._api.create(f"{_path(pod)}/binding", binding)
        for key in emptied.victims:
            namespace, name = key.split("/")
            self._store.delete({"kind": "Pod", "metadata": {"namespace": namespace, "name": name}})
        self._log.follow(lambda: emptied.victims <= self._log.gone, f"{sorted(emptied.victims)} went")

    def _promised(self, members: list[Object]) -> dict[str, str]:
        """Pod -> node, as soon as kube-scheduler has written of each that it waits."""
        found: dict[str, str] = {}

        def written() -> bool:
            now = [self._store.read(pod) for pod in members]
            told = [pod["status"] for pod in now if pod is not None]
            found.clear()
            for pod in now:
                if pod is not None and (node := pod["status"].get("nominatedNodeName")):
                    found[key_of(pod)] = node
            return all(
                any(one.get("reason") == "Unschedulable" for one in status.get("conditions", ())) for status in told
            )

        self._log.follow(written, f"what {key_of(members[0])} and others are promised")
        return found

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


def _path(pod: Object) -> str:
    return f"{_PODS.format(pod['metadata']['namespace'])}/{pod['metadata']['name']}"


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
