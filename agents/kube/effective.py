"""The effective request of a pod, as the kubelet and kube-scheduler reckon it.

Source: k8s.io/component-helpers/resource, PodRequests. Containers and sidecars (init containers
that restart) run together and add up; an ordinary init container runs alone beside the sidecars
before it; the pod needs the larger of the two, or what `spec.resources` says for the whole pod,
plus the overhead of its runtime. A resize in place counts from both ends (`resized`).
"""

from collections.abc import Collection, Mapping
from functools import lru_cache
from typing import NamedTuple

from agents.kube.resized import given, gives_sums, is_infeasible
from agents.kube.wire_pods import PodSpec, Port, ResourceList
from agents.kube.wire_status import PodStatus
from shared.model.bounds import MAX_WORD
from shared.model.pod import HostPort
from shared.model.resources import (
    CPU,
    MAX_QUANTITY,
    MEMORY,
    QuantityError,
    Resources,
    add,
    maximum,
    parse_quantity,
    unit_scale,
)

MAX_RESOURCE_NAMES = 64
DEFAULT_CPU = 100  # milli: what kube-scheduler takes a container without a request to use
DEFAULT_MEMORY = 200 * 2**20
_POD_LEVEL = (CPU, MEMORY)  # what spec.resources may say for the whole pod, beside huge pages
_HUGE_PAGES = "hugepages-"
_PROTOCOLS = ("TCP", "UDP", "SCTP")


class Needs(NamedTuple):
    """What a spec asks for, read once. `starting`: each init container's needs and whether it is a
    sidecar.

    `is_sum`: `running` is the sum of all containers, so that no default of one is missing.
    """

    running: list[Resources]
    starting: list[tuple[Resources, bool]]
    pod_level: bool  # spec.resources says something
    whole: Resources  # of spec.resources
    overhead: Resources
    is_sum: bool = False


def read_needs(spec: PodSpec, problems: list[str]) -> Needs:
    """The quantities of a spec in internal units, rounded up; unreadable ones are named in
    `problems`.
    """
    running = [
        _needs(one.resources, f"spec.containers[{index}].resources", problems)
        for index, one in enumerate(spec.containers or ())
    ]
    starting = [
        (
            _needs(one.resources, f"spec.initContainers[{at}].resources", problems),
            one.restart_policy == "Always",
        )
        for at, one in enumerate(spec.init_containers or ())
    ]
    pod_level = False
    whole = dict[str, int]()
    if spec.resources is not None:
        pod_level = bool(spec.resources.requests or spec.resources.limits)
        known = {name for needs in (*running, *(needs for needs, _ in starting)) for name in needs}
        whole = _of_pod(_needs(spec.resources, "spec.resources", problems, known=known))
    overhead = read_quantities(spec.overhead, "spec.overhead", problems) if spec.overhead else {}
    return Needs(running, starting, pod_level, whole, overhead)


def read_resized(spec: PodSpec, status: PodStatus) -> list[Needs]:
    """The same of a pod that may have been resized in place, in each way that counts: the most of
    them does.
    """
    asked = read_needs(spec, [])
    infeasible = is_infeasible(status)
    is_sum = gives_sums(status)
    ways = [read_needs(one, [])._replace(is_sum=is_sum) for one in given(spec, status)]
    whole = asked.whole
    if whole and status.resources is not None:
        told = (status.resources.requests, status.allocated_resources)
        whole = {} if infeasible else dict(whole)
        for one in told:
            maximum(whole, _of_pod(read_quantities(one, "status.resources", [])))
    counted = ways if infeasible else [asked, *ways]
    return [one._replace(whole=whole, pod_level=asked.pod_level) for one in counted]


def _of_pod(amounts: Resources) -> Resources:
    return {
        name: value
        for name, value in amounts.items()
        if name in _POD_LEVEL or name.startswith(_HUGE_PAGES)
    }


def effective_request(*ways: Needs) -> Resources:
    """What the pod needs of a node: the most of all ways to count it."""
    most: Resources = {}
    for needs in ways:
        maximum(most, _request(needs))
    return most


def _request(needs: Needs) -> Resources:
    running: Resources = {}
    for one in needs.running:
        add(running, one)
    total = maximum(running, _starting(needs.starting, running))
    total.update(needs.whole)
    add(total, needs.overhead)
    return {name: value for name, value in total.items() if value}


