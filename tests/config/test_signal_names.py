"""A misspelt signal never counts, so `config check` says which names are known."""

from pathlib import Path

import pytest

from dispatcher.config import load_config

CLUSTERS = "clusters: [{name: west, agent: {signals: [{name: queue, of: [queue_length]}]}}]\nprofile: p.yaml\n"
PROFILE = "extends: default\nplugins:\n  - name: %s\n    args:\n      signals: %s\n"


def notes(folder: Path, profile: str, more: str = "") -> list[str]:
    (folder / "p.yaml").write_text(profile)
    (folder / "dispatcher.yaml").write_text(CLUSTERS + more)
    config = load_config(folder / "dispatcher.yaml")
    return [str(note).replace(f"{folder}/", "") for note in config.notes]


@pytest.mark.parametrize(
    ("plugin", "signals", "at"),
    [
        ("ExpectedLoad", "{cpu: 2, dsik: 1}", "p.yaml:5: plugins[0].args.signals.dsik"),
        ("HotNode", "[cpu, dsik]", "p.yaml:5: plugins[0].args.signals[1]"),
        ("LiveHeadroom", "[dsik]", "p.yaml:5: plugins[0].args.signals[0]"),
    ],
)
def test_a_misspelt_name_is_told_with_its_place_and_the_known_ones(
    tmp_path: Path, plugin: str, signals: str, at: str
) -> None:
    (found,) = notes(tmp_path, PROFILE % (plugin, signals))
    assert found.startswith(f"{at}: no signal 'dsik' is built in or configured here; did you mean disk?")
    assert all(name in found for name in ("cpu", "pressure_io", "queue"))


def test_names_that_are_built_in_or_configured_pass_without_a_word(tmp_path: Path) -> None:
    assert notes(tmp_path, PROFILE % ("LiveHeadroom", "[disk, queue, network_receive, gpu]")) == []
    assert notes(tmp_path, PROFILE % ("ExpectedLoad", "{cpu: 2, queue: 1}"), "rebalancing: {signals: [queue]}") == []


def test_those_of_rebalancing_are_looked_at_too(tmp_path: Path) -> None:
    (found,) = notes(tmp_path, "extends: default\n", "rebalancing:\n  signals: [cpu, memroy]\n")
    assert found.startswith("dispatcher.yaml:4: rebalancing.signals[1]: no signal 'memroy'")
    assert "did you mean memory?" in found
