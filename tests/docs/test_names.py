"""What stands in backticks, in documents and docstrings, is there: a file, or a word of code, charts or configuration.

A name that was renamed everywhere but in the prose fails here.
"""

import re
from functools import cache
from pathlib import Path

import pytest

from tests.docs.python_words import WORD, said

ROOT = Path(__file__).parents[2]
CODE = ("dispatcher", "agents", "shared", "localfleet", "benchmarks", "tests", "docs/generate")
DATA = ("configs", "helm", ".github", ".ci", "Makefile", "pyproject.toml", "Dockerfile", "mkdocs.yml")
DOCUMENTS = sorted(
    path.relative_to(ROOT).as_posix()
    for path in (*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"))
    if path.name != "CHANGELOG.md"  # tells of what was
)
_TICKED = re.compile(r"`([^`\n]+)`")
_FENCED = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*)*(?:\(\))?")


def python_files() -> list[Path]:
    """Every Python file of ours."""
    return [path for folder in CODE for path in sorted((ROOT / folder).rglob("*.py"))]


@cache
def words() -> frozenset[str]:
    """All words of the code outside of docstrings and comments, of data files, and of file names."""
    known: set[str] = set()
    for path in python_files():
        known |= set(WORD.findall(path.relative_to(ROOT).as_posix()))
        known |= said(path).words
    for name in DATA:
        place = ROOT / name
        for path in place.rglob("*") if place.is_dir() else (place,):
            if path.is_file():
                known |= set(WORD.findall(path.read_text(errors="replace")))
    return frozenset(known | {f"{word}_total" for word in known})  # so counters are called by Prometheus


def unknown(text: str) -> list[str]:
    """Names in backticks, of a text, that are nowhere; a letter stands for something."""
    ticked = [one for one in _TICKED.findall(text) if _NAME.fullmatch(one) and len(one) > 1]
    return [one for one in ticked if not all(part in words() for part in WORD.findall(one))]


@pytest.mark.parametrize("name", DOCUMENTS)
def test_names_in_a_document_exist(name: str) -> None:
    assert not unknown(_FENCED.sub("", (ROOT / name).read_text()))


@pytest.mark.parametrize("folder", CODE)
def test_names_in_docstrings_exist(folder: str) -> None:
    stale = [
        f"{path.relative_to(ROOT)}:{line}: {', '.join(found)}"
        for path in sorted((ROOT / folder).rglob("*.py"))
        for line, text in said(path).docstrings
        if (found := unknown(text))
    ]
    assert not stale, "\n".join(stale)
