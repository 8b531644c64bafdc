"""Agent to dispatcher, when somebody asks: how the sources of live load do in one cluster. No
decision rests on it.
"""

from typing import Annotated

from msgspec import Meta

from shared.messages.version import VERSION
from shared.model.bounds import MAX_NAMES, Names, Text, Word
from shared.model.pod import Record


class SourceReport(Record, frozen=True):
    """One configured source. Times are seconds, names are samples of what is counted beside them.

    `key`: where it stands in the agent's configuration. `asked`, `errors`: questions so far, and
    those without an answer. `problem`: of the latest question, '' if it was answered in full.
    `answered_s`: since the latest answer, None: there was none yet. `lag_s`: how long it took.
    `nodes`: of which it tells something fresh; `silent`: of which it tells nothing, or nothing
    fresh. `failing`: nodes that do not answer, where each is asked by itself. `unmatched`: series
    of no known node; `ambiguous`: series that may be about several nodes. `rejected`: numbers that
    were not believed, by reason. `ages`: by signal (nodes, median age, greatest age).
    """

    name: Word
    key: Word = ""
    asked: int = 0
    errors: int = 0
    problem: Text = ""
    answered_s: float | None = None
    lag_s: float = 0.0
    nodes: int = 0
    silent: int = 0
    silent_names: Names = ()
    failing: int = 0
    failing_names: Annotated[dict[str, Text], Meta(max_length=MAX_NAMES)] = {}
    unmatched: int = 0
    unmatched_names: Names = ()
    ambiguous: int = 0
    ambiguous_names: Names = ()
    rejected: Annotated[dict[str, int], Meta(max_length=MAX_NAMES)] = {}
    ages: Annotated[dict[str, tuple[int, float, float]], Meta(max_length=MAX_NAMES)] = {}


class UnreadSignal(Record, frozen=True):
    """Nodes of which no source tells a fresh signal, one younger than the agent's
    `telemetry.stale_s`.

    Placement uses the last readings until the profile's `stale_s`, then requests.
    """

    signal: Word
    nodes: int
    names: Names = ()


class Telemetry(Record, frozen=True):
    """All sources of one cluster. `stale_s`: older than that is not fresh. `nodes`: how many there
    are.
    """

    cluster: Word
    nodes: int = 0
    stale_s: float = 0.0
    sources: Annotated[tuple[SourceReport, ...], Meta(max_length=MAX_NAMES)] = ()
    unread: Annotated[tuple[UnreadSignal, ...], Meta(max_length=MAX_NAMES)] = ()
    version: int = VERSION
