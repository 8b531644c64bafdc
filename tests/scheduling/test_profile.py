from pathlib import Path

import pytest
import yaml

from dispatcher.config.profiles import read_profile
from dispatcher.plugins.registry import REGISTRY, PluginContext, build
from dispatcher.scheduling.framework import Profile
from dispatcher.scheduling.framework.plugin_args import check_args
from dispatcher.scheduling.profile import DEFAULT_PROFILE, KUBE_SCHEDULER_PROFILE
from dispatcher.scheduling.rules.spread_args import APP_DEFAULTS

ROOT = Path(__file__).parents[2]
PROFILES = ROOT / "configs" / "profiles"

# GPUs shared by thousandths; the headroom of single signals, for profiles that want it beside ExpectedLoad; what nodes
# and bytes cost.
SPECIAL = (
    "EgressPrice",
    "GPUFragmentation",
    "HotNode",
    "LiveCPU",
    "LiveHeadroom",
    "LiveMemory",
    "LiveNetwork",
    "LoadVariationRiskBalancing",
    "NetworkTopology",
    "NodePrice",
    "RelativeCPU",
    "RelativeNetwork",
    "TargetLoadPacking",
)


def test_the_default_profile_uses_every_plugin_once() -> None:
    names = [use.name for use in DEFAULT_PROFILE.plugins]
    assert sorted([*names, *SPECIAL]) == sorted(REGISTRY)


@pytest.mark.parametrize(
    ("file", "profile"), [("default", DEFAULT_PROFILE), ("kube-scheduler", KUBE_SCHEDULER_PROFILE)]
)
def test_a_profile_that_is_built_in_is_what_its_file_says(file: str, profile: Profile) -> None:
    written = read_profile(PROFILES / f"{file}.yaml", REGISTRY)
    assert written.scheduler_name == profile.scheduler_name
    for there, here in zip(written.plugins, profile.plugins, strict=True):
        assert (there.name, there.weight) == (here.name, here.weight)
        table = REGISTRY[here.name].arguments
        assert check_args(table, there.args) == check_args(table, here.args)


@pytest.mark.parametrize("path", sorted(PROFILES.glob("*.yaml")), ids=lambda path: path.stem)
def test_every_profile_that_is_shipped_can_be_built(path: Path) -> None:
    profile = read_profile(path, REGISTRY)
    assert len(build(profile, PluginContext())) == len(profile.plugins)


def test_the_latency_profile_spreads_over_the_domains_of_the_default_profile() -> None:
    uses = {use.name: use for use in read_profile(PROFILES / "latency.yaml", REGISTRY).plugins}
    values, _ = check_args(REGISTRY["FaultDomainSpread"].arguments, uses["FaultDomainSpread"].args)
    assert {one.key for one in values["defaults"]} == {one.key for one in APP_DEFAULTS}


@pytest.mark.parametrize("name", ["latency", "packing"])
def test_a_profile_of_the_chart_is_the_file_of_that_name(name: str) -> None:
    chart = yaml.safe_load((ROOT / "helm" / "dispatcher" / "values.yaml").read_text())
    assert chart["profiles"][name] == yaml.safe_load((PROFILES / f"{name}.yaml").read_text())
