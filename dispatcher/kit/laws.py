"""The laws every plugin must keep, checked on a small fleet with odd nodes and odd pods.

it answers for all rows as it does row by row, in the types and lengths that the framework says;
scores are finite, and 0..100 once normalised; reasons are codes of the fleet's table; a placement
changes no more of its answers than `depends` says, and other clusters none while both its keys
stay; pods with equal class keys get equal answers, and nodes of a cluster if it is a ClusterFilter or ClusterScore;
a key can be hashed, and is as `keyed_by_template` says; what is reserved and given back leaves no
trace: the next pod is answered as before; it raises for no pod, and an explanation is plain JSON;
at PreEnqueue, Permit and PreBind it answers what these points know; a filter by room refuses just
where some lacks; open_rows says of a filter what it answers by itself; rules over counts say what
a policy by domains answers by its parts; it has nothing to say of pods without the fields that it
`reads`.

What labels and metrics of nodes a plugin asks for is found out first, so that some nodes of the
fleet have them.
"""

import json
import math
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from functools import partial
from traceback import extract_tb
from types import FunctionType
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from dispatcher.kit.call_plugin import answer_in_words, prepared_for_score
from dispatcher.kit.depends_law import stale_law
from dispatcher.kit.edge_case_fleet import Asked, another_of_its_template, odd_fleet, odd_pods
from dispatcher.kit.fleet_key import fleet_key_law
from dispatcher.kit.reads_law import reads_law
from dispatcher.kit.room_law import room_law
from dispatcher.kit.rules_law import rules_law
from dispatcher.kit.waiting_room import Room
from dispatcher.plugins.registry import REGISTRY, reasons_of
from dispatcher.scheduling.fleet.fleet import FleetState
from dispatcher.scheduling.fleet.view import view_of
from dispatcher.scheduling.framework import (
    MAX_SCORE,
    ClusterFilter,
    ClusterScore,
    CycleState,
    Filter,
    FleetView,
    Floats,
    Permit,
    Plugin,
    PodInfo,
    Refuse,
    Reserve,
    Score,
    Skip,
)
from dispatcher.scheduling.framework.class_keys import keyed_by_template
from dispatcher.scheduling.framework.derived import Derived
from dispatcher.scheduling.framework.lifecycle import PreBind, PreEnqueue
from dispatcher.scheduling.framework.points import ExplainingPlugin, explains_rows
from dispatcher.scheduling.framework.value_columns import column_of
from shared.model.reasons import Reason

_SLACK = 1e-6


def broken_laws(plugin: Plugin) -> list[str]:
    """What is wrong with a plugin, in words for its author; empty if it keeps all laws on the
    sample.
    """
    derives: object = plugin.derives
    if not isinstance(derives, Derived):
        return [f"derives must be a framework.derived.Derived, not {_kind(derives)}"]
    asked = Asked(_fleet_for(plugin))
    broken: list[str] = []
    for law in (_keys, _answers, _classes, _reserves, _later_points, room_law, _rules):
        broken += _broken_by(law, plugin, view_of(cast(FleetState, asked)))
        broken += _broken_by(law, plugin, view_of(_fleet_for(plugin, asked.labels, asked.metrics)))
    for moving_law in (stale_law, fleet_key_law, reads_law):
        touched = _fleet_for(plugin, asked.labels, asked.metrics)
        broken += _broken_by(partial(_on, moving_law, touched), plugin, view_of(touched))
    return list(dict.fromkeys(broken))


def _fleet_for(
    plugin: Plugin, labels: Iterable[str] = (), metrics: Iterable[str] = ()
) -> FleetState:
    fleet = odd_fleet(labels, metrics)
    fleet.derive(plugin.derives)
    return fleet


Law = Callable[[Plugin, FleetView], Iterator[str]]


def _on(
    law: Callable[[Plugin, FleetState], Iterator[str]],
    fleet: FleetState,
    plugin: Plugin,
    _: FleetView,
) -> Iterator[str]:
    return law(plugin, fleet)


def _broken_by(law: Law, plugin: Plugin, fleet: FleetView) -> list[str]:
    found: list[str] = []
    try:
        found.extend(law(plugin, fleet))
    except Exception as error:
        found.append(f"raises {type(error).__name__}: {error}"[:300] + _where(plugin, error))
    return found


def _where(plugin: Plugin, error: Exception) -> str:
    """The last line of the plugin's own that an error went through."""
    own = {
        one.__code__.co_filename
        for one in vars(type(plugin)).values()
        if isinstance(one, FunctionType)
    }
    frames = [one for one in extract_tb(error.__traceback__) if one.filename in own]
    return f" (line {frames[-1].lineno}, in {frames[-1].name})" if frames else ""


