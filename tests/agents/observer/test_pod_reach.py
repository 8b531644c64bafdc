"""What tries of another cluster's pods say."""

import pytest

from agents.observer.pod_reach import PodWay, is_private, node_with
from agents.observer.seen import NodeTarget
from shared.messages import PodReach
from shared.model.names import REACHED, UNREACHED, UNTRIED
from shared.model.probe_address import read_address

AT = "10.2.3.4:7491"
GONE = "connection timed out"


@pytest.mark.parametrize(
    ("tries", "state", "for_s"),
    [
        ([], UNTRIED, 4.0),
        ([GONE, GONE], UNTRIED, 4.0),
        ([GONE, GONE, GONE], UNREACHED, 1.0),
        ([""], REACHED, 3.0),
        (["", GONE, GONE], REACHED, 3.0),  # fewer than three lost say nothing
        ([GONE, GONE, GONE, ""], REACHED, 0.0),
        (["", GONE, GONE, GONE], UNREACHED, 0.0),
    ],
)
def test_a_way_is_open_from_the_first_answer_and_closed_after_three_tries_in_vain(
    tries: list[str], state: str, for_s: float
) -> None:
    way = PodWay(AT, 0.0)
    for at, problem in enumerate(tries, start=1):
        way.took(problem, float(at))
    told = way.reading("west", 4.0)
    assert (told.cluster, told.address, told.state, told.for_s) == ("west", AT, state, for_s)
    assert (told.tries, told.failed) == (min(3, len(tries)), sum(map(bool, tries[-3:])))


def test_an_address_that_is_not_tried_says_why_and_forgets_the_earlier_tries() -> None:
    way = PodWay(AT, 0.0)
    way.took("", 1.0)
    way.not_tried("that is an address of node n1 of this cluster, too", 2.0, closed=True)
    why = "that is an address of node n1 of this cluster, too"
    assert way.reading("west", 5.0) == PodReach("west", UNREACHED, AT, 3.0, 0, 0, why)
    way.took("", 6.0)
    assert way.reading("west", 6.0) == PodReach("west", REACHED, AT, 0.0, 1, 0, "")


@pytest.mark.parametrize(
    ("ip", "private"),
    [
        ("10.1.2.3", True),
        ("172.31.0.1", True),
        ("172.32.0.1", False),
        ("192.168.1.1", True),
        ("100.64.0.9", True),
        ("fd12::1", True),
        ("203.0.113.9", False),
        ("127.0.0.1", False),
        ("169.254.169.254", False),
        ("0.0.0.0", False),
        ("224.0.0.1", False),
        ("::1", False),
        ("fe80::1", False),
        ("2001:db8::1", False),
    ],
)
def test_a_network_that_anybody_may_use_is_told_from_all_others(ip: str, private: bool) -> None:
    text = f"[{ip}]:1" if ":" in ip else f"{ip}:1"
    assert is_private(read_address(text).ip) == private


def test_a_node_is_found_by_any_of_its_addresses() -> None:
    nodes = [NodeTarget("n1", addresses=("n1", "10.0.0.1")), NodeTarget("n2", addresses=("10.0.0.2", "fd00::2"))]
    assert [node_with(one, nodes) for one in ("10.0.0.1", "fd00::2", "10.0.0.3")] == ["n1", "n2", ""]
