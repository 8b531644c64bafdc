"""The files of a new plugin, with $name, $module and $distribution to be filled in."""

import re
from importlib.resources import files
from string import Template

from dispatcher.plugins.registry import REGISTRY

_FILES = {
    "{module}.py": "plugin.py.tmpl",
    "test_{module}.py": "test.py.tmpl",
    "pyproject.toml": "pyproject.toml.tmpl",
    "README.md": "README.md.tmpl",
}
_NAME = re.compile(r"[A-Z][A-Za-z0-9]{1,62}")


def new_plugin(name: str) -> dict[str, str]:
    """File name -> text of a new plugin. ValueError for a name that is none, or is taken."""
    if not _NAME.fullmatch(name):
        raise ValueError(f"{name[:80]!r} is no name for a plugin: write it like NodeAffinity, letters and digits only")
    if name in REGISTRY:
        raise ValueError(f"a plugin named {name} exists already")
    words = re.findall(r"[A-Z]+(?![a-z])|[A-Z][a-z0-9]*|[0-9]+", name)
    module = "_".join(words).lower()
    filled = {"name": name, "module": module, "distribution": module.replace("_", "-")}
    folder = files(__package__)
    return {
        target.format(module=module): Template((folder / source).read_text()).substitute(filled)
        for target, source in _FILES.items()
    }