def _keys(plugin: Plugin, fleet: FleetView) -> Iterator[str]:
    for pod_info in odd_pods():
        key = plugin.class_key(pod_info)
        try:
            hash(key)
        except TypeError:
            yield f"class_key answers {type(key).__name__}, which cannot be hashed: use tuples and frozensets"
        if plugin.class_key(pod_info) != key:
            yield "class_key answers differently when asked again"
        elif (
            keyed_by_template(plugin) and plugin.class_key(another_of_its_template(pod_info)) != key
        ):
            yield "class_key tells pods of one template apart: keyed_by_template must not be True"
        if pod_info.pod.volumes or not keyed_by_template(plugin, "fleet_key"):
            continue
        if plugin.fleet_key(another_of_its_template(pod_info), fleet) != plugin.fleet_key(
            pod_info, fleet
        ):
            yield "fleet_key tells pods of one template apart: keyed_by_template must not be True"


def _answers(plugin: Plugin, fleet: FleetView) -> Iterator[str]:
    for pod_info in odd_pods():
        state = plugin.pre_filter(pod_info, fleet)
        if isinstance(state, Refuse):
            yield from _declared(plugin, state.why.reason)
        if isinstance(state, Refuse | Skip):
            continue
        if isinstance(plugin, Filter):
            yield from _filter_laws(plugin, state, fleet)
        prepared = prepared_for_score(plugin, state, pod_info, fleet)
        if isinstance(plugin, Score) and not isinstance(prepared, Skip):
            yield from _score_laws(plugin, prepared, fleet)
        if isinstance(plugin, ExplainingPlugin):
            try:
                json.dumps(plugin.explain(state, pod_info, fleet, 0), allow_nan=False)
            except (TypeError, ValueError) as error:
                yield f"explain answers what is no plain JSON: {error}"
        if isinstance(plugin, ExplainingPlugin) and explains_rows(plugin):
            told = plugin.explain_rows(state, pod_info, fleet, np.arange(fleet.n))
            together = column_of(told).values(fleet.n)
            if together != [plugin.explain(state, pod_info, fleet, row) for row in range(fleet.n)]:
                yield "explain_rows must answer for each row what explain says of it"


def _filter_laws(plugin: Filter, state: object, fleet: FleetView) -> Iterator[str]:
    codes: Any = plugin.filter(state, fleet, slice(0, fleet.n))
    if not isinstance(codes, np.ndarray) or codes.dtype != np.uint16 or codes.shape != (fleet.n,):
        yield f"filter must answer [{fleet.n}] uint16, not {_kind(codes)}"
        return
    for code in {int(code) for code in codes} - {0}:
        yield from _declared_code(plugin, fleet, code)
    rows = [plugin.filter(state, fleet, np.asarray([row]))[0] for row in range(fleet.n)]
    if codes.tolist() != [int(code) for code in rows]:
        yield "filter answers differently for all rows than row by row"
    if (told := plugin.open_rows(state, fleet)) is not None:
        live = fleet.nodes.live
        said = np.full(fleet.n, int(told[1]), dtype=np.int64)
        said[np.asarray(told[0], dtype=np.intp)] = 0
        if said[live].tolist() != codes[live].tolist():
            yield "open_rows must name the live rows that filter lets pass, and the one code that it has for all others"
    yield from _cluster_laws(plugin, codes, fleet)


def _declared(plugin: Plugin, reason: object) -> Iterator[str]:
    """The list of reasons is closed: those that are known, and its own."""
    if reason not in plugin.REASONS and reason not in reasons_of(REGISTRY):
        told = reason.name if isinstance(reason, Reason) else repr(reason)
        yield f"it refuses for {told:.80}, which is neither in its REASONS nor known"


def _declared_code(plugin: Plugin, fleet: FleetView, code: int) -> Iterator[str]:
    try:
        yield from _declared(plugin, fleet.reasons.why(code).reason)
    except KeyError as unknown:
        yield f"filter answers code {unknown}, which is none of fleet.reasons"


def _rules(plugin: Plugin, fleet: FleetView) -> Iterator[str]:
    return rules_law(plugin, fleet, partial(_declared_code, plugin, fleet))


def _cluster_laws(plugin: Plugin, answers: NDArray[Any], fleet: FleetView) -> Iterator[str]:
    cluster = fleet.nodes.cluster
    if isinstance(plugin, ClusterFilter | ClusterScore) and any(
        len(set(answers[cluster == one].tolist())) > 1 for one in set(cluster.tolist())
    ):
        yield "it tells nodes of one cluster apart: it is no ClusterFilter or ClusterScore"


