"""Profile files that extend a profile that is built in: only what is different is written."""

from pathlib import Path

import pytest

from dispatcher.config import ConfigError, check_config
from dispatcher.config.kube_scheduler.merge import DEFAULTS
from dispatcher.config.profiles import read_profile
from dispatcher.plugins.registry import REGISTRY, canonical
from dispatcher.scheduling.framework import Canary, PluginUse, Profile
from dispatcher.scheduling.profile import BUILT_IN, DEFAULT_PROFILE, KUBE_SCHEDULER_PROFILE


def read(folder: Path, text: str) -> Profile:
    (folder / "p.yaml").write_text(text)
    return read_profile(folder / "p.yaml", REGISTRY)


@pytest.mark.parametrize("name", BUILT_IN)
def test_what_changes_nothing_is_the_profile_that_it_extends(tmp_path: Path, name: str) -> None:
    assert read(tmp_path, f"extends: {name}") == BUILT_IN[name]


CHANGES = """
extends: default
scheduler_name: global-dispatcher-x
disabled: [NodeResourcesBalancedAllocation]
plugins:
  - {name: GPUFragmentation, weight: 4}
  - {name: ExpectedLoad, weight: 5}
  - {name: PodTopologySpread, args: {defaulting: System}}
"""


def test_a_profile_is_the_one_that_it_extends_but_for_what_it_says(tmp_path: Path) -> None:
    changed = {
        "ExpectedLoad": PluginUse("ExpectedLoad", 5.0, {}),
        "FaultDomainSpread": PluginUse("FaultDomainSpread", 2, {"defaulting": "System"}),
    }
    kept = [use for use in DEFAULT_PROFILE.plugins if use.name != "NodeResourcesBalancedAllocation"]
    expected = [*(changed.get(use.name, use) for use in kept), PluginUse("GPUFragmentation", 4.0, {})]
    assert read(tmp_path, CHANGES) == Profile("global-dispatcher-x", tuple(expected))


def test_arguments_of_the_extended_profile_stay_until_others_are_given(tmp_path: Path) -> None:
    for more, args in (("weight: 3", {"defaulting": "System"}), ("args: {}", {})):
        found = read(tmp_path, f"extends: kube-scheduler\nplugins: [{{name: FaultDomainSpread, {more}}}]")
        (spread,) = [use for use in found.plugins if use.name == "FaultDomainSpread"]
        assert spread.args == args


def test_kube_schedulers_profile_has_its_plugins_and_weights() -> None:
    weights = {canonical(name, REGISTRY): weight or 1 for name, weight in DEFAULTS if name != "DefaultBinder"}
    assert {use.name: use.weight for use in KUBE_SCHEDULER_PROFILE.plugins} == weights


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("extends: latency", "1: extends: no profile 'latency' is built in; there are default, kube-scheduler"),
        (
            "extends: default\ndisabled: [LiveCpu]",
            "2: disabled[0]: 'LiveCpu' is not in the profile that this one extends",
        ),
        ("extends: kube-scheduler\ndisabled: [LiveCPU]", "2: disabled[0]: 'LiveCPU' is not in the profile"),
        (
            "extends: default\ndisabled: [ExpectedLoad]\nplugins: [{name: ExpectedLoad}]",
            "2: disabled[0]: ExpectedLoad is listed in plugins, too",
        ),
        ("extends: default\ndisabled: [PrioritySort]", "plugins: needs exactly one QueueSort plugin"),
        ("extends: default\nplugins: [{name: LiveCPU, weight: -1}]", "2: plugins[0].weight: must be from 0 to 1000"),
        ("extends: default\nplugins: [{name: LiveCPU, weight: .nan}]", "2: plugins[0].weight: must be a number"),
        ("scheduler_name: global-dispatcher", "plugins: needs exactly one QueueSort plugin"),
        ("extends: default\ncanary: {percent: -1}", "2: canary.percent: "),
        ("extends: default\ncanary: {percent: 0.001}", "2: canary.percent: "),
        ("extends: default\ncanary: {percent: 101}", "2: canary.percent: "),
        ("extends: default\ncanary: {of: global-dispatcher}", "2: canary.percent: "),
    ],
)
def test_what_is_wrong_is_named_with_its_line_and_key(tmp_path: Path, text: str, want: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read(tmp_path, text)
    (problem,) = caught.value.problems
    assert want in str(problem)


def test_a_profile_can_be_the_canary_of_another_one(tmp_path: Path) -> None:
    found = read(tmp_path, "extends: default\nscheduler_name: global-dispatcher-x\ncanary: {percent: 2.5}")
    assert found == Profile("global-dispatcher-x", DEFAULT_PROFILE.plugins, Canary("global-dispatcher", 2.5))


def test_a_canary_whose_base_is_not_configured_is_named(tmp_path: Path) -> None:
    (tmp_path / "canary.yaml").write_text(
        "extends: default\nscheduler_name: global-dispatcher-x\ncanary: {of: global-dispatcher-y, percent: 5}"
    )
    (tmp_path / "base.yaml").write_text("extends: default")
    (tmp_path / "d.yaml").write_text("clusters: [{name: a}]\nprofiles: [base.yaml, canary.yaml]")
    (problem,) = check_config(tmp_path / "d.yaml")
    assert "profile global-dispatcher-x is a canary of global-dispatcher-y, which is no profile here" in str(problem)
