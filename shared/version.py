"""Which version this is."""

from functools import cache
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as _installed


@cache
def version() -> str:
    """The installed distribution's version; '0+source' when run from a bare checkout."""
    try:
        return _installed("global-dispatcher")
    except PackageNotFoundError:
        return "0+source"
