"""A container of a rendered pod as a process of this machine: its command, its environment, its files."""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.charts.rendering import Object
from tests.system.ray_fleet import TOKEN, Process, environment

# The image's programs, as this checkout has them.
_PROGRAMS = {
    "global-dispatcher": [sys.executable, "-m", "dispatcher.cli.main"],
    "ray": ["ray"],
}


def run_container(
    container: Object, ip: str, paths: Mapping[str, Path | str], log: Path, before: Sequence[str] = (), name: str = ""
) -> Process:
    """Start it as the pod with this address and name; `paths` says where the pod's folders, and hosts, are here,
    `before` are words that come before its command, as of another namespace.
    """
    env = {key: _here(value, paths) for key, value in _environment(container, ip, name).items()}
    first, *rest = container["command"]
    words = [_here(_expanded(word, env), paths) for word in rest]
    return Process([*before, *_PROGRAMS[first], *words], log, environment(**env))


def _environment(container: Object, ip: str, name: str) -> dict[str, str]:
    fields = {"status.podIP": ip, "metadata.name": name}
    env: dict[str, str] = {}
    for one in container["env"]:
        source = one.get("valueFrom", {})
        if "fieldRef" in source:
            env[one["name"]] = fields[source["fieldRef"]["fieldPath"]]
        elif "secretKeyRef" in source:
            env[one["name"]] = TOKEN
        else:
            env[one["name"]] = _expanded(one["value"], env)
    return env


def _expanded(word: str, env: Mapping[str, str]) -> str:
    for name, value in env.items():
        word = word.replace(f"$({name})", value)
    return word


def _here(word: str, paths: Mapping[str, Path | str]) -> str:
    for there, here in paths.items():
        word = word.replace(there, str(here))
    return word
