import pytest

from shared.model.pod import Toleration
from tests.builders import fleet, node, pod
from tests.plugins.asking import make, reasons


def test_node_ready_refuses_a_node_that_is_not_ready() -> None:
    state = fleet(a=[node("up"), node("down").ready(False)])
    assert reasons(make("NodeReady"), pod(), state) == {"down": "node(s) were not ready"}


@pytest.mark.parametrize(
    ("tolerations", "refused"),
    [
        ([Toleration(operator="Exists")], False),
        (
            [
                Toleration("node.kubernetes.io/not-ready", "Exists"),
                Toleration("node.kubernetes.io/unreachable", "Exists"),
            ],
            False,
        ),
        ([Toleration("node.kubernetes.io/not-ready", "Exists")], True),
        ([Toleration(operator="Exists", effect="NoExecute")], True),
    ],
    ids=["everything", "both taints", "one of them", "another effect"],
)
def test_node_ready_lets_pods_pass_that_tolerate_such_nodes(tolerations: list[Toleration], refused: bool) -> None:
    state = fleet(a=[node("up"), node("down").ready(False)])
    asking = pod().set(tolerations=tuple(tolerations))
    assert bool(reasons(make("NodeReady"), asking, state)) is refused


@pytest.mark.parametrize(
    ("ready", "synced"), [(False, True), (True, False)], ids=["its agent is silent", "it was never listed"]
)
def test_node_ready_refuses_all_nodes_of_a_cluster_that_is_not_ready(ready: bool, synced: bool) -> None:
    state = fleet(a=["n1"], b=[node("n1"), node("n2").ready(False)])
    state.set_cluster("b", ready=ready, synced=synced)
    why = "node(s) were in a cluster that is not ready"
    assert reasons(make("NodeReady"), pod(), state) == {"b/n1": why, "b/n2": why}
