"""What holds for all tests: the pure core is tested without a socket, and without Ray."""

import gc
import socket
import sys
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# How long one example takes says how busy the machine is, not whether the code is right.
settings.register_profile("no clock", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("no clock")

ROOT = Path(__file__).parent
PURE = tuple(ROOT / room for room in ("model", "scheduling", "plugins", "laws"))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Thousands of tests and all modules stay to the end: looking for garbage among them took a third of the time."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()
        gc.set_threshold(20_000, 10, 10)


@pytest.fixture(autouse=True, scope="session")
def _keys_of_tests_are_nobodys(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Agents make their clusters' keys in a folder that goes with the tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        yield


@pytest.fixture(autouse=True)
def _pure_rooms_touch_nothing(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A test of the pure core that opens a socket, or pulls Ray in, fails."""
    if not any(room in request.path.parents for room in PURE):
        yield
        return

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a test of the pure core opened a socket")

    had_ray = "ray" in sys.modules
    monkeypatch.setattr(socket, "socket", refuse)
    yield
    assert had_ray or "ray" not in sys.modules, "a test of the pure core imported Ray"
