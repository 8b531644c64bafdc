"""Files that an agent's settings name: a relative path is taken from the folder of the file that
names it.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

FILES: Final = (
    ("kubeconfig",),
    ("key_file",),
    ("log_file",),
    ("kubelet", "ca_file"),
    ("orders", "ca_file"),
    ("gateway", "ca_file"),
    ("gateway", "cert_file"),
    ("gateway", "key_file"),
    ("relay", "cert_file"),
    ("relay", "key_file"),
    ("relay", "client_ca_file"),
    ("relay", "folder"),
)
SOURCE_FILES: Final = (
    "token_file",
    "password_file",
    "ca_file",
    "cert_file",
    "key_file",
    "path",
)  # of telemetry


def relative_to(file: Path) -> Callable[[str], str]:
    """Makes whole paths of those that stand in a file; ~ is the home of who runs this."""
    return lambda name: str((file.parent / Path(name).expanduser()).absolute())


def with_whole_paths(told: Mapping[str, Any], whole: Callable[[str], str]) -> dict[str, Any]:
    """An agent's settings as they were read, of any shape, with whole paths."""
    placed = dict(told)
    for path in FILES:
        placed = _placed(placed, path, whole)
    if isinstance(telemetry := placed.get("telemetry"), Mapping):
        placed["telemetry"] = {
            kind: _sources_placed(sources, whole) for kind, sources in telemetry.items()
        }
    return placed


def _placed(
    told: Mapping[str, Any], path: tuple[str, ...], whole: Callable[[str], str]
) -> dict[str, Any]:
    key, *rest = path
    found = told.get(key)
    if rest and isinstance(found, Mapping):
        return {**told, key: _placed(found, tuple(rest), whole)}
    return (
        {**told, key: whole(found)} if not rest and isinstance(found, str) and found else dict(told)
    )


def _sources_placed(sources: Any, whole: Callable[[str], str]) -> Any:
    if not isinstance(sources, list):
        return sources
    return [_source_placed(one, whole) if isinstance(one, Mapping) else one for one in sources]


def _source_placed(source: Mapping[str, Any], whole: Callable[[str], str]) -> dict[str, Any]:
    placed = dict(source)
    for key in SOURCE_FILES:
        placed = _placed(placed, (key,), whole)
    if isinstance(headers := placed.get("header_files"), Mapping):
        placed["header_files"] = {
            name: whole(file) if isinstance(file, str) and file else file
            for name, file in headers.items()
        }
    return placed
