"""load-watcher's JSON (`GET /watcher`), as Trimaran's plugins read it: CPU and memory of all nodes
in percent.

Its average over 15 minutes is the only thing that it always tells, so it sees a change late. Its
other metrics are not read: it multiplies everything by 100, bytes too. `timestamp` is when it asked
its own provider.
"""

from collections.abc import Mapping

import msgspec

from agents.observer import signals
from agents.observer.loads import Measure
from agents.observer.seen import NodeTarget
from agents.telemetry.matching import take_by_name
from agents.telemetry.source import Answer, Range, SourceError, age_of, date_of
from agents.telemetry.web import Web

PATH = "/watcher"
OPERATORS = ("Latest", "Average", "AVG", "")  # best first; Std is no load
_PERCENT = Range(0.0, 100.0)


class Metric(msgspec.Struct, gc=False):
    """One number of a node."""

    type: str = ""
    operator: str = ""
    value: float | None = None


class NodeMetrics(msgspec.Struct, gc=False):
    """Those of a node."""

    metrics: list[Metric] | None = None


class Data(msgspec.Struct, gc=False):
    """By node."""

    nodes: dict[str, NodeMetrics] | None = msgspec.field(name="NodeMetricsMap", default=None)


class Window(msgspec.Struct, gc=False):
    """What an average is over, Unix seconds."""

    end: float = 0.0


class WatcherMetrics(msgspec.Struct, gc=False):
    """What load-watcher answers."""

    data: Data
    timestamp: float = 0.0
    window: Window = msgspec.field(default_factory=Window)


_READ = msgspec.json.Decoder(WatcherMetrics)


def read_watcher(
    body: bytes, answered_at: float, targets: Mapping[str, NodeTarget], source: str = "load-watcher"
) -> Answer:
    """The samples of all nodes; SourceError if it is no answer of load-watcher or tells no time
    that can be.
    """
    try:
        told = _READ.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise SourceError(f"the answer cannot be read: {error}"[:300]) from None
    time = min(filter(None, (told.timestamp, told.window.end)), default=0.0)
    try:
        age = age_of(time, answered_at)
    except ValueError as reason:
        raise SourceError(f"the answer is {reason}") from None
    answer = Answer()
    named = (told.data.nodes or {}).items()
    take_by_name(
        answer,
        source,
        named,
        targets,
        lambda one, target: _measures(one, target, time, age, answer),
    )
    return answer


def _measures(
    metrics: NodeMetrics, target: NodeTarget, time: float, age: float, answer: Answer
) -> dict[str, Measure]:
    found: dict[str, Measure] = {}
    for kind, measure, full in (
        ("CPU", signals.CPU, target.cpu / 1000),
        ("Memory", signals.MEMORY, target.memory),
    ):
        told = {one.operator: one.value for one in metrics.metrics or () if one.type == kind}
        value = next((told[name] for name in OPERATORS if told.get(name) is not None), None)
        if value is None:
            continue
        try:
            if full <= 0:
                raise ValueError("of a node of unknown capacity")
            found[measure] = Measure(_PERCENT.share(value) * full, time, age=age)
        except ValueError as reason:
            answer.rejected[str(reason)] += 1
    return found


class LoadWatcher:
    """One load-watcher."""

    def __init__(self, name: str, web: Web) -> None:
        self._name = name
        self._web = web

    async def sample_all(self, targets: Mapping[str, NodeTarget]) -> Answer:
        """The samples of all nodes; SourceError says why there are none."""
        page = await self._web.get(PATH)
        return read_watcher(page.body, date_of(page.date), targets, self._name)

    async def close(self) -> None:
        """Close all connections."""
        await self._web.close()
