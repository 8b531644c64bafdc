"""Whose pods an agent tries to reach, and whom it answers as a pod."""

import asyncio
import socket
from collections.abc import Callable
from contextlib import suppress

import pytest
from pydantic import ValidationError

from agents.observer.seen import NodeTarget
from agents.runtime import pod_probing
from agents.runtime.link_settings import LinkSettings
from agents.runtime.pod_probing import PodProbes
from agents.telemetry.probes import Answering, reach
from shared.messages import Peer, PodReach
from shared.model.names import OWN_NETWORK, REACHED, UNREACHED, UNTRIED
from shared.model.probe_address import ProbeAddress, read_address
from tests.system.ray_fleet import free_ports

NODES = (NodeTarget("n1", addresses=("n1", "10.0.0.1")),)


def peer(at: str, *, cluster: str = "west", network: str | None = "flat", uid: str = "uid-west") -> Peer:
    return Peer(cluster, ready=True, uid=uid, pod_address=at, network=network)


def an_agent(ip: str, port: int, uid: str = "uid-east", nodes: tuple[NodeTarget, ...] = NODES) -> PodProbes:
    loopback = tuple(f"127.0.0.{last}/32:{port}" for last in (1, 2))
    settings = LinkSettings(pod_address=ip, pod_port=port, allow=loopback)
    return PodProbes(settings, lambda: uid, lambda: nodes)


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pod_probing, "SELDOMER", 0.001)
    monkeypatch.setattr(pod_probing, "FIRST_S", 0.0)


async def until(holds: Callable[[], object]) -> None:
    async with asyncio.timeout(20.0):
        while not holds():  # noqa: ASYNC110 - probes tell nobody that they are done
            await asyncio.sleep(0.005)


