"""What a message takes in memory is told from its bytes, so that nobody fills the dispatcher by few bytes."""

import sys
from typing import Any

import msgspec
import pytest

from shared.messages import Changes, encode
from shared.messages.memory import memory_of, memory_of_record
from shared.model.bounds import REPORT_MIB
from shared.model.node import Node
from shared.model.pod import Pod
from tests.builders import node, pod, selector

NONE_SHARED = 4096  # of a report: names, the message itself


def taken(one: Any) -> int:
    """Bytes of an object and of all that it names, but for what Python keeps once for all."""
    if one is None or isinstance(one, bool) or one in ("", ()) or (isinstance(one, int) and -5 <= one <= 256):
        return 0
    if isinstance(one, msgspec.Struct):
        return sys.getsizeof(one) + sum(taken(getattr(one, name)) for name in one.__struct_fields__)
    if isinstance(one, dict):
        return sys.getsizeof(one) + sum(taken(part) for pair in one.items() for part in pair)
    if isinstance(one, tuple | list):
        return sys.getsizeof(one) + sum(map(taken, one))
    return sys.getsizeof(one)


def report(*nodes: Node, pods: tuple[Pod, ...] = ()) -> Changes:
    return Changes("east", "uid", "one", 0, 1, full=True, nodes=nodes, pods=pods)


HEAVY = {
    "many short labels": report(Node("n", "u", {f"{at:x}": "v" for at in range(2000)})),
    "long texts": report(Node("n", "u", {"k": "v" * 100_000})),
    "many small pods": report(pods=tuple(msgspec.structs.replace(pod("p").build(), uid=str(at)) for at in range(200))),
    "many small nodes": report(*[Node(f"{at}", f"{at}") for at in range(200)]),
}


@pytest.mark.parametrize("what", HEAVY)
def test_a_report_takes_about_as_much_as_is_told_of_it(what: str) -> None:
    data = encode(HEAVY[what])
    real = taken(msgspec.msgpack.decode(data, type=Changes))
    assert real / 2 < memory_of(data) < real * 2 + NONE_SHARED


def test_a_message_is_weighed_whole_however_long_it_is() -> None:
    one = report(Node("n", "u", {"a": "b" * (3 * 2**20), "c": "d"}))
    data = encode(one)
    marked = sum(byte >= 0x80 for byte in data)
    assert 3 * 2**20 < memory_of(data) - len(data) + 3 * 2**20 <= 3 * 2**20 + 56 * marked


@pytest.mark.parametrize("character", ["é", "ж", "語", "🐢"])
def test_texts_of_any_script_weigh_about_what_they_take(character: str) -> None:
    plain, other = ({"global-dispatcher.io/x-note": one * 10_000} for one in ("a", character))
    weights = [memory_of_record(pod("p").set(annotations=told).build()) for told in (plain, other)]
    assert weights[1] - weights[0] <= 10_000 * (len(character.encode()) - 1) + 56


def test_the_largest_cluster_has_its_share_whose_pods_have_all_that_charts_of_applications_give_them() -> None:
    labels = {f"example.com/label-{at}": f"value-{at}" for at in range(12)}
    app, uid = selector(app="a-usual-name"), "0b6d1c4e-5a0f-4a4c-9a3f-5f1d2d8a1c11"
    one = pod("a-usual-name-7d9c5b8f4-x2x4z").uid(uid).labels(**labels).cpu(1).memory("1Gi")
    one = one.away("host", app, weight=100).away("zone", app)
    one = one.spread("host", selector=app).spread("zone", selector=app)
    one = one.tolerates("node.kubernetes.io/not-ready", effect="NoExecute")
    one = one.tolerates("node.kubernetes.io/unreachable", effect="NoExecute")
    one = one.set(images=("registry.example.com/app:1",) * 3, expected=(1000, 2**30), created=1.75e9, started=1.75e9)
    of_node = node("n").labels(**labels).images({f"registry.example.com/app-{at}:1": 2**28 + at for at in range(100)})
    taken = 150_000 * memory_of_record(one.on("n").build()) + 5_000 * memory_of_record(of_node.build())
    assert taken < 3 / 4 * REPORT_MIB * 2**20
