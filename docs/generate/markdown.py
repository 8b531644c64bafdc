"""Tables of a page."""

from collections.abc import Iterable, Sequence


def cell(text: object) -> str:
    """Text that stays in its cell."""
    return " ".join(str(text).split()).replace("|", "\\|")


def code(text: str) -> str:
    """As code; nothing for nothing."""
    return f"`{text}`" if text else ""


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """One table, a line a row."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cell(one) for one in line)} |" for line in lines)


def page(title: str, *parts: str) -> str:
    """A page; it says that it is generated."""
    made = "<!-- Generated from the code by `.venv/bin/python -m docs.generate`: change that. -->"
    return "\n\n".join([f"# {title}", made, *parts]) + "\n"
