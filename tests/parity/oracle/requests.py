"""What a pod asks of its node (k8s.io/component-helpers/resource PodRequests)."""

from fractions import Fraction
from typing import Any

from tests.parity.case import Object
from tests.parity.oracle.quantities import Amounts, fraction, units

_DEFAULTS = {"cpu": "100m", "memory": str(200 * 2**20)}


def requests(pod: Object) -> dict[str, int]:
    """Resource -> milli-cores or units; what is asked for explicitly."""
    return {name: units(name, value) for name, value in _total(pod["spec"], {}).items()}


def expected(pod: Object, *, whole: bool = True) -> dict[str, int]:
    """CPU and memory of a pod to place with the defaults for each container that does not name them.

    Without `whole`, requests for the pod as a whole are overlooked.
    """
    total = _total(pod["spec"] if whole else {**pod["spec"], "resources": None}, _DEFAULTS)
    return {name: units(name, total[name]) for name in _DEFAULTS}


def expected_seated(pod: Object) -> dict[str, int]:
    """The same of a pod on a node: one with requests as a whole gets defaults only for what nothing in it names."""
    if not (pod["spec"].get("resources") or {}).get("requests"):
        return expected(pod)
    named = _total(pod["spec"], {})
    total = _total(pod["spec"], {name: text for name, text in _DEFAULTS.items() if name not in named})
    return {name: units(name, total[name]) for name in _DEFAULTS}


def _total(spec: Object, missing: dict[str, str]) -> Amounts:
    running: Amounts = {}
    sidecars: Amounts = {}
    starting: Amounts = {}
    for container in spec["containers"]:
        _add(running, _asked(container, missing))
    for container in spec.get("initContainers") or ():
        asked = _asked(container, missing)
        if container.get("restartPolicy") == "Always":
            _add(running, asked)
            _add(sidecars, asked)
            _raise(starting, sidecars)
        else:
            _raise(starting, _add(asked, sidecars))
    _raise(running, starting)
    whole = (spec.get("resources") or {}).get("requests") or {}
    for name, text in whole.items():
        running[name] = fraction(text)
    return _add(running, {name: fraction(text) for name, text in (spec.get("overhead") or {}).items()})


def _asked(container: Object, missing: dict[str, str]) -> Amounts:
    given: dict[str, Any] = (container.get("resources") or {}).get("requests") or {}
    return {name: fraction(str(text)) for name, text in {**missing, **given}.items()}


def _add(total: Amounts, more: Amounts) -> Amounts:
    for name, value in more.items():
        total[name] = total.get(name, Fraction(0)) + value
    return total


def _raise(total: Amounts, least: Amounts) -> None:
    for name, value in least.items():
        total[name] = max(total.get(name, value), value)
