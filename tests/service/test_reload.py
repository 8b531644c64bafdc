"""A running dispatcher takes over changed profiles and plugin files, and refuses those that fail their checks."""

from pathlib import Path

import pytest

from dispatcher.config import DispatcherConfig, load_config
from dispatcher.kit.template import new_plugin
from dispatcher.plugins.registry import REGISTRY
from dispatcher.service.reload import Reloader

QUIET = new_plugin("QuietZone")["quiet_zone.py"]
PROFILE = "plugins: [{name: PrioritySort}, {name: NodeResourcesFit}, {name: QuietZone, weight: 3}]"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "c.yaml").write_text("{profile: p.yaml, plugin_files: [q.py], http: {port: 1}}")
    (tmp_path / "p.yaml").write_text(PROFILE)
    (tmp_path / "q.py").write_text(QUIET)
    return tmp_path


class TermRunner:
    """A reloader and what it has handed on."""

    def __init__(self, folder: Path) -> None:
        self.taken: list[DispatcherConfig] = []
        self.reloader = Reloader(load_config(folder / "c.yaml"), REGISTRY, self.taken.append)


async def test_nothing_happens_while_nothing_changes(folder: Path) -> None:
    stage = TermRunner(folder)
    await stage.reloader.look()
    assert stage.taken == []


async def test_a_changed_profile_is_taken_over(folder: Path) -> None:
    stage = TermRunner(folder)
    (folder / "p.yaml").write_text(PROFILE.replace("weight: 3", "weight: 7"))
    await stage.reloader.look()
    (config,) = stage.taken
    assert config.profile.plugins[-1].weight == 7


async def test_a_changed_plugin_file_is_taken_over_though_its_name_stays(folder: Path) -> None:
    stage = TermRunner(folder)
    before = load_config(folder / "c.yaml").registry["QuietZone"].plugin
    (folder / "q.py").write_text(QUIET.replace("example.com/avoid", "example.com/shun"))
    await stage.reloader.look()
    assert stage.taken[0].registry["QuietZone"].arguments["avoid"].default == "example.com/shun"
    assert stage.taken[0].registry["QuietZone"].plugin is not before


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("p.yaml", "plugins: [{name: NodeResourceFit}]"),
        ("q.py", "def broken(:"),
        ("q.py", QUIET.replace("MAX_SCORE, 0.0)", "2 * MAX_SCORE, 101.0)")),
        ("q.py", None),
    ],
    ids=["unknown plugin", "no Python", "broken law", "gone"],
)
async def test_what_fails_its_checks_is_refused_and_the_old_stays(folder: Path, file: str, text: str | None) -> None:
    stage = TermRunner(folder)
    if text is None:
        (folder / file).unlink()
    else:
        (folder / file).write_text(text)
    await stage.reloader.look()
    assert stage.taken == []
    assert stage.reloader.outcomes == {"taken": 0, "refused": 1}
    await stage.reloader.look()
    assert stage.reloader.outcomes["refused"] == 1, "told once"


async def test_after_a_refusal_the_mended_file_is_taken_over(folder: Path) -> None:
    stage = TermRunner(folder)
    (folder / "p.yaml").write_text("plugins: 1")
    await stage.reloader.look()
    (folder / "p.yaml").write_text(PROFILE)
    await stage.reloader.look()
    assert stage.reloader.outcomes == {"taken": 1, "refused": 1}


async def test_a_dispatcher_that_cannot_take_it_goes_on(folder: Path) -> None:
    def fail(config: DispatcherConfig) -> None:
        raise RuntimeError("no")

    reloader = Reloader(load_config(folder / "c.yaml"), REGISTRY, fail)
    (folder / "p.yaml").write_text(PROFILE + "\n")
    await reloader.look()
    assert reloader.outcomes == {"taken": 0, "refused": 1}
