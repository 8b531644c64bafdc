"""What terms about live load share: the columns that formulas take, how readings fade, and the
plugin that a formula becomes.

    u      = w * measured + (1 - w) * requested                          cut to 1
    w(age) = 1 up to `fresh_s`, falling in a straight line to 0 at `stale_s`; 0 where nothing was measured

`measured`, `requested`: utilisation of a signal with the pod, by readings and by requests
(`LoadFormula`). So a node without readings is as loaded as its requests say, never idle. What a term
makes of the utilisation of its signals is its `score`.
"""

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np
from msgspec import Meta

from dispatcher.scheduling.framework import (
    Depends,
    FleetView,
    Floats,
    Ints,
    PodInfo,
    Refuse,
    Rows,
    Score,
    Skip,
)
from dispatcher.scheduling.framework.derived import NOTHING, Derived
from dispatcher.scheduling.framework.kernels import (
    FloatColumn,
    IntColumn,
    Number,
    ShareColumn,
    choose,
    least,
    most,
)
from dispatcher.scheduling.framework.plugin_args import Args, number, read_by, shown, texts
from dispatcher.scheduling.framework.value_columns import (
    Column,
    Same,
    fields,
    numbers,
    picked,
    where,
)
from dispatcher.scheduling.rules.requests import nonzero_request
from shared.model.resources import CPU, MEMORY
from shared.model.signals import CPU_SIGNAL, MEMORY_SIGNAL, NAME_PATTERN, is_signal_name

Amounts = tuple[int, int]  # milli-CPU, bytes
Signals = tuple[str, ...]
_RESOURCES = (CPU, MEMORY)  # rows of fleet.nodes.nonzero, settling and recent
# the two of these by whose larger share a signal goes; cpu and memory by their own
_OF = {CPU_SIGNAL: (0, 0), MEMORY_SIGNAL: (1, 1)}
_EITHER = (0, 1)


class SignalLoad(NamedTuple):
    """What formulas take of one signal. `settling`, `nonzero`, `capacity`, `more`: what was placed
    and is not in the readings yet, all requests, what can be allocated, and what the pod uses: of
    the two resources by whose larger share the signal goes.
    """

    used: ShareColumn
    mean: ShareColumn
    sampled_at: FloatColumn
    usual: ShareColumn
    rank: IntColumn
    settling0: IntColumn
    nonzero0: IntColumn
    capacity0: IntColumn
    more0: Number
    settling1: IntColumn
    nonzero1: IntColumn
    capacity1: IntColumn
    more1: Number


# Ranks, and by resource what settles, what is requested, what can be, and what the pod uses.
Booked = tuple[Ints, list[tuple[Ints, Ints, Ints, float]]]


def booked(amounts: Amounts, fleet: FleetView, rows: Rows, placed: str = "settling") -> Booked:
    """What formulas take of resources, for a pod that uses `amounts`: once for all signals."""
    nodes = fleet.nodes
    rank = nodes.rank[rows]
    settling: Ints = getattr(nodes, placed)
    found = []
    for row, column in enumerate(map(fleet.axis.column, _RESOURCES)):
        room = (
            np.zeros(len(rank), dtype=np.int64)
            if column is None
            else nodes.allocatable[column][rows]
        )
        found.append((settling[row][rows], nodes.nonzero[row][rows], room, float(amounts[row])))
    return rank, found


def columns_of(signal: str, booked: Booked, fleet: FleetView, rows: Rows) -> Iterator[Any]:
    """What formulas take of a signal beside what is `booked`: the fields of a SignalLoad."""
    rank, shares = booked
    one, other = _OF.get(signal, _EITHER)
    told = [column[rows] for column in fleet.signals.told(signal)]
    return chain(told, (rank,), shares[one], shares[other])


class Load(NamedTuple):
    """[rows] one signal, as formulas are handed it."""

    signal: str
    columns: SignalLoad
    now: float

    @property
    def of_one(self) -> bool:
        """Whether pods request what the signal tells of: cpu and memory."""
        return self.signal in _OF

    def share(self, of: str, scale: Any = 1.0) -> Floats:
        """[rows] the larger share of what is there (`settling`, `nonzero`), that times `scale`, and
        the pod; far above 1 where nothing can be allocated.
        """
        columns = self.columns
        there0, there1 = getattr(columns, f"{of}0"), getattr(columns, f"{of}1")
        found: Floats = (scale * there0 + columns.more0) / most(columns.capacity0, 1)
        if not self.of_one:
            other = (scale * there1 + columns.more1) / most(columns.capacity1, 1)
            found = most(found, other)
        return found


