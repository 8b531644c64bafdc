"""Whole cases: a fleet of nodes, pods that run on it, and pods to place."""

from collections.abc import Sequence
from dataclasses import dataclass

from hypothesis import strategies as st

from tests.parity.case import Case, Object
from tests.parity.dice import Dice, DrawnDice, SeededDice, chance, pick
from tests.parity.generate_nodes import names_of, nodes
from tests.parity.generate_pods import APPS, REVISIONS, Names, label_selector, pod
from tests.parity.generate_volumes import Storage, pod_volumes, storage, waiting_volumes
from tests.parity.profile import PREEMPTING

_PRIORITIES = {"parity-low": 10, "parity-high": 1000, "parity-negative": -5, "parity-never": 2000}


@dataclass(frozen=True)
class Size:
    """The most of each in one case."""

    nodes: int = 8
    bound: int = 10
    pending: int = 12


SMALL = Size(nodes=4, bound=4, pending=2)


def case(dice: Dice, name: str, size: Size, volumes: bool = False, profiles: Sequence[str] = ()) -> Case:
    """One case; `name` is in the names of all it holds, so that cases do not touch each other on one API server.

    With `volumes` most of its pods have some; with `profiles` each pending pod names one of them.
    """
    spaces = (f"{name}-a", f"{name}-b", f"{name}-c")
    fleet = nodes(dice, name, size.nodes)
    names = Names(spaces, tuple(names_of(fleet)))
    most = size.bound if fleet else 0
    bound = [pod(dice, f"{name}-b{index}", names, bound=True) for index in range(dice.number(0, most))]
    pending = [
        pod(dice, f"{name}-p{index}", names) for index in range(dice.number(max(1, size.pending // 2), size.pending))
    ]
    made = Case(name, [*_namespaces(spaces), *_priority_classes()], fleet, bound, pending)
    if volumes:
        _mount(dice, made, storage(dice, name, spaces, names.nodes))
    for one in made.pending if profiles else ():
        one["spec"]["schedulerName"] = pick(dice, profiles)
    return made


def preemption_case(seed: str, name: str) -> Case:
    """Full nodes, budgets, and one pod to place that may evict others."""
    dice, size = SeededDice(f"{seed}/{name}"), Size(nodes=5, bound=18, pending=1)
    made = case(dice, name, size, profiles=(PREEMPTING,))
    for one in made.nodes:
        one["status"]["allocatable"]["pods"] = str(dice.number(1, 4))
        if not chance(dice, 20):
            one["spec"] = {}
    for one in made.bound:
        if "status" not in one:
            one["status"] = {"phase": "Running", "startTime": f"2026-01-01T00:00:0{dice.number(0, 5)}Z"}
    _one_holder_a_port(made.bound)
    spec = made.pending[0]["spec"]
    spec["priorityClassName"] = pick(dice, ("parity-high",) * 5 + ("parity-low", "parity-low", "parity-never"))
    for field in ("schedulingGates", "resources", *(() if chance(dice, 30) else ("affinity", "nodeSelector"))):
        spec.pop(field, None)
    spaces = [obj["metadata"]["name"] for obj in made.objects if obj["kind"] == "Namespace"]
    made.objects += [_budget(dice, f"{name}-{index}", pick(dice, spaces)) for index in range(dice.number(0, 3))]
    return made


def _one_holder_a_port(bound: Sequence[Object]) -> None:
    """No kubelet runs two pods with one host port; of two kube-scheduler forgets both when one of them goes."""
    taken: set[tuple[str, int]] = set()
    for one in bound:
        spec = one["spec"]
        for container in (*spec["containers"], *(spec.get("initContainers") or ())):
            ports = {(spec["nodeName"], port["containerPort"]) for port in container.get("ports") or ()}
            if not taken.isdisjoint(ports):
                del container["ports"]
            taken |= ports


def _budget(dice: Dice, name: str, namespace: str) -> Object:
    healthy = {"currentHealthy": 3, "desiredHealthy": 2, "expectedPods": 3}
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"minAvailable": 1, "selector": label_selector(dice) or {}},
        "status": {"disruptionsAllowed": dice.number(0, 2), **healthy},
    }


def _mount(dice: Dice, made: Case, found: Storage) -> None:
    made.objects += found.objects
    for one in (*made.bound, *made.pending):
        if chance(dice, 70):
            mounted = pod_volumes(dice, found, one["metadata"]["namespace"])
            if mounted:
                one["spec"]["volumes"] = mounted
    for one in made.pending if found.waiting else ():
        if one is made.pending[-1] or chance(dice, 20):
            one["metadata"]["namespace"], one["spec"]["volumes"] = waiting_volumes(dice, found)


def seeded_case(seed: str, name: str, size: Size = Size(), volumes: bool = False, profiles: Sequence[str] = ()) -> Case:
    """The case of a seed."""
    return case(SeededDice(f"{seed}/{name}"), name, size, volumes, profiles)


def owned_case(seed: str, name: str) -> Case:
    """Pods without spread constraints of their own, with Services and owners that kube-scheduler's defaults go by."""
    dice = SeededDice(f"{seed}/{name}")
    made = case(dice, name, Size())
    spaces = [obj["metadata"]["name"] for obj in made.objects if obj["kind"] == "Namespace"]
    made.objects += [_service(dice, f"{name}-s{at}", pick(dice, spaces)) for at in range(dice.number(1, 4))]
    owners = [_owner(dice, f"{name}-o{at}", pick(dice, spaces)) for at in range(dice.number(1, 4))]
    made.objects += owners
    for one in made.pending:
        if not chance(dice, 15):
            one["spec"].pop("topologySpreadConstraints", None)
        if chance(dice, 60):
            _own(dice, one, pick(dice, owners))
    return made


def _own(dice: Dice, pod: Object, owner: Object) -> None:
    """Now and then by one that is in another namespace, or does not mean the pod, or is of a kind that nobody asks."""
    pod["metadata"]["namespace"] = owner["metadata"]["namespace"] if chance(dice, 85) else pod["metadata"]["namespace"]
    if chance(dice, 85):
        pod["metadata"]["labels"] = {**pod["metadata"]["labels"], **owner["spec"]["template"]["metadata"]["labels"]}
    kind = "Job" if chance(dice, 5) else owner["kind"]
    reference = {"apiVersion": owner["apiVersion"], "kind": kind, "name": owner["metadata"]["name"], "uid": "owner"}
    pod["metadata"]["ownerReferences"] = [{**reference, "controller": not chance(dice, 10)}]


def _service(dice: Dice, name: str, namespace: str) -> Object:
    spec = {"selector": _some_labels(dice), "ports": [{"port": 80}]}
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "namespace": namespace}, "spec": spec}


