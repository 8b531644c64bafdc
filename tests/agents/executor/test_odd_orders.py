"""An order whose manifest has some part of another type than the API has, as only a hostile cluster signs one."""

import copy
from collections.abc import Iterator
from typing import Any

import pytest

from agents.executor.crossing.policy import ALLOWANCES
from shared.messages import BOUND, REFUSED, Outcome
from tests.agents.executor.test_crossing import asked, rows, target
from tests.agents.executor.world import pod_object

Way = tuple[str | int, ...]
CONFIG = {"name": "x", "items": [{"key": "k", "path": "p"}]}
FILE = {"items": [{"path": "p", "resourceFieldRef": {"containerName": "c", "resource": "limits.cpu"}}]}
TERM = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "web"}}}
NODES = [{"matchExpressions": [{"key": "a", "operator": "DoesNotExist"}]}]
POD = pod_object(
    containers=[
        {
            "name": "c",
            "image": "busybox",
            "env": [
                {"name": "A", "valueFrom": {"configMapKeyRef": {"name": "x", "key": "k"}}},
                {"name": "B", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}},
                {"name": "C", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
            ],
            "envFrom": [{"configMapRef": {"name": "x"}}],
            "ports": [{"containerPort": 80, "hostPort": 80}],
            "resources": {"requests": {"cpu": "1"}},
            "livenessProbe": {"httpGet": {"host": "192.0.2.1", "port": 80}},
            "securityContext": {"capabilities": {"add": ["SYS_TIME"]}, "seccompProfile": {"type": "Unconfined"}},
            "volumeMounts": [{"name": "v", "mountPath": "/v"}],
        }
    ],
    volumes=[
        {"name": "v", "configMap": CONFIG},
        {"name": "w", "secret": {"secretName": "s"}},
        {"name": "d", "downwardAPI": FILE},
        {"name": "p", "projected": {"sources": [{"configMap": CONFIG}, {"serviceAccountToken": {"path": "t"}}]}},
    ],
    tolerations=[{"key": "a", "operator": "Exists"}],
    imagePullSecrets=[{"name": "r"}],
    serviceAccountName="app",
    securityContext={"sysctls": [{"name": "kernel.msgmax", "value": "1"}]},
    affinity={
        "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": NODES}},
        "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [TERM]},
    },
    topologySpreadConstraints=[{"maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", **TERM}],
)
ALL = rows(allow=ALLOWANCES, secrets=("*",), service_accounts=("*",), tolerations=("*",), annotations=("*",))


def ways(part: Any, way: Way) -> Iterator[Way]:
    yield way
    entries = part.items() if isinstance(part, dict) else enumerate(part) if isinstance(part, list) else ()
    for key, inner in entries:
        yield from ways(inner, (*way, key))


def with_part(way: Way, odd: object) -> dict[str, Any]:
    pod = copy.deepcopy(POD)
    holder: Any = pod
    for key in way[:-1]:
        holder = holder[key]
    holder[way[-1]] = odd
    return pod


def answered(pod: dict[str, Any]) -> Outcome:
    world = target(policy=ALL)
    world.api.put("/api/v1/namespaces/default/configmaps/x", {"metadata": {"name": "x"}, "data": {"k": "v"}})
    return asked(world, pod)


def test_the_order_itself_is_carried_out() -> None:
    assert answered(POD).verdict == BOUND


@pytest.mark.parametrize("odd", [5, [5], [{}], {"a": []}, [["a"]]], ids=str)
def test_it_is_carried_out_or_refused_with_words(odd: object) -> None:
    for way in ways(POD["spec"], ("spec",)):
        outcome = answered(with_part(way, odd))
        assert outcome.verdict in {BOUND, REFUSED}, way
        assert (outcome.verdict == BOUND) or outcome.message, way
