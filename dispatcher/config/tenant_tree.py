"""What is wrong with a file of tenants as a tree, and with the nodes that it names."""

import re
from collections.abc import Iterator, Sequence

from dispatcher.config.document import Document
from dispatcher.config.problems import Path, Problem
from dispatcher.config.tenant_entries import PartEntry, TenantEntry, TenantsFile, TolerationEntry
from dispatcher.scheduling.framework.plugin_args import did_you_mean, label_key, shown
from shared.model.tenant import WEIGHT_ONE, may_be_given

MOST_LEVELS = 8
_LABEL_VALUE = re.compile(r"(?:[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")

_Part = tuple[str, frozenset[tuple[str, str]]] | None  # None: the whole fleet
_Limited = tuple[_Part, str]


class TenantTreeCheck:
    """Everything of the file that has to do with other entries of it, or with the fleet."""

    def __init__(self, entries: TenantsFile, clusters: Sequence[str], document: Document) -> None:
        self._entries = entries.tenants
        self._clusters = clusters
        self._document = document
        self._by_name = {one.name: one for one in entries.tenants}
        self._parents = {one.parent for one in entries.tenants}
        self._known_above: dict[int, list[TenantEntry] | None] = {}
        self._given: dict[int, set[_Limited]] = {}  # by the top of a tree
        for one in entries.tenants:
            self._given.setdefault(id(self._top(one)), set()).update(_nominal(one))
        self._kept: dict[tuple[str, str], list[TenantEntry]] = {}  # by a label, of those before

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
        if not entry.namespaces and entry.name not in self._parents:
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
            if self._in_circle(entry):
                text = f"{shown(entry.parent)} is part of {entry.name} itself"
                yield self._problem((*here, "parent"), text)
        elif len(self._above(entry) or ()) >= MOST_LEVELS:
            text = f"makes a tree of more than {MOST_LEVELS} levels"
            yield self._problem((*here, "parent"), text)

    def _names(self) -> list[str]:
        return list(self._by_name)

    def _above(self, entry: TenantEntry) -> list[TenantEntry] | None:
        """Those that it is part of, nearest first, `MOST_LEVELS` at most; None if it, or
        who it is part of, is part of itself.
        """
        if id(entry) not in self._known_above:
            self._known_above[id(entry)] = self._found_above(entry)
        return self._known_above[id(entry)]

    def _found_above(self, entry: TenantEntry) -> list[TenantEntry] | None:
        found: list[TenantEntry] = []
        seen: set[str] = set()
        while entry.parent in self._by_name and len(found) < MOST_LEVELS:
            entry = self._by_name[entry.parent]
            if entry.name in seen:
                return None
            seen.add(entry.name)
            found.append(entry)
        return found

    def _in_circle(self, entry: TenantEntry) -> bool:
        one = entry
        for _ in range(MOST_LEVELS):
            one = self._by_name[one.parent]
            if one.name == entry.name:
                return True
        return False

    def _top(self, entry: TenantEntry) -> TenantEntry:
        above = self._above(entry)
        return above[-1] if above else entry

    def _of_limits(self, entry: TenantEntry, here: Path) -> Iterator[Problem]:
        given = self._given[id(self._top(entry))]
        said_of: list[tuple[TenantEntry | PartEntry, Path]] = [(entry, ())]
        said_of += [(one, ("quotas", at)) for at, one in enumerate(entry.quotas)]
        for said, where in said_of:
            for key, limits in (
                ("borrowing_limit", said.borrowing_limit),
                ("lending_limit", said.lending_limit),
            ):
                path: Path = (*here, *where, key)
                if limits and not entry.parent:
                    text = (
                        "says nothing of a tenant without a `parent`: it has nobody to borrow from "
                        "or to lend to"
                    )
                    yield self._problem(path, text)
                for resource in limits if entry.parent else ():
                    if (_part(said), resource) not in given:
                        text = (
                            "limits nothing, as no tenant of its tree has `nominal` of it"
                            f"{' there' if where else ''}: give it to {entry.name}, or to "
                            f"{self._top(entry).name}"
                        )
                        yield self._problem((*path, resource), text)

    def _of_places(self, entry: TenantEntry, here: Path) -> Iterator[Problem]:
        for at, name in enumerate(entry.clusters):
            yield from self._of_cluster(name, (*here, "clusters", at))
        if entry.nodes is not None:
            path: Path = (*here, "nodes", "selector")
            yield from self._of_labels(entry.nodes.selector, path)
            yield from self._of_others_nodes(entry, path)
            for at, one in enumerate(entry.nodes.tolerations):
                yield from self._of_toleration(one, (*here, "nodes", "tolerations", at))
        for above in self._above(entry) or ():
            if entry.clusters and above.clusters and set(entry.clusters).isdisjoint(above.clusters):
                text = f"has none of the clusters of {above.name}, which it is part of"
                yield self._problem((*here, "clusters"), text)

    def _of_toleration(self, entry: TolerationEntry, path: Path) -> Iterator[Problem]:
        yield from self._of_label(entry.key, entry.value, (*path, "key"), (*path, "value"))
        if entry.key and not may_be_given(entry.key):
            text = "is of a taint that protects nodes: only the template of a pod may tolerate it"
            yield self._problem((*path, "key"), f"{shown(entry.key)} {text}")
        if entry.operator == "Exists" and entry.value:
            yield self._problem((*path, "value"), "has no meaning with the operator Exists")

    def _of_others_nodes(self, entry: TenantEntry, path: Path) -> Iterator[Problem]:
        """Nodes that its pods cannot go to, or that it and another tenant keep from each other."""
        own = _selector(entry)
        above = self._above(entry) or []
        for one in above:
            for key, value in _selector(one).items():
                if own.get(key, value) != value:
                    text = f"must be {value}, as {one.name} has, which it is part of"
                    yield self._problem((*path, key), text)
        if not _keeps(entry):
            return
        before = {id(one): one for label in own.items() for one in self._kept.get(label, ())}
        for one in before.values():
            related = one in above or entry in (self._above(one) or ())
            apart = one.clusters and entry.clusters and set(one.clusters).isdisjoint(entry.clusters)
            same = own.items() <= _selector(one).items() or _selector(one).items() <= own.items()
            if same and not related and not apart:
                yield self._problem(path, f"means nodes that tenant {one.name} keeps for itself")
        for label in own.items():
            self._kept.setdefault(label, []).append(entry)

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
            yield from self._of_label(key, value, (*path, key), (*path, key))

    def _of_label(self, key: str, value: str, key_at: Path, value_at: Path) -> Iterator[Problem]:
        try:
            label_key(key)
        except ValueError as error:
            yield self._problem(key_at, str(error))
        if not _LABEL_VALUE.fullmatch(value):
            text = f"must be the value of a label of nodes, not {shown(value)}"
            yield self._problem(value_at, text)


def _selector(entry: TenantEntry) -> dict[str, str]:
    return entry.nodes.selector if entry.nodes else {}


def _keeps(entry: TenantEntry) -> bool:
    return entry.nodes is not None and entry.nodes.exclusive


def _part(said: TenantEntry | PartEntry) -> _Part:
    if isinstance(said, TenantEntry):
        return None
    return said.cluster, frozenset(said.nodes.items())


def _nominal(entry: TenantEntry) -> Iterator[_Limited]:
    said_of: list[TenantEntry | PartEntry] = [entry, *entry.quotas]
    return ((_part(said), resource) for said in said_of for resource in said.nominal)
