"""What an agent says of itself when it is asked who it is, for people who look for faults."""

from dataclasses import dataclass
from typing import Any

from shared.messages import Hello


@dataclass(frozen=True, slots=True)
class Greeting:
    """Versions of the agent and of its API server ("" unknown), and by how many seconds at least
    the agent's clock is ahead of the dispatcher's (negative: behind; None: an older agent does not
    tell the time).
    """

    agent_version: str = ""
    server_version: str = ""
    clock_ahead_s: float | None = None

    @classmethod
    def of(cls, hello: Hello, asked: float, answered: float) -> "Greeting":
        """`asked`, `answered`: unix seconds of the dispatcher. The agent told its time in between,
        nobody knows when.

        Asked at 100 and answered at 103, an agent's 101 means 0, 110 means 7 and 90 means -10.
        """
        ahead = max(hello.now - answered, 0.0) + min(hello.now - asked, 0.0)
        return cls(
            hello.agent_version, hello.server_version, round(ahead, 3) if hello.now else None
        )

    def row(self) -> dict[str, Any]:
        """JSON-ready."""
        return {
            "agent_version": self.agent_version,
            "server_version": self.server_version,
            "clock_ahead_s": self.clock_ahead_s,
        }
