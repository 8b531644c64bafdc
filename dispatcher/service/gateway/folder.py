"""The folder of an authority, and the same for a dry run, in which nothing of it is written: it
holds private keys.
"""

import os
import tempfile
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Folder:
    """Files by name. `dry_run`: what is written stands beside the folder, in memory, and is read
    like the rest.
    """

    path: Path
    dry_run: bool = False
    _written: dict[str, bytes] = field(default_factory=dict, repr=False)

    def __str__(self) -> str:
        return str(self.path)

    def make(self) -> None:
        """Have it there. OSError."""
        if not self.dry_run and not self.path.exists():
            self.path.mkdir(parents=True)
            (self.path / ".gitignore").write_text("*\n")  # it holds the keys of the whole fleet

    def has(self, name: str) -> bool:
        """Whether there is such a file. OSError."""
        return name in self._written or (self.path / name).exists()

    def read(self, name: str) -> bytes | None:
        """What a file holds; None where there is none. OSError: it cannot be read."""
        if name in self._written:
            return self._written[name]
        try:
            return (self.path / name).read_bytes()
        except FileNotFoundError:
            return None

    def need(self, name: str) -> bytes:
        """What a file holds. OSError, also where there is none."""
        return self._written[name] if name in self._written else (self.path / name).read_bytes()

    def write(self, name: str, data: bytes, mode: int) -> None:
        """Write a file as a whole. OSError."""
        if self.dry_run:
            self._written[name] = data
        else:
            write_whole(self.path / name, data, mode)


def write_whole(file: Path, data: bytes, mode: int) -> None:
    """Write a file as a whole: who reads it meanwhile sees the old one."""
    descriptor, beside = tempfile.mkstemp(
        dir=file.parent, prefix=f".{file.name}."
    )  # new, and for us alone
    try:
        with os.fdopen(descriptor, "wb") as stream:
            os.fchmod(descriptor, mode)
            stream.write(data)
        Path(beside).replace(file)
    except BaseException:
        Path(beside).unlink(missing_ok=True)
        raise
