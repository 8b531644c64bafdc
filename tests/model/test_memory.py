"""What a message takes in memory is told from its bytes, so that nobody fills the dispatcher by few bytes."""

import sys
from typing import Any

import msgspec
import pytest

from dispatcher.model.messages import Changes, encode
from dispatcher.model.messages.memory import memory_of, memory_of_record
from dispatcher.model.node import Node
from dispatcher.model.pod import Pod
from tests.builders import node, pod

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


def test_nodes_and_pods_of_a_large_cluster_have_their_share_by_far() -> None:
    labels = {f"example.com/label-{at}": f"value-{at}" for at in range(12)}
    one = pod("a-usual-name-7d9c5b8f4-x2x4z").labels(**labels).build()
    assert 150_000 * memory_of_record(one) + 5_000 * memory_of_record(node("n").labels(**labels).build()) < 2**30
