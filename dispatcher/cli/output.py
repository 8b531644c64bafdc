"""How commands print: tables as kubectl does (no borders, no colour when piped), JSON or YAML.

Names and messages are their users': no markup is read in them, and what would steer a terminal is
shown, not sent.
"""

import enum
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TextIO

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

Row = Mapping[str, Any]
# Control characters (C0, C1), and those that turn the direction of what follows.
_STEERING = (
    *range(0x20),
    *range(0x7F, 0xA0),
    *range(0x200E, 0x2010),
    *range(0x202A, 0x202F),
    *range(0x2066, 0x206A),
)
_SHOWN = {code: repr(chr(code))[1:-1] for code in _STEERING} | {
    ord(blank): " " for blank in "\t\n\r"
}


class Output(enum.StrEnum):
    """The -o option."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"


class Column(NamedTuple):
    """A heading, what it shows of a row, and the style of a cell on a terminal. `wraps`: goes on
    below, is not cut.
    """

    heading: str
    cell: Callable[[Row], str]
    style: Callable[[Row], str] = lambda row: ""
    right: bool = False
    wraps: bool = False


def harmless(text: str) -> str:
    """Somebody else's text as one line for a terminal: characters that would steer it are shown as
    '\\x1b'.
    """
    return text.translate(_SHOWN)


def print_value(value: object, output: Output) -> None:
    """One JSON or YAML document on stdout."""
    if output is Output.JSON:
        import msgspec

        text = msgspec.json.format(msgspec.json.encode(value, enc_hook=str), indent=2).decode()
    else:
        import yaml

        text = yaml.safe_dump(value, sort_keys=False, allow_unicode=True).rstrip()
    sys.stdout.write(text + "\n")


def print_rows(
    columns: Iterable[Column], rows: list[dict[str, Any]], output: Output, nothing: str
) -> None:
    """Rows as a table (or `nothing` on stderr when there are none), or all of them as they are."""
    if output is not Output.TABLE:
        print_value(rows, output)
    elif rows:
        print_table(columns, rows)
    else:
        sys.stderr.write(nothing + "\n")


def print_table(
    columns: Iterable[Column], rows: Iterable[Row], stream: TextIO | None = None
) -> None:
    """A table without borders; on a terminal the last column gives way (or `wraps`), in a pipe
    nothing is cut.
    """
    print_trimmed(make_console(stream), table_of(columns, rows))


def print_advice(head: tuple[str, str], text: str, fix: str) -> None:
    """What is wrong and what to do about it, a line each, never cut. `head`: a text and its style."""
    from rich.text import Text

    console = make_console()
    first = Text.assemble((harmless(head[0]), head[1]), ": ", harmless(text))
    for line in (first, Text.assemble(("  do", "dim"), ": ", harmless(fix))):
        console.print(line, soft_wrap=True)


def print_trimmed(console: "Console", *parts: Any) -> None:
    """Print without the spaces that rich pads lines with."""
    with console.capture() as captured:
        console.print(*parts)
    text = "\n".join(line.rstrip() for line in captured.get().splitlines())
    console.file.write(text + "\n")


def table_of(columns: Iterable[Column], rows: Iterable[Row]) -> "Table":
    """The rich table behind `print_table`."""
    from rich.table import Table as RichTable
    from rich.text import Text as RichText

    shown = list(columns)
    table = RichTable(box=None, pad_edge=False, padding=(0, 3, 0, 0), header_style="bold")
    for column in shown:
        # Rich narrows the columns that may wrap first: the last one, whose text then ends in an
        # ellipsis instead.
        justify: Literal["left", "right"] = "right" if column.right else "left"
        table.add_column(
            RichText(harmless(column.heading)), justify=justify, no_wrap=column is not shown[-1]
        )
    for row in rows:
        table.add_row(*(_cell(column, row) for column in shown))
    return table


def _cell(column: Column, row: Row) -> "Text":
    from rich.text import Text

    overflow: Literal["fold", "ellipsis"] = "fold" if column.wraps else "ellipsis"
    return Text(
        harmless(column.cell(row)), column.style(row), no_wrap=not column.wraps, overflow=overflow
    )


def make_console(stream: TextIO | None = None) -> "Console":
    """A rich console: colours only on a terminal without NO_COLOR; as wide as needed when piped."""
    from rich.console import Console

    target = stream or sys.stdout
    width = None if target.isatty() else 1000
    return Console(
        file=target, highlight=False, markup=False, emoji=False, width=width, soft_wrap=False
    )
