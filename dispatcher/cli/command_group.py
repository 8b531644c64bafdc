"""How every command fails: one line on stderr and an exit code."""

from typing import Any

import typer
from typer.core import TyperGroup

from dispatcher.service.errors import CommandError


class Commands(TyperGroup):
    """A group whose expected failures are one line on stderr and an exit code."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command."""
        try:
            return super().invoke(ctx)
        except CommandError as error:
            typer.echo(f"error: {error}", err=True)
            raise typer.Exit(int(error.code)) from None
