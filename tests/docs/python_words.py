"""What a Python file says: its words, but for those of prose, and its docstrings. Each file is parsed once."""

import ast
import keyword
import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_KEYWORDS = frozenset((*keyword.kwlist, *keyword.softkwlist))


class Said(NamedTuple):
    """Words of names and strings, without those of comments and docstrings; (line, text) of each docstring."""

    words: frozenset[str]
    docstrings: tuple[tuple[int, str], ...]


@cache
def said(path: Path) -> Said:
    """What a file says."""
    words: set[str] = set()
    docstrings: list[tuple[int, str]] = []
    rest: list[object] = [ast.parse(path.read_text())]
    while rest:
        part = rest.pop()
        if isinstance(part, str):
            words.update(WORD.findall(part))
        elif isinstance(part, list):
            rest += part
        elif isinstance(part, ast.AST):
            if isinstance(part, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                docstrings += _taken_out(part)
            rest += vars(part).values()
    return Said(_KEYWORDS | words, tuple(docstrings))


def _taken_out(node: ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> list[tuple[int, str]]:
    """The docstring of a node that has one; the node has none afterwards."""
    match node.body:
        case [ast.Expr(lineno=line, value=ast.Constant(value=str(text))), *others]:
            node.body = others
            return [(line, text)]
    return []
