"""Where objects outlive the process: SQLite behind the memory, written before anything is
acknowledged.

Writes of one event-loop tick share one transaction. WAL without a sync per commit survives the end
of the process at any instant (not the loss of power, which a cluster for demo and tests does not
promise).
"""

import asyncio
import sqlite3
from pathlib import Path
from typing import NamedTuple

_TABLES = """
CREATE TABLE IF NOT EXISTS objects (
  resource TEXT NOT NULL, namespace TEXT NOT NULL, name TEXT NOT NULL, version INTEGER NOT NULL, body BLOB NOT NULL,
  PRIMARY KEY (resource, namespace, name)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS revision (only INTEGER PRIMARY KEY CHECK (only = 1), version INTEGER NOT NULL);
"""
_PUT = "INSERT OR REPLACE INTO objects VALUES (?, ?, ?, ?, ?)"
_DROP = "DELETE FROM objects WHERE resource = ? AND namespace = ? AND name = ?"
_ADVANCE = "INSERT OR REPLACE INTO revision VALUES (1, ?)"


class Stored(NamedTuple):
    """One object as it lies on disk; `body` is its JSON."""

    resource: str
    namespace: str
    name: str
    version: int
    body: bytes


class Storage:
    """One SQLite file, or nothing at all when `path` is None. Used from one thread."""

    def __init__(self, path: Path | None = None) -> None:
        self._connection = _open(path) if path else None
        self._pending: dict[tuple[str, str, str], tuple[int, bytes | None]] = {}
        self._version = 0
        self._flushed: asyncio.Future[None] | None = None

    def load(self) -> tuple[int, list[Stored]]:
        """The last resourceVersion ever given out, and every object."""
        if self._connection is None:
            return 0, []
        revision = self._connection.execute("SELECT version FROM revision").fetchone()
        rows = self._connection.execute(
            "SELECT resource, namespace, name, version, body FROM objects ORDER BY version"
        )
        return (revision[0] if revision else 0), [Stored(*row) for row in rows]

    def write(self, key: tuple[str, str, str], version: int, body: bytes | None) -> None:
        """Keep `body` under (resource, namespace, name), or drop that object if None; durable after
        `durable()`.
        """
        self._version = version
        if self._connection is None:
            return
        self._pending[key] = (version, body)
        if self._flushed is None:
            self._schedule()

    def _schedule(self) -> None:
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:  # no loop, no tick to wait for
            self.flush()
            return
        self._flushed = loop.create_future()
        loop.call_soon(self.flush)

    def flush(self) -> None:
        """Commit everything pending now."""
        pending = self._pending
        self._pending = {}
        waiter = self._flushed
        self._flushed = None
        if self._connection is not None and pending:
            puts = [
                (*key, version, body)
                for key, (version, body) in pending.items()
                if body is not None
            ]
            drops = [key for key, (_, body) in pending.items() if body is None]
            try:
                with self._connection:
                    self._connection.executemany(_PUT, puts)
                    self._connection.executemany(_DROP, drops)
                    self._connection.execute(_ADVANCE, (self._version,))
            except sqlite3.Error as error:
                self._pending = pending | self._pending
                if waiter is not None:
                    waiter.set_exception(error)
                    waiter.exception()  # whoever waits gets it; nobody waiting is no warning
                    return
                raise
        if waiter is not None:
            waiter.set_result(None)

    async def durable(self) -> None:
        """Return once everything written so far is on disk; sqlite3.Error when the disk refuses."""
        if self._flushed is None and self._pending:  # left over from a write that the disk refused
            self._schedule()
        if self._flushed is not None:
            await asyncio.shield(self._flushed)

    def close(self) -> None:
        """Commit and close."""
        self.flush()
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _open(path: Path) -> sqlite3.Connection:
    path.parent.mkdir(parents=True, exist_ok=True)
    connection = sqlite3.connect(path, check_same_thread=False)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = NORMAL")
    connection.executescript(_TABLES)
    return connection
