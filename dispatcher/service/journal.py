"""The decision journal: JSON lines, append only, at most two files of a bounded size. For people and replay only."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any, BinaryIO

import msgspec
import structlog

log = structlog.get_logger("journal")


class Journal:
    """Appends one record a line to `path`; at `limit_bytes` it becomes `path`.1 (replacing the last one).

    A full or broken disk costs the journal, never a decision: it is reported once and the journal stays closed.
    """

    def __init__(self, path: Path, limit_bytes: int = 64 * 1024 * 1024) -> None:
        self._path, self._limit = path, limit_bytes
        self._encoder = msgspec.json.Encoder(enc_hook=str)
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file: BinaryIO | None = path.open("ab", buffering=0)
        self._size = path.stat().st_size

    def write(self, records: Iterable[dict[str, Any]]) -> None:
        """Append these records."""
        if self._file is None:
            return
        lines = list[bytes]()
        try:
            for record in records:
                line = self._encoder.encode(record) + b"\n"
                if self._size and self._size + len(line) > self._limit:
                    self._put(lines)
                    self._rotate()
                lines.append(line)
                self._size += len(line)
            self._put(lines)
        except OSError as error:
            log.error("the decision journal is closed", path=str(self._path), problem=str(error))
            self.close()

    def _put(self, lines: list[bytes]) -> None:
        if self._file is not None and lines:
            self._file.write(b"".join(lines))
        lines.clear()

    def close(self) -> None:
        """Close the file; later records are dropped."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _rotate(self) -> None:
        self.close()
        self._path.replace(self._path.with_name(self._path.name + ".1"))
        self._file = self._path.open("ab", buffering=0)
        self._size = 0
