"""The files of a new plugin: an example of some extension points with its tests, and what it needs
to be tried.
"""

import enum
import re
from collections.abc import Mapping
from importlib.resources import files
from string import Template

from dispatcher.kit.interface_law import NAME
from dispatcher.plugins.registry import REGISTRY
from dispatcher.scheduling.framework import PluginUse
from dispatcher.scheduling.profile import DEFAULT_PROFILE


class Example(enum.StrEnum):
    """What a new plugin starts as."""

    FILTER_SCORE = "filter-score"
    COUNTED = "counted"
    PERMIT = "permit"


_FILES = {
    "{module}.py": "{example}.py.tmpl",
    "test_{module}.py": "{example}_test.py.tmpl",
    "profile.yaml": "profile.yaml.tmpl",
    "demo.yaml": "demo.yaml.tmpl",
    "pyproject.toml": "pyproject.toml.tmpl",
    "README.md": "README.md.tmpl",
}
_ARGUMENTS: Mapping[Example, Mapping[str, object]] = {
    Example.FILTER_SCORE: {"avoid": "example.com/avoid", "prefer": "example.com/prefer"},
    Example.COUNTED: {"most": 3},
    Example.PERMIT: {"after": "example.com/after", "app": "app", "wait_s": 60},
}


def new_plugin(name: str, example: Example = Example.FILTER_SCORE) -> dict[str, str]:
    """File name -> text of a new plugin. ValueError for a name that is none, or is taken."""
    if not NAME.fullmatch(name):
        raise ValueError(
            f"{name[:80]!r} is no name for a plugin: write it like NodeAffinity, letters and "
            "digits only"
        )
    if name in REGISTRY:
        raise ValueError(f"a plugin named {name} exists already")
    words = re.findall(r"[A-Z]+(?![a-z])|[A-Z][a-z0-9]*|[0-9]+", name)
    module = "_".join(words).lower()
    uses = (*DEFAULT_PROFILE.plugins, PluginUse(name, 1, _ARGUMENTS[example]))
    filled = {"name": name, "module": module, "distribution": module.replace("_", "-")}
    filled["plugins"] = "\n".join(map(_use, uses))
    folder = files(__package__)
    return {
        target.format(module=module): Template(
            (folder / source.format(example=example.replace("-", "_"))).read_text()
        ).substitute(filled)
        for target, source in _FILES.items()
    }


def _use(use: PluginUse) -> str:
    """A line of a profile."""
    spec = REGISTRY.get(use.name)
    weight = f", weight: {use.weight:g}" if spec is not None and "Score" in spec.points else ""
    args = ", ".join(f"{key}: {value}" for key, value in use.args.items())
    return f"  - {{name: {use.name}{weight}{f', args: {{{args}}}' if args else ''}}}"
