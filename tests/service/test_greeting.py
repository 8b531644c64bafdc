"""What agents say of themselves, as the dispatcher takes it."""

import pytest

from dispatcher.config import DispatcherConfig
from dispatcher.scheduling.views import whole
from dispatcher.service.assembly import assemble
from dispatcher.service.links.greeting import Greeting
from dispatcher.service.links.link import LocalLink
from shared.messages import Hello
from tests.service.fakes import FakeAgent


def hello(now: float) -> Hello:
    return Hello("east", "uid", "life", server_version="v1.36.3", agent_version="0.1.0", now=now)


@pytest.mark.parametrize(
    ("told", "ahead"), [(100.0, 0.0), (101.0, 0.0), (103.0, 0.0), (110.0, 7.0), (90.0, -10.0), (0.0, None)]
)
def test_a_clock_is_wrong_by_what_the_call_cannot_have_taken(told: float, ahead: float | None) -> None:
    assert Greeting.of(hello(told), 100.0, 103.0).clock_ahead_s == ahead


def test_versions_are_shown_as_they_are_told() -> None:
    row = Greeting.of(hello(1.0), 0.0, 1.0).row()
    assert (row["agent_version"], row["server_version"]) == ("0.1.0", "v1.36.3")


def test_whether_it_is_silent_since_is_told_with_what_an_agent_said() -> None:
    made = assemble([LocalLink("east", FakeAgent("east"))], DispatcherConfig())
    poller = made.service.pollers["east"]
    poller.greeting = Greeting.of(hello(110.0), 100.0, 103.0)
    for silent in (False, True):
        poller.silent = silent
        (row,) = whole(made.views.clusters())
        assert (row["clock_ahead_s"], row["silent"]) == (7.0, silent)
