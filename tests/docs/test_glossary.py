"""docs/glossary.md is short, in order, and each word is where it says."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MOST_TERMS = 60
_ROW = re.compile(r"^\| (?P<term>[^|]+) \| (?P<meaning>[^|]+) \| (?P<where>[^|]+) \|$", re.MULTILINE)
_PLACES = {
    path.relative_to(ROOT).as_posix()
    for folder in ("dispatcher", "agents", "shared")
    for path in (ROOT / folder, *(ROOT / folder).rglob("*"))
    if path.is_dir() or path.suffix == ".py"
}


def rows() -> list[tuple[str, str]]:
    """(term, where it is) of each."""
    text = (ROOT / "docs" / "glossary.md").read_text()
    found = [(row["term"].strip(), row["where"]) for row in _ROW.finditer(text)]
    return [row for row in found if row[0] not in ("term", "---")]


def test_it_is_short_and_in_order() -> None:
    terms = [term for term, _ in rows()]
    assert 0 < len(terms) <= MOST_TERMS
    assert terms == sorted(terms, key=lambda term: term.split(",")[0].lower())


@pytest.mark.parametrize(("term", "where"), rows())
def test_a_word_is_where_it_says(term: str, where: str) -> None:
    places = re.findall(r"`([^`]+)`", where)
    assert places
    for place in places:
        found = [path for path in _PLACES if path == place or path.endswith(f"/{place}")]
        assert len(found) == 1, f"{term}: {place} is {found or 'nowhere'}"
