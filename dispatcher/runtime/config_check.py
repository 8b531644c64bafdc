"""`global-dispatcher config check`: every problem of a configuration with its file, line and key."""

import sys
from pathlib import Path

from dispatcher.runtime.errors import ExitCode
from dispatcher.runtime.output import Output, print_value
from dispatcher.runtime.settings import ConfigError, check_config, plugin_registry


def check(file: Path, output: Output) -> int:
    """Print what is wrong (a table is one line a problem); the exit code says whether anything is."""
    try:
        problems = check_config(file, registry=plugin_registry())
    except ConfigError as error:
        problems = list(error.problems)
    if output is not Output.TABLE:
        rows = [{"file": one.file, "line": one.line, "key": one.key, "problem": one.text} for one in problems]
        print_value({"file": str(file), "ok": not problems, "problems": rows}, output)
    elif problems:
        sys.stderr.write("".join(f"{one}\n" for one in problems))
    else:
        sys.stdout.write(f"{file}: ok\n")
    return int(ExitCode.FAILED if problems else ExitCode.OK)
