"""Options that several commands have."""

from pathlib import Path
from typing import Annotated

import typer

from dispatcher.cli.output import Output

Out = Annotated[Output, typer.Option("-o", "--output", help="How to print.")]
Config = Annotated[Path, typer.Option("--config", "-c", help="The dispatcher's configuration file.")]
