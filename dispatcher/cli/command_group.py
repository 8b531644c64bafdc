"""How every command fails: one line on stderr and an exit code."""

from collections.abc import Collection
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


def list_only(app: typer.Typer, names: Collection[str]) -> None:
    """Leave all but these commands out of the help of `app`; they can still be called."""
    for command in app.registered_commands:
        command.hidden = (command.name or getattr(command.callback, "__name__", "")) not in names
    for group in app.registered_groups:
        group.hidden = group.name not in names
