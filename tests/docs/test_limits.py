"""The limits of CONTRIBUTING.md: beyond them a file or function holds more than one idea. Few parameters or a reason.

ruff counts parameters (`max-args` of pyproject.toml); here every exception from that says why.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PRODUCT = ("dispatcher", "agents", "shared", "localfleet")
MOST_LINES_OF_A_FILE = 600
MOST_LINES_OF_A_FUNCTION = 90
_EXCEPTION = re.compile(r"# noqa: [A-Z0-9, ]*PLR0913\b(?P<reason>.*)")


def too_long(source: str) -> Iterator[str]:
    """What of a file is longer than it may be."""
    if (lines := source.count("\n")) > MOST_LINES_OF_A_FILE:
        yield f"{lines} lines"
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            if lines > MOST_LINES_OF_A_FUNCTION:
                yield f"{node.name} has {lines} lines"


def unexplained(source: str) -> Iterator[str]:
    """Lines that take more parameters without `- and the reason`."""
    for number, line in enumerate(source.splitlines(), 1):
        found = _EXCEPTION.search(line)
        if found and not re.match(r" - \w+", found["reason"]):
            yield f"line {number}: {line.strip()}"


@pytest.mark.parametrize("folder", PRODUCT)
def test_files_and_functions_are_short(folder: str) -> None:
    assert not [
        f"{path.relative_to(ROOT)}: {what}"
        for path in sorted((ROOT / folder).rglob("*.py"))
        for what in too_long(path.read_text())
    ]


@pytest.mark.parametrize("folder", [*PRODUCT, "benchmarks"])
def test_many_parameters_have_a_reason(folder: str) -> None:
    assert not [
        f"{path.relative_to(ROOT)}: {what}"
        for path in sorted((ROOT / folder).rglob("*.py"))
        for what in unexplained(path.read_text())
    ]


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("pass\n" * 600, []),
        ("pass\n" * 601, ["601 lines"]),
        ("def f():\n" + "    pass\n" * 89, []),
        ("class A:\n  async def f():\n" + "    pass\n" * 90, ["f has 91 lines"]),
    ],
)
def test_what_is_too_long_is_found(source: str, found: list[str]) -> None:
    assert list(too_long(source)) == found


@pytest.mark.parametrize(
    ("line", "explained"),
    [
        ("def f(a):  # noqa: PLR0913 - columns", True),
        ("def f(a):  # type: ignore[no-untyped-def]  # noqa: PLR0912, PLR0913 - columns", True),
        ("def f(a):  # noqa: PLR0913", False),
        ("def f(a):  # noqa: PLR0913 -", False),
        ("def f(a):  # noqa: PLR0912", True),
    ],
)
def test_a_reason_is_told_from_none(line: str, explained: bool) -> None:
    assert (list(unexplained(line)) == []) is explained
