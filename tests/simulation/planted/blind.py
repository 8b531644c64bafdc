"""Small stories of what agents and dispatchers do not see: dead watches, stale lists, other lives, long silences."""

from collections.abc import Iterator

from tests.simulation.planted.scripted import Scene, Wait
from tests.simulation.planted.stories import SETTLED_S


def half_open(at: Scene) -> Iterator[Wait]:
    """Watches that are open bring nothing any more, not even an end; then the status of a pod changes."""
    at.act("watch-dead", "west")
    at.submit("a", "west")
    yield 60.0


def long_silence(at: Scene) -> Iterator[Wait]:
    """No dispatcher for longer than any node is given without a sign of life."""
    at.submit("a", "west")
    yield at.shows("Running", "a")
    at.crash(130.0)
    yield 130.0


def restored_and_used(at: Scene) -> Iterator[Wait]:
    """The home goes back in time by much, and pods are submitted there again."""
    restore = at.back_up("north")
    for number in range(8):
        at.submit(f"p{number}", "north", 100)
    yield at.shows("Running", *(f"p{number}" for number in range(8)))
    at.submit("before", "west", 100)
    yield at.shows("Running", "before")
    restore()
    yield 3.0
    at.submit("after", "north", 100)
    yield 60.0


def stale_frontend(at: Scene) -> Iterator[Wait]:
    """One of several API servers lags, and watches cannot be resumed: what it lists lacks the last pod."""
    yield SETTLED_S
    at.act("stale-frontend", "west", 30.0)
    at.submit("a", "west", 700, home="west")
    yield at.shows("Running", "a", home="west")
    at.act("watch-expired", "west")
    at.crash_agent("west")
    yield 4.0
    at.submit("b", "west", 700)
    yield 15.0


def expired(at: Scene) -> Iterator[Wait]:
    """Watches cannot be resumed any more, and pods were deleted and submitted meanwhile."""
    at.submit("a", "west")
    yield at.shows("Running", "a")
    at.weather("north", 4.0, down=True)
    at.delete("a")
    at.submit("b", "west")
    at.later(2.0, lambda: at.act("watch-expired", "north"))
    yield 30.0


def gone_between_lists(at: Scene) -> Iterator[Wait]:
    """A pod that fills its node is deleted while nothing is watched, and another one waits for the room."""
    at.submit("a", "west", 700, home="west")
    yield at.shows("Running", "a", home="west")
    at.weather("west", 6.0, down=True)
    at.later(3.0, lambda: at.delete("a", home="west", grace=0))
    at.later(5.0, lambda: at.cluster("west").wire.cut(compacted=True))
    yield 8.0
    at.submit("b", "west", 700, home="west")
    yield 20.0


def deleted_before_another(at: Scene) -> Iterator[Wait]:
    """A pod that fills its node is deleted, and another one waits for the room."""
    at.submit("a", "west", 700, home="west")
    yield at.shows("Running", "a", home="west")
    at.delete("a", home="west", grace=0)
    yield 5.0
    at.submit("b", "west", 700, home="west")
    yield 20.0


def agents_begin_anew(at: Scene) -> Iterator[Wait]:
    """An agent dies; what its next life lists is more than all that the last one told."""
    at.crash_agent("north", 4.0)
    yield 1.0
    for number in range(40):
        at.submit(f"p{number}", "north", 10)
    yield 20.0
