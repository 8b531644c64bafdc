"""Containers as manifests: quantities of all forms, ports, images."""

from tests.parity.case import Object
from tests.parity.dice import Dice, chance, pick, some
from tests.parity.generate_nodes import IMAGES

_USUAL_CPU = ("100m", "250m", "500m", "1", "0")
_CPU = ("0.1", "1e-1", "2500000u", "1n", "3.3333", "1500m", "2", "100")
_USUAL_MEMORY = ("128Mi", "200Mi", "1Gi", "512Mi", "0")
_MEMORY = ("1.5Gi", "129M", "1e9", "128974848", "1", "1500m", "209715200", "2Gi", "1Pi")
_STORAGE = ("1Gi", "0", "200Gi", "1")
_GPUS = ("1", "2", "0", "9")
_PORTS = (80, 8080, 443)
_ADDRESSES = ("", "0.0.0.0", "127.0.0.1", "10.0.0.1")


def containers(dice: Dice) -> list[Object]:
    """One to three."""
    return [_container(dice, f"c{index}") for index in range(pick(dice, (1, 1, 1, 2, 3)))]


def init_containers(dice: Dice) -> list[Object]:
    """One or two; some restart, and are sidecars."""
    made = [_container(dice, f"i{index}") for index in range(dice.number(1, 2))]
    for one in made:
        if chance(dice, 40):
            one["restartPolicy"] = "Always"
    return made


def _container(dice: Dice, name: str) -> Object:
    made: Object = {"name": name, "image": pick(dice, (*IMAGES, "nginx"))}
    resources = _resources(dice)
    if resources:
        made["resources"] = resources
    ports = [_port(dice) for _ in range(dice.number(1, 2))] if chance(dice, 12) else []
    if ports:
        made["ports"] = ports
    return made


def _resources(dice: Dice) -> Object:
    requests: dict[str, str] = {}
    limits: dict[str, str] = {}
    if not chance(dice, 25):
        # A limit without a request is a request.
        (limits if chance(dice, 10) else requests)["cpu"] = pick(dice, _CPU if chance(dice, 25) else _USUAL_CPU)
    if not chance(dice, 25):
        (limits if chance(dice, 10) else requests)["memory"] = pick(
            dice, _MEMORY if chance(dice, 25) else _USUAL_MEMORY
        )
    if chance(dice, 6):
        requests["ephemeral-storage"] = pick(dice, _STORAGE)
    if chance(dice, 8):
        requests["example.com/gpu"] = limits["example.com/gpu"] = pick(dice, _GPUS)
    if chance(dice, 2):
        requests["hugepages-2Mi"] = limits["hugepages-2Mi"] = pick(dice, ("2Mi", "1Gi"))
    found = {"requests": requests, "limits": limits}
    return {field: amounts for field, amounts in found.items() if amounts}


def resized(dice: Dice, spec: Object) -> Object:
    """The status of a running pod whose containers have, or are allotted, other than what its spec asks for."""
    told = {
        field: [_resize(dice, one["name"]) for one in spec.get(of) or () if chance(dice, 70)]
        for of, field in (("containers", "containerStatuses"), ("initContainers", "initContainerStatuses"))
    }
    status = {"phase": "Running", **{field: found for field, found in told.items() if found}}
    if chance(dice, 40):
        reason = pick(dice, ("Infeasible", "Infeasible", "Deferred"))
        status["conditions"] = [{"type": "PodResizePending", "status": "True", "reason": reason}]
    if spec.get("resources") and chance(dice, 50):
        status |= {field: given for field, given in _resize(dice, "").items() if field.endswith("esources")}
    return status


def _resize(dice: Dice, name: str) -> Object:
    has, allotted = (
        {key: pick(dice, of) for key, of in some(dice, (("cpu", _USUAL_CPU), ("memory", _USUAL_MEMORY)), 3)}
        for _ in range(2)
    )
    made = {"name": name, "image": IMAGES[0], "imageID": "", "ready": True, "restartCount": 0}
    if not chance(dice, 10):
        made["resources"] = {"requests": has}
    if chance(dice, 50):
        made["allocatedResources"] = allotted
    return made


def _port(dice: Dice) -> Object:
    number = pick(dice, _PORTS)
    port: Object = {"containerPort": number, "protocol": pick(dice, ("TCP", "UDP"))}
    if not chance(dice, 20):
        port["hostPort"] = number
    address = pick(dice, _ADDRESSES)
    if address:
        port["hostIP"] = address
    return port