def _owner(dice: Dice, name: str, namespace: str) -> Object:
    kind, labels = pick(dice, ("ReplicaSet", "ReplicaSet", "StatefulSet", "ReplicationController")), _some_labels(dice)
    controller = kind == "ReplicationController"
    spec: Object = {
        "replicas": 0,
        "selector": labels if controller else {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "nginx"}]}},
        **({"serviceName": name} if kind == "StatefulSet" else {}),
    }
    meta = {"name": name, "namespace": namespace}
    return {"apiVersion": "v1" if controller else "apps/v1", "kind": kind, "metadata": meta, "spec": spec}


def _some_labels(dice: Dice) -> dict[str, str]:
    labels = {"app": pick(dice, APPS)}
    return {**labels, "rev": pick(dice, REVISIONS)} if chance(dice, 30) else labels


@st.composite
def cases(draw: st.DrawFn, size: Size = SMALL) -> Case:
    """The same as a hypothesis strategy, whose failures shrink."""
    return case(DrawnDice(draw), "case", size)


def _namespaces(names: tuple[str, ...]) -> list[Object]:
    labels: tuple[dict[str, str], ...] = ({"team": "x"}, {"team": "y"}, {})
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": dict(found)}}
        for name, found in zip(names, labels, strict=True)
    ]


def _priority_classes() -> list[Object]:
    return [
        {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": name},
            "value": value,
            **({"preemptionPolicy": "Never"} if name == "parity-never" else {}),
        }
        for name, value in _PRIORITIES.items()
    ]
