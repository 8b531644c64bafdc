"""`python -m agents.embedded`: one embedded cluster, in the foreground."""

import sys

from agents.embedded.cluster import run
from agents.embedded.options import parse
from agents.embedded.state import StateError


def main() -> int:
    """Run it; the exit code."""
    try:
        run(parse(sys.argv[1:]))
    except StateError as error:
        print(f"agents.embedded: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
