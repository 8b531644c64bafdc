import pytest

from tests.builders import PodBuilder, fleet, pod, put
from tests.plugins.asking import make, reasons

WHY = {"n1": "node(s) didn't have free ports for the requested pod ports"}


@pytest.mark.parametrize(
    ("taken", "asked", "want"),
    [
        (pod("t"), pod().port(80), {}),
        (pod("t").port(80), pod(), {}),
        (pod("t").port(80), pod().port(80), WHY),
        (pod("t").port(80), pod().port(81), {}),
        (pod("t").port(80), pod().port(80, "UDP"), {}),
        (pod("t").port(80, ip="10.0.0.1"), pod().port(80, ip="10.0.0.2"), {}),
        (pod("t").port(80, ip="10.0.0.1"), pod().port(80, ip="10.0.0.1"), WHY),
        (pod("t").port(80, ip="10.0.0.1"), pod().port(80), WHY),
        (pod("t").port(80), pod().port(80, ip="10.0.0.1"), WHY),
        (pod("t").port(80), pod().port(81).port(80), WHY),
    ],
    ids=[
        "nothing taken", "nothing asked", "same port", "other port", "other protocol", "other address", "same address",
        "all addresses asked", "all addresses taken", "one of two",
    ],
)  # fmt: skip
def test_node_ports_refuses_nodes_where_the_port_is_taken(
    taken: PodBuilder, asked: PodBuilder, want: dict[str, str]
) -> None:
    state = fleet(a=["n1", "n2"])
    put(state, taken, "a", "n1")
    assert reasons(make("NodePorts"), asked, state) == want


def test_node_ports_lets_go_of_the_ports_of_a_pod_that_left() -> None:
    state = fleet(a=["n1"])
    gone = put(state, pod("t").port(80), "a", "n1")
    state.remove(("a", gone.uid))
    assert reasons(make("NodePorts"), pod().port(80), state) == {}
