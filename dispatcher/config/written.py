"""The files that the dispatcher itself writes: whether it can. It runs without them, so these are
notes.
"""

import os
from collections.abc import Iterator
from pathlib import Path

from dispatcher.config.document import Document
from dispatcher.config.problems import Problem

_FOLLOWS = {  # key -> what follows where its file cannot be written
    ("journal", "path"): "no decisions are kept",
    ("quota", "ledger"): "after a restart tenants with quota wait for clusters that are silent",
}
_REPLACED = ("quota", "ledger")  # by a file beside it: its folder must be writable, and not it


def written_notes(journal: str, ledger: str, document: Document) -> Iterator[Problem]:
    """Of these whole paths, empty for none, those that cannot be written here."""
    for (key, follows), name in zip(_FOLLOWS.items(), (journal, ledger), strict=True):
        if name and (why := _why_not(Path(name).expanduser(), replaced=key == _REPLACED)):
            yield document.problem(key, f"{name} cannot be written here: {why}; {follows}")


def _why_not(path: Path, *, replaced: bool) -> str:
    if os.path.isdir(path):
        return "it is a folder"
    there = next(
        one for one in (*(() if replaced else (path,)), *path.parents) if os.path.lexists(one)
    )
    if there != path and not os.path.isdir(there):
        return f"{there} is no folder"
    return "" if os.access(there, os.W_OK) else f"{there} is read-only, or not this user's"
