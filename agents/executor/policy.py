"""What this cluster allows others to do in it. Owned by the admins of the cluster, checked for each intent."""

from fnmatch import fnmatchcase

import msgspec

from dispatcher.model.pod import SourceRef


class Accept(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Source clusters and namespaces whose pods may run here; shell patterns ('*', 'team-*')."""

    clusters: tuple[str, ...] = ("*",)
    namespaces: tuple[str, ...] = ("*",)

    def covers(self, cluster: str, namespace: str) -> bool:
        """Whether one source is meant by this row."""
        return _any(self.clusters, cluster) and _any(self.namespaces, namespace)


class ExecutorPolicy(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Rows of consent; a source is accepted if any row covers it. The default accepts all, as on a laptop.

    `evict_foreign`: pods of other schedulers may be evicted for pods of this cluster that are of higher priority.
    """

    accept: tuple[Accept, ...] = (Accept(),)
    evict_foreign: bool = True

    def refusal(self, source: SourceRef, cluster: str) -> str:
        """Why pods of this source may not run in `cluster`; '' if they may."""
        if any(row.covers(source.cluster, source.namespace) for row in self.accept):
            return ""
        return (
            f'cluster "{cluster}" does not accept pods of namespace "{source.namespace}" of cluster '
            f'"{source.cluster}": add a row to the accept list of its executor policy'
        )


def _any(patterns: tuple[str, ...], text: str) -> bool:
    return any(fnmatchcase(text, pattern) for pattern in patterns)
