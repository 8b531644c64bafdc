"""What a pod asks of its node (k8s.io/component-helpers/resource PodRequests)."""

from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

from tests.parity.case import Object
from tests.parity.oracle.quantities import Amounts, fraction, units

_DEFAULTS = {"cpu": "100m", "memory": str(200 * 2**20)}
Texts = dict[str, Any]  # resource -> quantity


def requests(pod: Object) -> dict[str, int]:
    """Resource -> milli-cores or units; what is asked for explicitly, or what a resize in place makes of it."""
    return {name: units(name, value) for name, value in _total(pod, {}).items()}


def expected_of_containers(pod: Object) -> dict[str, int]:
    """CPU and memory of a pod with the defaults for each container that does not name them.

    Requests for the pod as a whole are overlooked.
    """
    total = _total({**pod, "spec": {**pod["spec"], "resources": None}}, _DEFAULTS)
    return {name: units(name, total.get(name, Fraction(0))) for name in _DEFAULTS}


def expected(pod: Object) -> dict[str, int]:
    """The same of the pod as a whole: one with such requests gets defaults only for what nothing in it names."""
    if not (pod["spec"].get("resources") or {}).get("requests"):
        return expected_of_containers(pod)
    named = _total(pod, {})
    total = _total(pod, {name: text for name, text in _DEFAULTS.items() if name not in named})
    return {name: units(name, total.get(name, Fraction(0))) for name in _DEFAULTS}


def _total(pod: Object, missing: Texts) -> Amounts:
    resize, total = _Resize(pod), Amounts()
    for way in resize.ways():
        _raise(total, way if isinstance(way, Sum) else _of_containers(pod["spec"], way, missing))
    total.update(resize.of_pod())
    return _add(total, _amounts(pod["spec"].get("overhead") or {}))


class Sum(Amounts):
    """What a status gives of all containers together."""


def _of_containers(spec: Object, asked: Callable[[Object], Texts], missing: Texts) -> Amounts:
    running: Amounts = {}
    sidecars: Amounts = {}
    starting: Amounts = {}
    for container in spec["containers"]:
        _add(running, _amounts({**missing, **asked(container)}))
    for container in spec.get("initContainers") or ():
        amounts = _amounts({**missing, **asked(container)})
        if container.get("restartPolicy") == "Always":
            _add(running, amounts)
            _add(sidecars, amounts)
            _raise(starting, sidecars)
        else:
            _raise(starting, _add(amounts, sidecars))
    _raise(running, starting)
    return running


class _Resize:
    """What a pod's status makes of its requests: the most of what is asked for, had and allotted in sum counts.

    Where the node cannot do it, what is asked for does not.
    """

    def __init__(self, pod: Object) -> None:
        self._whole: Object = pod["spec"].get("resources") or {}
        self._status: Object = pod.get("status") or {}
        told = [one for of in ("containerStatuses", "initContainerStatuses") for one in self._status.get(of) or ()]
        self._told = {one["name"]: one for one in told}
        pending = [one for one in self._status.get("conditions") or () if one["type"] == "PodResizePending"]
        self._infeasible = bool(pending) and pending[0].get("reason") == "Infeasible"

    def ways(self) -> "Iterator[Sum | Callable[[Object], Texts]]":
        """Each way to count: what a container asks for, or the sum of all."""
        if not self._infeasible:
            yield _requests
        allotted, had = self._status.get("allocatedResources"), _told_requests(self._status)
        if allotted is not None and had is not None:
            yield Sum(_amounts(allotted))
            yield Sum(_amounts(had))
        else:
            yield self._allotted
            yield self._had

    def _allotted(self, container: Object) -> Texts:
        found = (self._told.get(container["name"]) or {}).get("allocatedResources")
        return self._asked(container) if found is None else found

    def _had(self, container: Object) -> Texts:
        found = _told_requests(self._told.get(container["name"]) or {})
        return self._allotted(container) if found is None else found

    def _asked(self, container: Object) -> Texts:
        return {} if self._infeasible else _requests(container)

    def of_pod(self) -> Amounts:
        """Of the requests for the pod as a whole, which are about CPU, memory and huge pages alone."""
        asked = _requests({"resources": self._whole})
        if not asked:
            return {}
        if self._status.get("resources") is None:
            return _pod_level(asked)
        most: Amounts = {} if self._infeasible else _pod_level(asked)
        _raise(most, _pod_level(_told_requests(self._status) or {}))
        _raise(most, _pod_level(self._status.get("allocatedResources") or {}))
        return most


def _pod_level(texts: Texts) -> Amounts:
    return _amounts({name: text for name, text in texts.items() if name in _DEFAULTS or name.startswith("hugepages-")})


def _told_requests(told: Object) -> Texts | None:
    found: Texts | None = (told.get("resources") or {}).get("requests")
    return found


def _requests(holder: Object) -> Texts:
    given: Texts = (holder.get("resources") or {}).get("requests") or {}
    return given


def _amounts(texts: Texts) -> Amounts:
    return {name: fraction(str(text)) for name, text in texts.items()}


def _add(total: Amounts, more: Amounts) -> Amounts:
    for name, value in more.items():
        total[name] = total.get(name, Fraction(0)) + value
    return total


def _raise(total: Amounts, least: Amounts) -> None:
    for name, value in least.items():
        total[name] = max(total.get(name, value), value)
