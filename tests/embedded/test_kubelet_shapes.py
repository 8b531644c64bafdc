"""Nodes, their addresses and the certificates of a cluster."""

import random
import ssl
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from localfleet.embedded.addresses import MAX_NODES, listen, listen_anywhere, node_address, node_block
from localfleet.embedded.kubelet.shapes import Shape, ShapeError, node_objects, read_shapes
from localfleet.embedded.tls import Authority

TABLE = """sn,cpu_milli,memory_mib,gpu,model
n-0,32000,262144,0,
n-1,96000,393216,8,G2
n-2,8000,1024,1,P100
"""


def test_a_table_of_nodes_is_read_with_its_gpus(tmp_path: Path) -> None:
    path = tmp_path / "nodes.csv"
    path.write_text(TABLE)
    nodes = list(node_objects("c", read_shapes(path), "r", ["a", "b"]))
    assert [node["metadata"]["name"] for node in nodes] == ["n-0", "n-1", "n-2"]
    assert nodes[1]["status"]["allocatable"]["nvidia.com/gpu"] == "8"
    assert nodes[1]["metadata"]["labels"]["nvidia.com/gpu.product"] == "G2"
    assert "nvidia.com/gpu" not in nodes[0]["status"]["capacity"]
    assert [node["metadata"]["labels"]["topology.kubernetes.io/zone"] for node in nodes] == ["a", "b", "a"]


def test_parts_of_a_table_make_the_whole(tmp_path: Path) -> None:
    path = tmp_path / "nodes.csv"
    path.write_text(TABLE)
    parts = [[shape.name for shape in read_shapes(path, part, 2)] for part in (1, 2)]
    assert parts == [["n-0", "n-2"], ["n-1"]]


@pytest.mark.parametrize(
    ("text", "words"),
    [("sn,cpu_milli\nx,1\n", "memory_mib is missing"), (TABLE + "n-3,lots,1,0,\n", r"nodes\.csv:5: node shape: cpu")],
)
def test_a_bad_table_names_the_column_or_the_line(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "nodes.csv"
    path.write_text(text)
    with pytest.raises(ShapeError, match=words):
        read_shapes(path)


def test_a_shape_with_a_zone_stays_there_and_the_others_go_round() -> None:
    shapes = [Shape(count=3, zone="x"), Shape(count=2)]
    zones = [n["metadata"]["labels"]["topology.kubernetes.io/zone"] for n in node_objects("c", shapes, "r", ["a", "b"])]
    assert zones == ["x", "x", "x", "a", "b"]


@given(st.integers(0, MAX_NODES - 1), st.integers(0, MAX_NODES - 1), st.text(min_size=1))
def test_every_node_has_a_loopback_address_of_its_own(first: int, second: int, cluster: str) -> None:
    block = node_block(cluster)
    assert 1 <= block <= 254
    parts = [int(part) for part in node_address(block, first).split(".")]
    assert parts[0] == 127
    assert all(1 <= part <= 254 for part in parts)
    assert (node_address(block, first) == node_address(block, second)) is (first == second)


def test_a_port_in_use_is_passed_over() -> None:
    port, taken = listen_anywhere(["127.99.1.1"], random.Random(5))
    other, more = listen_anywhere(["127.99.1.1"], random.Random(5))
    try:
        assert other != port
        with pytest.raises(OSError, match="in use"):
            listen(["127.99.1.2", "127.99.1.1"], port)
        (again,) = listen(["127.99.1.2"], port)  # the failed attempt has left nothing open
        again.close()
    finally:
        for listener in (*taken, *more):
            listener.close()


def test_an_authority_is_the_same_after_a_restart(tmp_path: Path) -> None:
    first, second = Authority(tmp_path), Authority(tmp_path)
    assert first.certificate == second.certificate
    first.api_context()
    leaf = (tmp_path / "api.pem").read_bytes()
    second.api_context()
    assert (tmp_path / "api.pem").read_bytes() == leaf
    assert isinstance(second.kubelet_context(["127.7.1.1"]), ssl.SSLContext)
    assert all(path.stat().st_mode & 0o077 == 0 for path in tmp_path.iterdir())
