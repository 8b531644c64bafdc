"""Write the pages: `python -m docs.generate`."""

from collections.abc import Callable
from pathlib import Path

from docs.generate import configuration, keys, metrics, reasons

FOLDER = Path(__file__).parents[1] / "reference"
PAGES: dict[str, Callable[[], str]] = {
    "annotations.md": keys.render,
    "configuration.md": configuration.render,
    "metrics.md": metrics.render,
    "reasons.md": reasons.render,
}


def main() -> None:
    """All pages."""
    for name, render in PAGES.items():
        (FOLDER / name).write_text(render())


if __name__ == "__main__":
    main()
