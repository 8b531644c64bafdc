"""A case as kube-scheduler reads it, written so that our core reads it the same way: one reading for a row of
docs/parity.md. What a row explains is gone when our core is given the case so.
"""

import copy
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from unittest import mock

from dispatcher.scheduling.rules import spread_args
from shared.model.pod import SpreadConstraint
from tests.parity.case import Case, Object, Verdict
from tests.parity.oracle.affinity import pod_terms
from tests.parity.oracle.images import first_sizes, sizes_on
from tests.parity.oracle.selectors import is_empty
from tests.parity.oracle.spread import selector_of
from tests.parity.ours import OurSide

# A case with the pod in question as its only pending one -> the same in other words; None if they would be the same.
Reading = Callable[[Case], Case | None]
_HOSTNAME = "kubernetes.io/hostname"
_ALONE = "selected.parity.example/alone"
_BY_VALUE, _BY_NODE = "hostname.parity.example/value", "hostname.parity.example/node"


def judged(case: Case, pod: Object, readings: Sequence[Reading]) -> Verdict | None:
    """What our core says of a pod of the case under these readings; None if one of them has nothing to do with it."""
    now = copy.deepcopy(Case(case.name, case.objects, case.nodes, case.bound, [pod]))
    for reading in readings:
        found = reading(now)
        if found is None:
            return None
        now = found
    with _hosts_by_label() if hosts_by_label in readings else nullcontext():
        return OurSide(now).judge(now.pending[0])


# --- readings: each may change the case that it is given --------------------------------------------------------------


def hosts_by_label(case: Case) -> Case | None:
    """Domains of kubernetes.io/hostname are the values of that label; for soft spread, the nodes that have it."""
    if all(_labels(node).get(_HOSTNAME) == node["metadata"]["name"] for node in case.nodes):
        return None
    for node in case.nodes:
        labels = _labels(node)
        if _HOSTNAME in labels:
            labels |= {_BY_VALUE: labels[_HOSTNAME], _BY_NODE: node["metadata"]["name"]}
    for pod in (*case.bound, *case.pending):
        for rule in (*(pod["spec"].get("topologySpreadConstraints") or ()), *pod_terms(pod)):
            if rule["topologyKey"] == _HOSTNAME:
                rule["topologyKey"] = _BY_NODE if rule.get("whenUnsatisfiable") == "ScheduleAnyway" else _BY_VALUE
    return case


def one_size_an_image(case: Case) -> Case | None:
    """An image has the size that the first node told on all nodes."""
    first, changed = first_sizes(case.nodes), False
    for node in case.nodes:
        told = sizes_on(node)
        changed |= any(first[name] != size for name, size in told.items())
        if told:
            node["status"]["images"] = [{"names": [name], "sizeBytes": first[name]} for name in told]
    return case if changed else None


def empty_spread(case: Case) -> Case | None:
    """A spread constraint with an empty selector counts no pod that is placed, and the pod to place all the same."""
    pod = case.pending[0]
    rules = [one for one in pod["spec"].get("topologySpreadConstraints") or () if is_empty(selector_of(one, pod))]
    for rule in rules:
        _labels(pod)[_ALONE] = "x"
        rule["labelSelector"] = {"matchLabels": {_ALONE: "x"}}
    return case if rules else None


def bare_budgets(case: Case) -> Case | None:
    """A budget with an empty selector guards nobody, and no budget a pod without labels."""
    bare = [pod for pod in case.bound if not _labels(pod)]
    changed = False
    for budget in (one for one in case.objects if one["kind"] == "PodDisruptionBudget"):
        selector = budget["spec"].get("selector")
        spared = [one for one in case.bound if is_empty(selector)] or (bare if selector is not None else [])
        names = [one["metadata"]["name"] for one in spared]
        budget.setdefault("status", {}).setdefault("disruptedPods", {}).update(
            dict.fromkeys(names, "2020-01-01T00:00:00Z")
        )
        changed |= bool(names)
    return case if changed else None


def containers_alone(case: Case) -> Case | None:
    """A pod asks for what its containers ask for; what it asks for as a whole says nothing."""
    return case if (case.pending[0]["spec"].pop("resources", None) or {}).get("requests") else None


def _labels(node: Object) -> dict[str, str]:
    labels: dict[str, str] = node["metadata"].setdefault("labels", {})
    return labels


@contextmanager
def _hosts_by_label() -> Iterator[None]:
    """kube-scheduler's own constraints, which are in no manifest, by the label that the nodes were given."""
    host, *others = spread_args.SYSTEM_DEFAULTS
    by_label = (SpreadConstraint(_BY_NODE, host.max_skew, host.hard), *others)
    with mock.patch.object(spread_args, "SYSTEM_DEFAULTS", by_label):
        yield