def weight_of(age: Any, fresh: Any, stale: Any, measured: Any) -> Any:
    """What the readings count beside the requests, 0..1."""
    faded = least(most((stale - age) / (stale - fresh), 0.0), 1.0)
    return choose(np.isnan(measured), 0.0, faded)


def mixed(measured: Any, requested: Any, weight: Any) -> Any:
    """The utilisation expected."""
    return choose(weight > 0.0, weight * measured, 0.0) + (1.0 - weight) * requested


class Judged(NamedTuple):
    """[rows] `utilisation` 0..1 expected of a signal, and the weight that readings have in it."""

    load: Load
    utilisation: Floats
    weight: Floats


# --- the plugin
# --------------------------------------------------------------------------------------------------


Fresh = Annotated[
    float, Meta(ge=0, le=86_400, description="seconds up to which a reading counts in full")
]
Stale = Annotated[
    float, Meta(ge=0, le=86_400, description="seconds from which a reading does not count at all")
]


class FadeArgs(Args):
    """How readings grow old."""

    fresh_s: Fresh = 120.0
    stale_s: Stale = 300.0


Formula = Callable[[Load, Any], Floats]  # of a signal, and the arguments of the plugin
Tells = Callable[[Judged, Any, FleetView, Rows], Mapping[str, Column]]


@dataclass(frozen=True)
class LoadFormula:
    """What is told of nodes, and what is made of it.

    `measured`, `requested`: [rows] utilisation of a signal with the pod, by readings (not a number
    where unknown) and by requests. `score`: [rows] of all signals together. `normalize`: see
    `Score.normalize`; None, it is not. `tells`: what `explain` says of a signal beside what it says
    of any. `placed`: which column of `fleet.nodes` has what the readings do not hold yet.
    """

    measured: Formula
    requested: Formula
    score: Callable[[Sequence[Judged], Any, FleetView, Rows], Floats]
    normalize: Callable[[Floats], Floats] | None = None
    tells: Tells = lambda judged, args, fleet, rows: {}
    placed: str = "settling"
    derives: Derived = NOTHING


class LoadScore(Score[Amounts]):
    """A term about live load; SIGNALS: none if they are an argument. ValueError for a fade that
    ends before it begins.
    """

    keyed_by_template = True
    depends: ClassVar[Depends] = Depends.NODE
    ARGS: ClassVar[type[FadeArgs]]
    SIGNALS: ClassVar[Signals] = ()
    formula: ClassVar[LoadFormula]

    def __init__(self, **args: Any) -> None:
        self.args: Any = self.ARGS(**args)
        fresh_s, stale_s = self.args.fresh_s, self.args.stale_s
        if stale_s <= fresh_s:
            raise ValueError(f"stale_s ({stale_s:g}) must be greater than fresh_s ({fresh_s:g})")
        self.signals = self._named()
        resources = {row for name in self.signals for row in _OF.get(name, _EITHER)}
        # which of the amounts tells classes apart
        self._only = resources.pop() if len(resources) == 1 else None

    def _named(self) -> Signals:
        return self.SIGNALS or self.args.signals

    def _amounts(self, pod_info: PodInfo) -> Amounts:
        return nonzero_request(pod_info.pod)

    def class_key(self, pod_info: PodInfo) -> Hashable:
        """What the pod is expected to use of the resources that its signals go by."""
        amounts = self._amounts(pod_info)
        return amounts if self._only is None else amounts[self._only]

    def pre_filter(self, pod_info: PodInfo, fleet: FleetView) -> Amounts | Refuse | Skip:
        """(milli-CPU, bytes) that the pod is expected to use."""
        return self._amounts(pod_info)

    def score(self, state: Amounts, fleet: FleetView, rows: Rows) -> Floats:
        """As the formula says."""
        return self.formula.score(self._judged(state, fleet, rows), self.args, fleet, rows)

    def _judged(self, state: Amounts, fleet: FleetView, rows: Rows) -> list[Judged]:
        return [self._judge(load) for load in self._loads(state, fleet, rows)]

    def _loads(self, state: Amounts, fleet: FleetView, rows: Rows) -> list[Load]:
        common = booked(state, fleet, rows, self.formula.placed)
        return [
            Load(one, SignalLoad(*columns_of(one, common, fleet, rows)), fleet.now)
            for one in self.signals
        ]

    def _judge(self, load: Load) -> Judged:
        args = self.args
        measured = self.formula.measured(load, args)
        age = load.now - load.columns.sampled_at
        weight = weight_of(age, args.fresh_s, args.stale_s, measured)
        if (weight < 1.0).any():  # else the same, at half the cost
            measured = mixed(measured, self.formula.requested(load, args), weight)
        return Judged(load, least(measured, 1.0), weight)

    def explain(
        self, state: Amounts, pod_info: PodInfo, fleet: FleetView, row: int
    ) -> Mapping[str, Any]:
        """By signal, unless the term is about one: utilisation expected, mean, last reading, its age
        in seconds, what the formula tells, and in words what was gone by.
        """
        column = self.explain_rows(state, pod_info, fleet, np.asarray([row]))
        found: Mapping[str, Any] = column.values(1)[0]
        return found

    def explain_rows(
        self, state: Amounts, pod_info: PodInfo, fleet: FleetView, rows: Rows
    ) -> Column:
        """The same of each row."""
        told = {
            one.load.signal: fields({**_told(one), **self._more(one, state, pod_info, fleet, rows)})
            for one in self._judged(state, fleet, rows)
        }
        return told[self.signals[0]] if len(self.SIGNALS) == 1 else fields(told)

    def _more(
        self, judged: Judged, state: Amounts, pod_info: PodInfo, fleet: FleetView, rows: Rows
    ) -> Mapping[str, Column]:
        return self.formula.tells(judged, self.args, fleet, rows)