def expected_request(*ways: Needs) -> tuple[int, int]:
    """(milli-CPU, bytes) the pod is reckoned to use: as above, a container that says nothing with
    kube's default.

    Source: kube-scheduler's PodInfo.CalculateResource (NonMissingContainerRequests). A request of
    zero is one.
    """
    return _most_expected(ways, CPU, DEFAULT_CPU), _most_expected(ways, MEMORY, DEFAULT_MEMORY)


def _most_expected(ways: Collection[Needs], resource: str, default: int) -> int:
    if any(needs.pod_level and _is_named(needs, resource) for needs in ways):
        default = 0
    return max(_expected(needs, resource, default) for needs in ways)


def _expected(needs: Needs, resource: str, default: int) -> int:
    if needs.is_sum:
        default = 0
    running = sum(one.get(resource, default) for one in needs.running)
    sidecars = most = 0
    for one, restarts in needs.starting:
        amount = one.get(resource, default)
        most = max(most, amount + sidecars)
        if restarts:
            running += amount
            sidecars += amount
    return min(
        needs.whole.get(resource, max(running, most)) + needs.overhead.get(resource, 0),
        MAX_QUANTITY,
    )


def _is_named(needs: Needs, resource: str) -> bool:
    asked = (*needs.running, *(one for one, _ in needs.starting), needs.whole, needs.overhead)
    return any(resource in one for one in asked)


def _starting(init: list[tuple[Resources, bool]], running: Resources) -> Resources:
    """The most that is needed at once while init containers run; sidecars are added to `running` in
    place.
    """
    most: Resources = {}
    sidecars: Resources = {}
    for needs, restarts in init:
        if restarts:
            add(running, needs)
            add(sidecars, needs)
            maximum(most, sidecars)
        else:
            maximum(most, add(dict(needs), sidecars))
    return most


def _needs(
    resources: ResourceList | None, where: str, problems: list[str], known: Collection[str] = ()
) -> Resources:
    """Requests, and limits where no request is given (the API server's defaulting)."""
    if resources is None:
        return {}
    needs = read_quantities(resources.requests, f"{where}.requests", problems)
    for name, value in read_quantities(resources.limits, f"{where}.limits", problems).items():
        if name not in needs and name not in known:
            needs[name] = value
    return needs


def read_quantities(
    raw: Mapping[str, object] | None, where: str, problems: list[str], *, round_up: bool = True
) -> Resources:
    """A map of quantities, always a new dict; an entry that cannot be read is left out and named in
    `problems`.

    With `round_up` they are requests. What is larger than all that is counted is the largest amount
    there is.
    """
    parsed: Resources = {}
    if raw is None:
        return parsed
    if len(raw) > MAX_RESOURCE_NAMES:
        problems.append(f"{where}: more than {MAX_RESOURCE_NAMES} resources")
        return parsed
    for name, text in raw.items():
        if (
            len(name) > MAX_WORD
        ):  # the dispatcher takes none; API servers let the status of a node name anything
            problems.append(f"{where}[{name[:80]}...]: a name longer than {MAX_WORD} characters")
            continue
        try:
            parsed[name] = (
                _cached(text, unit_scale(name), round_up)
                if type(text) is str
                else parse_quantity(text, scale=unit_scale(name), round_up=round_up, cap=True)
            )
        except QuantityError as error:
            problems.append(f"{where}[{name[:80]}]: {error}")
    return parsed


@lru_cache(maxsize=8192)
def _cached(text: str, scale: int, round_up: bool) -> int:
    return parse_quantity(text, scale=scale, round_up=round_up, cap=True)


def host_ports(spec: PodSpec, problems: list[str]) -> tuple[HostPort, ...]:
    """Ports taken on the node while the pod runs: hostPort, or every port of a pod in the host's
    network.

    Init containers that never end (restartPolicy Always) count, the others do not.
    """
    ports: list[HostPort] = []
    sidecars = [one for one in spec.init_containers or () if one.restart_policy == "Always"]
    for field, containers in (("initContainers", sidecars), ("containers", spec.containers or ())):
        for index, container in enumerate(containers):
            for port in container.ports or ():
                number = port.host_port or (port.container_port if spec.host_network else 0)
                if number:
                    _take(ports, number, port, f"spec.{field}[{index}].ports", problems)
    return tuple(ports)


def _take(ports: list[HostPort], number: int, port: Port, where: str, problems: list[str]) -> None:
    protocol = port.protocol or "TCP"
    if not 0 < number < 65536 or protocol not in _PROTOCOLS:
        problems.append(
            f"{where}: {number}/{protocol[:20]} is not a port 1-65535 of {', '.join(_PROTOCOLS)}"
        )
        return
    ports.append(HostPort(number, protocol, port.host_ip or HostPort(number).ip))
