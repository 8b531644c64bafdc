"""What shards are told of the configuration makes the very plugins that the driver has, or none."""

from dataclasses import replace
from pathlib import Path

import pytest

from dispatcher.config import DispatcherConfig, load_config
from dispatcher.plugins.registry import REGISTRY, PluginContext, build
from dispatcher.scheduling.framework.points import Plan
from dispatcher.scheduling.framework.roles import roles_of
from dispatcher.scheduling.profile import DEFAULT_PROFILE
from dispatcher.service.shards.policy import name_of, plans_of, policy_of

CONFIGS = Path(__file__).parents[2] / "configs"
PLUGIN = '''
from typing import ClassVar
import numpy as np
from dispatcher.plugins.registry import PluginSpec
from dispatcher.scheduling.framework import Depends, Score

class Odd(Score):
    """Likes every node equally."""
    name: ClassVar[str] = "Odd"
    depends: ClassVar[Depends] = Depends.NODE
    def class_key(self, placed):
        return None
    def score(self, state, fleet, rows):
        return np.full(len(fleet.nodes.live[rows]), 10.0)

PLUGIN = PluginSpec(Odd)
'''


def weights(plan: Plan) -> dict[str, tuple[float, str]]:
    return {role.name: (role.weight, role.scope.value) for role in roles_of(plan)}


def test_the_built_in_profile_arrives_as_it_is() -> None:
    (plan,) = plans_of(policy_of(DispatcherConfig()))
    assert weights(plan) == weights(Plan.of(DEFAULT_PROFILE, build(DEFAULT_PROFILE, PluginContext())))


@pytest.mark.parametrize("file", sorted((CONFIGS / "profiles").iterdir()), ids=lambda file: file.stem)
def test_profiles_of_files_arrive_with_their_arguments(tmp_path: Path, file: Path) -> None:
    config = load_config(_config(tmp_path, f"profile: {file}\n"))
    plans = plans_of(policy_of(config))
    wanted = [Plan.of(one, build(one, PluginContext(), config.registry)) for one in config.profiles]
    assert [weights(plan) for plan in plans] == [weights(plan) for plan in wanted]


def test_a_plugin_file_that_has_changed_since_is_left_to_the_driver(tmp_path: Path) -> None:
    (tmp_path / "odd.py").write_text(PLUGIN)
    (tmp_path / "p.yaml").write_text(
        "scheduler_name: global-dispatcher\nplugins: [{name: PrioritySort}, {name: Odd, weight: 2}]\n"
    )
    policy = policy_of(load_config(_config(tmp_path, "profile: p.yaml\nplugin_files: [odd.py]\n")))
    assert weights(plans_of(policy)[0]) == {"Odd": (2.0, "row")}
    (tmp_path / "odd.py").write_text(PLUGIN.replace("10.0", "20.0"))
    assert weights(plans_of(policy)[0]) == {}
    (tmp_path / "odd.py").unlink()
    assert weights(plans_of(policy)[0]) == {}


def test_another_profile_is_another_policy() -> None:
    config = DispatcherConfig()
    other = replace(config, profiles=(replace(DEFAULT_PROFILE, scheduler_name="global-dispatcher-two"),))
    assert name_of(policy_of(config)) == name_of(policy_of(DispatcherConfig(registry=dict(REGISTRY))))
    assert name_of(policy_of(config)) != name_of(policy_of(other))


def _config(folder: Path, text: str) -> Path:
    file = folder / "dispatcher.yaml"
    file.write_text(text)
    return file
