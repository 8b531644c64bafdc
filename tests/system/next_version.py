"""The product as its next version might be: all that it sends has one field more in every record.

python -m tests.system.next_version run --config ...       # as global-dispatcher
"""

from typing import Any

import msgspec
from msgspec import inspect

from dispatcher.cli.main import main
from dispatcher.model.messages import codec
from tests.model.wire.schema import longer


class _Longer:
    """In the place of the encoder of all messages between dispatcher and agents."""

    def encode(self, message: Any) -> bytes:
        """The message's bytes, with what this version knows nothing of."""
        raw = msgspec.msgpack.decode(msgspec.msgpack.encode(message))
        return msgspec.msgpack.encode(longer(inspect.type_info(type(message)), raw))


if __name__ == "__main__":
    vars(codec)["_ENCODER"] = _Longer()
    main()
