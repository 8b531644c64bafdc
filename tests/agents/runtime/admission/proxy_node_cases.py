"""Pods and DaemonSets, and what keeps them off proxy nodes: by the webhook, and by the policy on a real server."""

from typing import Any

import pytest

from agents.runtime.admission.proxy_nodes import AWAY
from shared.model import names

Object = dict[str, Any]
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
ALL: Object = {"tolerations": [{"operator": "Exists"}]}
LINUX = {"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]}
ONE = {"key": "metadata.name", "operator": "In", "values": ["n-1"]}
PREFERRED: Object = {
    "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": {"matchExpressions": [LINUX]}}]
}
OWN_TAINT = {"key": names.PROXY_TAINT, "operator": "Equal", "value": "west", "effect": "NoSchedule"}
AT_ONCE: Object = {"operator": "Exists", "effect": "NoExecute"}


def affinity_of(*terms: Object) -> Object:
    """To nodes of one of the terms."""
    return {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": list(terms)}}}


def all_of(affinity: Object | None) -> Object:
    """A pod's spec that tolerates everything."""
    return {**ALL, "affinity": affinity}


AWAY_ONLY = affinity_of({"matchExpressions": [AWAY]})
UNTOUCHED = "untouched"

# A pod's spec, and its affinity afterwards.
CASES = [
    pytest.param(ALL, AWAY_ONLY, id="none"),
    pytest.param(all_of(None), AWAY_ONLY, id="a null"),
    pytest.param(all_of({}), AWAY_ONLY, id="an empty one"),
    pytest.param(all_of({"nodeAffinity": {}}), AWAY_ONLY, id="an empty one to nodes"),
    pytest.param(
        all_of({"nodeAffinity": PREFERRED}),
        {"nodeAffinity": {**PREFERRED, **AWAY_ONLY["nodeAffinity"]}},
        id="a preference stays",
    ),
    pytest.param(
        all_of(affinity_of({"matchExpressions": [LINUX]}, {"matchFields": [ONE]})),
        affinity_of({"matchExpressions": [LINUX, AWAY]}, {"matchExpressions": [AWAY], "matchFields": [ONE]}),
        id="each of the terms",
    ),
    pytest.param(
        all_of(affinity_of({"matchExpressions": [LINUX], "matchFields": [ONE]}, {})),
        affinity_of({"matchExpressions": [LINUX, AWAY], "matchFields": [ONE]}, {}),
        id="but one that matches nothing",
    ),
    pytest.param(
        all_of(affinity_of({"matchExpressions": [AWAY, LINUX]}, {"matchFields": [ONE]})),
        affinity_of({"matchExpressions": [AWAY, LINUX]}, {"matchExpressions": [AWAY], "matchFields": [ONE]}),
        id="once",
    ),
    pytest.param({"tolerations": [OWN_TAINT]}, AWAY_ONLY, id="tolerates one cluster"),
    pytest.param({"tolerations": [AT_ONCE, {"operator": "Exists", "effect": "NoSchedule"}]}, AWAY_ONLY, id="by effect"),
    pytest.param({"tolerations": [AT_ONCE]}, UNTOUCHED, id="tolerates another effect"),
    pytest.param({"tolerations": [{"key": "gpu", "operator": "Exists"}]}, UNTOUCHED, id="tolerates another taint"),
    pytest.param({}, UNTOUCHED, id="tolerates nothing"),
]
DAEMON_OWNER = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "agent", "uid": "u", "controller": True}

# Metadata and spec of pods that tolerate everything and are not for a scheduler of others to place.
NOT_PLACED_BY_OTHERS = [
    pytest.param({}, {"nodeName": "n-1"}, id="has a node"),
    pytest.param({}, {"schedulerName": names.SCHEDULER_NAME}, id="is ours"),
    pytest.param({}, {"schedulerName": f"{names.SCHEDULER_NAME}-batch"}, id="is a profile's"),
    pytest.param({}, {"schedulerName": names.DELEGATE_SCHEDULER}, id="is of another cluster"),
    pytest.param({"ownerReferences": [DAEMON_OWNER]}, {}, id="is of a DaemonSet"),
]


def daemon_set(spec: Object, name: str = "probe") -> Object:
    """One whose pods have this spec."""
    labels = {"app": name}
    main = {"name": "main", "image": "example.invalid/app:1"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [main], **spec}}
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"selector": {"matchLabels": labels}, "template": template},
    }
