"""The dispatcher's settings: one YAML file, the profile and tenants files it names, and the environment.

Everything is checked before anything starts, and everything that is wrong is said at once, each with its file, line
and key. Nothing here decides or connects.
"""

from dispatcher.runtime.settings.agents import agent_settings
from dispatcher.runtime.settings.load import DispatcherConfig, check_config, load_config
from dispatcher.runtime.settings.problems import ConfigError, Problem
from dispatcher.runtime.settings.third_party import plugin_registry

__all__ = [
    "ConfigError",
    "DispatcherConfig",
    "Problem",
    "agent_settings",
    "check_config",
    "load_config",
    "plugin_registry",
]
