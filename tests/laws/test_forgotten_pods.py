"""What pods say is forgotten once they are gone: whoever makes ever new pods, each of which says much, fills nothing.

Pods come to a whole core, are decided, and go. From the core on all objects are looked through for words of theirs.
"""

import gc
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType

import msgspec
import pytest

from dispatcher.scheduling.core import SchedulerCore
from dispatcher.scheduling.events import ClusterChanged, Tick
from dispatcher.scheduling.placing import passes
from dispatcher.scheduling.quota import QuotaLedger
from shared.messages import Changes
from shared.messages.pod_cache import PodCache, said
from shared.model import names
from shared.model.labels import IN, NOT_IN, LabelSelector, NodeSelectorTerm, PreferredTerm, Requirement
from shared.model.node import Node
from shared.model.pod import (
    CLAIM,
    Affinity,
    Group,
    HostPort,
    Needs,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    SpreadConstraint,
    Toleration,
    Volume,
    WeightedPodAffinityTerm,
)
from shared.model.reasons import ReasonTable
from shared.model.tenant import Share, Tenant
from tests.laws.cores import make_core

ZONE = "topology.kubernetes.io/zone"
BOUND = 16 * 1024  # bytes of each cache; a pod says some 5 KiB
Says = Callable[[int], dict[str, object]]


def words(number: int, count: int = 60) -> tuple[str, ...]:
    return tuple(f"mark{number}-{word}" for word in range(count))


def nodes_but(number: int) -> NodeSelectorTerm:
    return NodeSelectorTerm((Requirement(names.HOSTNAME, NOT_IN, words(number)),))


def pods_of(number: int, operator: str) -> LabelSelector:
    return LabelSelector({}, (Requirement("app", operator, words(number)),))


def term(number: int, operator: str, key: str = ZONE) -> PodAffinityTerm:
    return PodAffinityTerm(key, pods_of(number, operator), ("default",))


def spread(number: int, hard: bool) -> tuple[SpreadConstraint, ...]:
    return (SpreadConstraint(ZONE, 1, hard, pods_of(number, NOT_IN)),)


SAYING: dict[str, Says] = {
    "required node affinity": lambda i: {"affinity": Affinity((nodes_but(i),))},
    "preferred node affinity": lambda i: {"affinity": Affinity(None, (PreferredTerm(5, nodes_but(i)),))},
    "a node selector": lambda i: {"node_selector": dict.fromkeys(words(i), "v")},
    "tolerations": lambda i: {"tolerations": tuple(Toleration(word, "Exists") for word in words(i))},
    "labels": lambda i: {"labels": dict.fromkeys(words(i), "v")},
    "data": lambda i: {"annotations": {names.DATA: " ".join(words(i, 300))}},
    "clusters": lambda i: {"annotations": {names.CLUSTERS: ",".join(("east", *words(i, 300)))}},
    "an owner": lambda i: {"owner": f"ReplicaSet/{'-'.join(words(i, 300))}/uid"},
    "images": lambda i: {"images": words(i)},
    "requests": lambda i: {"requests": {"cpu": 100, **dict.fromkeys(words(i), 0)}},
    "requests of what no node has": lambda i: {"requests": {"cpu": 100, **dict.fromkeys(words(i), 1)}},
    "hard spread": lambda i: {"spread": spread(i, True)},
    "soft spread": lambda i: {"spread": spread(i, False)},
    "required affinity": lambda i: {"labels": {"app": "x"}, "pod_affinity": PodAffinity((term(i, NOT_IN),))},
    "anti-affinity": lambda i: {"pod_anti_affinity": PodAffinity((term(i, IN, names.HOSTNAME),))},
    "preferred affinity": lambda i: {
        "pod_affinity": PodAffinity((), (WeightedPodAffinityTerm(4, term(i, IN)),))
    },
    "host ports": lambda i: {"ports": tuple(HostPort(1 + i * 60 + at, "TCP", f"mark{i}") for at in range(60))},
    "what it needs elsewhere": lambda i: {"needs": Needs(barred=" ".join(words(i))[:500])},
    "a group": lambda i: {
        "group": Group("PodGroup", " ".join(words(i))[:500], within="zone"),
        "affinity": Affinity((nodes_but(i),)),
        "priority": 1,
    },
    "claims": lambda i: {"volumes": tuple(Volume(CLAIM, word) for word in words(i))},
}  # fmt: skip
ROUNDS = 4


def pod_that(number: int, says: Says, *, fits: bool) -> Pod:
    fields = {"requests": {"cpu": 100}, "owner": f"ReplicaSet/mark{number}/uid", **says(number)}
    if not fits:
        fields["requests"] = {**fields["requests"], "cpu": 10**9}  # type: ignore[dict-item]
    made = Pod(f"uid-{number}", "default", f"p{number}", scheduler_name=names.SCHEDULER_NAME, **fields)  # type: ignore[arg-type]
    return msgspec.msgpack.decode(msgspec.msgpack.encode(made), type=Pod)


