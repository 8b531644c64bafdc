"""Pod classes: what every plugin answers for every row, kept, shared and brought up to date where something changed."""
