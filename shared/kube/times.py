"""Timestamps as the API writes them, from seconds since 1970."""

from datetime import UTC, datetime
from functools import lru_cache


@lru_cache(maxsize=64)
def _second(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")


def rfc3339(wall: float) -> str:
    """metav1.Time: whole seconds, UTC."""
    return f"{_second(int(wall))}Z"


def rfc3339_micro(wall: float) -> str:
    """metav1.MicroTime: microseconds, UTC."""
    seconds, micros = divmod(round(wall * 1e6), 1_000_000)
    return f"{_second(seconds)}.{micros:06d}Z"
