import pytest

from tests.builders import PodBuilder, fleet, node, pod
from tests.plugins.asking import make, reasons

CORDON = "node.kubernetes.io/unschedulable"
REFUSED = {"cordoned": "node(s) were unschedulable"}


@pytest.mark.parametrize(
    ("asking", "want"),
    [
        (pod(), REFUSED),
        (pod().tolerates(CORDON, operator="Exists"), {}),
        (pod().tolerates(CORDON, operator="Exists", effect="NoSchedule"), {}),
        (pod().tolerates(CORDON, operator="Exists", effect="NoExecute"), REFUSED),
        (pod().tolerates(operator="Exists"), {}),
        (pod().tolerates("other", operator="Exists"), REFUSED),
    ],
    ids=["plain", "tolerates cordons", "by effect", "other effect", "tolerates everything", "other key"],
)
def test_node_unschedulable_keeps_pods_off_cordoned_nodes(asking: PodBuilder, want: dict[str, str]) -> None:
    state = fleet(a=[node("open"), node("cordoned").cordoned()])
    assert reasons(make("NodeUnschedulable"), asking, state) == want


def test_a_blanket_toleration_does_not_cross_to_cordoned_nodes_of_another_cluster() -> None:
    state = fleet(a=[node("home").cordoned()], b=[node("abroad").cordoned(), node("open")])
    state.set_cluster("b", ready=True, synced=True, opens=())
    assert set(reasons(make("NodeUnschedulable"), pod().tolerates(operator="Exists"), state)) == {"b/abroad"}
    assert reasons(make("NodeUnschedulable"), pod().tolerates(CORDON, operator="Exists"), state) == {}
