"""A fixture for lines that also a test that passes shows."""

from collections.abc import Callable
from contextlib import nullcontext

import pytest

Say = Callable[[str], None]


@pytest.fixture
def say(request: pytest.FixtureRequest) -> Say:
    """Prints a line that also a test that passes shows: a seed, a rate."""
    capture = request.config.pluginmanager.get_plugin("capturemanager")

    def line(text: str) -> None:
        with capture.global_and_fixture_disabled() if capture else nullcontext():
            print(f"\n{request.node.name}: {text}", flush=True)

    return line
