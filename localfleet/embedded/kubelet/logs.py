"""The log of a simulated container, which has no output: that it is simulated, at its start and
every ten seconds.
"""

from collections.abc import Iterator, Mapping
from math import ceil

from localfleet.embedded.meta import Object, micro_stamp, seconds

_PERIOD_S = 10.0
_MOST_LINES = 10_000
Line = tuple[float, str]


def container_log(pod: Object, container: str, query: Mapping[str, str], now: float) -> str:
    """The text that `kubectl logs` shows; `query` as the API has it (previous, tailLines,
    sinceSeconds, sinceTime, timestamps, limitBytes). Text only, "" before the first start.
    """
    status = pod.get("status", {})
    kinds = ("containerStatuses", "ephemeralContainerStatuses")
    every = (entry for kind in kinds for entry in status.get(kind) or ())
    entry = next((one for one in every if one["name"] == container), None)
    if entry is None:
        return ""
    state, restarts = _run(entry, previous=query.get("previous") == "true")
    lines = _since(list(_lines(pod, container, state, restarts, now)), query, now)
    tail = query.get("tailLines", "")
    if tail.isdigit():
        lines = lines[-int(tail) :] if int(tail) else []
    timestamps = query.get("timestamps") == "true"
    text = "".join(
        f"{micro_stamp(at)} {words}\n" if timestamps else f"{words}\n" for at, words in lines
    )
    limit = query.get("limitBytes", "")
    return text[: int(limit)] if limit.isdigit() else text


def _run(entry: Object, *, previous: bool) -> tuple[Object, int]:
    """The state of the run that is asked for, and how many restarts came before it."""
    state = entry.get("state", {})
    restarts = int(entry.get("restartCount", 0))
    if "waiting" in state:  # between two runs the last one is the latest
        return entry.get("lastState", {}), restarts
    return (entry.get("lastState", {}), restarts - 1) if previous else (state, restarts)


def _lines(pod: Object, container: str, state: Object, restarts: int, now: float) -> Iterator[Line]:
    run = state.get("running") or state.get("terminated")
    if not run:
        return
    began = seconds(run.get("startedAt"))
    ended = seconds(run.get("finishedAt")) if "finishedAt" in run else 0.0
    until = ended or now
    again = f" (restart {restarts})" if restarts else ""
    yield (
        began,
        f"{container} started on {pod['spec'].get('nodeName', '')}{again}; this container is "
        "simulated",
    )
    first = max(1, ceil((until - began) / _PERIOD_S) - _MOST_LINES)
    for step in range(first, ceil((until - began) / _PERIOD_S)):
        yield (
            began + step * _PERIOD_S,
            f"{container} is simulated and has no output (for {step * _PERIOD_S:.0f} s)",
        )
    if ended:
        yield ended, f"{container} ended with exit code {run.get('exitCode', 0)}"


def _since(lines: list[Line], query: Mapping[str, str], now: float) -> list[Line]:
    back = query.get("sinceSeconds", "")
    earliest = now - int(back) if back.isdigit() else seconds(query.get("sinceTime"))
    return [line for line in lines if line[0] >= earliest]
