"""`global-dispatcher config check`: every problem of dispatcher.yaml, agent.yaml or a tenants file
with its file, line and key.
"""

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from dispatcher.cli.output import Output, print_value
from dispatcher.config import ConfigError, Problem, load_config, plugin_registry
from dispatcher.config.agent_file import agent_yaml_problems, is_agent_file
from dispatcher.config.document import read_document
from dispatcher.config.tenants import is_tenants_file, read_tenants
from dispatcher.service.errors import ExitCode


def check(file: Path, output: Output) -> int:
    """Print what is wrong (a table is one line a problem) or has no meaning; the exit code says
    whether anything is.
    """
    problems: list[Problem] = []
    notes: tuple[Problem, ...] = ()
    try:
        document = read_document(file)
        if is_agent_file(document):
            problems = agent_yaml_problems(document)
        elif is_tenants_file(document):
            read_tenants(file)
        else:
            notes = load_config(file, registry=plugin_registry(), reach=True).notes
    except ConfigError as error:
        problems = list(error.problems)
    if output is not Output.TABLE:
        value = {
            "file": str(file),
            "ok": not problems,
            "problems": _rows(problems),
            "notes": _rows(notes),
        }
        print_value(value, output)
    elif problems:
        sys.stderr.write("".join(f"{one}\n" for one in problems))
    else:
        sys.stdout.write("".join(f"note: {one}\n" for one in notes) + f"{file}: ok\n")
    return int(ExitCode.FAILED if problems else ExitCode.OK)


def _rows(found: Iterable[Problem]) -> list[dict[str, Any]]:
    return [
        {"file": one.file, "line": one.line, "key": one.key, "problem": one.text} for one in found
    ]
