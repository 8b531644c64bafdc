"""MkDocs hook: links that leave docs/ (to code, to CONTRIBUTING.md) lead to the repository; a file
that is not there fails.

In the repository such links are relative (`../shared/model/reasons.py`), so that they work there,
too.
"""

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.pages import Page

_LINK = re.compile(r"\]\((\.\./[^)#\s]+)(#[^)\s]*)?\)")
_ROOT = Path(__file__).parents[2]


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, **_: Any) -> str:
    """The page with its links to the repository made absolute."""
    folder = posixpath.dirname(posixpath.join("docs", page.file.src_uri))

    def absolute(match: re.Match[str]) -> str:
        path = posixpath.normpath(posixpath.join(folder, match[1]))
        if path.startswith("docs/"):
            return match[0]
        if not (_ROOT / path).exists():
            raise PluginError(f"{page.file.src_uri}: {match[1]} is not there")
        kind = "tree" if (_ROOT / path).is_dir() else "blob"
        return f"]({config.repo_url}/{kind}/main/{path}{match[2] or ''})"

    return _LINK.sub(absolute, markdown)
