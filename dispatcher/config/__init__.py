"""The dispatcher's settings: one YAML file, the profile and tenants files it names, and the
environment.

Everything is checked before anything starts, and everything that is wrong is said at once, each
with its file, line and key. Nothing here decides or connects.
"""

from dispatcher.config.agents import agent_settings
from dispatcher.config.load import DispatcherConfig, check_config, load_config
from dispatcher.config.problems import ConfigError, Problem
from dispatcher.config.third_party import plugin_registry

__all__ = [
    "ConfigError",
    "DispatcherConfig",
    "Problem",
    "agent_settings",
    "check_config",
    "load_config",
    "plugin_registry",
]
