"""How commands print: tables as kubectl does (no borders, no colour when piped), JSON or YAML."""

import enum
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, TextIO

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

Row = Mapping[str, Any]


class Output(enum.StrEnum):
    """The -o option."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"


class Column(NamedTuple):
    """A heading, what it shows of a row, and the style of a cell on a terminal."""

    heading: str
    cell: Callable[[Row], str]
    style: Callable[[Row], str] = lambda row: ""
    right: bool = False


def print_value(value: object, output: Output) -> None:
    """One JSON or YAML document on stdout."""
    if output is Output.JSON:
        import msgspec

        text = msgspec.json.format(msgspec.json.encode(value, enc_hook=str), indent=2).decode()
    else:
        import yaml

        text = yaml.safe_dump(value, sort_keys=False, allow_unicode=True).rstrip()
    sys.stdout.write(text + "\n")


def print_rows(columns: Iterable[Column], rows: list[dict[str, Any]], output: Output, nothing: str) -> None:
    """Rows as a table (or `nothing` on stderr when there are none), or all of them as they are."""
    if output is not Output.TABLE:
        print_value(rows, output)
    elif rows:
        print_table(columns, rows)
    else:
        sys.stderr.write(nothing + "\n")


def print_table(columns: Iterable[Column], rows: Iterable[Row], stream: TextIO | None = None) -> None:
    """A table without borders; on a terminal the last column gives way, in a pipe nothing is cut."""
    print_trimmed(make_console(stream), table_of(columns, rows))


def print_trimmed(console: "Console", *parts: Any) -> None:
    """Print without the spaces that rich pads lines with."""
    with console.capture() as captured:
        console.print(*parts)
    text = "\n".join(line.rstrip() for line in captured.get().splitlines())
    console.file.write(text + "\n")


def table_of(columns: Iterable[Column], rows: Iterable[Row]) -> "Table":
    """The rich table behind `print_table`."""
    from rich.table import Table as RichTable
    from rich.text import Text

    shown = list(columns)
    table = RichTable(box=None, pad_edge=False, padding=(0, 3, 0, 0), header_style="bold")
    for column in shown:
        # Rich narrows the columns that may wrap first: the last one, whose text then ends in an ellipsis instead.
        table.add_column(column.heading, justify="right" if column.right else "left", no_wrap=column is not shown[-1])
    for row in rows:
        table.add_row(
            *(Text(column.cell(row), column.style(row), no_wrap=True, overflow="ellipsis") for column in shown)
        )
    return table


def make_console(stream: TextIO | None = None) -> "Console":
    """A rich console: colours only on a terminal without NO_COLOR; as wide as needed when piped."""
    from rich.console import Console

    target = stream or sys.stdout
    return Console(file=target, highlight=False, width=None if target.isatty() else 1000, soft_wrap=False)
