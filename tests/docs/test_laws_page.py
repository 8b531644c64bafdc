"""docs/laws.md names tests that are there."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
_ROW = re.compile(r"^\| (?P<law>[^|]+) \| (?P<tests>[^|]+) \|$", re.MULTILINE)
_PATH = re.compile(r"`([a-z_]+(?:/[a-z_]+)*(?:\.py|\.txt|/))`")
ROWS = [
    (row["law"], row["tests"])
    for row in _ROW.finditer((ROOT / "docs" / "laws.md").read_text())
    if row["law"] not in ("law", "---")
]


def test_the_table_is_read() -> None:
    assert len(ROWS) > 50


@pytest.mark.parametrize(("law", "tests"), ROWS)
def test_a_law_is_held_by_tests_that_are_there(law: str, tests: str) -> None:
    paths = _PATH.findall(tests)
    assert paths or "make check" in tests, f"{law}: no test is named"
    assert not [path for path in paths if not (ROOT / "tests" / path).exists()]
