"""What agents of other clusters ask: logs, exec, objects and usage."""
