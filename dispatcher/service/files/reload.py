"""Profiles, plugin files and tenants are read again when they change; what fails its checks is
refused, and the old stays.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from hashlib import blake2b
from pathlib import Path

import structlog

from dispatcher.config import ConfigError, DispatcherConfig, load_config
from dispatcher.config.sections import TimingSection
from dispatcher.plugins.registry import PluginSpec

log = structlog.get_logger("reload")

LOOK_S = 2.0
MOST_PROBLEMS = 20  # in a line of the log
Marks = Mapping[Path, bytes]


class Reloader:
    """Looks at the policy files of `config`; `take` is handed each changed configuration that
    passes its checks.

    Of a changed configuration profiles, plugins and tenants alone are taken over; the rest holds
    until the next start. `refused`: whether they are, as they stand now. `unread`: which files,
    read at the start alone, have changed since.
    """

    def __init__(
        self,
        config: DispatcherConfig,
        registry: Mapping[str, PluginSpec],
        take: Callable[[DispatcherConfig], None],
    ) -> None:
        self._config = config
        self._registry = registry
        self._take = take
        self._marks = marks(config.policy_files)
        self.start_files = config.start_files
        self._at_start = self._seen = marks(tuple(self.start_files.values()))
        self.refused = False
        self.outcomes = {"taken": 0, "refused": 0}

    @property
    def unread(self) -> frozenset[str]:
        """By what they are, as in `start_files`."""
        return frozenset(
            name
            for name, path in self.start_files.items()
            if self._seen.get(path) != self._at_start.get(path)
        )

    async def run(self) -> None:
        """Look until cancelled."""
        while self._config.file is not None:
            await asyncio.sleep(LOOK_S)
            await self.look()

    async def look(self) -> None:
        """Take over what has changed since the last look, or say why not."""
        others_changed = await self._look_at_start_files()
        found = await asyncio.to_thread(marks, self._config.policy_files)
        if found == self._marks and not (
            self.refused and others_changed
        ):  # the fault may have been in these
            return
        self._marks = found
        changed = [str(path) for path in self._config.policy_files]
        try:
            config = await asyncio.to_thread(
                load_config, self._config.file, registry=self._registry
            )
            if await asyncio.to_thread(marks, tuple(found)) != found:
                self._marks = {}  # somebody writes: what was read may be half of it
                return
            self._take(config)
        except ConfigError as error:
            self._refuse([str(problem) for problem in error.problems])
        except Exception as error:  # a plugin that cannot be made must not end the dispatcher
            self._refuse([f"{type(error).__name__}: {error}"])
        else:
            self._tell_times(self._config.timing, config.timing)
            self._config = config
            self._marks = {path: found.get(path, b"") for path in config.policy_files}
            self.refused = False
            self.outcomes["taken"] += 1
            names = [profile.scheduler_name for profile in config.profiles]
            log.info("changed policies hold from now on", profiles=names, files=changed)

    def _tell_times(self, before: TimingSection, timing: TimingSection) -> None:
        """A profile of kube-scheduler's kind may name some of them, too."""
        changed = [f"timing.{key}" for key, value in timing if value != getattr(before, key)]
        if changed:
            log.warning(
                "changed times hold from the next start on alone",
                changed=changed,
                fix="restart the dispatcher",
            )

    async def _look_at_start_files(self) -> bool:
        """Whether one has changed since the last look."""
        found = await asyncio.to_thread(marks, tuple(self.start_files.values()))
        before = self._seen
        self._seen = found
        for path in self.start_files.values():
            if found[path] not in (before[path], self._at_start[path]):
                log.warning(
                    "a changed file is read at the start alone: what it said then holds",
                    file=str(path),
                    fix=f"run `global-dispatcher config check {self._config.file}`, then restart "
                    "the dispatcher",
                )
        return found != before

    def _refuse(self, problems: Sequence[str]) -> None:
        self.refused = True
        self.outcomes["refused"] += 1
        log.error(
            "changed policies are refused, the old ones stay",
            problems=problems[:MOST_PROBLEMS],
            count=len(problems),
            fix=f"`global-dispatcher config check {self._config.file}` tells all of them",
        )


def marks(files: Sequence[Path]) -> dict[Path, bytes]:
    """File -> hash of what it holds, empty for one that cannot be read."""
    return {path: _mark(path) for path in files}


def _mark(path: Path) -> bytes:
    try:
        return blake2b(path.read_bytes(), digest_size=16).digest()
    except OSError:
        return b""
