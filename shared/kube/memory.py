"""Files in memory, for what OpenSSL and the `kubernetes` package take from files alone: private
keys among it.

A file on a disk outlives a process that is killed; agents that run in Ray always are.
"""

import os
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from typing import Any

from kubernetes.aio.config import kube_config

_FILES: ContextVar[ExitStack] = ContextVar("files")
_write = kube_config._create_temp_file_with_content


@contextmanager
def memory_file(content: bytes) -> Iterator[str]:
    """The name of a file that only this process has, until the block ends."""
    try:
        descriptor = os.memfd_create("credentials")
    except (AttributeError, OSError):  # not Linux, or forbidden there
        with tempfile.NamedTemporaryFile() as file:  # mode 0600
            file.write(content)
            file.flush()
            yield file.name
        return
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        yield f"/proc/self/fd/{descriptor}"


@contextmanager
def files_in_memory() -> Iterator[None]:
    """What the `kubernetes` package would write to temporary files is in memory, and gone when the
    block ends.
    """
    with ExitStack() as files:
        token = _FILES.set(files)
        try:
            yield
        finally:
            _FILES.reset(token)


def _write_to_memory(content: str | bytes, *args: Any, **kwargs: Any) -> str:
    files = _FILES.get(None)
    if files is None:
        return str(_write(content, *args, **kwargs))
    return files.enter_context(
        memory_file(content.encode() if isinstance(content, str) else content)
    )


kube_config._create_temp_file_with_content = _write_to_memory
