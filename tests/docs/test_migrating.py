"""Every YAML block of docs/migrating.md is a file, named in its first line, and the dispatcher can load it."""

import re
from pathlib import Path

import pytest

from dispatcher.config import ConfigError, load_config

PAGE = Path(__file__).parents[2] / "docs" / "migrating.md"
CONFIG, TENANTS = "dispatcher.yaml", "tenants.yaml"
_BLOCK = re.compile(r"^```yaml\n(?P<text># (?P<name>[\w/.-]+\.yaml)\n.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks() -> list[tuple[str, str]]:
    """(file, text) of each."""
    return [(found["name"], found["text"]) for found in _BLOCK.finditer(PAGE.read_text())]


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


@pytest.mark.parametrize(("name", "text"), blocks(), ids=[f"{at}-{name}" for at, (name, _) in enumerate(blocks())])
def test_a_block_loads(name: str, text: str, tmp_path: Path) -> None:
    load(tmp_path, name, text)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("profiles/a.yaml", "extends: default\nplugins: [{name: TargetLoadPacking}]\n"),
        (TENANTS, "tenants: [{name: a}]\n"),
        (CONFIG, "clusters: [{name: west, context: west, agent: {telemetry: {load_watcher: [{}]}}}]\n"),
    ],
)
def test_a_wrong_block_is_refused(name: str, text: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError):
        load(tmp_path, name, text)
