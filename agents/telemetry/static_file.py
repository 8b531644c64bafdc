"""Readings from a file, YAML or JSON, that somebody else writes: where there is no metrics server,
and for trials.

    sampled_at: 2026-01-01T00:00:00Z     # or seconds since 1970; left out: when the file was written
    nodes:
      node-1: {cpu: 0.35, memory: 0.5, disk_busy: 0.1, network_receive: 1.2e+7}

`cpu` and `memory` are shares of the node, `network_receive`, `network_transmit` and `link_speed`
bytes a second, all else shares. Nodes may be called by name or address.
"""

import asyncio
import math
import os
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import yaml

from agents.observer import signals
from agents.observer.loads import Measure
from agents.observer.seen import NodeTarget
from agents.telemetry.kubelet import seconds
from agents.telemetry.matching import take_by_name
from agents.telemetry.queries import Query
from agents.telemetry.source import Answer, SourceError, age_of
from shared.model.signals import is_signal_name

MAX_FILE = 16 * 1024 * 1024
MAX_YAML = 1024 * 1024
_UNITS = {
    signals.CPU: "share_of_cpu",
    signals.MEMORY: "share_of_memory",
    **dict.fromkeys((signals.RECEIVE, signals.TRANSMIT, signals.LINK_SPEED), "bytes_per_second"),
}


def read_file(
    raw: bytes,
    written_at: float,
    now: float,
    targets: Mapping[str, NodeTarget],
    source: str = "file",
) -> Answer:
    """The samples of all nodes; SourceError if it is no such file or its time cannot be."""
    data = _data(raw)
    if not isinstance(data, dict) or not isinstance(data.get("nodes"), dict):
        raise SourceError("needs a map `nodes`")
    at = _time(data["sampled_at"]) if "sampled_at" in data else written_at
    try:
        age = age_of(at, now)
    except ValueError as reason:
        raise SourceError(f"sampled_at is {reason}") from None
    answer = Answer()
    named = [(str(name), told) for name, told in data["nodes"].items()]
    take_by_name(
        answer,
        source,
        named,
        targets,
        lambda told, target: _measures(told, target, at, age, answer),
    )
    return answer


def _data(raw: bytes) -> Any:
    """JSON, or else YAML: not by its loader in C, which deep nesting crashes."""
    try:
        return msgspec.json.decode(raw)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        pass
    if len(raw) > MAX_YAML:
        raise SourceError(f"larger than {MAX_YAML} bytes and not JSON: write it as JSON")
    try:
        return yaml.safe_load(raw)
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise SourceError(f"is no YAML: {' '.join(str(error).split())}"[:300]) from None


def _measures(
    told: Any, target: NodeTarget, at: float, age: float, answer: Answer
) -> dict[str, Measure]:
    found: dict[str, Measure] = {}
    for name, number in told.items() if isinstance(told, dict) else ():
        try:
            if (
                isinstance(number, bool)
                or not isinstance(number, int | float)
                or not is_signal_name(str(name))
            ):
                raise ValueError("no number")
            value = Query(name, "", "", _UNITS.get(name, "share")).value(float(number), target)
        except (ValueError, OverflowError) as reason:
            answer.rejected[str(reason)] += 1
            continue
        found[name] = Measure(value, at, age=age)
    return found


def _time(told: Any) -> float:
    """Seconds since 1970; not a number where that is none."""
    if isinstance(told, datetime):
        return (told if told.tzinfo else told.replace(tzinfo=UTC)).timestamp()
    if isinstance(told, int | float) and not isinstance(told, bool):
        return float(told)
    return seconds(told) if isinstance(told, str) else math.nan


class StaticFile:
    """One file. `constant`: what it says holds for ever, however old it is."""

    def __init__(self, name: str, path: str, *, constant: bool = False) -> None:
        self._name = name
        self._path = Path(path)
        self._constant = constant

    async def sample_all(self, targets: Mapping[str, NodeTarget]) -> Answer:
        """The samples of all nodes; SourceError says why there are none."""
        try:
            return await asyncio.to_thread(self._sample, targets)
        except OSError as error:
            raise SourceError(f"{self._path} cannot be read: {error.strerror or error}") from None
        except SourceError as error:
            raise SourceError(f"{self._path}: {error}") from None

    def _sample(self, targets: Mapping[str, NodeTarget]) -> Answer:
        with self._path.open("rb") as stream:
            raw = stream.read(MAX_FILE + 1)
            written_at = os.fstat(stream.fileno()).st_mtime
        if len(raw) > MAX_FILE:
            raise SourceError(f"larger than {MAX_FILE} bytes")
        now = time.time()
        return read_file(raw, now if self._constant else written_at, now, targets, self._name)

    async def close(self) -> None:
        """Nothing is kept."""
