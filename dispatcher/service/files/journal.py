"""The decision journal: append only, at most two files of a bounded size. For people and replay
only.

A file is a row of frames, each with the decisions of one batch as columns:
    MARK, version (1 byte), length and CRC-32 of the body (4 bytes each, big-endian), body
The body is a `Table` in msgpack. Earlier versions wrote lines of JSON: files, also such that begin
with them, are read all the same. `MARK` begins with a byte that is in no UTF-8 text, so a reader
finds the next frame after whatever a crash left unfinished, or is damaged.
"""

import mmap
import os
import time
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import BinaryIO, NamedTuple

import msgspec
import structlog

from dispatcher.scheduling.framework.value_columns import Table

log = structlog.get_logger("journal")

MARK = b"\xc1GD"
VERSION = b"\x01"
_AGAIN_S = 60.0
_NOT_WHOLE = "no whole batch: a crash left it unfinished, or it is damaged; its decisions are lost"
_HEAD = len(MARK) + len(VERSION) + 8
_decoder = msgspec.msgpack.Decoder(Table)
_to_json = msgspec.json.Encoder(enc_hook=str)


class Journal:
    """Appends to `path`; at `limit_bytes` it becomes `path`.1 (replacing the last one). `clock`:
    seconds.

    A full or broken disk costs records, never a decision: it is told once, and tried again each
    minute.
    """

    def __init__(
        self,
        path: Path,
        limit_bytes: int = 64 * 1024 * 1024,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._path = path
        self._limit = limit_bytes
        self._clock = clock
        self._encoder = msgspec.msgpack.Encoder(enc_hook=str)
        self._file: BinaryIO | None = None
        self._size = 0
        self._missing = 0
        self._again_at = float("-inf")
        self._said = ""
        self._open()

    @property
    def failing(self) -> bool:
        """Whether the latest records are missing, or those to come will be."""
        return bool(self._said)

    def write(self, tables: Iterable[Table]) -> None:
        """Append these records, a frame for each table."""
        if self._file is None and self._clock() >= self._again_at:
            self._open()
        batch = [*tables]
        if self._file is None:
            self._missing += sum(table.count for table in batch)
            return
        frames = list[bytes]()
        try:
            for frame in self._frames(batch):
                if self._size and self._size + len(frame) > self._limit:
                    self._put(frames)
                    self._rotate()
                frames.append(frame)
                self._size += len(frame)
            self._put(frames)
        except OSError as error:
            self._missing += sum(table.count for table in batch)  # at most
            self._failed(error)

    def _open(self) -> None:
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._file = self._path.open("ab", buffering=0)
            self._size = self._path.stat().st_size
        except OSError as error:
            self._failed(error)

    def _failed(self, error: OSError) -> None:
        if str(error) != self._said:
            log.error(
                "decisions are missing in the journal: its file cannot be written",
                path=str(self._path),
                problem=str(error),
                fix="make room, or mend journal.path; it is tried again each minute",
            )
        self._said, self._again_at = str(error), self._clock() + _AGAIN_S
        with suppress(OSError):  # network file systems may say only then what they could not keep
            self.close()

    def _frames(self, tables: Iterable[Table]) -> Iterator[bytes]:
        try:
            for table in tables:
                yield _frame(self._encoder.encode(table))
        except Exception as error:  # what a plugin has said of a decision cannot be written: no decision waits for that
            log.error(
                "decisions are missing in the journal",
                path=str(self._path),
                problem=repr(error)[:300],
            )

    def _put(self, frames: list[bytes]) -> None:
        if not frames:
            return
        left = memoryview(b"".join(frames))
        while self._file is not None and left:
            left = left[
                self._file.write(left) :
            ]  # a disk that gets full takes a part, and says so at the next write
        frames.clear()
        if self._said:
            log.warning(
                "decisions go to the journal again", path=str(self._path), missing=self._missing
            )
            self._said = ""
            self._missing = 0

    def close(self) -> None:
        """Close the file. OSError: of what was written something may be missing."""
        file = self._file
        self._file = None
        if file is not None:
            file.close()

    def _rotate(self) -> None:
        self.close()
        self._path.replace(older(self._path))
        self._file = self._path.open("ab", buffering=0)
        self._size = 0


def older(path: Path) -> Path:
    """The file that a journal was before it began anew."""
    return path.with_name(path.name + ".1")


def _frame(body: bytes) -> bytes:
    return b"".join((MARK, VERSION, len(body).to_bytes(4), zlib.crc32(body).to_bytes(4), body))


class Unread(NamedTuple):
    """The bytes of a file from `begin` to before `end`, which no record is read of. `form`: the
    format that they say they have; None where they are no whole batch.
    """

    file: str
    begin: int
    end: int
    why: str
    form: int | None = None

    def __str__(self) -> str:
        return f"{self.file}: bytes {self.begin} to {self.end - 1}: {self.why}"


def journal_lines(path: Path, unread: list[Unread] | None = None) -> Iterator[bytes]:
    """Each record of a journal and of the file before it as a line of JSON, oldest first. As
    `lines_of`.
    """
    with ExitStack() as stack:
        # Both are open before any is read: the newest may become the one before it meanwhile.
        newest = stack.enter_context(path.open("rb"))
        with suppress(FileNotFoundError):
            before = stack.enter_context(older(path).open("rb"))
            if not os.path.sameopenfile(before.fileno(), newest.fileno()):
                yield from lines_of(before, unread)
        yield from lines_of(newest, unread)


def lines_of(file: BinaryIO, unread: list[Unread] | None = None) -> Iterator[bytes]:
    """Each record as a line of JSON. What a crash left unfinished, is damaged or of another format
    is passed over, and added to `unread`. OSError: the file cannot be read.
    """
    size = os.fstat(file.fileno()).st_size
    if size:
        with mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ) as data:
            yield from _Reading(data, str(file.name), [] if unread is None else unread).lines()


