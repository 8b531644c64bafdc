"""The page that the HTTP API serves: templates and static files. No decisions, no state."""