async def end(*tasks: asyncio.Task[None]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def states(probes: PodProbes) -> list[tuple[str, str]]:
    return [(one.cluster, one.state) for one in probes.readings()]


async def test_agents_of_one_network_reach_each_other_and_one_that_leaves_is_not_reached_any_more() -> None:
    (port,) = free_ports(1)
    east, west = an_agent("127.0.0.1", port), an_agent("127.0.0.2", port, "uid-west")
    tasks = [asyncio.create_task(one.run()) for one in (east, west)]
    assert (east.address, west.address) == ("", "")
    east.follow("flat", [peer("", uid="uid-west")])
    west.follow("flat", [peer("", cluster="east", uid="uid-east")])
    await until(lambda: east.address and west.address)
    assert (east.address, west.address) == (f"127.0.0.1:{port}", f"127.0.0.2:{port}")
    east.follow("flat", [peer(west.address)])
    west.follow("flat", [peer(east.address, cluster="east", uid="uid-east")])
    await until(lambda: states(east) == [("west", REACHED)] and states(west) == [("east", REACHED)])
    at = west.address
    west.follow(OWN_NETWORK, [peer(east.address, cluster="east", uid="uid-east")])
    await until(lambda: not west.address)
    assert west.readings() == ()
    await until(lambda: states(east) == [("west", UNREACHED)])
    (told,) = east.readings()
    assert told == PodReach("west", UNREACHED, at, told.for_s, 3, 3, "connection refused")
    await end(*tasks)
    assert not [one for one in asyncio.all_tasks() if one.get_name().startswith("reach ")]


@pytest.mark.parametrize(
    ("network", "one"),
    [
        (OWN_NETWORK, peer("10.2.3.4:7491", network=OWN_NETWORK)),
        ("flat", peer("10.2.3.4:7491", network="hall")),
        ("flat", peer("10.2.3.4:7491", network=None)),
        ("flat", peer("10.2.3.4:7491", uid="")),
        ("flat", peer("")),
        ("flat", peer("kubernetes.default:7491")),
    ],
)
async def test_nobody_else_is_tried(network: str, one: Peer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pod_probing, "reach", never)
    probes = PodProbes(LinkSettings(pod_address="10.1.2.3"), lambda: "uid-east", lambda: NODES)
    probes.follow(network, [one])
    await asyncio.sleep(0)
    assert probes.readings() == ()


@pytest.mark.parametrize(
    ("at", "state", "why"),
    [
        ("10.1.2.3:7491", UNREACHED, "that is the address of this cluster's agent, too"),
        ("10.0.0.1:7491", UNREACHED, "that is an address of node n1 of this cluster, too"),
        ("10.2.3.4:6443", UNTRIED, "it answers at port 6443, and links.pod_port is 7491"),
        *(
            (f"{ip}:7491", UNTRIED, "no address of a private network")
            for ip in ("127.0.0.1", "169.254.169.254", "0.0.0.0", "224.0.0.1", "203.0.113.9", "[::1]", "[fe80::1]")
        ),
        ("100.100.100.200:7491", UNTRIED, "no address of a private network"),  # metadata of a cloud
    ],
)
async def test_what_a_peer_claims_chooses_no_address_that_is_not_a_pods(
    at: str, state: str, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pod_probing, "reach", never)
    probes = PodProbes(LinkSettings(pod_address="10.1.2.3"), lambda: "uid-east", lambda: NODES)
    probes.follow("flat", [peer(at)])
    await until(lambda: probes.readings()[0].problem)
    (told,) = probes.readings()
    assert (told.state, told.tries, told.address) == (state, 0, at)
    assert told.problem.startswith(why)
    probes.follow("flat", [])


async def test_a_peer_that_says_another_address_each_time_has_no_more_of_them_tried(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tried: list[ProbeAddress] = []

    async def count(where: ProbeAddress, uid: str) -> str:
        tried.append(where)
        return "connection refused"

    monkeypatch.setattr(pod_probing, "reach", count)
    monkeypatch.setattr(pod_probing, "SELDOMER", 10.0)
    probes = PodProbes(LinkSettings(pod_address="10.1.2.3"), lambda: "uid-east", lambda: NODES)
    for last in range(20):
        probes.follow("flat", [peer(f"10.2.3.{last}:7491"), peer("10.3.3.3:7491", cluster="north")])
        await asyncio.sleep(0.002)
        probes.follow("flat", [])
    assert sorted(map(str, tried)) == ["10.2.3.0:7491", "10.3.3.3:7491"]


async def never(where: ProbeAddress, uid: str) -> str:
    raise AssertionError(where)


async def test_an_agent_that_is_no_pod_or_has_no_port_neither_answers_nor_tries() -> None:
    for settings in (LinkSettings(), LinkSettings(pod_address="127.0.0.1", pod_port=0)):
        probes = PodProbes(settings, lambda: "uid-east", lambda: NODES)
        task = asyncio.create_task(probes.run())
        probes.follow("flat", [peer("10.2.3.4:7491")])
        await asyncio.sleep(0.01)
        assert (probes.address, probes.readings()) == ("", ())
        await end(task)


async def test_an_agent_in_the_network_of_its_node_says_no_address_of_a_pod() -> None:
    (port,) = free_ports(1)
    nodes: list[NodeTarget] = []
    probes = PodProbes(LinkSettings(pod_address="127.0.0.1", pod_port=port), lambda: "uid-east", lambda: nodes)
    task = asyncio.create_task(probes.run())
    probes.follow("flat", [peer("10.2.3.4:6443")])
    await until(lambda: probes.address)
    nodes.append(NodeTarget("n1", addresses=("127.0.0.1",)))
    assert probes.address == ""
    await end(task)


async def test_an_address_of_which_nothing_comes_back_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    async def lost(*_: object) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(asyncio, "open_connection", lost)
    assert await reach(read_address("10.2.3.4:7491"), "uid-west", 0.01) == "connection timed out"


@pytest.mark.parametrize(
    ("answers", "why"),
    [
        ("the agent of another cluster", "something else answers there"),
        ("nobody who speaks", "it was connected, and nothing came"),
        ("nobody", "connection refused"),
        ("its agent", ""),
    ],
)
async def test_only_the_agent_of_that_cluster_is_taken_for_it(answers: str, why: str) -> None:
    (port,) = free_ports(1)
    at = read_address(f"127.0.0.1:{port}")
    answering = Answering(lambda: "uid-west" if answers == "its agent" else "uid-north")
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if answers == "nobody who speaks":
        listener.bind(("127.0.0.1", port))
        listener.listen()
    elif answers != "nobody":
        await answering.start(at)
    found = await reach(at, "uid-west", 0.2 if "speaks" in answers else 5.0)
    assert found == why
    await answering.close()
    with suppress(OSError):
        listener.close()


@pytest.mark.parametrize("address", ["0.0.0.0", "::", "224.0.0.1", "fe80::1%eth0", "localhost", "10.0.0.1:7491"])
def test_what_no_other_pod_can_reach_it_at_is_refused(address: str) -> None:
    with pytest.raises(ValidationError, match="pod_address"):
        LinkSettings(pod_address=address)
