"""Nodes as manifests, with weight on the odd corners."""

from collections.abc import Sequence

from tests.parity.case import Object
from tests.parity.dice import Dice, chance, pick, some

ZONE, REGION, HOSTNAME = "topology.kubernetes.io/zone", "topology.kubernetes.io/region", "kubernetes.io/hostname"
# Labels that have, or nearly have, the names of our levels.
SHORT_NAMES = ("rack", "zone", "host", "cluster", "region", "provider", "hosts")
# Values of the label that Gt and Lt are asked about: integers, and what looks like one.
GENERATIONS = ("1", "2", "3", "10", "007", "1.5", "x", "", "9223372036854775807", "9223372036854775808")
DISKS = ("ssd", "hdd", "")
TAINT_KEYS = ("dedicated", "gpu", "example.com/spot", "node.kubernetes.io/unschedulable")
TAINT_VALUES = ("", "a", "b")
EFFECTS = ("NoSchedule", "PreferNoSchedule", "PreferNoSchedule", "NoExecute")
_CPU = ("4", "8", "8", "16", "16", "3920m", "64", "64", "1", "500m", "0")
_MEMORY = ("8Gi", "16Gi", "16Gi", "32Gi", "64Gi", "7911Mi", "7950116Ki", "8G", "64Pi", "1Gi", "512Mi", "0")
_PODS = ("110", "110", "110", "110", "110", "10", "10", "3", "1", "0")
IMAGES = (
    "registry.example.com/app:v1",
    "registry.example.com/app:v2",
    "nginx:latest",
    "docker.io/library/nginx:latest",
    "registry.example.com/big@sha256:0000000000000000000000000000000000000000000000000000000000000000",
    "localhost:5000/tool:1",
)
_SIZES = (1, 22 * 2**20, 23 * 2**20, 24 * 2**20, 150_000_000, 600_000_000, 1000 * 2**20, 3_000_000_000, 50_000_000_000)


def node(dice: Dice, name: str, sizes: dict[str, int]) -> Object:
    """One Ready node; `sizes` are those of the images on most nodes."""
    spec: Object = {}
    taints = [_taint(dice) for _ in range(dice.number(0, 2))] if chance(dice, 30) else []
    # The API server takes a key with an effect once.
    distinct = {(taint["key"], taint["effect"]): taint for taint in taints}
    if distinct:
        spec["taints"] = list(distinct.values())
    if chance(dice, 8):
        spec["unschedulable"] = True
    allocatable = _allocatable(dice)
    status: Object = {
        "conditions": [{"type": "Ready", "status": "True"}],
        "capacity": allocatable,
        "allocatable": allocatable,
    }
    if chance(dice, 10):
        sizes = {image: pick(dice, _SIZES) for image in IMAGES}
    images = [{"names": [image], "sizeBytes": sizes[image]} for image in some(dice, IMAGES, 4)]
    if images:
        status["images"] = images
    meta = {"name": name, "labels": _labels(dice, name)}
    return {"apiVersion": "v1", "kind": "Node", "metadata": meta, "spec": spec, "status": status}


def _labels(dice: Dice, name: str) -> dict[str, str]:
    labels = {HOSTNAME: name}
    if chance(dice, 5):
        # The label is somebody's to write: it may lack, or be that of another node.
        labels = pick(dice, ({}, {HOSTNAME: "shared"}))
    if not chance(dice, 10):
        labels[ZONE] = pick(dice, ("z1", "z2", "z3"))
    if not chance(dice, 25):
        labels[REGION] = pick(dice, ("r1", "r2"))
    if chance(dice, 60):
        labels["disk"] = pick(dice, DISKS)
    for key in some(dice, SHORT_NAMES, 9):
        labels[key] = pick(dice, ("s1", "s2", "z1"))
    if chance(dice, 60):
        labels["gen"] = pick(dice, GENERATIONS)
    return labels


def _taint(dice: Dice) -> Object:
    return {"key": pick(dice, TAINT_KEYS), "value": pick(dice, TAINT_VALUES), "effect": pick(dice, EFFECTS)}


def _allocatable(dice: Dice) -> dict[str, str]:
    amounts = {"cpu": pick(dice, _CPU), "memory": pick(dice, _MEMORY), "pods": pick(dice, _PODS)}
    if chance(dice, 40):
        amounts["ephemeral-storage"] = pick(dice, ("100Gi", "1Gi", "0", "99999999999"))
    if chance(dice, 40):
        amounts["example.com/gpu"] = pick(dice, ("4", "1", "0", "8"))
    if chance(dice, 15):
        amounts["hugepages-2Mi"] = pick(dice, ("1Gi", "4Mi", "0"))
    return amounts


def nodes(dice: Dice, prefix: str, most: int) -> list[Object]:
    """One to `most` nodes; now and then none at all."""
    if chance(dice, 2):
        return []
    sizes = {image: pick(dice, _SIZES) for image in IMAGES}
    return [node(dice, f"{prefix}-n{index}", sizes) for index in range(dice.number(1, most))]


def names_of(made: Sequence[Object]) -> list[str]:
    """Their names."""
    return [one["metadata"]["name"] for one in made]
