"""What is kept of the protocol's answers is the protocol's answer: a key holds all that `next_step` reads."""

from collections.abc import Iterator
from functools import cache
from itertools import product
from typing import Any

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from dispatcher.scheduling.clusters import ClusterView
from dispatcher.scheduling.delegation import step_cache
from dispatcher.scheduling.delegation.protocol import NOTHING, QUEUE, NextStep, ObservedState, Step, next_step
from dispatcher.scheduling.delegation.step_cache import Key, StepCache
from dispatcher.scheduling.delegation.timing import CoreTiming
from dispatcher.scheduling.delegation.tracking import ClusterReachability, ConfirmedEnd, Tracked, observed_state
from shared.model.names import CLAIM, proxy_node_name
from shared.model.pod import Claim, Pod, SourceRef
from shared.security.signatures import SignedClaim, sign_claim

NOW, LATER = 10.0, 99.0
REMOTE = Pod("u", "default", "web", node=proxy_node_name("west"), claim=Claim("west", "w1", 3), has_finalizer=True)
OF = SourceRef("east", "uid-east", "default", "web", "u", 3)
COPY = Pod("d", "default", "copy", node="w1", source=OF, status=b"old")
FOR_ANOTHER = sign_claim(Ed25519PrivateKey.generate(), SignedClaim(OF, "west", "uid-other", "w1", b""))

SOURCES: list[dict[str, object]] = [
    {}, {"phase": "Running"}, {"phase": "Failed"}, {"ready": True}, {"terminating": True}, {"has_finalizer": False},
    {"claim": None}, {"claim": None, "has_finalizer": False}, {"claim": Claim("north", "n1", 3)}, {"node": ""},
    {"node": "e1"}, {"node": proxy_node_name("north")}, {"annotations": {CLAIM: FOR_ANOTHER}}, {"files": "new"},
    {"live": "1a", "generation": 2}, {"at_home": True}, {"at_home": True, "claim": None, "has_finalizer": False},
    {"terminating": True, "ends_in_s": 5}, {"terminating": True, "ends_in_s": 0},
    {"terminating": True, "phase": "Failed", "ends_in_s": 0}, {"terminating": True, "phase": "Failed", "ends_in_s": 5},
]  # fmt: skip
COPIES: list[dict[str, object]] = [
    {}, {"status": b""}, {"status": b"new"}, {"phase": "Running"}, {"phase": "Succeeded"}, {"terminating": True},
    {"node": ""}, {"files": "old"}, {"files": "new"}, {"live": "1b", "generation": 7}, {"ready": True},
    {"status": b'{"phase":"Failed"}'}, {"terminating": True, "phase": "Running"},
    {"terminating": True, "status": b'{"phase":"Failed"}'},
    {"terminating": True, "ends_in_s": 5}, {"terminating": True, "ends_in_s": 300},
]  # fmt: skip
LOCALS: list[dict[str, object]] = [
    {"node": node, "phase": phase, "terminating": ending, "has_finalizer": marked, "claim": claim}
    for node, phase, ending, marked, claim in product(
        ("", "e1"), ("Pending", "Failed"), (False, True), (False, True), (None, Claim("east", "e1", 3))
    )
]  # fmt: skip
VIEWS: list[dict[str, object]] = [
    {}, {"silent": True}, {"silent": True, "executor": True}, {"executor": False}, {"api_ok": False},
    {"restored": True}, {"synced": False}, {"refuses": True},
]  # fmt: skip
MORE: list[dict[str, Any]] = [
    {}, {"ended": {"west": ConfirmedEnd("d", "Failed")}}, {"gone": frozenset(("west",))},
    {"said_gone": frozenset(("west",))}, {"decided": 3}, {"untouched": 3}, {"given_up": 3}, {"disproved": {"west": 3}},
    {"claimed_at": NOW}, {"missing_since": {"east": 0.0}}, {"delegates": {"north": COPY}},
]  # fmt: skip
changed = msgspec.structs.replace
Fleet = dict[str, ClusterView]


def _tracked() -> Iterator[Tracked]:
    """Pods that stay at home, and all kinds of remote ones."""
    for how, more in product(LOCALS, MORE):
        yield changed(Tracked(("east", "u"), changed(REMOTE, **how)), **more)
    for target in ("west", "north"):
        to = {"node": proxy_node_name(target), "claim": Claim(target, "w1", 3)}
        yield Tracked(("east", "u"), changed(REMOTE, **to), {target: COPY})
    for how, more in product(SOURCES, MORE):
        one = Tracked(("east", "u"), changed(REMOTE, **how), {"west": COPY})
        yield changed(one, **{**more, "delegates": {**one.delegates, **more.get("delegates", {})}})
    for how, copy, mirrored in product(SOURCES, COPIES, (b"", b"old")):
        one = Tracked(("east", "u"), changed(REMOTE, **how), {"west": changed(COPY, **copy)}, mirrored=mirrored)
        for until, at, ask_at in product((0.0, LATER), repeat=3):
            yield changed(one, mirrored_until=until, mirror_at=at, ask_end_at=ask_at)
    counts: dict[str, Any] = {"live": "1a", "phase": "Running"}
    for seen, shown, ending in product((0, 7), (0, 2), (False, True)):
        there = changed(COPY, **counts, generation=seen)
        source = changed(REMOTE, **counts, generation=2, terminating=ending)
        yield Tracked(("east", "u"), source, {"west": there}, mirrored=b"old", generation=shown)


