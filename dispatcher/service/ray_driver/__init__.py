"""Ray apart from the dispatcher: a process without keys that calls actors for it, and the dispatcher's way to it."""
