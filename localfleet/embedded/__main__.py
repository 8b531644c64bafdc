"""`python -m localfleet.embedded`: one embedded cluster, in the foreground."""

import sys

from localfleet.embedded.cluster import run
from localfleet.embedded.options import parse
from localfleet.embedded.state import StateError


def main() -> int:
    """Run it; the exit code."""
    try:
        run(parse(sys.argv[1:]))
    except StateError as error:
        print(f"localfleet.embedded: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
