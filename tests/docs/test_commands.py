"""Commands that the documents tell people to type are there, with the options that they name."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer

from dispatcher.cli.main import app

ROOT = Path(__file__).parents[2]
PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "helm").rglob("*.md")]
_CODE = re.compile(r"^ *```\w*\n(?P<block>.*?)^ *```|`(?P<span>[^`\n]+)`", re.MULTILINE | re.DOTALL)
_MODULE = re.compile(r"(?<!\.venv/bin/)python -m (?:benchmarks|docs|pytest -|tests)[^`\n]*")
_OURS = re.compile(r"^ *(?:\.venv/bin/)?(?:global-dispatcher|kubectl dispatch) ([^|#;&>\n]*)", re.MULTILINE)


def unknown(text: str) -> Iterator[str]:
    """Options of our commands in a page's code that the command does not have."""
    for code in _CODE.finditer(text):
        for words in map(str.split, _OURS.findall((code["block"] or code["span"]).replace("\\\n", " "))):
            command, path = typer.main.get_command(app), list[str]()
            while words and words[0] in getattr(command, "commands", ()):
                path.append(words.pop(0))
                command = command.commands[path[-1]]  # type: ignore[attr-defined]
            known = {"-h", "--help", *(name for one in command.params for name in one.opts)}
            told = {word.strip("[],.").partition("=")[0] for word in words if path and word.strip("[").startswith("-")}
            yield from (f"{' '.join(path)} {one}" for one in sorted(told - known))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_names_only_options_that_our_commands_have(page: Path) -> None:
    assert not list(unknown(page.read_text()))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_names_the_deployments_that_the_chart_of_an_agent_makes_by_default(page: Path) -> None:
    """There are two, agent-observer and agent-executor, and none of the release's name alone."""
    assert not re.findall(r"deploy(?:ment)?/agent\b(?!-).*", page.read_text())


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_runs_modules_with_the_python_that_has_what_they_need(page: Path) -> None:
    """`make` installs into .venv, and nothing activates it."""
    assert not _MODULE.findall(page.read_text())


def test_an_option_that_is_not_there_is_found() -> None:
    block = "```\nglobal-dispatcher top nodes --sort-by cpu --hot\n```\n"
    text = f"Run `global-dispatcher join --config x --role observer`, or\n{block}"
    assert list(unknown(text)) == ["join --role", "top nodes --hot"]
