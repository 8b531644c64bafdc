"""Plugins of other packages, by entry point: each names a dispatcher.plugins.registry.PluginSpec."""

from importlib.metadata import EntryPoint, entry_points

from dispatcher.config.problems import ConfigError, Problem
from dispatcher.kit.interface_law import broken_form
from dispatcher.plugins.registry import REGISTRY, PluginSpec, reason_clash

GROUP = "global_dispatcher.plugins"


def plugin_registry(found: tuple[EntryPoint, ...] | None = None) -> dict[str, PluginSpec]:
    """Our plugins and all installed ones; ConfigError names every entry point that cannot be used."""
    registry = dict(REGISTRY)
    problems = []
    for point in entry_points(group=GROUP) if found is None else found:
        where = f"entry point {point.name} = {point.value}"
        try:
            spec = point.load()
        except Exception as error:
            problems.append(
                Problem(where, 0, "", f"cannot be loaded: {type(error).__name__}: {error}")
            )
            continue
        if not isinstance(spec, PluginSpec):
            problems.append(Problem(where, 0, "", "is no dispatcher.plugins.registry.PluginSpec"))
        elif broken := broken_form(spec):
            problems += [
                Problem(where, 0, getattr(spec.plugin, "__name__", "PLUGIN"), text)
                for text in broken
            ]
        elif spec.plugin.name in registry:
            problems.append(
                Problem(
                    where, 0, "", f"a plugin named {spec.plugin.name} exists already: rename it"
                )
            )
        elif clash := reason_clash(spec, registry):
            problems.append(Problem(where, 0, "", f"{clash}: name it otherwise"))
        else:
            registry[spec.plugin.name] = spec
    if problems:
        raise ConfigError(problems)
    return registry
