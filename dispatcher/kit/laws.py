"""The laws every plugin must keep, checked on a small fleet with odd nodes and odd pods.

it answers for all rows as it does row by row, in the types and lengths that the framework says;
scores are finite, and 0..100 once normalised; reasons are codes of the fleet's table;
pods with equal class keys get equal answers; a key can be hashed;
what is reserved and given back leaves no trace: the next pod is answered as before;
it raises for no pod, and an explanation is plain JSON.
"""

import json
from collections.abc import Callable, Hashable, Iterator
from typing import Any

import numpy as np

from dispatcher.kit.samples import a_fleet, a_node, a_pod, seat
from dispatcher.model.labels import NodeSelectorTerm, PreferredTerm, Requirement
from dispatcher.model.names import REGION, ZONE
from dispatcher.model.node import NO_SCHEDULE, PREFER_NO_SCHEDULE, Reading, Taint
from dispatcher.model.pod import Affinity, HostPort, SpreadConstraint, Toleration
from dispatcher.scheduling.fleet.fleet import FleetState
from dispatcher.scheduling.framework import MAX_SCORE, Filter, Placed, Plugin, Refuse, Reserve, Score, Skip
from dispatcher.scheduling.framework.points import ExplainingPlugin

_SLACK = 1e-6


def broken_laws(plugin: Plugin) -> list[str]:
    """What is wrong with a plugin, in words for its author; empty if it keeps all laws on the sample."""
    broken = [text for law in (_keys, _answers, _classes, _reserves) for text in _said(law, plugin)]
    return list(dict.fromkeys(broken))


def _said(law: Callable[[Plugin], Iterator[str]], plugin: Plugin) -> list[str]:
    found: list[str] = []
    try:
        found.extend(law(plugin))
    except Exception as error:
        found.append(f"raises {type(error).__name__}: {error}"[:300])
    return found


def sample_fleet() -> FleetState:
    """Three clusters, one without nodes; cordoned, tainted, unready, tiny and loaded nodes; pods on some."""
    labels = [{ZONE: f"z{at % 2}", REGION: "r1", "disk": ("ssd", "hdd")[at % 2]} for at in range(4)]
    east = [
        a_node("e1", labels=labels[0]),
        a_node("e2", labels=labels[1], taints=(Taint("dedicated", "gpu", NO_SCHEDULE),)),
        a_node("e3", labels=labels[2], unschedulable=True, taints=(Taint("old", "", PREFER_NO_SCHEDULE),)),
    ]
    west = [a_node("w1", labels=labels[3], ready=False), a_node("w2", room={"cpu": "1m", "pods": "1"}), a_node("w3")]
    readings = {name: Reading(name, cpu=share, memory=share, net=share) for name, share in (("e1", 0.9), ("w3", 0.1))}
    fleet = a_fleet({"east": east, "west": west, "void": []}, readings=readings)
    for at, (cluster, node) in enumerate((("east", "e1"), ("east", "e1"), ("west", "w3"))):
        seat(fleet, a_pod(f"old-{at}", wants={"cpu": "500m"}), cluster, node)
    return fleet


def sample_pods() -> list[Placed]:
    """Pods that ask for nothing, for everything, for too much, and two of one template."""
    zone = Requirement(ZONE, "In", ("z0",))
    term = NodeSelectorTerm((zone,))
    return [
        a_pod("plain"),
        a_pod("plain-2"),
        a_pod("bare", labels={}),
        a_pod("big", wants={"cpu": "2", "memory": "1Gi", "example.com/gpu": "1"}),
        a_pod("huge", wants={"cpu": "4000000"}),
        a_pod("choosy", affinity=Affinity((term,), (PreferredTerm(10, term),)), node_selector={"disk": "ssd"}),
        a_pod("tolerant", tolerations=(Toleration(operator="Exists"),), priority=1000),
        a_pod("port", ports=(HostPort(80),), home="void"),
        a_pod("spread", spread=(SpreadConstraint("zone"), SpreadConstraint("host", hard=False))),
    ]


