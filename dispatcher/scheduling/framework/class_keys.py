"""The class keys of pods, asked once for a template: pods of one controller differ in
`model.pod.OWN_FIELDS` alone, and in the names of their claims.
"""

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any

from dispatcher.scheduling.framework.asked import NOBODY, Asked
from dispatcher.scheduling.framework.plugin import Plugin
from dispatcher.scheduling.framework.pod_info import PodInfo
from shared.messages.pod_cache import POD_CACHE_BYTES, PodCache, said
from shared.model.pod import template_of
from shared.model.resources import CPU, MEMORY

_MOST_KNOWN = 8192  # controllers
_TEMPLATES = 16  # of each controller and size, or of the pods of a namespace that have none
_Looked = tuple[Any, ...]  # all that a key rests on, but for the home
# in a key, instead of what a plugin looks at that only adds to the scores of clusters: each pod
# brings its own
BROUGHT = "what each pod brings"


class ClassKey(tuple[Hashable, ...]):
    """The key of each plugin that looks at pods, what its pods are booked by, and their profile;
    hashed once.

    Equal keys: one class. The very same key: one template and home, too (see `ClassKeys.of`).
    """

    hash: int
    asked: Asked  # the plugins that are asked of its pods; None stands for all others
    # what `Plan.key_without_home` found, while clusters and the objects that it read stay alike
    kept: dict[Hashable, Any]
    # by which its pods are decided, if others share it: see `Reserve.batch_key`
    batch: "ClassKey | None" = None
    # see `Plan.key_without_home`: by what it was made last
    without_home: "tuple[Hashable, ClassKey] | None" = None
    brought: tuple[int, ...] = ()  # where BROUGHT stands: one pod is decided by a key of its own
    said: int = 0  # bytes of memory of what its pods say, for caches of what is found of them

    @classmethod
    def of(
        cls, parts: Iterable[Hashable], asked: Asked = NOBODY, brought: tuple[int, ...] = ()
    ) -> "ClassKey":
        """TypeError for parts that cannot be hashed."""
        key = cls(parts)
        key.hash = tuple.__hash__(key)
        key.asked = asked
        key.brought = brought
        key.kept = {}
        return key

    def like(self, parts: Iterable[Hashable]) -> "ClassKey":
        """Another key of its pods. TypeError as of `of`."""
        key = ClassKey.of(parts, self.asked, self.brought)
        key.said = self.said
        return key

    def note_said(self, size: int) -> None:
        """Its pods say so many bytes."""
        self.said = size
        if self.batch is not None:
            self.batch.said = size

    def __hash__(self) -> int:
        return self.hash


def batch_key(class_key: Hashable) -> Hashable:
    """By what pods are decided together: classes that only the books of Reserve plugins tell apart
    share it.
    """
    batch = class_key.batch if isinstance(class_key, ClassKey) else None
    return class_key if batch is None else batch


class ClassKeys:
    """The keys of one profile. Plugins that do not say that they go by the template are asked of
    every pod.
    """

    def __init__(self, looks: Sequence[Plugin]) -> None:
        self._asked = tuple(one.class_key for one in looks if not keyed_by_template(one))
        # The last templates of each controller: by home, namespace, owner and size what was looked
        # at, and its key.
        self._known: PodCache[tuple[Any, ...], list[tuple[_Looked, ClassKey]]] = PodCache(
            _MOST_KNOWN, 2 * POD_CACHE_BYTES
        )

    def of(self, pod_info: PodInfo, make: Callable[[PodInfo], ClassKey]) -> ClassKey:
        """The key that `make` makes of the pod, or has made of another one from its home, equal in
        all that was looked at: pods of two templates never have the very same key, though it may be
        equal.
        """
        pod = pod_info.pod
        looked: _Looked = (template_of(pod), pod_info.refused, pod_info.counts_as, pod_info.only_in)
        if self._asked:
            looked += tuple([ask(pod_info) for ask in self._asked])
        asks = pod.requests.get(CPU), pod.requests.get(MEMORY)
        whose = (pod_info.home, pod.namespace, pod.owner, *asks)
        known = self._known.get(whose) or []
        for was, key in known:
            if was == looked:
                return key
        key = make(pod_info)
        key.note_said(said(looked))
        known = [(looked, key), *known[: _TEMPLATES - 1]]
        self._known.put(whose, known, sum([one.said for _, one in known]))
        return key


def keyed_by_template(plugin: Plugin, key: str = "class_key") -> bool:
    """Whether a plugin says so of the `key` method that it has: who replaces that one must say it
    again.
    """
    said = next(
        one for one in type(plugin).__mro__ if key in vars(one) or "keyed_by_template" in vars(one)
    )
    return plugin.keyed_by_template and "keyed_by_template" in vars(said)
