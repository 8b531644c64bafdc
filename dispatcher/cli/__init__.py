"""The command `global-dispatcher`: its subcommands, and how they print."""
