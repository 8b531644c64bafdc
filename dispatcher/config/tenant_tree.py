"""What is wrong with a file of tenants as a tree, and with the nodes that it names."""

import re
from collections.abc import Iterator, Sequence

from dispatcher.config.document import Document
from dispatcher.config.problems import Path, Problem
from dispatcher.config.tenant_entries import TenantEntry, TenantsFile
from dispatcher.scheduling.framework.plugin_args import did_you_mean, label_key, shown
from shared.model.tenant import WEIGHT_ONE

MOST_LEVELS = 8
_LABEL_VALUE = re.compile(r"(?:[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")


class TenantTreeCheck:
    """Everything of the file that has to do with other entries of it, or with the fleet."""

    def __init__(self, entries: TenantsFile, clusters: Sequence[str], document: Document) -> None:
        self._entries = entries.tenants
        self._clusters = clusters
        self._document = document
        self._by_name = {one.name: one for one in entries.tenants}

    def problems(self) -> Iterator[Problem]:
        """One after the other, in the order of the file."""
        for at, entry in enumerate(self._entries):
            here: Path = ("tenants", at)
            yield from self._of_parent(entry, here)
            yield from self._of_limits(entry, here)
            yield from self._of_places(entry, here)
            yield from self._of_parts(entry, here)
            if round(entry.weight * WEIGHT_ONE) != entry.weight * WEIGHT_ONE:
                yield self._problem((*here, "weight"), "must have three decimals at most")

    def _problem(self, path: Path, text: str) -> Problem:
        return self._document.problem(path, text)

    def _of_parent(self, entry: TenantEntry, here: Path) -> Iterator[Problem]:
        if not entry.namespaces and not any(one.parent == entry.name for one in self._entries):
            text = (
                "is missing: a tenant has namespaces, or is the `parent` of another one"
                if "namespaces" not in entry.model_fields_set
                else "must be a list with an entry at least, as it is no tenant's `parent`"
            )
            yield self._problem((*here, "namespaces"), text)
        if not entry.parent:
            return
        if entry.parent not in self._by_name:
            text = f"{shown(entry.parent)} is no tenant{did_you_mean(entry.parent, self._names())}"
            yield self._problem((*here, "parent"), text)
        elif self._above(entry) is None:
            text = f"{shown(entry.parent)} is part of {entry.name} itself"
            yield self._problem((*here, "parent"), text)
        elif len(self._above(entry) or ()) >= MOST_LEVELS:
            text = f"makes a tree of more than {MOST_LEVELS} levels"
            yield self._problem((*here, "parent"), text)

    def _names(self) -> list[str]:
        return list(self._by_name)

    def _above(self, entry: TenantEntry) -> list[TenantEntry] | None:
        """Those that it is part of, nearest first; None if it is part of itself."""
        found: list[TenantEntry] = []
        while entry.parent in self._by_name:
            entry = self._by_name[entry.parent]
            if entry in found or len(found) > len(self._entries):
                return None
            found.append(entry)
        return found

    def _top(self, entry: TenantEntry) -> TenantEntry:
        above = self._above(entry)
        return above[-1] if above else entry

    def _of_limits(self, entry: TenantEntry, here: Path) -> Iterator[Problem]:
        of_all = ((), entry.borrowing_limit, entry.lending_limit)
        of_parts = [
            (("quotas", at), one.borrowing_limit, one.lending_limit)
            for at, one in enumerate(entry.quotas)
        ]
        for where, borrowing, lending in (of_all, *of_parts):
            for key, limits in (("borrowing_limit", borrowing), ("lending_limit", lending)):
                if limits and not entry.parent:
                    text = (
                        "says nothing of a tenant without a `parent`: it has nobody to borrow from "
                        "or to lend to"
                    )
                    yield self._problem((*here, *where, key), text)
        given = {
            resource
            for one in self._entries
            if self._top(one) is self._top(entry)
            for resource in one.nominal
        }
        for key, limits in (
            ("borrowing_limit", entry.borrowing_limit),
            ("lending_limit", entry.lending_limit),
        ):
            for resource in limits if entry.parent else ():
                if resource not in given:
                    text = (
                        "limits nothing, as no tenant of its tree has `nominal` of it: give it to "
                        f"{entry.name}, or to {self._top(entry).name}"
                    )
                    yield self._problem((*here, key, resource), text)

    def _of_places(self, entry: TenantEntry, here: Path) -> Iterator[Problem]:
        for at, name in enumerate(entry.clusters):
            yield from self._of_cluster(name, (*here, "clusters", at))
        if entry.nodes is not None:
            path: Path = (*here, "nodes", "selector")
            yield from self._of_labels(entry.nodes.selector, path)
            yield from self._of_others_nodes(entry, path)
        for above in self._above(entry) or ():
            if entry.clusters and above.clusters and set(entry.clusters).isdisjoint(above.clusters):
                text = f"has none of the clusters of {above.name}, which it is part of"
                yield self._problem((*here, "clusters"), text)

    def _of_others_nodes(self, entry: TenantEntry, path: Path) -> Iterator[Problem]:
        """Nodes that its pods cannot go to, or that it and another tenant keep from each other."""
        own = _selector(entry)
        above = self._above(entry) or []
        for one in above:
            for key, value in _selector(one).items():
                if own.get(key, value) != value:
                    text = f"must be {value}, as {one.name} has, which it is part of"
                    yield self._problem((*path, key), text)
        for one in self._entries[: self._entries.index(entry)]:
            related = one in above or entry in (self._above(one) or ())
            apart = one.clusters and entry.clusters and set(one.clusters).isdisjoint(entry.clusters)
            same = own.items() <= _selector(one).items() or _selector(one).items() <= own.items()
            if _keeps(one) and _keeps(entry) and same and not related and not apart:
                yield self._problem(path, f"means nodes that tenant {one.name} keeps for itself")

    def _of_parts(self, entry: TenantEntry, here: Path) -> Iterator[Problem]:
        seen: list[tuple[str, dict[str, str]]] = []
        for at, part in enumerate(entry.quotas):
            path: Path = (*here, "quotas", at)
            if not part.cluster and not part.nodes:
                text = (
                    "needs `cluster` or `nodes`: quota of the whole fleet is the tenant's `nominal`"
                )
                yield self._problem(path, text)
            if (part.cluster, part.nodes) in seen:
                yield self._problem(path, "is of the same nodes as an entry before it: join them")
            seen.append((part.cluster, part.nodes))
            if part.cluster:
                yield from self._of_cluster(part.cluster, (*path, "cluster"))
            yield from self._of_labels(part.nodes, (*path, "nodes"))

    def _of_cluster(self, name: str, path: Path) -> Iterator[Problem]:
        if self._clusters and name not in self._clusters:
            text = f"{shown(name)} is no configured cluster{did_you_mean(name, self._clusters)}"
            yield self._problem(path, text)

    def _of_labels(self, labels: dict[str, str], path: Path) -> Iterator[Problem]:
        for key, value in labels.items():
            try:
                label_key(key)
            except ValueError as error:
                yield self._problem((*path, key), str(error))
            if not _LABEL_VALUE.fullmatch(value):
                text = f"must be the value of a label of nodes, not {shown(value)}"
                yield self._problem((*path, key), text)


def _selector(entry: TenantEntry) -> dict[str, str]:
    return entry.nodes.selector if entry.nodes else {}


def _keeps(entry: TenantEntry) -> bool:
    return entry.nodes is not None and entry.nodes.exclusive