class _Reading:
    """One file as it is read."""

    def __init__(self, data: mmap.mmap, name: str, unread: list[Unread]) -> None:
        self._data = data
        self._name = name
        self._unread = unread

    def lines(self) -> Iterator[bytes]:
        """Each record."""
        data = self._data
        at = 0
        while at < len(data):
            end = _frame_end(data, at)
            if end is not None:
                yield from self._records(at, end)
            else:
                found = data.find(MARK, at + 1)
                end = len(data) if found < 0 else found
                yield from self._earlier(at, end)
            at = end

    def _records(self, at: int, end: int) -> Iterator[bytes]:
        form = self._data[at + len(MARK)]
        if form != VERSION[0]:  # not in the checksum, so this may as well be a bit that has flipped
            why = f"a batch of decisions in format {form}, where this version reads {VERSION[0]}"
            self._pass_over(Unread(self._name, at, end, why, form))
            return
        try:
            for record in _decoder.decode(self._data[at + _HEAD : end]).rows():
                yield _to_json.encode(record) + b"\n"
        except Exception as error:
            why = f"a batch of decisions that cannot be made out: {error}"
            self._pass_over(Unread(self._name, at, end, why))

    def _earlier(self, at: int, upto: int) -> Iterator[bytes]:
        """Lines of an earlier version, or what is left of a frame."""
        while at < upto:
            end = self._data.find(b"\n", at, upto) + 1 or upto
            line = self._data[at:end]
            if line.startswith(b"{") and line.endswith(b"}\n"):
                yield line
            else:
                self._pass_over(Unread(self._name, at, end, _NOT_WHOLE))
            at = end

    def _pass_over(self, one: Unread) -> None:
        last = self._unread[-1] if self._unread else None
        if last is not None and last == one._replace(begin=last.begin, end=one.begin):
            self._unread[-1] = one._replace(begin=last.begin)
        else:
            self._unread.append(one)


def _frame_end(data: mmap.mmap, at: int) -> int | None:
    """Where the frame ends that begins there; None if there is no whole one."""
    head = data[at : at + _HEAD]
    if not head.startswith(MARK) or len(head) < _HEAD:
        return None
    begin = at + _HEAD
    length = int.from_bytes(head[-8:-4])
    whole = begin + length <= len(data) and zlib.crc32(
        data[begin : begin + length]
    ) == int.from_bytes(head[-4:])
    return begin + length if whole else None
