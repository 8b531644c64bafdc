"""Prometheus, or what speaks its API: Thanos, Mimir, VictoriaMetrics. One query a measure, for all
nodes.

Instant queries, one after the other so that a busy server is not asked to do all at once. First
when the samples were taken, then their values, so that an age is never told too small. A node that
is missing in either is unknown.
"""

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from agents.observer.loads import Measure, Sample
from agents.observer.seen import NodeTarget
from agents.telemetry.matching import Nodes
from agents.telemetry.queries import Query
from agents.telemetry.source import Answer, SourceError, age_of
from agents.telemetry.web import Web

QUERY_PATH = "/api/v1/query"


class Series(msgspec.Struct, gc=False):
    """One series of an instant vector: [time of the evaluation, value as text]."""

    metric: dict[str, str] = {}
    value: tuple[float, str] | None = None


class Data(msgspec.Struct, gc=False, rename="camel"):
    """The result of a query."""

    result_type: str = ""
    result: msgspec.Raw = msgspec.Raw(b"[]")


class Body(msgspec.Struct, gc=False):
    """What /api/v1/query answers."""

    status: str = ""
    data: Data | None = None
    error: str = ""
    infos: Any = None
    warnings: list[str] | None = None


_BODY = msgspec.json.Decoder(Body)
_VECTOR = msgspec.json.Decoder(list[Series])


def read_vector(body: bytes) -> tuple[list[Series], list[str]]:
    """(series, warnings) of an instant query; SourceError if it is none."""
    try:
        answer = _BODY.decode(body)
        if answer.status != "success" or answer.data is None:
            raise SourceError(f"the query failed: {answer.error or answer.status}"[:300])
        if answer.data.result_type != "vector":
            raise SourceError(f"the query gives a {answer.data.result_type[:20]}, not a vector")
        return _VECTOR.decode(answer.data.result), answer.warnings or []
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise SourceError(f"the answer cannot be read: {error}"[:300]) from None


@dataclass(slots=True)
class _ByNode:
    """Numbers by node with the time of the evaluation; a node that has two has none."""

    numbers: dict[str, tuple[float, float]] = field(default_factory=dict)
    twice: set[str] = field(default_factory=set)

    def put(self, node: str, at: float, number: float) -> bool:
        """False if there was one already."""
        if node in self.numbers or node in self.twice:
            self.numbers.pop(node, None)
            self.twice.add(node)
            return False
        self.numbers[node] = (at, number)
        return True


class Prometheus:
    """One server, and what it is asked for."""

    def __init__(
        self,
        name: str,
        web: Web,
        queries: Iterable[Query],
        labels: Iterable[str],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._name = name
        self._web = web
        self._clock = clock
        self._queries = tuple(queries)
        self._labels = tuple(labels)

    async def sample_all(self, targets: Mapping[str, NodeTarget]) -> Answer:
        """The samples of all nodes. A query that fails costs its own measure; SourceError if none
        succeeds.
        """
        answer = Answer()
        nodes = Nodes(targets, self._labels)
        times: dict[str, _ByNode | SourceError] = {}
        found: dict[str, dict[str, Measure]] = {}
        problems: list[str] = []
        asked: dict[str, float] = {}  # by measure, by our clock
        for query in self._queries:
            try:
                if query.sampled_at not in times:
                    times[query.sampled_at] = await self._caught(query.sampled_at, nodes, answer)
                taken = times[query.sampled_at]
                if isinstance(taken, SourceError):
                    raise taken
                asked[query.measure] = self._clock()
                values = await self._ask(query.query, nodes, answer)
            except SourceError as error:
                problems.append(f"{query.measure}: {error}")
                continue
            _combine(query, values, taken, targets, answer, found)
        if problems and len(problems) == len(self._queries):
            raise SourceError(problems[0])
        answer.problem = "; ".join(problems)[:1000]
        # The first answers have become older while a slow server gave the last ones.
        now = self._clock()
        since = {measure: now - at for measure, at in asked.items()}
        answer.samples = {
            node: Sample(self._name, _older(measures, since)) for node, measures in found.items()
        }
        return answer

    async def close(self) -> None:
        """Close all connections."""
        await self._web.close()

    async def _caught(self, query: str, nodes: Nodes, answer: Answer) -> _ByNode | SourceError:
        """The answer or the reason why there is none: several measures share the query for their
        time.
        """
        try:
            return await self._ask(query, nodes, answer)
        except SourceError as error:
            return error

    async def _ask(self, query: str, nodes: Nodes, answer: Answer) -> _ByNode:
        page = await self._web.get(QUERY_PATH, [("query", query)])
        series, _ = read_vector(page.body)
        found = _ByNode()
        for one in series:
            node = nodes.find(one.metric, answer.matching)
            if node is None or one.value is None:
                continue
            try:
                number = float(one.value[1])
            except ValueError:
                answer.rejected["no number"] += 1
                continue
            if not found.put(node, one.value[0], number):
                answer.matching.clash(f"{node} twice")
        return found


def _older(measures: Mapping[str, Measure], since: Mapping[str, float]) -> dict[str, Measure]:
    return {name: replace(one, age=one.age + since[name]) for name, one in measures.items()}


def _combine(
    query: Query,
    values: _ByNode,
    taken: _ByNode,
    targets: Mapping[str, NodeTarget],
    answer: Answer,
    found: dict[str, dict[str, Measure]],
) -> None:
    """Values and the times of their samples as measures by node."""
    for node, (asked_at, number) in values.numbers.items():
        try:
            if node not in taken.numbers:
                raise ValueError("without a time")
            sampled_at = taken.numbers[node][1]
            age = age_of(sampled_at, asked_at)
            measure = Measure(query.value(number, targets[node]), sampled_at, age=age)
        except ValueError as reason:
            answer.rejected[str(reason)] += 1
            continue
        found.setdefault(node, {})[query.measure] = measure
