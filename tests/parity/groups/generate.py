"""Fleets with racks, zones and blocks, and gangs for them: of one size or several, whole or elastic, too large or not.

Nodes and pods are plain, so that no row of docs/parity.md about single pods is met: what differs differs by groups.
"""

import copy

from shared.model.names import SCHEDULER_NAME
from tests.parity.case import Case, Object
from tests.parity.dice import Dice, SeededDice, chance, pick
from tests.parity.generate_nodes import HOSTNAME, ZONE
from tests.parity.groups.case import Gang, GroupCase

RACK = "topology.kubernetes.io/rack"
BLOCK = "example.com/block"
_LEVELS = ("", "", RACK, RACK, RACK, ZONE, ZONE, BLOCK)
_SIZES = (("2", "8Gi"), ("4", "17Gi"), ("4", "16Gi"), ("8", "31Gi"))
_REQUESTS = (("500m", "700Mi"), ("1", "1300Mi"), ("1", "900Mi"), ("2", "2500Mi"), ("3", "1700Mi"))
_CLASSES = {"gang-low": 10, "gang-high": 1000}
_GANGS = 6
POD_GROUP = {"apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup"}


def gangs_case(seed: str, name: str) -> GroupCase:
    """Six gangs before one fleet; `name` is in the names of all, so that cases do not touch each other."""
    dice = SeededDice(f"{seed}/{name}")
    nodes = [node_of(dice, name, at) for at in range(dice.number(6, 11))]
    bound = [_bound(dice, name, at, pick(dice, nodes)) for at in range(dice.number(0, 6))]
    classes = [priority_class(*one) for one in _CLASSES.items()]
    space: Object = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    gangs = [gang_of(dice, name, f"{name}-g{at}", ("", "", *_CLASSES)) for at in range(_GANGS)]
    running = [pod for gang in gangs if chance(dice, 30) for pod in placed_of(dice, gang, nodes)]
    return GroupCase(Case(name, [space, *classes], nodes, [*bound, *running], []), gangs)


def node_of(dice: Dice, fleet: str, at: int) -> Object:
    name = f"{fleet}-n{at}"
    zone = pick(dice, ("z1", "z2"))
    labels = {HOSTNAME: name, ZONE: zone, "disk": pick(dice, ("ssd", "ssd", "hdd"))}
    if not chance(dice, 10):
        labels[RACK] = f"{zone}-{pick(dice, ('r1', 'r2'))}"
    if chance(dice, 70):
        labels[BLOCK] = pick(dice, ("b1", "b2", "b3"))
    cpu, memory = pick(dice, _SIZES)
    amounts = {"cpu": cpu, "memory": memory, "pods": pick(dice, ("110", "110", "110", "3"))}
    status = {"capacity": amounts, "allocatable": amounts, "conditions": [{"type": "Ready", "status": "True"}]}
    taints = [{"key": "dedicated", "value": "a", "effect": "NoSchedule"}] if chance(dice, 12) else []
    meta = {"name": name, "labels": labels}
    return {"apiVersion": "v1", "kind": "Node", "metadata": meta, "spec": {"taints": taints}, "status": status}


def _bound(dice: Dice, fleet: str, at: int, node: Object) -> Object:
    pod = pod_of(fleet, f"{fleet}-b{at}", *pick(dice, _REQUESTS[:3]))
    pod["spec"]["nodeName"] = node["metadata"]["name"]
    return pod


def placed_of(dice: Dice, gang: Gang, nodes: list[Object]) -> list[Object]:
    """Members that run already, in one domain, as if those that wait had come later."""
    domains = [*gang.domains(nodes).values()]
    domain = pick(dice, domains) if domains else set()
    gang.placed = [pick(dice, sorted(domain)) for _ in range(dice.number(1, 2) if domain else 0)]
    pods = []
    for at, node in enumerate(gang.placed):
        pod = copy.deepcopy(gang.members[0])
        pod["metadata"]["name"] += f"-placed{at}"
        pod["spec"] = {"schedulerName": SCHEDULER_NAME, **pod["spec"], "nodeName": node}
        pods.append(pod)
    return pods


def gang_of(dice: Dice, fleet: str, name: str, classes: tuple[str, ...]) -> Gang:
    """Of one to three templates; every member, or fewer, have to start together."""
    members = [
        one
        for at in range(pick(dice, (1, 1, 1, 2, 2, 3)))
        for one in _template(dice, fleet, f"{name}-{at}", 4 if at else 6)
    ]
    level, priority = pick(dice, _LEVELS), pick(dice, classes)
    least = dice.number(1, len(members)) if chance(dice, 40) else len(members)
    spec: Object = {"schedulingPolicy": {"basic": {}} if chance(dice, 20) else {"gang": {"minCount": least}}}
    if level:
        spec["schedulingConstraints"] = {"topology": [{"key": level}]}
    for one in members:
        one["spec"]["schedulingGroup"] = {"podGroupName": name}
    for one in ({"spec": spec}, *members) if priority else ():
        one["spec"]["priorityClassName"] = priority
    meta = {"name": name, "namespace": fleet}
    return Gang({**POD_GROUP, "metadata": meta, "spec": spec}, members)


def _template(dice: Dice, fleet: str, name: str, most: int) -> list[Object]:
    """Pods that are alike, like the workers of a job."""
    requests = pick(dice, _REQUESTS)
    more: Object = {}
    if chance(dice, 20):
        more["nodeSelector"] = {"disk": pick(dice, ("ssd", "hdd"))}
    if chance(dice, 20):
        more["tolerations"] = [{"key": "dedicated", "operator": "Exists"}]
    if chance(dice, 15):
        term = {"topologyKey": HOSTNAME, "labelSelector": {"matchLabels": {"template": name}}}
        more["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    pods = [pod_of(fleet, f"{name}-{at}", *requests) for at in range(dice.number(1, most))]
    for one in pods:
        one["metadata"]["labels"] = {"template": name}
        one["spec"].update(more)
    return pods


def pod_of(fleet: str, name: str, cpu: str, memory: str) -> Object:
    resources = {"requests": {"cpu": cpu, "memory": memory}}
    spec: Object = {"containers": [{"name": "c", "image": "example.invalid/app:1", "resources": resources}]}
    meta = {"name": name, "namespace": fleet, "labels": {}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


def priority_class(name: str, value: int, policy: str = "Never") -> Object:
    meta = {"value": value, "preemptionPolicy": policy, "metadata": {"name": name}}
    return {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", **meta}
