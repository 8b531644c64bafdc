import pytest

from tests.builders import PodBuilder, fleet, pod
from tests.plugins.asking import make, reasons

WHY = "node(s) didn't match the requested node name"


@pytest.mark.parametrize(
    ("asking", "refused"),
    [(pod(), []), (pod().set(node="n1"), ["a/n2"]), (pod().set(node="else"), ["a/n1", "a/n2", "b/n1"])],
    ids=["any", "by name, in any cluster", "nowhere"],
)
def test_node_name_refuses_nodes_of_other_names(asking: PodBuilder, refused: list[str]) -> None:
    assert reasons(make("NodeName"), asking, fleet(a=["n1", "n2"], b=["n1"])) == dict.fromkeys(refused, WHY)
