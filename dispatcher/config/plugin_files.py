"""Plugins from single Python files: each holds `PLUGIN`, a dispatcher.plugins.registry.PluginSpec.

A file is code of the operator's: it is run as it is read. It is held to the laws of plugins before
it is used.
"""

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from pathlib import Path as FilePath
from types import ModuleType

from dispatcher.config.problems import ConfigError, Problem
from dispatcher.kit.interface_law import broken_form
from dispatcher.kit.laws import broken_laws
from dispatcher.plugins.registry import PluginContext, PluginSpec, reason_clash

MAX_BYTES = 2**20


def with_plugin_files(
    paths: Sequence[FilePath], known: Mapping[str, PluginSpec], problems: list[Problem]
) -> dict[str, PluginSpec]:
    """`known` and the plugins of these files; `problems` gets every file that cannot be used, and
    why.
    """
    registry = dict(known)
    for path in paths:
        try:
            spec = read_plugin_file(path)
        except ConfigError as error:
            problems += error.problems
            continue
        if spec.plugin.name in registry:
            text = (
                f"a plugin named {spec.plugin.name} exists already (ours, installed, or of "
                "another file): "
            )
            problems.append(Problem(str(path), 0, "", f"{text}rename it, or leave this file out"))
        elif clash := reason_clash(spec, registry):
            problems.append(Problem(str(path), 0, "", f"{clash}: name it otherwise"))
        else:
            registry[spec.plugin.name] = spec
    return registry


def read_plugin_file(path: FilePath) -> PluginSpec:
    """The plugin of a file, which keeps the laws; ConfigError otherwise."""
    spec = _spec(path)
    broken = broken_form(spec)
    if not broken:
        try:
            broken = broken_laws(spec.make({}, PluginContext()))
        except (Exception, SystemExit) as error:
            broken = [f"cannot be made from its default arguments: {type(error).__name__}: {error}"]
    if broken:
        raise ConfigError(
            [
                Problem(str(path), 0, getattr(spec.plugin, "__name__", "PLUGIN"), text)
                for text in broken
            ]
        )
    return spec


def _spec(path: FilePath) -> PluginSpec:
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise ConfigError(
            [Problem(str(path), 0, "", f"cannot be read: {error.strerror or error}")]
        ) from None
    if len(raw) > MAX_BYTES:
        raise ConfigError([Problem(str(path), 0, "", f"is larger than {MAX_BYTES} bytes")])
    # A name of its own for every content: what was read before stays what it was.
    module = ModuleType(
        f"global_dispatcher_plugin_{path.stem}_{blake2b(raw, digest_size=8).hexdigest()}"
    )
    module.__file__ = str(path)
    try:
        exec(compile(raw, str(path), "exec"), module.__dict__)  # noqa: S102 - the operator's own code, as an import
    except SyntaxError as error:
        raise ConfigError(
            [Problem(str(path), error.lineno or 0, "", f"is no Python: {error.msg}")]
        ) from None
    except (
        Exception,
        SystemExit,
    ) as error:  # one that exits would end the dispatcher, without a word
        raise ConfigError(
            [Problem(str(path), 0, "", f"cannot be run: {type(error).__name__}: {error}")]
        ) from None
    spec = getattr(module, "PLUGIN", None)
    if not isinstance(spec, PluginSpec):
        text = "must hold PLUGIN, a dispatcher.plugins.registry.PluginSpec"
        raise ConfigError([Problem(str(path), 0, "PLUGIN", text)])
    return spec
