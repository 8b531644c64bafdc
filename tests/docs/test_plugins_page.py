"""The plugin that docs/plugins.md shows is a file that can be used, and does what is said of it."""

import re
from pathlib import Path

import pytest

from dispatcher.config.plugin_files import read_plugin_file
from dispatcher.kit import a_fleet, a_node, a_pod, reasons, scores, seat
from dispatcher.plugins.registry import PluginContext, PluginSpec
from shared.model.names import RACK

PAGE = Path(__file__).parents[2] / "docs" / "plugins.md"


@pytest.fixture
def shown(tmp_path: Path) -> PluginSpec:
    """The example of rules over counts, held to the laws."""
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    (text,) = [one for one in blocks if "class AppPerRack" in one]
    (tmp_path / "app_per_rack.py").write_text(text)
    return read_plugin_file(tmp_path / "app_per_rack.py")


def test_the_counted_plugin_of_the_page_keeps_the_laws_and_its_word(shown: PluginSpec) -> None:
    plugin = shown.make({"most": 2}, PluginContext())
    racks = {"n1": "r1", "n2": "r1", "n3": "r2", "n4": "r3"}
    nodes = [a_node(name, labels={RACK: rack}) for name, rack in racks.items()]
    fleet = a_fleet({"east": [*nodes, a_node("n5")]})
    for at, name in enumerate(("n1", "n2", "n3")):
        seat(fleet, a_pod(f"old-{at}"), "east", name)
    words = "node(s) were in a rack with enough pods of the app"
    assert reasons(plugin, a_pod(), fleet) == {("east", "n1"): words, ("east", "n2"): words}
    found = scores(plugin, a_pod(), fleet)
    assert [found["east", name] for name in ("n4", "n3", "n5")] == [100.0, 50.0, 0.0]
    assert scores(plugin, a_pod(labels={}), fleet) == {}
