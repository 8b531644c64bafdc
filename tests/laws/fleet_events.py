"""Drawn pods, nodes and events of a fleet, and all that can be seen of a fleet, for the laws of FleetState."""

from copy import deepcopy
from typing import Any

import msgspec
import numpy as np
from hypothesis import strategies as st

from dispatcher.scheduling.fleet.columns import _TABLE as COLUMNS
from dispatcher.scheduling.fleet.fleet import FleetState
from dispatcher.scheduling.fleet.view import view_of
from dispatcher.scheduling.framework import Ints, PodInfo
from dispatcher.scheduling.framework.pod_sets import pods_of_terms
from shared.model.labels import LabelSelector
from shared.model.names import DOMAIN_SCOPE
from shared.model.objects import Namespace
from shared.model.pod import Pod, PodAffinityTerm
from shared.model.resources import MAX_QUANTITY
from tests.builders import PodBuilder, node, pod, selector

LEVELS = ("zone", "cluster", "host", "rack")
SELECTORS = (None, selector(app="u"), selector(), selector(app="u", part="1"))
POD_LABELS: tuple[dict[str, str], ...] = (  # labels of pods; the first three tell one app
    {"app": "u"},
    {"app": "u", "pod-template-hash": "7"},
    {"app": "u", "job-name": "j"},
    {"app": "v"},
    {"app": "u", "part": "1"},
    {"app": "u", "part": "2"},
    {"job-name": "j"},
    {},
)
NAMESPACE_SELECTORS: tuple[LabelSelector | None, ...] = (None, selector(team="t"), selector())


@st.composite
def with_terms(draw: st.DrawFn, one: PodBuilder) -> PodBuilder:
    """The pod with up to three terms of any kind."""
    for _ in range(draw(st.sampled_from((0, 0, 1, 2, 3)))):
        how = draw(st.sampled_from((one.near, one.away)))
        weight = draw(st.sampled_from((0, 0, 1, 7)))
        spaces, key = draw(st.sampled_from(NAMESPACE_SELECTORS)), draw(st.sampled_from(LEVELS))
        how(key, draw(st.sampled_from(SELECTORS)), weight=weight, namespace_selector=spaces)
    return one


@st.composite
def pods(draw: st.DrawFn) -> PodInfo:
    one = pod("p").labels(**draw(st.sampled_from(POD_LABELS))).namespace(draw(st.sampled_from("mn")))
    one = one.cpu(draw(st.integers(0, 5))).request("memory", draw(st.sampled_from((0, 7, MAX_QUANTITY))))
    one = one.set(terminating=draw(st.booleans()))
    if draw(st.booleans()):
        one = one.port(draw(st.integers(1, 3)))
    if draw(st.integers(0, 3)) == 0:
        one = one.annotation(DOMAIN_SCOPE, "cluster")
    return msgspec.structs.replace(
        draw(with_terms(one)).placed(), counts_as=draw(st.sampled_from((None, None, (3, 7), (10**6, 2**40))))
    )


@st.composite
def nodes(draw: st.DrawFn) -> tuple[str, Any]:
    one = node(draw(st.sampled_from(("n1", "n2", "n3"))))
    for level in ("zone", "rack"):
        value = draw(st.sampled_from(("", "x", "y")))
        one = one.labels(**{level: value}) if value else one
    return draw(st.sampled_from("ab")), one.build()


places = st.tuples(
    st.just("place"),
    st.integers(0, 9),
    pods(),
    st.sampled_from("ab"),
    st.sampled_from(("n1", "n2", "n3", "n4")),
    st.booleans(),
)
events = st.one_of(
    places,
    places,
    st.tuples(st.just("remove"), st.integers(0, 9)),
    st.tuples(st.just("node"), nodes()),
    st.tuples(st.just("gone"), st.sampled_from("ab"), st.sampled_from(("n1", "n2", "n3"))),
    st.tuples(st.just("namespace"), st.sampled_from("mn"), st.sampled_from(("", "t"))),
    st.tuples(st.just("changed"), st.integers(0, 9), pods()),
)


def apply_event(fleet: FleetState, event: tuple[Any, ...]) -> None:
    if event[0] == "place":
        _, index, placed, cluster, name, assumed = event
        fleet.place(("a", f"u{index}"), placed, cluster, name, assumed=assumed)
    elif event[0] == "remove":
        fleet.remove(("a", f"u{event[1]}"))
    elif event[0] == "node":
        fleet.put_node(*event[1])
    elif event[0] == "changed":
        change_terms(fleet, ("a", f"u{event[1]}"), event[2].pod)
    elif event[0] == "namespace":
        fleet.kept.put("a", Namespace(event[1], {"team": event[2]} if event[2] else {}))
    else:
        fleet.remove_node(event[1], event[2])