def load_term(
    module: str, name: str, what: str, args: type[FadeArgs], signals: Signals, formula: LoadFormula
) -> type[LoadScore]:
    """The plugin that a row of a table in `module` is."""
    about = {"__module__": module, "__doc__": what, "name": name, "ARGS": args, "SIGNALS": signals}
    shape: dict[str, Any] = {"derives": formula.derives, "formula": formula}
    if formula.normalize is not None:
        shape["normalize"] = staticmethod(formula.normalize)
    return type(name, (LoadScore,), {**about, **shape})


def _told(judged: Judged) -> dict[str, Column]:
    columns = judged.load.columns
    known = np.isfinite(columns.mean) & np.isfinite(columns.sampled_at)
    told = numbers(known)
    never = Same(None)
    age = np.maximum(judged.load.now - columns.sampled_at, 0.0)
    return {
        "utilisation": numbers(judged.utilisation, 4),
        "mean": where(told, numbers(columns.mean, 4), never),
        "reading": where(told, numbers(columns.used, 4), never),
        "age_s": where(told, numbers(age, 1), never),
        "judged": picked(list(map(_in_words, known.tolist(), judged.weight.tolist()))),
    }


def _in_words(known: bool, weight: float) -> str:
    if not known:
        return "unknown, by requests"
    if weight <= 0.0:
        return "stale, by requests"
    return "fresh" if weight >= 1.0 else f"fading, {weight:.0%} by readings, rest by requests"


# --- signals, as profiles write them
# --------------------------------------------------------------------------------------------------

Weights = tuple[tuple[str, float], ...]
WrittenWeights = Annotated[dict[str, Annotated[float, Meta(ge=0.01, le=1000)]], Meta(min_length=1)]


def signal_names(most: int | None = None) -> dict[str, Any]:
    """For `Meta(extra=...)`: a list of signals, one at least and `most` at most."""
    bounds = "at least one signal" if most is None else f"1 to {most} signals"
    written = Annotated[
        list[Annotated[str, Meta(pattern=NAME_PATTERN)]], Meta(min_length=1, max_length=most)
    ]

    def check(raw: object) -> Signals:
        names = _checked(texts(raw))
        if not names or (most is not None and len(names) > most):
            raise ValueError(f"must name {bounds}, for example [cpu], not {len(names)}")
        return names

    return read_by(check, written)


def signal_weights(raw: object) -> Weights:
    """{signal: weight}, one at least."""
    if not isinstance(raw, Mapping) or not raw:
        raise ValueError(
            f"must map signals to weights, for example {{cpu: 2, memory: 1}}, not {shown(raw)}"
        )
    weight = number(0.01, 1000)
    return tuple((name, weight(raw[name])) for name in _checked(tuple(raw)))


def _checked(names: tuple[Any, ...]) -> Signals:
    wrong = [name for name in names if not isinstance(name, str) or not is_signal_name(name)]
    if wrong:
        raise ValueError(
            f"{shown(wrong[0])} is no signal: lower case letters, digits and underscores, 40 at "
            "most"
        )
    return names
