"""Options that several commands have."""

from pathlib import Path
from typing import Annotated

import typer

from dispatcher.cli.output import Output

DEFAULT_SERVER = "http://127.0.0.1:7480"

Out = Annotated[Output, typer.Option("-o", "--output", help="How to print.")]
Config = Annotated[
    Path, typer.Option("--config", "-c", help="The dispatcher's configuration file.")
]
Server = Annotated[
    str,
    typer.Option(
        "--server",
        envvar="GLOBAL_DISPATCHER_SERVER",
        help="Address of the running dispatcher; kubectl:[CONTEXT] for the one in that cluster, "
        "through kubectl.",
    ),
]
