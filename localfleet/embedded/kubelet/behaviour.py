"""What a simulated pod does, as its annotations say: how long it runs, how it ends, what it uses."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import isfinite
from typing import TypeVar

from localfleet.embedded.meta import Object, annotations_of
from shared.model.resources import CPU, MEMORY, Resources, parse_quantity

PREFIX = "embedded.global-dispatcher.io/"
START_SECONDS = PREFIX + "start-seconds"
RUN_SECONDS = PREFIX + "run-seconds"
STOP_SECONDS = PREFIX + "stop-seconds"
EXIT_CODE = PREFIX + "exit-code"
CPU_USED = PREFIX + "cpu"
MEMORY_USED = PREFIX + "memory"
NET_RX = PREFIX + "net-rx"
NET_TX = PREFIX + "net-tx"

# Without an annotation a pod uses this share of its request, and without a request this much.
CPU_SHARE = 0.6
MEMORY_SHARE = 0.8
IDLE_MILLICPU = 10
IDLE_MEMORY = 16 * 2**20
IDLE_BYTES_PER_SECOND = 20_000
_LONGEST_S = 10 * 365 * 86400.0
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Behaviour:
    """Seconds to start, run (None: for ever) and stop; the exit code; mean use of CPU
    (milli-cores), memory (bytes) and network (bytes/s). `problems` names annotations that could not
    be read and were left at their default.
    """

    start_s: float = 0.3
    run_s: float | None = None
    stop_s: float = 0.2
    exit_code: int = 0
    millicpu: int = IDLE_MILLICPU
    memory: int = IDLE_MEMORY
    rx: int = IDLE_BYTES_PER_SECOND
    tx: int = IDLE_BYTES_PER_SECOND
    problems: tuple[str, ...] = ()


def read_behaviour(pod: Object, requests: Resources) -> Behaviour:
    """The pod's annotations over the defaults for its requests (internal units)."""
    notes = annotations_of(pod)
    problems = list[str]()

    def read(key: str, parse: Callable[[str], T], default: T) -> T:
        return _read(notes, key, parse, default, problems)

    return Behaviour(
        start_s=read(START_SECONDS, _duration, 0.3),
        run_s=read(RUN_SECONDS, _duration, None),
        stop_s=read(STOP_SECONDS, _duration, 0.2),
        exit_code=read(EXIT_CODE, _exit_code, 0),
        millicpu=read(CPU_USED, _millicpu, int(requests.get(CPU, 0) * CPU_SHARE) or IDLE_MILLICPU),
        memory=read(
            MEMORY_USED, _amount, int(requests.get(MEMORY, 0) * MEMORY_SHARE) or IDLE_MEMORY
        ),
        rx=read(NET_RX, _amount, IDLE_BYTES_PER_SECOND),
        tx=read(NET_TX, _amount, IDLE_BYTES_PER_SECOND),
        problems=tuple(problems),
    )


def _read(
    notes: Mapping[str, str], key: str, parse: Callable[[str], T], default: T, problems: list[str]
) -> T:
    if key not in notes:
        return default
    try:
        return parse(notes[key])
    except ValueError as error:
        problems.append(f"annotation {key} is ignored: {error}")
        return default


def _duration(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not (isfinite(value) and 0 <= value <= _LONGEST_S):
        raise ValueError(
            f"{text[:40]!r} is not a number of seconds from 0 to {_LONGEST_S:.0f}, such as 20 or "
            "0.5"
        )
    return value


def _exit_code(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 3 and int(text) <= 255):
        raise ValueError(f"{text[:40]!r} is not an exit code from 0 to 255")
    return int(text)


def _millicpu(text: str) -> int:
    return parse_quantity(text, scale=1000)


def _amount(text: str) -> int:
    return parse_quantity(text)