def _fleets() -> Iterator[Fleet]:
    known = {"synced": True, "api_ok": True, "silent": False}
    for east, west in product(VIEWS, VIEWS):
        hows = {"east": east, "west": west, "north": {}}
        yield {name: ClusterView(name, f"uid-{name}", **{**known, **how}) for name, how in hows.items()}  # type: ignore[arg-type]
    yield {"east": ClusterView("east", "uid-east", **known)}  # type: ignore[arg-type]
    yield {}


def _seen(tracked: Tracked, fleet: Fleet, reach: ClusterReachability) -> ObservedState:
    return observed_state(tracked, fleet, NOW, CoreTiming(), reach=reach, orphans_may_go=True)


@cache
def situations() -> list[tuple[Key, ObservedState]]:
    """All that have a key."""
    found = []
    pods = list(_tracked())
    for fleet in _fleets():
        steps_of = StepCache(fleet)
        reach = ClusterReachability.of(fleet)
        keys = ((steps_of.key_of(tracked, NOW), tracked) for tracked in pods)
        found += [(key, _seen(tracked, fleet, reach)) for key, tracked in keys if key is not None]
    return found


@cache
def first_of_each() -> dict[Key, tuple[ObservedState, NextStep]]:
    """The first situation with each key, and what is due in it."""
    firsts = dict(reversed(situations()))
    return {key: (seen, next_step(seen)) for key, seen in firsts.items()}


def test_situations_with_one_key_have_one_next_step() -> None:
    firsts = first_of_each()
    for key, seen in situations():
        assert next_step(seen) == firsts[key][1], (key, seen)
    steps = {step.step for _, step in firsts.values()}
    assert steps >= {Step.NOTHING, Step.QUEUE, Step.MIRROR, Step.UPDATE, Step.CONFIRM_END, Step.RESTORE}


def test_without_any_of_its_parts_a_key_would_stand_for_two_next_steps() -> None:
    kinds = {len(key) for key in first_of_each()}
    assert len(kinds) == 2
    for length, part in ((kind, part) for kind in kinds for part in range(kind)):
        without: dict[Key, set[NextStep]] = {}
        for key, (_, step) in first_of_each().items():
            if len(key) == length:
                without.setdefault((*key[:part], *key[part + 1 :]), set()).add(step)
        assert max(map(len, without.values())) > 1, (length, part)


class Noted:
    """A record whose fields are noted as they are read."""

    def __init__(self, record: object, read: set[str]) -> None:
        self._record = record
        self._read = read

    def __getattr__(self, name: str) -> object:
        self._read.add(name)
        return getattr(self._record, name)


def test_all_that_the_protocol_reads_is_another_in_some_of_these_situations() -> None:
    """A field that is new in the protocol is new in the laws above, too."""
    of_state, of_source, of_copy = set[str](), set[str](), set[str]()
    for seen, _ in first_of_each().values():
        pods: Any = {cluster: Noted(pod, of_copy) for cluster, pod in seen.delegates.items()}
        next_step(Noted(changed(seen, source=Noted(seen.source, of_source), delegates=pods), of_state))  # type: ignore[arg-type]
    varied = {name for name in of_state if len({str(getattr(seen, name)) for _, seen in situations()}) > 1}
    assert of_state - varied == {"home", "fenced", "ended"}  # the same for each pod that has a key, but for its home
    assert of_source - {"terminal"} <= {name for how in (*SOURCES, *LOCALS) for name in how}
    assert of_copy - {"terminal", "ends_within"} <= {name for how in COPIES for name in how}


def test_where_a_cluster_is_fenced_nothing_is_kept() -> None:
    fleet = next(_fleets())
    steps_of = StepCache(fleet)
    tracked = Tracked(("east", "u"), REMOTE, {"west": COPY})
    assert steps_of.key_of(tracked, NOW) is not None
    fleet["east"].fenced = frozenset({"west"})
    assert steps_of.key_of(tracked, NOW) is None


@pytest.mark.parametrize("whose", ["source", "copy"])
def test_words_that_anybody_may_write_are_not_kept(whose: str) -> None:
    source = changed(REMOTE, phase="x" * 1000) if whose == "source" else REMOTE
    copy = changed(COPY, phase="x" * 1000) if whose == "copy" else COPY
    assert StepCache(next(_fleets())).key_of(Tracked(("east", "u"), source, {"west": copy}), NOW) is None


def test_so_many_are_kept_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(step_cache, "MOST", 3)
    steps_of = StepCache({})
    for at in range(5):
        assert steps_of.keep((at,), QUEUE) is QUEUE
        assert steps_of.get((at,)) is QUEUE
    assert [steps_of.get((at,)) for at in range(5)] == [None, None, None, QUEUE, QUEUE]


@pytest.mark.parametrize("source", [REMOTE, Pod("u", "default", "web", node="e1"), Pod("u", "default", "web")])
def test_for_a_pod_at_rest_nothing_is_due_whichever_clusters_answer(source: Pod) -> None:
    tracked = Tracked(("east", "u"), source)
    found = {next_step(_seen(tracked, fleet, ClusterReachability.of(fleet))) for fleet in _fleets()}
    assert tracked.is_settled == (source.node == "e1")
    assert not tracked.is_settled or found == {NOTHING}
