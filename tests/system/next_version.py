"""The product as its next version might be: all that it sends has one field more in every record.

python -m tests.system.next_version run --config ...       # as global-dispatcher
"""

from typing import Any

import msgspec
from msgspec import inspect

import shared.version
from dispatcher.service.gateway import agent_connection
from shared.messages import codec
from tests.shared.messages.wire.schema import longer

VERSION = "99.0.0"


class _Longer:
    """In the place of the encoder of all messages between dispatcher and agents."""

    def encode(self, message: Any) -> bytes:
        """The message's bytes, with what this version knows nothing of."""
        raw = msgspec.msgpack.decode(msgspec.msgpack.encode(message))
        return msgspec.msgpack.encode(longer(inspect.type_info(type(message)), raw))


def play() -> None:
    """Have this process send what the next version would, and take what it takes."""
    vars(shared.version)["_installed"] = lambda name: VERSION
    longest = _Longer()
    vars(codec)["_ENCODER"] = longest
    vars(agent_connection)["encode_call"] = longest.encode


if __name__ == "__main__":
    play()
    from dispatcher.cli.main import main

    main()
