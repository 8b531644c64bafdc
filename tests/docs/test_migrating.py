"""YAML blocks of pages that are files, named in their first lines: the dispatcher can load them (migrating.md: all)."""

import re
from pathlib import Path

import pytest

from dispatcher.config import ConfigError, load_config

DOCS = Path(__file__).parents[2] / "docs"
PAGE, OTHERS = DOCS / "migrating.md", (DOCS / "telemetry.md",)
CONFIG, TENANTS = "dispatcher.yaml", "tenants.yaml"
_BLOCK = re.compile(r"^```yaml\n(?P<text># (?P<name>[\w/.-]+\.yaml)\n.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(*others: Path) -> list[tuple[str, str]]:
    """(file, text) of each."""
    return [(found["name"], found["text"]) for page in (PAGE, *others) for found in _BLOCK.finditer(page.read_text())]


def load(folder: Path, name: str, text: str) -> None:
    """Load one block in a folder where the page's other files are, too; ConfigError for what is wrong."""
    using = {CONFIG: text, TENANTS: f"tenants: {name}\n"}.get(name, f"profile: {name}\n")
    for file, content in {**dict(blocks()), name: text, CONFIG: using}.items():
        path = folder / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    load_config(folder / CONFIG)


def test_all_blocks_are_read() -> None:
    assert len(blocks()) == PAGE.read_text().count("```yaml") > 0


@pytest.mark.parametrize(
    ("name", "text"), blocks(*OTHERS), ids=[f"{at}-{name}" for at, (name, _) in enumerate(blocks(*OTHERS))]
)
def test_a_block_loads(name: str, text: str, tmp_path: Path) -> None:
    load(tmp_path, name, text)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("profiles/a.yaml", "extends: default\nplugins: [{name: Peaks}]\n"),
        (TENANTS, "tenants: [{name: a}]\n"),
        (CONFIG, "clusters: [{name: west, context: west, agent: {telemetry: {load_watcher: [{}]}}}]\n"),
    ],
)
def test_a_wrong_block_is_refused(name: str, text: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError):
        load(tmp_path, name, text)
