"""`global-dispatcher plugin new|check|list`: a plugin from the template, held to the laws, and what
there is.
"""

import sys
from pathlib import Path

from dispatcher.cli.output import Output, print_rows, print_value
from dispatcher.cli.tables import PLUGINS
from dispatcher.config import ConfigError, plugin_registry
from dispatcher.config.plugin_files import read_plugin_file
from dispatcher.kit.template import Example, new_plugin
from dispatcher.service.errors import CommandError, ExitCode


def write_new(name: str, example: str, directory: Path | None) -> None:
    """Write the files and say what to do next; nothing that exists is overwritten."""
    try:
        files = new_plugin(name, Example(example))
    except ValueError as error:
        raise CommandError(str(error), ExitCode.USAGE) from None
    folder = directory or Path(next(iter(files)).removesuffix(".py"))
    there = [file for file in files if (folder / file).exists()]
    if there:
        raise CommandError(f"{folder / there[0]} exists already: choose another --directory")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for file, text in files.items():
            (folder / file).write_text(text)
    except OSError as error:
        raise CommandError(f"{folder}: {error.strerror or error}") from None
    module = next(iter(files))
    sys.stdout.write(
        f"{folder}: {', '.join(files)}\n\n"
        f"  global-dispatcher plugin check {folder / module}    holds it to the laws of plugins\n"
        f"  python -m pytest {folder}    runs its tests\n"
        f"  global-dispatcher demo --keep --config {folder / 'demo.yaml'}    shows it at work on "
        "this machine\n"
    )


def check(file: Path, output: Output) -> int:
    """Print which laws are broken; the exit code says whether any is."""
    problems: list[str] = []
    name = ""
    points: tuple[str, ...] = ()
    try:
        spec = read_plugin_file(file)
        name = spec.plugin.name
        points = spec.points
    except ConfigError as error:
        problems = [one.text for one in error.problems]
    if output is not Output.TABLE:
        value = {
            "file": str(file),
            "plugin": name,
            "points": list(points),
            "ok": not problems,
            "problems": problems,
        }
        print_value(value, output)
    elif problems:
        sys.stderr.write("".join(f"{file}: {text}\n" for text in problems))
    else:
        sys.stdout.write(f"{file}: {name} ({', '.join(points)}): ok\n")
    return int(ExitCode.FAILED if problems else ExitCode.OK)


def print_plugins(output: Output) -> None:
    """All plugins that a profile may name."""
    try:
        registry = plugin_registry()
    except ConfigError as error:
        raise CommandError(str(error)) from None
    rows = [
        {
            "name": name,
            "points": list(spec.points),
            "arguments": {
                key: {"default": arg.default, "doc": arg.doc} for key, arg in spec.arguments.items()
            },
            "about": _about(spec.plugin),
        }
        for name, spec in registry.items()
    ]
    print_rows(PLUGINS, rows, output, "no plugins")


def _about(plugin: type[object]) -> str:
    text = plugin.__doc__ or sys.modules[plugin.__module__].__doc__ or ""
    return " ".join(text.split("\n\n")[0].split())
