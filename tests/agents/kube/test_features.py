"""Which features pods need and nodes declare, as k8s.io/component-helpers/nodedeclaredfeatures of 1.37 infers them."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.kube.nodes import node_seen
from shared.model.node import BIND_MOUNT_OPTIONS, RESTART_ALL, USER_NAMESPACES
from tests.agents.kube.objects import node_object, pod_object, raw, read_pod
from tests.agents.kube.test_convert import JSON

RULES = {"restartPolicyRules": [{"action": "Restart"}, {"action": "RestartAllContainers", "exitCodes": {}}]}
MOUNT = {"volumeMounts": [{"name": "v", "mountPath": "/v"}, {"name": "w", "bindMountOptions": ["noexec"]}]}


@pytest.mark.parametrize(
    ("spec", "needs"),
    [
        ({"containers": [{}, RULES]}, (RESTART_ALL,)),
        ({"initContainers": [RULES]}, (RESTART_ALL,)),
        ({"containers": [{"restartPolicyRules": [{"action": "Restart"}], "args": ["RestartAllContainers"]}]}, ()),
        ({"containers": [MOUNT]}, (BIND_MOUNT_OPTIONS,)),
        ({"initContainers": [MOUNT]}, (BIND_MOUNT_OPTIONS,)),
        ({"ephemeralContainers": [MOUNT]}, (BIND_MOUNT_OPTIONS,)),
        ({"containers": [{"volumeMounts": [{"name": "v", "bindMountOptions": []}]}]}, ()),
        ({"hostNetwork": True, "hostUsers": False}, (USER_NAMESPACES,)),
        ({"hostNetwork": True, "hostUsers": True}, ()),
        ({"hostNetwork": True}, ()),
        ({"hostUsers": False}, ()),
        (
            {"hostNetwork": True, "hostUsers": False, "containers": [RULES, MOUNT]},
            (RESTART_ALL, USER_NAMESPACES, BIND_MOUNT_OPTIONS),
        ),
    ],
)
def test_what_a_pod_needs_is_inferred_from_its_spec(spec: dict[str, Any], needs: tuple[str, ...]) -> None:
    read = read_pod(pod_object(**spec))
    assert (read.features, read.problems) == (needs, ())


def test_what_cannot_be_read_is_a_problem_and_not_taken_for_nothing() -> None:
    (problem,) = read_pod(pod_object(hostUsers="no")).problems
    assert problem.startswith("the features that its node has to declare cannot be read: ")


def test_of_what_a_node_declares_that_is_kept_which_pods_may_need() -> None:
    told = [BIND_MOUNT_OPTIONS, "ExtendWebSocketsToKubelet", RESTART_ALL]
    seen = node_seen(raw(node_object(status={"declaredFeatures": told})))
    assert seen is not None
    assert seen.node.features == (RESTART_ALL, BIND_MOUNT_OPTIONS)


@given(st.dictionaries(st.sampled_from(("hostUsers", "hostNetwork", "containers", "ephemeralContainers")), JSON))
def test_nothing_raises(spec: dict[str, Any]) -> None:
    read_pod(pod_object(**spec))