def _score_laws(plugin: Score, state: object, fleet: FleetView) -> Iterator[str]:
    raw: Any = plugin.score(state, fleet, slice(0, fleet.n))
    if not isinstance(raw, np.ndarray) or raw.dtype != np.float64 or raw.shape != (fleet.n,):
        yield f"score must answer [{fleet.n}] float64, not {_kind(raw)}"
        return
    if not np.isfinite(raw).all():
        row = int(np.flatnonzero(~np.isfinite(raw))[0])
        yield f"score must answer finite numbers, not {raw[row]} ({'/'.join(fleet.nodes.name_of(row))})"
        return
    rows = [plugin.score(state, fleet, np.asarray([row]))[0] for row in range(fleet.n)]
    if raw.tolist() != [float(value) for value in rows]:
        yield "score answers differently for all rows than row by row"
    yield from _cluster_laws(plugin, raw, fleet)
    if plugin.normalizes:
        yield from _normalize_laws(plugin, raw)
    elif (raw < -_SLACK).any() or (raw > MAX_SCORE + _SLACK).any():
        yield f"scores must lie in 0..{MAX_SCORE:g}, not {raw.min():g}..{raw.max():g}: normalise them"


def _normalize_laws(plugin: Score, raw: Floats) -> Iterator[str]:
    """Of all scores, of one alone (their range is 0), and of each twice: equal scores get equal
    answers.
    """
    found: list[Floats] = []
    for name, scores in (
        ("the scores", raw),
        ("one score", raw[:1]),
        ("each score twice", np.repeat(raw, 2)),
    ):
        with np.errstate(all="ignore"):
            final: Any = plugin.normalize(scores.copy())
        if (
            not isinstance(final, np.ndarray)
            or final.shape != scores.shape
            or not np.isfinite(final).all()
        ):
            yield f"normalize of {name} must answer [{len(scores)}] finite numbers, not {final!r:.80}"
            return
        if (final < -_SLACK).any() or (final > MAX_SCORE + _SLACK).any():
            yield f"normalised scores must lie in 0..{MAX_SCORE:g}, not {final.min():g}..{final.max():g}"
            return
        found.append(final)
    if not np.array_equal(found[0], found[2][::2]):
        yield "normalize answers differently when each score comes twice: it must rest on the set of scores alone"


def _classes(plugin: Plugin, fleet: FleetView) -> Iterator[str]:
    known: dict[Hashable, str] = {}
    for pod_info in odd_pods():
        key = plugin.class_key(pod_info)
        answer = answer_in_words(plugin, pod_info, fleet)
        if known.setdefault(key, answer) != answer:
            name = pod_info.pod.name
            yield f"pod {name} has the class key of another pod but another answer: put what differs into it"


def _reserves(plugin: Plugin, fleet: FleetView) -> Iterator[str]:
    if not isinstance(plugin, Reserve):
        return
    for pod_info in odd_pods():
        before = answer_in_words(plugin, pod_info, fleet)
        if plugin.reserve(_cycle(plugin, pod_info, fleet), pod_info, 0, fleet) is None:
            booked = answer_in_words(plugin, pod_info, fleet)
            again = plugin.unreserve(pod_info, 0, fleet)
            if again is not None:
                again()
                if answer_in_words(plugin, pod_info, fleet) != booked:
                    yield "what unreserve returns does not book the same again"
                plugin.unreserve(pod_info, 0, fleet)
        if answer_in_words(plugin, pod_info, fleet) != before:
            yield "unreserve does not undo reserve: the next pod is answered differently"


def _later_points(plugin: Plugin, fleet: FleetView) -> Iterator[str]:
    """None, a Refuse, or what else a point knows; Reserve came before it."""
    room = Room(plugin) if isinstance(plugin, Permit) else None
    for pod_info in odd_pods():
        if isinstance(plugin, PreEnqueue):
            yield from _is_answer(plugin, "pre_enqueue", plugin.pre_enqueue(pod_info), ())
        if room is not None and isinstance(plugin, Permit):
            answer = plugin.permit(_cycle(plugin, pod_info, fleet), pod_info, 0, fleet)
            yield from _is_answer(plugin, "permit", answer, (int, float))
            if isinstance(answer, int | float) and not 0 < answer < math.inf:
                yield f"permit must answer seconds above 0, not {answer!r}"
        if isinstance(plugin, PreBind):
            orders = plugin.pre_bind(_cycle(plugin, pod_info, fleet), pod_info, 0, fleet)
            yield from _is_answer(plugin, "pre_bind", orders, (Sequence,))


def _cycle(plugin: Plugin, pod_info: PodInfo, fleet: FleetView) -> CycleState:
    return CycleState({plugin.name: plugin.pre_filter(pod_info, fleet)})


def _is_answer(
    plugin: Plugin, method: str, answer: object, more: tuple[type, ...]
) -> Iterator[str]:
    if isinstance(answer, Refuse):
        yield from _declared(plugin, answer.why.reason)
    elif answer is not None and not isinstance(answer, more):
        yield f"{method} must answer {_LATER[method]}, not {_kind(answer)}"


_LATER = {
    "pre_enqueue": "None or a Refuse",
    "permit": "None, a Refuse or seconds to wait",
    "pre_bind": "None, a Refuse or orders",
}


def _kind(answer: Any) -> str:
    return (
        f"{list(answer.shape)} {answer.dtype}"
        if isinstance(answer, np.ndarray)
        else type(answer).__name__
    )
