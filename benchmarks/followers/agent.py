"""`global-dispatcher agent`, which also writes down what it is given: a line for each object whose
content came.

The first argument is that file; the others are the command's.
"""

import sys
from pathlib import Path
from typing import Any

from agents.runtime.relay import fetching
from dispatcher.cli.main import main
from shared.messages.relay import CONTENT, GivenObjects, decode_given


def _count_in(file: Path) -> None:
    def decode(body: bytes) -> GivenObjects:
        found = decode_given(body)
        came = [str(len(one.content)) for one in found.given if one.state == CONTENT]
        if came:
            with file.open("a") as lines:
                lines.write("".join(f"{one}\n" for one in came))
        return found

    module: Any = fetching
    module.decode_given = decode


if __name__ == "__main__":
    _count_in(Path(sys.argv.pop(1)))
    main()
