"""A leader term: the identity of its dispatcher, its epoch, and whether it still holds."""

from collections.abc import Callable
from dataclasses import dataclass

# Attempts of releases that counted them from the clock (microseconds since 1970) lie below, until
# the year 2041.
_BEFORE = 2**51
_A_TERM = 2**32  # attempts in one term at most
MOST_EPOCHS = (10**18 - _BEFORE) // _A_TERM - 1  # an attempt's number has at most 18 digits


def _for_ever() -> bool:
    return True


@dataclass(frozen=True)
class Term:
    """`epoch` grows with every term of whichever dispatcher; `valid` says whether this one still
    lasts.

    Without an election there is one term and one dispatcher.
    """

    identity: str = "global-dispatcher"
    epoch: int = 1
    valid: Callable[[], bool] = _for_ever

    @property
    def first_attempt(self) -> int:
        """Numbers of attempts (a pod's `epoch`) are above this one, and above all of earlier terms."""
        return _BEFORE + self.epoch * _A_TERM


NOBODY = Term("", 0, lambda: False)  # of a dispatcher that does not lead: nothing may be sent


@dataclass(frozen=True)
class Deposed:
    """Why a term is to end before its lease does: the executor of a cluster obeys a dispatcher of
    this epoch.

    `first`: it is the agent's first word in this term, so that what it obeys may be older than the
    term is.
    """

    epoch: int
    why: str
    cluster: str = ""
    first: bool = False
