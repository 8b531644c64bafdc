import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from dispatcher.cli.main import PluginExample, app
from dispatcher.config import ConfigError, Problem, load_config
from dispatcher.config.plugin_files import read_plugin_file, with_plugin_files
from dispatcher.kit.template import Example, new_plugin
from dispatcher.plugins.registry import PluginContext
from dispatcher.scheduling.profile import DEFAULT_PROFILE

ROOT = Path(__file__).parents[2]


def write(folder: Path, *words: str) -> Path:
    done = CliRunner().invoke(app, ["plugin", "new", "QuietZone", "--directory", str(folder), *words])
    assert done.exit_code == 0, done.output
    return folder


@pytest.fixture
def written(tmp_path: Path) -> Path:
    """A plugin as `plugin new` writes it."""
    return write(tmp_path / "quiet")


@pytest.fixture(params=list(Example))
def every(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """A plugin of each example."""
    return write(tmp_path / "quiet", "--example", request.param.value)


def test_the_command_knows_every_example() -> None:
    assert [one.value for one in PluginExample] == [one.value for one in Example]


def test_a_new_plugin_passes_its_own_tests(every: Path) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(every)]
    done = subprocess.run(
        command, cwd=every, env={"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "passed" in done.stdout


def test_a_new_plugin_comes_with_a_configuration_to_try_it_in(every: Path) -> None:
    config = load_config(every / "demo.yaml")
    assert config.profile.plugins[-1].name == "QuietZone"
    names = [use.name for use in config.profile.plugins[:-1]]
    assert names == [use.name for use in DEFAULT_PROFILE.plugins]
    assert [use.weight for use in config.profile.plugins[:-1]] == [use.weight for use in DEFAULT_PROFILE.plugins]


def test_a_new_plugin_keeps_the_laws(written: Path) -> None:
    done = CliRunner().invoke(app, ["plugin", "check", str(written / "quiet_zone.py")])
    assert done.exit_code == 0
    assert done.output.endswith("QuietZone (PreFilter, Filter, Score): ok\n")


def test_nothing_that_exists_is_overwritten(written: Path) -> None:
    done = CliRunner().invoke(app, ["plugin", "new", "QuietZone", "--directory", str(written)])
    assert done.exit_code != 0
    assert "exists already" in done.output


@pytest.mark.parametrize(
    ("name", "module"),
    [("QuietZone", "quiet_zone"), ("GPUFit", "gpu_fit"), ("Fit2", "fit2")],
)
def test_files_are_named_after_the_plugin(name: str, module: str) -> None:
    assert list(new_plugin(name))[:2] == [f"{module}.py", f"test_{module}.py"]


@pytest.mark.parametrize(
    ("name", "want"),
    [("quiet", "is no name for a plugin"), ("Quiet Zone", "is no name"), ("NodePorts", "exists already")],
)
def test_a_bad_name_is_refused(name: str, want: str) -> None:
    with pytest.raises(ValueError, match=want):
        new_plugin(name)


CLASS = (
    "from dispatcher.plugins.registry import PluginSpec\n"
    "from dispatcher.scheduling.framework import CountedPlugin, Filter, Reserve\n"
    "class Wild({base}):\n"
    "    {body}\n"
    "PLUGIN = PluginSpec(Wild)\n"
)


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("def broken(:", "is no Python"),
        ("1 / 0", "cannot be run: ZeroDivisionError"),
        ("PLUGIN = 1", "must hold PLUGIN"),
        (
            "from dispatcher.plugins.registry import PluginSpec\n"
            "from dispatcher.scheduling.framework import Score\n"
            "class Wild(Score):\n"
            "    name = 'Wild'\n"
            "    def class_key(self, placed): return None\n"
            "    def score(self, state, fleet, rows): return fleet.nodes.requested[0, rows] * 1000.0\n"
            "PLUGIN = PluginSpec(Wild)\n",
            "scores must lie in 0..100",
        ),
        (CLASS.format(base="Filter", body="name = 'Wild'"), "filter is missing: Wild inherits Filter"),
        (CLASS.format(base="Reserve", body="name = 'Wild'"), "unreserve is missing"),
        (CLASS.format(base="Filter", body="name = 'Wild'"), "class_key is missing"),
        (CLASS.format(base="Filter", body="pass"), "class Wild needs a name"),
        (CLASS.format(base="Filter", body="name = 'so wild'"), "'so wild' is no name for a plugin"),
        (CLASS.format(base="object", body="pass"), "needs a class that inherits Filter, Score"),
        (CLASS.format(base="Filter", body="__init__ = None").replace("Wild)", "7)"), "not 7"),
    ],
    ids=[
        "syntax",
        "run",
        "nothing",
        "law",
        "method",
        "inverse",
        "key",
        "no name",
        "bad name",
        "no plugin",
        "no class",
    ],
)
def test_a_file_that_cannot_be_used_is_refused_with_the_reason(tmp_path: Path, text: str, want: str) -> None:
    (tmp_path / "p.py").write_text(text)
    with pytest.raises(ConfigError, match=want):
        read_plugin_file(tmp_path / "p.py")


def test_plugins_of_files_join_the_known_ones_and_a_name_that_is_taken_is_refused(written: Path) -> None:
    path = written / "quiet_zone.py"
    problems: list[Problem] = []
    registry = with_plugin_files([path], {}, problems)
    assert registry["QuietZone"].make({}, PluginContext()).name == "QuietZone"
    assert problems == []
    with_plugin_files([path], registry, problems)
    assert "exists already" in problems[0].text


def test_all_plugins_are_listed_with_their_arguments() -> None:
    done = CliRunner().invoke(app, ["plugin", "list"])
    assert "NodeResourcesFit" in done.output
    assert "strategy" in done.output