def change_terms(fleet: FleetState, pod_id: tuple[str, str], like: Pod) -> None:
    """A placed pod gets other terms (and nothing else) where it is."""
    known = fleet.occupant(pod_id)
    if known is not None:
        terms = {"pod_affinity": like.pod_affinity, "pod_anti_affinity": like.pod_anti_affinity}
        changed = PodInfo(msgspec.structs.replace(known.pod_info.pod, annotations=like.annotations, **terms), "a")
        fleet.place(pod_id, changed, known.cluster, known.node, assumed=known.assumed)


def fleet_after(script: list[tuple[Any, ...]]) -> FleetState:
    fleet = FleetState(now=5.0)
    for name in "ab":
        fleet.set_cluster(name, ready=True, synced=True)
        fleet.put_node(name, node("n1").labels(zone="x").build())
    for event in script:
        apply_event(fleet, event)
    return fleet


def snapshot(fleet: FleetState) -> dict[str, object]:
    """Every column as bytes, ports and counts as plain values."""
    bits: dict[str, object] = {name: getattr(fleet, name).tobytes() for name in COLUMNS}
    bits["ports"] = {row: deepcopy(fleet.ports_taken(row)) for row in fleet.rows_with_ports()}
    bits["counts"] = counts(fleet)
    bits["ties"] = {key: counts for key, counts in ties(fleet).items() if counts}
    return bits


def counts(fleet: FleetState) -> dict[object, dict[str, int]]:
    asked = [pod("q").labels(**labels).namespace(namespace).build() for labels in POD_LABELS for namespace in "mn"]
    found: dict[object, dict[str, int]] = {}
    for which, one in enumerate(asked):
        for number, chosen in enumerate(SELECTORS):
            for level in LEVELS:
                values = view_of(fleet).topology.count_matching(one, chosen, level)
                found[which, number, level] = by_name(fleet, level, values)
    return found


TERMS = tuple(PodAffinityTerm("", one, ("m",), spaces) for one in SELECTORS for spaces in NAMESPACE_SELECTORS)
SETS = (*(pods_of_terms([term]) for term in TERMS), pods_of_terms([TERMS[-1], TERMS[3]]))


def ties(fleet: FleetState) -> dict[object, dict[str, int]]:
    """Members of sets of pods by domain, and what the terms about a pod come to by kind and domain, zeros left out: no
    term counts anywhere whose topology key came to a node later than its pods.
    """
    found: dict[object, dict[str, int]] = {}
    for number, pods in enumerate(SETS):
        for level in LEVELS:
            found[number, level] = by_name(fleet, level, fleet.counted(fleet.count_in(pods, level)))
    for app in "uv":
        for namespace in "mn":
            one = pod("q").labels(app=app).namespace(namespace).placed()
            for term in view_of(fleet).affinity.terms_about(one):
                so_far = found.setdefault((app, namespace, term.kind, term.key), {})
                for name, count in by_name(fleet, term.key, view_of(fleet).affinity.count_of(term)).items():
                    so_far[name] = so_far.get(name, 0) + count
    counted = {key: {name: count for name, count in counts.items() if count} for key, counts in found.items()}
    return {key: counts for key, counts in counted.items() if counts}


def rebuilt(fleet: FleetState) -> FleetState:
    """Another fleet of the same nodes, pods and namespaces, each entered once."""
    other = FleetState(now=5.0)
    for name in "ab":
        other.set_cluster(name, ready=True, synced=True)
        for found in fleet.kept.of(name, Namespace).values():
            other.kept.put(name, found)
    for row in range(fleet.n):
        known = fleet.node(row)
        if known is not None:
            other.put_node(fleet.name_of(row)[0], known)
    for one in fleet.occupants():
        other.place(one.pod_id, one.pod_info, one.cluster, one.node, assumed=one.assumed)
    return other


def by_name(fleet: FleetState, level: str, counts: Ints) -> dict[str, int]:
    names = fleet.domain_values(level)
    return {name: count for name, count in zip(names, counts.tolist(), strict=True) if count}


def columns_by_node(fleet: FleetState) -> dict[tuple[str, str], list[object]]:
    names = fleet.axis.names
    found = {}
    for row in np.flatnonzero(fleet.live).tolist():
        amounts = {name: fleet.allocatable[at, row].item() for at, name in enumerate(names)}
        requested = {name: fleet.requested[at, row].item() for at, name in enumerate(names)}
        labels = [
            fleet.domain_values(level)[fleet.domain(level)[row]] for level in LEVELS if fleet.domain(level)[row] >= 0
        ]
        taints = fleet.taint_sets[fleet.taint_set[row]]
        state = [fleet.ready[row].item(), fleet.unschedulable[row].item(), fleet.rank[row].item(), fleet.node(row)]
        found[fleet.name_of(row)] = [amounts, requested, labels, taints, *state, repr(fleet.readings_of(row))]
    return found
