import pytest

from shared.model.node import BIND_MOUNT_OPTIONS, RESTART_ALL
from tests.builders import fleet, node, pod
from tests.plugins.asking import make, reasons

A = RESTART_ALL
B = BIND_MOUNT_OPTIONS
REFUSED = "node(s) didn't match Pod's required features"


@pytest.mark.parametrize(
    ("needs", "refused"),
    [((), ""), ((A,), "none b"), ((A, B), "none a b"), (("X",), "none a b both x")],
    ids=["nothing", "one", "two", "what is not known here"],
)
def test_a_pod_goes_where_all_that_it_needs_is_declared(needs: tuple[str, ...], refused: str) -> None:
    declared = {"none": (), "a": (A,), "b": (B,), "both": (B, A), "x": (A, B, "X")}
    state = fleet(c=[node(name).declares(*features) for name, features in declared.items()])
    want = dict.fromkeys(refused.split(), REFUSED)
    assert reasons(make("NodeDeclaredFeatures"), pod().set(features=needs), state) == want


@pytest.mark.parametrize("changed", [1, 40], ids=["alone", "with many others"])
def test_nodes_that_declare_otherwise_are_judged_anew(changed: int) -> None:
    names = [f"n{number}" for number in range(41)]
    state = fleet(c=[node(name) for name in names])
    asking = pod().set(features=(A,))
    assert set(reasons(make("NodeDeclaredFeatures"), asking, state)) == set(names)
    state.put_nodes("c", [node(name).declares(A).build() for name in names[:changed]])
    assert set(reasons(make("NodeDeclaredFeatures"), asking, state)) == set(names[changed:])


def test_nodes_that_come_later_declare_what_they_do() -> None:
    state = fleet(c=[node("old").declares(A)])
    asking = pod().set(features=(A,))
    assert reasons(make("NodeDeclaredFeatures"), asking, state) == {}
    state.remove_node("c", "old")
    state.put_node("c", node("new").build())
    assert set(reasons(make("NodeDeclaredFeatures"), asking, state)) == {"new"}
    state.put_nodes("c", [node("newer").declares(A).build(), node("newest").build()])
    assert set(reasons(make("NodeDeclaredFeatures"), asking, state)) == {"new", "newest"}
