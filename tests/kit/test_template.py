import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from dispatcher.kit.template import new_plugin
from dispatcher.plugins.registry import PluginContext
from dispatcher.runtime.cli import app
from dispatcher.runtime.settings import ConfigError
from dispatcher.runtime.settings.plugin_files import read_plugin_file, with_plugin_files

ROOT = Path(__file__).parents[2]


@pytest.fixture
def written(tmp_path: Path) -> Path:
    """A plugin as `plugin new` writes it."""
    done = CliRunner().invoke(app, ["plugin", "new", "QuietZone", "--directory", str(tmp_path / "quiet")])
    assert done.exit_code == 0, done.output
    return tmp_path / "quiet"


def test_a_new_plugin_passes_its_own_tests(written: Path) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(written)]
    done = subprocess.run(
        command, cwd=written, env={"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "3 passed" in done.stdout


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
            "    def score(self, state, fleet, rows): return fleet.requested[0, rows] * 1000.0\n"
            "PLUGIN = PluginSpec(Wild)\n",
            "scores must lie in 0..100",
        ),
    ],
    ids=["syntax", "run", "nothing", "law"],
)
def test_a_file_that_cannot_be_used_is_refused_with_the_reason(tmp_path: Path, text: str, want: str) -> None:
    (tmp_path / "p.py").write_text(text)
    with pytest.raises(ConfigError, match=want):
        read_plugin_file(tmp_path / "p.py")


def test_plugins_of_files_join_the_known_ones_and_a_name_that_is_taken_is_refused(written: Path) -> None:
    path = written / "quiet_zone.py"
    registry = with_plugin_files([path], {})
    assert registry["QuietZone"].make({}, PluginContext()).name == "QuietZone"
    with pytest.raises(ConfigError, match="exists already"):
        with_plugin_files([path], registry)


def test_all_plugins_are_listed_with_their_arguments() -> None:
    done = CliRunner().invoke(app, ["plugin", "list"])
    assert "NodeResourcesFit" in done.output
    assert "strategy" in done.output
