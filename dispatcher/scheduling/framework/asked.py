"""Which plugins are asked of a pod: those that have something to say of the fields that it has.

The rule, of which all else here follows: a plugin that says which fields it `reads` is not asked of
a pod in which all of these are empty. Its class key and fleet key are None for such pods, its
PreFilter is SKIP, it books nothing for them, and has nothing to say at later points, whatever the
fleet holds. Who says nothing is asked of every pod. The kit holds plugins to it (`dispatcher.kit.reads_law`).
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from operator import attrgetter
from typing import Any

from dispatcher.scheduling.framework.plugin import Filter, Permit, Plugin, Reserve
from dispatcher.scheduling.framework.pod_info import PodInfo
from shared.model.pod import Pod

_MOST_KINDS = 1024  # of pods, by the fields that they have
_FIELDS = frozenset((*Pod.__struct_fields__, *PodInfo.__struct_fields__))


@dataclass(frozen=True, eq=False)
class Asked:
    """The plugins of a plan that are asked of pods with the same fields; as in `Plan`, and `keyed`:
    those of `looks` with their places there.
    """

    keyed: tuple[tuple[int, Plugin], ...]
    fleet_keyed: tuple[tuple[int, Plugin], ...]
    keyed_without_home: tuple[tuple[int, Plugin], ...]
    batching: tuple[tuple[int, Reserve], ...]
    bounding_clusters: tuple[Filter, ...]
    pod_plugins: tuple[Plugin, ...]
    pod_explainers: tuple[Any, ...]  # of two unrelated kinds
    reserves: tuple[Reserve, ...]
    permits: tuple[Permit, ...]
    late: tuple[Plugin, ...]  # at the points after the decision

    @cached_property
    def at(self) -> frozenset[int]:
        """Places in `looks`."""
        return frozenset([at for at, _ in self.keyed])

    def without(self, silent: Sequence[Plugin]) -> "Asked":
        """The same but for some."""
        every = [getattr(self, one.name) for one in fields(self)]
        return Asked(
            *[tuple([one for one in some if _plugin_of(one) not in silent]) for some in every]
        )


NOBODY = Asked((), (), (), (), (), (), (), (), (), ())


class AskedByFields:
    """Who of `everybody` is asked of a pod; found once for all pods that have the same fields."""

    def __init__(self, everybody: Asked) -> None:
        self._everybody = everybody
        reads = {one: frozenset(reads_of(one)) for _, one in everybody.keyed}
        self._reads = {one: names for one, names in reads.items() if names}
        names = sorted({name for some in self._reads.values() for name in some})
        told = PodInfo.__struct_fields__
        fields = [f"{'' if name in told else 'pod.'}{name}" for name in names if "/" not in name]
        # of two fields at least it answers a tuple
        self._fields = [*fields, "home", "home"]
        self._look = attrgetter(*self._fields)
        self._annotations = [name for name in names if "/" in name]
        self._kinds: dict[tuple[bool, ...], Asked] = {}

    def __call__(self, pod_info: PodInfo) -> Asked:
        """Those that are asked of the pod."""
        has = tuple(map(bool, self._look(pod_info)))
        if pod_info.pod.annotations:
            has += tuple(map(pod_info.pod.annotations.__contains__, self._annotations))
        found = self._kinds.get(has)
        if found is None:
            if len(self._kinds) >= _MOST_KINDS:
                self._kinds = {}
            found = self._kinds[has] = self._of(has)
        return found

    def _of(self, has: Sequence[bool]) -> Asked:
        names = [name.removeprefix("pod.") for name in (*self._fields, *self._annotations)]
        there = {name for name, is_there in zip(names, has, strict=False) if is_there}
        silent = [one for one, reads in self._reads.items() if not reads & there]
        return self._everybody.without(silent)


def _plugin_of(one: Any) -> Any:
    return one[1] if isinstance(one, tuple) else one


def reads_of(plugin: Plugin) -> tuple[str, ...]:
    """The fields without which a plugin has nothing to say; () if it is asked of every pod. Not
    inherited: who changes what a plugin says has to say it anew.
    """
    return plugin.reads if "reads" in vars(type(plugin)) and are_fields(plugin.reads) else ()


def are_fields(reads: object) -> bool:
    """Whether all are fields of Pod or PodInfo, or keys of annotations; nobody relies on others."""
    return isinstance(reads, tuple) and all(
        isinstance(one, str) and ("/" in one or one in _FIELDS) for one in reads
    )
