"""What one agent may put into a message is bounded, and one that puts more is told what, without harm to others."""

import tracemalloc
from collections.abc import Callable

import msgspec
import pytest

from shared.messages import Changes, Hello, Outcome, OutcomeBatch, PeersAck, Telemetry, WireError, decode
from shared.messages.peer_links import LinkReading
from shared.messages.telemetry import UnreadSignal
from shared.model.bounds import (
    MAX_AMOUNT,
    MAX_ANSWER,
    MAX_BYTES,
    MAX_NAMES,
    MAX_NODES,
    MAX_ROWS,
    MAX_STATUS,
    MAX_USES,
)
from shared.model.node import Node, Reading
from shared.model.objects import (
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    PodDisruptionBudget,
)
from shared.model.owner_use import OwnerUse
from shared.model.pod import Pod, Record

USE = OwnerUse("default", "Deployment/web", 1.0, 1.0, 1.0)


def changes(**given: object) -> Changes:
    return Changes("east", "uid", "one", 0, 1, full=True, **given)  # type: ignore[arg-type]  # as an agent may


@pytest.mark.parametrize(
    ("message", "field"),
    [
        (changes(nodes=(Node("n", allocatable={"x" * 1000: 1}),)), "nodes"),
        (changes(pods=(Pod("u", "default", "p", status=bytes(MAX_STATUS + 1)),)), "pods"),
        (changes(uses=(USE,) * (MAX_USES + 1)), "uses"),
        (changes(readings=(Reading("n"),) * (MAX_NODES + 1)), "readings"),
        (changes(nodes_gone=("n",) * (MAX_NODES + 1)), "nodes_gone"),
        (changes(keys=("k",) * (MAX_NAMES + 1)), "keys"),
        (changes(problem="x" * 20_000), "problem"),
        (changes(readings=(Reading("n", more={str(at): (0.5, 1.0) for at in range(MAX_NAMES + 1)}),)), "readings"),
        (Hello("east", "uid", "i" * 1000), "incarnation"),
        (OutcomeBatch("east", (Outcome("1", "u", 1, "done"),) * (MAX_ROWS + 1)), "outcomes"),
        (OutcomeBatch("east", (), leader="l" * 1000), "leader"),
        (PeersAck("east", links=(LinkReading("west", 1.0),) * (MAX_ROWS + 1)), "links"),
        (Telemetry("east", unread=(UnreadSignal("cpu", 1),) * (MAX_NAMES + 1)), "unread"),
    ],
    ids=lambda one: one if isinstance(one, str) else type(one).__name__,
)
def test_more_than_the_bound_is_refused_by_the_name_of_the_field(message: Record, field: str) -> None:
    kind = type(message)
    with pytest.raises(WireError, match=rf"not a {kind.__name__}: .* of length <= \d+ - at (`key` in )?`\$\.{field}\b"):
        decode(kind, msgspec.msgpack.encode(message))


@pytest.mark.parametrize("amount", [-1, MAX_AMOUNT + 1, 2**64 - 1])
@pytest.mark.parametrize(
    "message",
    [
        lambda amount: changes(pods=(Pod("u", "default", "p", requests={"cpu": amount}),)),
        lambda amount: changes(pods=(Pod("u", "default", "p", expected=(amount, 0)),)),
        lambda amount: changes(nodes=(Node("n", allocatable={"cpu": amount}),)),
        lambda amount: changes(objects=(PersistentVolume("v", capacity=amount),)),
        lambda amount: changes(objects=(PersistentVolumeClaim("default", "c", request=amount),)),
        lambda amount: changes(objects=(CSIStorageCapacity("default", "c", capacity=amount),)),
        lambda amount: changes(objects=(CSIStorageCapacity("default", "c", maximum=amount),)),
        lambda amount: OutcomeBatch("east", (Outcome("1", "u", 1, "refused", requests={"cpu": amount}),)),
    ],
    ids=[
        *("a pod's request", "what a pod is expected to use", "what a node offers"),
        *("a volume", "a claim", "what a storage pool has", "its largest volume", "a delegate's true size"),
    ],
)
def test_what_is_booked_with_others_is_no_less_than_nothing_and_no_more_than_fits(
    message: Callable[[int], Record], amount: int
) -> None:
    kind = type(message(0))
    with pytest.raises(WireError, match=r"Expected `int` [<>]="):
        decode(kind, msgspec.msgpack.encode(message(amount)))
    for honest in (0, MAX_AMOUNT):
        assert decode(kind, msgspec.msgpack.encode(message(honest))) == message(honest)


@pytest.mark.parametrize("number", [-(2**31) - 1, 2**31, 2**64 - 1])
@pytest.mark.parametrize(
    "message",
    [
        lambda number: changes(pods=(Pod("u", "default", "p", priority=number),)),
        lambda number: changes(objects=(PodDisruptionBudget("default", "b", allowed=number),)),
        lambda number: changes(objects=(PodDisruptionBudget("default", "b", desired=number),)),
        lambda number: changes(objects=(PodDisruptionBudget("default", "b", keep=number),)),
        lambda number: changes(objects=(CSINode("n", limits={"driver": number}),)),
    ],
    ids=["priority", "allowed disruptions", "desired healthy", "least available", "volumes that a node can attach"],
)
def test_priorities_and_budgets_have_numbers_that_kubernetes_has(message: Callable[[int], Record], number: int) -> None:
    with pytest.raises(WireError, match=r"Expected `int"):
        decode(Changes, msgspec.msgpack.encode(message(number)))
    assert decode(Changes, msgspec.msgpack.encode(message(-1))) == message(-1)


def test_as_many_as_the_bound_are_taken() -> None:
    full = changes(uses=(USE,) * MAX_USES)
    assert decode(Changes, msgspec.msgpack.encode(full)) == full


def test_a_list_that_is_too_long_is_refused_before_it_takes_memory() -> None:
    data = msgspec.msgpack.encode(changes(uses=(USE,) * 500_000))
    tracemalloc.start()
    try:
        with pytest.raises(WireError):
            decode(Changes, data)
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


def test_a_message_of_too_many_bytes_is_not_looked_at() -> None:
    with pytest.raises(WireError, match=f"{MAX_BYTES} are taken at most"):
        decode(Changes, bytes(MAX_BYTES + 1))
    for kind in (Hello, OutcomeBatch, PeersAck, Telemetry):
        with pytest.raises(WireError, match=f"a {kind.__name__} of .* {MAX_ANSWER} are taken at most"):
            decode(kind, bytes(MAX_ANSWER + 1))
