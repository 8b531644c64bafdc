"""CPU rates out of kubelets' counters: the two last points of each container, as metrics-server 0.9
keeps them.

Example, a scrape every 15 s: a container that started at 100 s has used 3 core-seconds at 112 s. It
is younger than a scrape, so its rate is since its start: 3 / 12 = 0.25 cores. At 127 s it has used
6: (6 - 3) / 15 = 0.2 cores.

Source: pkg/storage/pod.go, pkg/storage/node.go and pkg/scraper/client/resource/decode.go of
metrics-server.
"""

from collections.abc import Iterator
from typing import NamedTuple

from prometheus_client.parser import text_string_to_metric_families

from localfleet.embedded.usage import Usage

_FRESH_S = 10.0  # a younger container has no rate since its start yet
_CPU = "cpu_usage_seconds_total"
_MEMORY = "memory_working_set_bytes"
_STARTED = "start_time_seconds"
_MOST = 2.0**63  # beyond any amount; a sample of that, a negative one and NaN count as missing
_MOST_AT = 253_402_300_800.0  # the year 10000
_NODE = ("", "", "")
Key = tuple[str, str]  # namespace, name


class Point(NamedTuple):
    """One container, or one node, at one time (unix seconds). CPU in core-seconds since `started`,
    memory in bytes.
    """

    started: float
    at: float
    cpu_s: float
    memory: float


Containers = dict[str, Point]


class Batch(NamedTuple):
    """The points of one scrape of all kubelets."""

    nodes: dict[str, Point]
    pods: dict[Key, Containers]


def read_page(text: str, node: str, now: float) -> Batch:
    """A kubelet's page /metrics/resource. A pod of which a container tells no CPU or no memory is
    left out.

    `now` is the time of what has none. ValueError, KeyError: it is no such page.

    >>> labels = '{container="c",namespace="n",pod="p"}'
    >>> page = f"container_{_CPU}{labels} 1.5 1700000000123\\ncontainer_{_MEMORY}{labels} 4096 1700000000123\\n"
    >>> read_page(page, "node", 0).pods
    {('n', 'p'): {'c': Point(started=0.0, at=1700000000.123, cpu_s=1.5, memory=4096.0)}}
    """
    told: dict[
        tuple[str, str, str], dict[str, tuple[float, float]]
    ] = {}  # by namespace, pod, container
    for kind, of, value, at in _samples(text, now):
        told.setdefault(of, {})[kind] = value, at
    points = {of: _point(found) for of, found in told.items()}
    broken = {of[:2] for of, point in points.items() if point is None}
    whole = points.pop(_NODE, None)
    pods: dict[Key, Containers] = {}
    for (namespace, pod, container), point in points.items():
        if point is not None and (namespace, pod) not in broken:
            pods.setdefault((namespace, pod), {})[container] = point
    return Batch({node: whole} if whole is not None else {}, pods)


def _samples(text: str, now: float) -> Iterator[tuple[str, tuple[str, str, str], float, float]]:
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            what, _, kind = sample.name.partition("_")
            if what not in ("container", "node") or kind not in (_CPU, _MEMORY, _STARTED):
                continue
            value = float(sample.value)
            at = float(sample.timestamp) if sample.timestamp is not None else now
            if not (0 <= value < _MOST and 0 <= at < _MOST_AT):  # nor NaN
                continue
            labels = sample.labels
            of = (
                (labels["namespace"], labels["pod"], labels["container"])
                if what == "container"
                else _NODE
            )
            yield kind, of, value, at


def _point(told: dict[str, tuple[float, float]]) -> Point | None:
    (cpu_s, at), (memory, later) = told.get(_CPU, (0.0, 0.0)), told.get(_MEMORY, (0.0, 0.0))
    return (
        Point(told.get(_STARTED, (0.0, 0.0))[0], at or later, cpu_s, memory)
        if cpu_s and memory
        else None
    )


class Points:
    """The points of the last two scrapes. `resolution_s` is the time between them."""

    def __init__(self, resolution_s: float) -> None:
        self._resolution_s = resolution_s
        self._last = Batch({}, {})
        self._before = Batch({}, {})

    def store(self, batch: Batch) -> None:
        """Take a new scrape; nodes and pods that are missing in it are forgotten."""
        nodes: dict[str, Point] = {}
        pods: dict[Key, Containers] = {}
        for name, point in batch.nodes.items():
            if before := _earlier(point, self._last.nodes.get(name), self._before.nodes.get(name)):
                nodes[name] = before
        for key, containers in batch.pods.items():
            last = self._last.pods.get(key, {})
            older = self._before.pods.get(key, {})
            found = {
                name: self._start(point, last.get(name), older.get(name))
                for name, point in containers.items()
            }
            pods[key] = {name: point for name, point in found.items() if point is not None}
        self._last, self._before = batch, Batch(nodes, pods)

    def node(self, name: str) -> Usage | None:
        """None: not known, or not yet."""
        last = self._last.nodes.get(name)
        before = self._before.nodes.get(name)
        return _usage(last, before) if last is not None and before is not None else None

    def pod(self, key: Key) -> dict[str, Usage] | None:
        """By container. None: not known, or not yet of each container."""
        last = self._last.pods.get(key, {})
        before = self._before.pods.get(key, {})
        if not last or last.keys() - before.keys():
            return None
        found = {name: _usage(point, before[name]) for name, point in last.items()}
        return {name: usage for name, usage in found.items() if usage is not None}

    def _start(self, new: Point, last: Point | None, older: Point | None) -> Point | None:
        """The point to compare `new` with: the start of a container younger than a scrape, when it
        had used nothing.
        """
        if _FRESH_S <= new.at - new.started < self._resolution_s:
            return Point(new.started, new.started, 0.0, new.memory)
        return _earlier(new, last, older) if last is not None and new.started < last.at else None


def _earlier(new: Point, last: Point | None, older: Point | None) -> Point | None:
    """The point to compare `new` with: `last`, or `older` if a scrape has brought the same point
    twice.
    """
    if last is None or new.at > last.at:
        return last
    return older if older is not None and older.at < new.at else None


def _usage(last: Point, before: Point) -> Usage | None:
    """The mean between two points; None if the counter went down or the container started again."""
    if last.started < before.started or last.cpu_s < before.cpu_s:
        return None
    window = last.at - before.at
    return Usage(last.at, window, (last.cpu_s - before.cpu_s) / window, last.memory)