def tell(core: SchedulerCore, now: float, **what: object) -> None:
    view = core.clusters["east"]
    changes = Changes("east", "east-uid", "life-1", view.revision, view.revision + 1, **what)  # type: ignore[arg-type]
    core.handle(ClusterChanged(changes), now)
    core.handle(Tick(), now + 0.1)


def referents(of: object) -> Iterator[object]:
    if isinstance(of, ReasonTable):  # bounded by itself: its codes
        return
    if isinstance(of, msgspec.Struct):
        yield from (getattr(of, name) for name in of.__struct_fields__)
    if isinstance(of, FunctionType):
        yield from (cell.cell_contents for cell in of.__closure__ or ())
    else:
        yield from gc.get_referents(of)


def heard_of(core: SchedulerCore) -> set[int]:
    """The numbers of the pods of whose words any can be reached."""
    seen = {id(core)}
    found = set[int]()
    todo: list[object] = [core]
    while todo:
        for one in referents(todo.pop()):
            if isinstance(one, str):
                found.update(map(int, re.findall(r"mark(\d+)", one)))
            elif id(one) not in seen and not isinstance(one, type | ModuleType | BuiltinFunctionType | CodeType):
                seen.add(id(one))
                todo.append(one)
    return found


def standing(name: str, cpu: int) -> Pod:
    return Pod(name, "default", name, requests={"cpu": cpu}, scheduler_name=names.SCHEDULER_NAME)


def left_behind(core: SchedulerCore) -> list[list[str]]:
    """What those say of each round that are heard of: of pods that came and went, while two others stay."""
    nodes = tuple(
        Node(f"n{at}", labels={names.HOSTNAME: f"n{at}", ZONE: "xy"[at % 2]}, ready=True,
             allocatable={"cpu": 64_000, "pods": 100}) for at in range(4)
    )  # fmt: skip
    core.handle(ClusterChanged(Changes("east", "east-uid", "life-1", 0, 1, full=True, nodes=nodes)), 1.0)
    tell(core, 1.5, pods=(standing("runs", 100), standing("waits", 10**9)))
    number = 0
    for _ in range(ROUNDS):
        for says in SAYING.values():
            for fits in (True, False):
                made = pod_that(number, says, fits=fits)
                tell(core, 2.0 + number, pods=(made,))
                assert core.log.find(("east", made.uid)) is not None
                tell(core, 2.5 + number, pods_gone=(made.uid,))
                number += 1
    for minute in range(10):
        core.handle(Tick(), 60.0 * minute + number + 10)
    said_by = [what for _ in range(ROUNDS) for what in SAYING for _ in range(2)]
    found: list[list[str]] = [[] for _ in range(ROUNDS)]
    for one in heard_of(core):
        found[one * ROUNDS // number].append(said_by[one])
    return found


LIMITED = (Tenant("team", ("default",), {"cpu": Share(10**9)}),)


@pytest.mark.parametrize("tenants", [(), LIMITED], ids=["nobody's", "of a tenant"])
def test_of_pods_that_are_gone_few_are_heard_of(monkeypatch: pytest.MonkeyPatch, tenants: Sequence[Tenant]) -> None:
    monkeypatch.setattr(passes, "_MOST_GROUPS", 2)
    for module in [one for one in sys.modules.values() if hasattr(one, "POD_CACHE_BYTES")]:
        monkeypatch.setattr(module, "POD_CACHE_BYTES", BOUND)
    kept = left_behind(make_core(("east",), ledger=QuotaLedger(tenants)))
    assert 0 < len(kept[-1]) <= len(SAYING)
    assert {what for some in kept[: ROUNDS // 2] for what in some} <= {"what it needs elsewhere"}, (
        "which is a few words"
    )


def test_a_cache_holds_no_more_than_it_may() -> None:
    cache = PodCache[str, int](most=3, most_bytes=1000)
    for at in range(10):
        cache.put(f"small{at}", at, 10)
    assert [cache.get(f"small{at}") for at in range(10)] == [None] * 7 + [7, 8, 9]
    cache.put("large", 0, 985)
    assert (cache.get("small8"), cache.get("small9"), cache.nbytes) == (None, 9, 995)
    assert cache.get("small9", 100) == 9
    assert ("large" in cache, cache.nbytes) == (False, 100), "of the pods that it stands for one says more"
    cache.put("huge", 1, 5000)
    assert (len(cache), cache.get("huge")) == (1, 1)
    assert cache.pop("huge") == 1
    assert (len(cache), cache.nbytes) == (0, 0)


@pytest.mark.parametrize("says", SAYING.values(), ids=SAYING)
def test_what_a_pod_says_is_measured_whatever_it_is(says: Says) -> None:
    heard = tuple(getattr(pod_that(7, says, fits=True), name) for name in says(7))
    assert said(heard) > 500


@pytest.mark.parametrize(
    "odd", [object(), 2**200, "\ud800", (1, frozenset({2**70}))], ids=["object", "whole", "text", "set"]
)
def test_keys_that_no_message_can_hold_are_measured_too(odd: object) -> None:
    assert said(odd) > 0
