"""Who times the calls into plugins: the shell, for the decisions that it samples. The core itself
has no clock.
"""

from collections.abc import Callable, Mapping
from contextvars import ContextVar
from typing import Any, Protocol, TypeVar

T = TypeVar("T")


class Stopwatch(Protocol):
    """Makes the calls into plugins while it is set, and times them."""

    def begin(self, profile: str) -> None:
        """The calls that follow are about pods of this profile."""
        ...

    def call(
        self, plugin: str, call: Callable[..., T], args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> T:
        """Make the call, whose name is the plugin's method; what it raises goes through."""
        ...


# Set by the shell around what it samples: a variable of the context, so that nobody else's calls
# are timed with it.
STOPWATCH: ContextVar[Stopwatch | None] = ContextVar("stopwatch", default=None)