def _keys(plugin: Plugin) -> Iterator[str]:
    for placed in sample_pods():
        key = plugin.class_key(placed)
        try:
            hash(key)
        except TypeError:
            yield f"class_key answers {type(key).__name__}, which cannot be hashed: use tuples and frozensets"
        if plugin.class_key(placed) != key:
            yield "class_key answers differently when asked again"


def _answers(plugin: Plugin) -> Iterator[str]:
    fleet = sample_fleet()
    for placed in sample_pods():
        state = plugin.pre_filter(placed, fleet)
        if isinstance(state, Refuse | Skip):
            continue
        if isinstance(plugin, Filter):
            yield from _filter_laws(plugin, state, fleet)
        if isinstance(plugin, Score):
            yield from _score_laws(plugin, state, fleet)
        if isinstance(plugin, ExplainingPlugin):
            try:
                json.dumps(plugin.explain(state, placed, fleet, 0), allow_nan=False)
            except (TypeError, ValueError) as error:
                yield f"explain answers what is no plain JSON: {error}"


def _filter_laws(plugin: Filter, state: object, fleet: FleetState) -> Iterator[str]:
    codes: Any = plugin.filter(state, fleet, slice(0, fleet.n))
    if not isinstance(codes, np.ndarray) or codes.dtype != np.uint16 or codes.shape != (fleet.n,):
        yield f"filter must answer [{fleet.n}] uint16, not {_kind(codes)}"
        return
    try:
        for code in {int(code) for code in codes} - {0}:
            fleet.reasons.why(code)
    except KeyError as unknown:
        yield f"filter answers code {unknown}, which is none of fleet.reasons"
    rows = [plugin.filter(state, fleet, np.asarray([row]))[0] for row in range(fleet.n)]
    if codes.tolist() != [int(code) for code in rows]:
        yield "filter answers differently for all rows than row by row"


def _score_laws(plugin: Score, state: object, fleet: FleetState) -> Iterator[str]:
    raw: Any = plugin.score(state, fleet, slice(0, fleet.n))
    if not isinstance(raw, np.ndarray) or raw.dtype != np.float64 or raw.shape != (fleet.n,):
        yield f"score must answer [{fleet.n}] float64, not {_kind(raw)}"
        return
    if not np.isfinite(raw).all():
        yield "score answers a number that is not finite"
        return
    rows = [plugin.score(state, fleet, np.asarray([row]))[0] for row in range(fleet.n)]
    if raw.tolist() != [float(value) for value in rows]:
        yield "score answers differently for all rows than row by row"
    final = plugin.normalize(raw.copy()) if plugin.normalizes else raw
    if len(final) != len(raw) or (final < -_SLACK).any() or (final > MAX_SCORE + _SLACK).any():
        yield f"scores must lie in 0..{MAX_SCORE:g}, not {final.min():g}..{final.max():g}: normalise them"


def _classes(plugin: Plugin) -> Iterator[str]:
    fleet = sample_fleet()
    known: dict[Hashable, list[Any]] = {}
    for placed in sample_pods():
        key, answer = plugin.class_key(placed), _answer(plugin, placed, fleet)
        if known.setdefault(key, answer) != answer:
            yield f"pod {placed.pod.name} has the class key of another pod but another answer: put what differs into it"


def _answer(plugin: Plugin, placed: Placed, fleet: FleetState) -> list[Any]:
    state = plugin.pre_filter(placed, fleet)
    if isinstance(state, Refuse | Skip):
        return [state]
    rows = slice(0, fleet.n)
    codes = plugin.filter(state, fleet, rows).tolist() if isinstance(plugin, Filter) else []
    return [codes, plugin.score(state, fleet, rows).tolist() if isinstance(plugin, Score) else []]


def _reserves(plugin: Plugin) -> Iterator[str]:
    if not isinstance(plugin, Reserve):
        return
    fleet = sample_fleet()
    for placed in sample_pods():
        before = _answer(plugin, placed, fleet)
        if plugin.reserve(placed, 0, fleet) is None:
            plugin.unreserve(placed, 0, fleet)
        if _answer(plugin, placed, fleet) != before:
            yield "unreserve does not undo reserve: the next pod is answered differently"


def _kind(answer: Any) -> str:
    return f"{list(answer.shape)} {answer.dtype}" if isinstance(answer, np.ndarray) else type(answer).__name__
