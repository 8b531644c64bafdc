"""The product as its next version might be: all that it sends has one field more in every record, and so have the
settings with which it makes gateway actors.

python -m tests.system.next_version run --config ...       # as global-dispatcher

A Ray node is of the next version by what `node_environment` gives it.
"""

import sys
from pathlib import Path
from typing import Any

import msgspec
from msgspec import inspect

import shared.version
from dispatcher.config.sections import GatewaySection
from dispatcher.service.gateway import actor_settings, exchange, line, peers, remote, serving
from dispatcher.service.gateway.actor_settings import ActorSettings
from shared.messages import codec
from tests.shared.messages.wire.schema import longer

VERSION = "99.0.0"
SETTING = "of_the_next_version"
PYTHON = f"{sys.version_info[0]}.{sys.version_info[1]}.99"  # of its image
# In workers, in which actors are, and in `ray start`: Ray starts other processes by the dozen.
_SITE = f"""
import sys
if any("default_worker" in word for word in sys.orig_argv):
    from tests.system.next_version import play
    play()
elif "start" in sys.orig_argv:
    import ray._private.utils
    ray._private.utils.compute_version_info = lambda: (ray.__version__, {PYTHON!r})
"""


class _Longer:
    """In the place of the encoder of all messages between dispatcher and agents."""

    def encode(self, message: Any) -> bytes:
        """The message's bytes, with what this version knows nothing of."""
        raw = msgspec.msgpack.decode(msgspec.msgpack.encode(message))
        return msgspec.msgpack.encode(longer(inspect.type_info(type(message)), raw))


class _NextSection(GatewaySection):
    """With a setting more."""

    of_the_next_version: bool = False


class _NextSettings(ActorSettings, frozen=True):
    """With a field more, and that setting in its section."""

    of_the_next_version: bool = True

    def encoded(self) -> bytes:
        """As the actor is given it."""
        return msgspec.json.encode(msgspec.structs.replace(self, section={**self.section, SETTING: True}))


def play() -> None:
    """Have this process send what the next version would, and take what it takes."""
    vars(shared.version)["_installed"] = lambda name: VERSION
    longest = _Longer()
    vars(codec)["_ENCODER"] = longest
    vars(line)["encode_call"] = longest.encode
    for module in (exchange, remote, peers):
        vars(module)["encode_any"] = longest.encode
    vars(serving)["GatewaySection"] = _NextSection
    vars(actor_settings)["ActorSettings"] = _NextSettings


def node_environment(folder: Path) -> dict[str, str]:
    """Of a Ray node whose actors are of the next version, beside a later patch of Python. `folder` is for a file that
    Python runs as it starts.
    """
    (folder / "sitecustomize.py").write_text(_SITE)
    return {"PYTHONPATH": f"{folder}:{Path(__file__).parents[2]}"}


if __name__ == "__main__":
    play()
    from dispatcher.cli.main import main  # not in workers of Ray, which begin sooner without it

    main()
