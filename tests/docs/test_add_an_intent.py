"""docs/how-to/add-an-intent.md is true: each step of the protocol is written where it says, and nowhere else."""

import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import pytest

import shared.messages
from dispatcher.scheduling.delegation import intents
from dispatcher.scheduling.delegation.in_flight import TRANSITIONS, IntentKind
from dispatcher.scheduling.delegation.protocol import Step
from dispatcher.scheduling.delegation.steps import _INTENTS
from shared.messages import DONE
from shared.messages.intents import Intent

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/how-to/add-an-intent.md"
MOST_FILES = 13

MESSAGES = [kind.__name__ for kind in vars(intents).values() if isinstance(kind, type) and issubclass(kind, Intent)]
KINDS = [f"IntentKind.{one.name}" for one in IntentKind]
STEPS = [f"Step.{one.name}" for one in _INTENTS]
# The one other file of the core that names steps: those that a fence alone asks for are paced there.
PACED = "dispatcher/scheduling/core/reconciler.py"


@cache
def links(part: str) -> frozenset[str]:
    """Files and folders that a part of the page names, by the words that the part begins with."""
    (text,) = (one for one in re.split(r"\n(?=\*\*)", PAGE.read_text()) if one.startswith(f"**{part}"))
    found = re.findall(r"\]\(([^)]+)\)", text)
    return frozenset((PAGE.parent / one).resolve().relative_to(ROOT).as_posix() for one in found)


def has(file: str, name: str) -> bool:
    """Whether a file, or one below a folder, has this name."""
    return re.search(rf"\b{re.escape(name)}\b", text_of(file)) is not None


@cache
def text_of(file: str) -> str:
    path = ROOT / file
    return "\n".join(one.read_text() for one in (path.rglob("*.py") if path.is_dir() else [path]))


def missing(names: Iterable[str], file: str) -> list[str]:
    return [name for name in names if not has(file, name)]


def test_a_step_with_an_intent_of_its_own_is_written_in_few_files() -> None:
    every, step = links("Every intent"), links("As a step")
    assert (len(every), len(step)) == (6, 7)
    assert len(every | step) <= MOST_FILES


@pytest.mark.parametrize("file", sorted(links("Every intent") - {"tests/agents/executor/test_laws.py"}))
def test_each_intent_is_where_the_page_says(file: str) -> None:
    assert missing(MESSAGES, file) == []


FOLLOWED = {
    "dispatcher/scheduling/delegation/in_flight.py": KINDS,
    "dispatcher/scheduling/delegation/intents.py": [*MESSAGES, *KINDS],
    "dispatcher/scheduling/delegation/protocol.py": STEPS,
    "dispatcher/scheduling/delegation/steps.py": STEPS,
    "tests/scheduling/delegation/test_protocol.py": STEPS,
    "tests/laws/world.py": MESSAGES,
    "docs/protocol.md": MESSAGES,
}


@pytest.mark.parametrize("file", sorted(links("As a step")))
def test_each_step_is_where_the_page_says(file: str) -> None:
    assert missing(FOLLOWED[file], file) == []


def test_each_verdict_about_each_step_has_its_row() -> None:
    rows = {kind: {verdict for one, verdict in TRANSITIONS if one is kind} for kind in IntentKind}
    rows[IntentKind.CREATE].remove(DONE)  # of a group: created first, and bound later
    assert {len(verdicts) for verdicts in rows.values()} == {3}
    assert all({shared.messages.STALE, shared.messages.REFUSED} < verdicts for verdicts in rows.values())


def test_no_other_file_of_the_core_knows_of_a_step() -> None:
    """Who decides by steps elsewhere writes the protocol a second time."""
    named = links("As a step") | links("Only where") | {PACED}
    known = re.compile(rf"\b({'|'.join(map(re.escape, STEPS))})\b")
    core = {path.relative_to(ROOT).as_posix(): path for path in (ROOT / "dispatcher").rglob("*.py")}
    found = {file: known.findall(path.read_text()) for file, path in core.items() if file not in named}
    assert {file: steps for file, steps in found.items() if steps} == {}
    assert {step.name for step in Step if step not in _INTENTS} == {"NOTHING", "HOLD", "WAIT", "QUEUE"}
