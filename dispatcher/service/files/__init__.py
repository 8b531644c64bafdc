"""What is written down, or read again when it changes."""
