"""What is wrong with a configuration: all of it at once, each problem with its file, line and key."""

from collections.abc import Sequence
from dataclasses import dataclass

Path = tuple[str | int, ...]

# how such a problem begins: a plugin file that cannot be used may be the cause
UNKNOWN_PLUGIN = "unknown plugin"


@dataclass(frozen=True)
class Problem:
    """One problem. `line` counts from 1, 0 where there is no line (a missing file, an environment
    variable).
    """

    file: str
    line: int
    key: str
    text: str

    def __str__(self) -> str:
        where = f"{self.file}:{self.line}" if self.line else self.file
        return f"{where}: {self.key}: {self.text}" if self.key else f"{where}: {self.text}"


class ConfigError(ValueError):
    """A configuration that cannot be used; `problems` is everything that is wrong with it, never
    empty.
    """

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__("\n".join(map(str, problems)))
        self.problems = tuple(problems)


def dotted(path: Path) -> str:
    """A path as people write it: clusters[0].name."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text
