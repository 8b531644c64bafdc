"""The port of telemetry: what a source is, and what it may say.

Two kinds: one is asked node by node (a kubelet, a node_exporter), the other once for all nodes
(Prometheus, metrics.k8s.io, load-watcher, a file). Both give raw samples with the time at which the
source took them. Whatever cannot be a number of that kind is no number: unknown, never 0, and
counted.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from math import isfinite
from typing import Protocol

from agents.observer.loads import Measure, Sample
from agents.observer.seen import NodeTarget
from shared.model.backoff import Backoff

MAX_AHEAD_S = 5.0  # a sample that is later than the source's own clock by more than this is a lie
MAX_SKIPS = 8  # intervals until a source that fails is asked again, at most
MAX_NAMED = 20  # names that are kept of what could not be matched


class SourceError(RuntimeError):
    """A source did not give a sample; the text says which and why."""


@dataclass(slots=True)
class Matching:
    """Series that are about no known node, or about no single one. Counted all, named some."""

    unmatched: int = 0
    ambiguous: int = 0
    unmatched_names: list[str] = field(default_factory=list)
    ambiguous_names: list[str] = field(default_factory=list)

    def miss(self, name: str) -> None:
        """A series of no known node."""
        self.unmatched += 1
        _note(self.unmatched_names, name)

    def clash(self, name: str) -> None:
        """A series that may be about several nodes, or a second one about the same node."""
        self.ambiguous += 1
        _note(self.ambiguous_names, name)


def _note(names: list[str], name: str) -> None:
    if len(names) < MAX_NAMED and name not in names:
        names.append(name[:200])


@dataclass(slots=True)
class Answer:
    """What a source says of all nodes. `rejected` counts numbers that were not believed, by reason.

    `problem`: what part of the answer is missing, and why.
    """

    samples: dict[str, Sample] = field(default_factory=dict)
    matching: Matching = field(default_factory=Matching)
    rejected: Counter[str] = field(default_factory=Counter)
    problem: str = ""


@dataclass(slots=True)
class Status:
    """How a source does; kept by who asks it, shown by whoever wants to. Times are the agent's
    monotonic clock.

    `lag_s`: how long the latest answer took. `matching` is of the latest answer, `rejected` of all.
    `failing`: of a source that is asked node by node, the nodes that do not answer, and why;
    `problem` is that of the latest node.
    """

    name: str
    asked: int = 0
    errors: int = 0
    problem: str = ""  # of the latest question; empty: none
    answered_at: float | None = None
    lag_s: float = 0.0
    matching: Matching = field(default_factory=Matching)
    rejected: Counter[str] = field(default_factory=Counter)
    failing: dict[str, str] = field(default_factory=dict)

    def answered(self, now: float, lag_s: float, answer: Answer | None = None) -> None:
        """An answer came."""
        self.asked += 1
        self.answered_at = now
        self.lag_s = lag_s
        self.problem = ""
        if answer is not None:
            self.matching = answer.matching
            self.problem = answer.problem
            self.rejected += answer.rejected

    def failed(self, problem: str, lag_s: float) -> None:
        """None came."""
        self.asked += 1
        self.errors += 1
        self.problem = problem[:300]
        self.lag_s = lag_s


class NodeSource(Protocol):
    """Asked node by node."""

    async def sample(self, target: NodeTarget) -> Sample:
        """One node's sample; SourceError says why there is none."""
        ...

    async def close(self) -> None:
        """Close all connections."""
        ...


class FleetSource(Protocol):
    """Asked once for all nodes."""

    async def sample_all(self, targets: Mapping[str, NodeTarget]) -> Answer:
        """The samples of all nodes that it knows; SourceError says why there are none."""
        ...

    async def close(self) -> None:
        """Close all connections."""
        ...


@dataclass(frozen=True, slots=True)
class Range:
    """What a number may be, and which end is a full node. `headroom`: the high end is an idle one."""

    low: float = 0.0
    high: float = 1.0
    headroom: bool = False

    def share(self, value: float) -> float:
        """The number as a share 0..1 of a full node; ValueError with the reason where it cannot be."""
        if not isfinite(value):
            raise ValueError("not a finite number")
        if not self.low <= value <= self.high + 0.1 * (self.high - self.low):
            raise ValueError("negative" if value < 0 <= self.low else "out of range")
        share = min(1.0, (value - self.low) / (self.high - self.low))
        return 1.0 - share if self.headroom else share


def pause_s(interval_s: float, fails: int) -> float:
    """Seconds until a source is asked again that has failed so often in a row: its interval,
    doubling up to eight.
    """
    return Backoff(interval_s, MAX_SKIPS * interval_s).after(fails + 1)


def believed(value: float) -> float:
    """The number itself; ValueError with the reason where no load can be so."""
    if not isfinite(value):
        raise ValueError("not a finite number")
    if value < 0:
        raise ValueError("negative")
    return value


def age_of(sampled_at: float, answered_at: float) -> float:
    """Seconds from a sample to the answer, both by the source's clock; ValueError where the sample
    is yet to come.
    """
    if not (isfinite(sampled_at) and isfinite(answered_at)) or sampled_at <= 0 or answered_at <= 0:
        raise ValueError("without a time")
    if sampled_at > answered_at + MAX_AHEAD_S:
        raise ValueError("from the future")
    return max(0.0, answered_at - sampled_at)


def checked(
    name: str, measure: Measure, answered_at: float, rejected: Counter[str]
) -> dict[str, Measure]:
    """{name: the measure with its age}, or nothing, counted, where it cannot be."""
    try:
        if measure.value is None:
            raise ValueError("no number")
        value, age = believed(measure.value), age_of(measure.time, answered_at)
    except ValueError as reason:
        rejected[str(reason)] += 1
        return {}
    return {name: Measure(value, measure.time, measure.counter, measure.parts, age)}


def date_of(header: str | None) -> float:
    """The server's own clock from its `Date` header, 0 where it does not tell."""
    try:
        return parsedate_to_datetime(header or "").timestamp()
    except (ValueError, OverflowError, TypeError):
        return 0.0
