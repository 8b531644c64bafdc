"""The version of all messages."""

VERSION = 1
