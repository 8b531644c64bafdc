"""The effective request of a pod, as the kubelet and kube-scheduler reckon it.

Source: k8s.io/component-helpers/resource, PodRequests. Containers and sidecars (init containers that restart) run
together and add up; an ordinary init container runs alone beside the sidecars before it; the pod needs the larger of
the two, or what `spec.resources` says for the whole pod, plus the overhead of its runtime.
"""

from collections.abc import Mapping
from functools import lru_cache

from agents.kube.wire import Container, PodSpec, Port, ResourceList
from dispatcher.model.pod import HostPort
from dispatcher.model.resources import QuantityError, Resources, add, maximum, parse_quantity, unit_scale

MAX_RESOURCE_NAMES = 64
_PROTOCOLS = ("TCP", "UDP", "SCTP")


def effective_request(spec: PodSpec, problems: list[str]) -> Resources:
    """What the pod needs of a node, in internal units, rounded up; unreadable quantities are named in `problems`."""
    running: Resources = {}
    for index, container in enumerate(spec.containers or ()):
        add(running, _needs(container.resources, f"spec.containers[{index}].resources", problems))
    starting = _starting(spec.init_containers or (), running, problems)
    total = maximum(running, starting)
    if spec.resources is not None:
        total.update(_needs(spec.resources, "spec.resources", problems, known=total))
    if spec.overhead:
        add(total, read_quantities(spec.overhead, "spec.overhead", problems))
    return {name: value for name, value in total.items() if value}


def _starting(init: list[Container] | tuple[()], running: Resources, problems: list[str]) -> Resources:
    """The most that is needed at once while init containers run; sidecars are added to `running` in place."""
    most: Resources = {}
    sidecars: Resources = {}
    for index, container in enumerate(init):
        needs = _needs(container.resources, f"spec.initContainers[{index}].resources", problems)
        if container.restart_policy == "Always":
            add(running, needs)
            add(sidecars, needs)
            maximum(most, sidecars)
        else:
            maximum(most, add(needs, sidecars))
    return most


def _needs(
    resources: ResourceList | None, where: str, problems: list[str], known: Mapping[str, int] | None = None
) -> Resources:
    """Requests, and limits where no request is given (the API server's defaulting)."""
    if resources is None:
        return {}
    needs = read_quantities(resources.requests, f"{where}.requests", problems)
    for name, value in read_quantities(resources.limits, f"{where}.limits", problems).items():
        if name not in needs and name not in (known or ()):
            needs[name] = value
    return needs


def read_quantities(
    raw: Mapping[str, object] | None, where: str, problems: list[str], *, round_up: bool = True
) -> Resources:
    """A map of quantities, always a new dict; an entry that cannot be read is left out and named in `problems`."""
    parsed: Resources = {}
    if raw is None:
        return parsed
    if len(raw) > MAX_RESOURCE_NAMES:
        problems.append(f"{where}: more than {MAX_RESOURCE_NAMES} resources")
        return parsed
    for name, text in raw.items():
        try:
            parsed[name] = (
                _cached(text, unit_scale(name), round_up)
                if type(text) is str
                else parse_quantity(text, scale=unit_scale(name), round_up=round_up)
            )
        except QuantityError as error:
            problems.append(f"{where}[{name[:80]}]: {error}")
    return parsed


@lru_cache(maxsize=8192)
def _cached(text: str, scale: int, round_up: bool) -> int:
    return parse_quantity(text, scale=scale, round_up=round_up)


def host_ports(spec: PodSpec, problems: list[str]) -> tuple[HostPort, ...]:
    """Ports taken on the node: hostPort, or every port of a pod in the host's network."""
    ports: list[HostPort] = []
    for index, container in enumerate(spec.containers or ()):
        for port in container.ports or ():
            number = port.host_port or (port.container_port if spec.host_network else 0)
            if number:
                _take(ports, number, port, f"spec.containers[{index}].ports", problems)
    return tuple(ports)


def _take(ports: list[HostPort], number: int, port: Port, where: str, problems: list[str]) -> None:
    protocol = port.protocol or "TCP"
    if not 0 < number < 65536 or protocol not in _PROTOCOLS:
        problems.append(f"{where}: {number}/{protocol[:20]} is not a port 1-65535 of {', '.join(_PROTOCOLS)}")
        return
    ports.append(HostPort(number, protocol, port.host_ip or HostPort(number).ip))
