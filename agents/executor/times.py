"""Timestamps as the API writes them, from seconds since 1970."""

from datetime import UTC, datetime


def rfc3339(wall: float) -> str:
    """metav1.Time: whole seconds, UTC."""
    return datetime.fromtimestamp(wall, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def rfc3339_micro(wall: float) -> str:
    """metav1.MicroTime: microseconds, UTC."""
    # strftime takes six times as long, and each event has one of these.
    return datetime.fromtimestamp(wall, UTC).isoformat(timespec="microseconds").removesuffix("+00:00") + "Z"
