"""What stands in backticks, in documents and docstrings, is there: a file, or a word of code, charts or configuration.

A name that was renamed everywhere but in the prose fails here.
"""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CODE = ("dispatcher", "agents", "localfleet", "benchmarks", "tests", "docs/generate")
DATA = ("configs", "helm", ".github", ".ci", "Makefile", "pyproject.toml", "Dockerfile", "mkdocs.yml")
DOCUMENTS = sorted(
    path.relative_to(ROOT).as_posix()
    for path in (*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"))
    if path.name != "CHANGELOG.md"  # tells of what was
)
_TICKED = re.compile(r"`([^`\n]+)`")
_FENCED = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*)*(?:\(\))?")
_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def python_files() -> list[Path]:
    """Every Python file of ours."""
    return [path for folder in CODE for path in sorted((ROOT / folder).rglob("*.py"))]


def docstrings(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """(line, text) of each."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0] if node.body else None
            if (
                isinstance(first, ast.Expr)
                and isinstance(first.value, ast.Constant)
                and isinstance(first.value.value, str)
            ):
                yield first.lineno, first.value.value


@cache
def words() -> frozenset[str]:
    """All words of the code outside of docstrings and comments, of data files, and of file names."""
    known: set[str] = set()
    for path in python_files():
        known |= set(_WORD.findall(path.relative_to(ROOT).as_posix()))
        source = path.read_text()
        docstring_lines = {line for line, _ in docstrings(ast.parse(source))}
        for token in tokenize.generate_tokens(io.StringIO(source).readline):
            if token.type != tokenize.COMMENT and not (
                token.type == tokenize.STRING and token.start[0] in docstring_lines
            ):
                known |= set(_WORD.findall(token.string))
    for name in DATA:
        place = ROOT / name
        for path in place.rglob("*") if place.is_dir() else (place,):
            if path.is_file():
                known |= set(_WORD.findall(path.read_text(errors="replace")))
    return frozenset(known | {f"{word}_total" for word in known})  # so counters are called by Prometheus


def unknown(text: str) -> list[str]:
    """Names in backticks, of a text, that are nowhere; a letter stands for something."""
    ticked = [one for one in _TICKED.findall(text) if _NAME.fullmatch(one) and len(one) > 1]
    return [one for one in ticked if not all(part in words() for part in _WORD.findall(one))]


@pytest.mark.parametrize("name", DOCUMENTS)
def test_names_in_a_document_exist(name: str) -> None:
    assert not unknown(_FENCED.sub("", (ROOT / name).read_text()))


@pytest.mark.parametrize("folder", CODE)
def test_names_in_docstrings_exist(folder: str) -> None:
    stale = [
        f"{path.relative_to(ROOT)}:{line}: {', '.join(found)}"
        for path in sorted((ROOT / folder).rglob("*.py"))
        for line, text in docstrings(ast.parse(path.read_text()))
        if (found := unknown(text))
    ]
    assert not stale, "\n".join(stale)
