"""What a pod asks of its node (k8s.io/component-helpers/resource PodRequests)."""

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
    return {name: units(name, total[name]) for name in _DEFAULTS}


def expected(pod: Object) -> dict[str, int]:
    """The same of the pod as a whole: one with such requests gets defaults only for what nothing in it names."""
    if not (pod["spec"].get("resources") or {}).get("requests"):
        return expected_of_containers(pod)
    named = _total(pod, {})
    total = _total(pod, {name: text for name, text in _DEFAULTS.items() if name not in named})
    return {name: units(name, total[name]) for name in _DEFAULTS}


def _total(pod: Object, missing: Texts) -> Amounts:
    spec, resize = pod["spec"], _Resize(pod)
    running: Amounts = {}
    sidecars: Amounts = {}
    starting: Amounts = {}
    for container in spec["containers"]:
        _add(running, resize.of_container(container, missing))
    for container in spec.get("initContainers") or ():
        if container.get("restartPolicy") == "Always":
            asked = resize.of_container(container, missing)
            _add(running, asked)
            _add(sidecars, asked)
            _raise(starting, sidecars)
        else:
            _raise(starting, _add(_amounts({**missing, **_requests(container)}), sidecars))
    _raise(running, starting)
    running.update(resize.of_pod())
    return _add(running, _amounts(spec.get("overhead") or {}))


class _Resize:
    """What a pod's status makes of its requests: the most of what is asked for, had and allotted counts.

    Where the node cannot do it, what is asked for does not.
    """

    def __init__(self, pod: Object) -> None:
        self._whole: Object = pod["spec"].get("resources") or {}
        self._status: Object = pod.get("status") or {}
        told = [one for of in ("containerStatuses", "initContainerStatuses") for one in self._status.get(of) or ()]
        self._told = {one["name"]: one for one in told}
        pending = [one for one in self._status.get("conditions") or () if one["type"] == "PodResizePending"]
        self._infeasible = bool(pending) and pending[0].get("reason") == "Infeasible"

    def of_container(self, container: Object, missing: Texts) -> Amounts:
        """Of a container that stays, with `missing` for what is not named anywhere."""
        told = self._told.get(container["name"]) or {}
        return {**_amounts(missing), **self._most(_requests(container), told)}

    def of_pod(self) -> Amounts:
        """Of the requests for the pod as a whole, which are about CPU, memory and huge pages alone."""
        asked = {
            name: text
            for name, text in _requests({"resources": self._whole}).items()
            if name in _DEFAULTS or name.startswith("hugepages-")
        }
        most = self._most(asked, self._status)
        return {name: most.get(name, Fraction(0)) for name in asked}

    def _most(self, asked: Texts, told: Object) -> Amounts:
        if told.get("resources") is None:
            return _amounts(asked)
        most: Amounts = {} if self._infeasible else _amounts(asked)
        _raise(most, _amounts(_requests(told)))
        _raise(most, _amounts(told.get("allocatedResources") or {}))
        return most


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
