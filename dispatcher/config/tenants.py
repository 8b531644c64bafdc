"""The tenants file: who is charged for which namespaces, and how much of the fleet each may use."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path as FilePath
from string import ascii_letters
from typing import Any

from dispatcher.config.document import Document, read_document
from dispatcher.config.problems import ConfigError, Path, Problem
from dispatcher.config.tenant_entries import PartEntry, TenantEntry, TenantsFile
from dispatcher.config.tenant_tree import TenantTreeCheck
from dispatcher.config.validation import validated
from dispatcher.scheduling.framework.plugin_args import did_you_mean, shown
from shared.model.pod import Toleration
from shared.model.resources import (
    BASE_RESOURCES,
    CPU,
    EPHEMERAL_STORAGE,
    MEMORY,
    PODS,
    QuantityError,
    is_scalar,
    parse_quantity,
    unit_scale,
)
from shared.model.tenant import WEIGHT_ONE, FleetPart, Share, Tenant, quota_key

DEFAULT_TENANT = "default"
LEAST_BYTES = 2**20
_PERCENT = re.compile(r"([0-9]{1,3}(?:\.[0-9]{1,6})?) ?%")
_NAMESPACE = re.compile(r"(?:[a-z0-9][-a-z0-9]{0,62}/)?(?:\*|[a-z0-9][-a-z0-9]{0,62}\*?)")


def is_tenants_file(document: Document) -> bool:
    """Whether this is a tenants file: dispatcher.yaml names one with its key `tenants`."""
    data = document.data
    return isinstance(data, dict) and ("default" in data or isinstance(data.get("tenants"), list))


def read_tenants(path: FilePath, clusters: Sequence[str] = ()) -> tuple[Tenant, ...]:
    """The tenants of a file, the default one last; ConfigError with everything that is wrong with
    it.

    `clusters` are those of the fleet; none: they are not known here, and namespaces may name any.
    """
    document = read_document(path)
    if document.data is None:  # as a write that was cut off leaves it: that must not lift all quota
        raise ConfigError(
            [document.problem((), "is empty: write `tenants: []` if nobody is to be limited")]
        )
    problems: list[Problem] = []
    entries = validated(TenantsFile, document, problems)
    problems += [*_name_problems(entries, document), *_namespace_problems(entries, document)]
    problems += _cluster_problems(entries, clusters, document) if clusters else []
    told = {one.key for one in problems}  # what is of a wrong type is not missing, too
    tree = TenantTreeCheck(entries, clusters, document).problems()
    problems += [one for one in tree if one.key not in told]
    reading = _Reading(document, problems)
    tenants = [reading.tenant(entry, ("tenants", at)) for at, entry in enumerate(entries.tenants)]
    if entries.default is not None:
        nominal = reading.shares(entries.default.nominal, ("default", "nominal"))
        tenants.append(Tenant(DEFAULT_TENANT, ("*",), nominal))
    if problems:
        raise ConfigError(problems)
    return tuple(tenants)


def _name_problems(entries: TenantsFile, document: Document) -> list[Problem]:
    problems: list[Problem] = []
    seen = {DEFAULT_TENANT} if entries.default is not None else set()
    for at, entry in enumerate(entries.tenants):
        if entry.name in seen:
            text = (
                f"tenant {DEFAULT_TENANT} is defined by `default` already: take another name"
                if entry.name == DEFAULT_TENANT and entries.default is not None
                else f"tenant {entry.name} is defined twice"
            )
            problems.append(document.problem(("tenants", at, "name"), text))
        seen.add(entry.name)
    return problems


def _namespace_problems(entries: TenantsFile, document: Document) -> list[Problem]:
    problems: list[Problem] = []
    earlier: dict[str, tuple[str, str]] = {}
    for at, entry in enumerate(entries.tenants):
        for index, pattern in enumerate(entry.namespaces):
            path: Path = ("tenants", at, "namespaces", index)
            if not _NAMESPACE.fullmatch(pattern):
                text = (
                    f"{shown(pattern)} must be 'namespace' or 'cluster/namespace', with '*' at "
                    "the end at most"
                )
                problems.append(document.problem(path, text))
                continue
            taken = next((earlier[one] for one in _covering(pattern) if one in earlier), None)
            if taken is not None:
                text = f"{shown(pattern)} is taken already by {taken[0]!r} of tenant {taken[1]}"
                problems.append(document.problem(path, text))
            earlier.setdefault(pattern, (pattern, entry.name))
    if entries.default is not None and "*" in earlier:
        text = f"is for nobody: '*' of tenant {earlier['*'][1]} is every namespace"
        problems.append(document.problem(("default",), text))
    return problems


def _cluster_problems(
    entries: TenantsFile, clusters: Sequence[str], document: Document
) -> list[Problem]:
    named = (
        (("tenants", at, "namespaces", index), pattern)
        for at, entry in enumerate(entries.tenants)
        for index, pattern in enumerate(entry.namespaces)
        if _NAMESPACE.fullmatch(pattern)
    )
    return [
        document.problem(
            path, f"{shown(pattern)} is of no configured cluster{did_you_mean(where, clusters)}"
        )
        for path, pattern in named
        for where, slash, _ in (pattern.partition("/"),)
        if slash and where not in clusters
    ]


def _covering(pattern: str) -> Iterator[str]:
    """All patterns that mean every namespace that this one means, itself first."""
    where, slash, wanted = pattern.rpartition("/")
    for place in dict.fromkeys((where + slash, "")):
        yield place + wanted
        for end in range(len(wanted.rstrip("*")), -1, -1):
            yield f"{place}{wanted[:end]}*"


class _Reading:
    """Entries as tenants; what cannot be read is added to `problems`."""

    def __init__(self, document: Document, problems: list[Problem]) -> None:
        self._document = document
        self._problems = problems

    def tenant(self, entry: TenantEntry, path: Path) -> Tenant:
        """One of them; the quotas of parts of the fleet stand beside those of the whole."""
        nominal = self.shares(entry.nominal, (*path, "nominal"))
        borrowing = self.shares(entry.borrowing_limit, (*path, "borrowing_limit"))
        lending = self.shares(entry.lending_limit, (*path, "lending_limit"))
        for at, part in enumerate(entry.quotas):
            here: Path = (*path, "quotas", at)
            nominal |= self._of_part(part, part.nominal, (*here, "nominal"))
            borrowing |= self._of_part(part, part.borrowing_limit, (*here, "borrowing_limit"))
            lending |= self._of_part(part, part.lending_limit, (*here, "lending_limit"))
        return Tenant(
            entry.name,
            entry.namespaces,
            nominal,
            parent=entry.parent,
            borrowing_limit=borrowing,
            lending_limit=lending,
            weight=round(entry.weight * WEIGHT_ONE),
            clusters=entry.clusters,
            selector=entry.nodes.selector if entry.nodes else {},
            exclusive=entry.nodes is not None and entry.nodes.exclusive,
            tolerations=tuple(
                Toleration(one.key, one.operator, one.value, one.effect)
                for one in (entry.nodes.tolerations if entry.nodes else ())
            ),
            max_priority=entry.max_priority,
            spread=entry.spread,
            reclaim=entry.reclaim,
            reclaim_strategies=entry.reclaim_strategies,
            min_runtime_s=entry.min_runtime_s,
        )

    def _of_part(self, part: PartEntry, raw: dict[str, Any], path: Path) -> dict[str, Share]:
        where = FleetPart(part.cluster, tuple(sorted(part.nodes.items())))
        shares = self.shares(raw, path)
        return {quota_key(resource, where): share for resource, share in shares.items()}

    def shares(self, raw: dict[str, Any], path: Path) -> dict[str, Share]:
        """By resource."""
        found: dict[str, Share] = {}
        for resource, value in raw.items():
            if resource not in BASE_RESOURCES and not is_scalar(resource):
                text = (
                    "is no resource of all nodes, nor one with a domain, such as nvidia.com/gpu"
                    f"{did_you_mean(resource, BASE_RESOURCES)}"
                )
                self._problems.append(self._document.problem((*path, resource), text))
                continue
            try:
                found[resource] = parse_share(resource, value)
            except ValueError as error:
                self._problems.append(self._document.problem((*path, resource), str(error)))
        return found


def parse_share(resource: str, value: object) -> Share:
    """'40%' of the fleet, or a quantity such as '64', '500m', '256Gi'; ValueError says what is
    wrong.
    """
    text = (
        str(value).strip()
        if isinstance(value, str | int | float) and not isinstance(value, bool)
        else ""
    )
    if text.endswith("%"):
        match = _PERCENT.fullmatch(text)
        if match is None or float(match[1]) > 100:
            raise ValueError(f"must be a share from 0% to 100%, not {shown(value)}")
        return Share(ratio=float(match[1]) / 100)
    if not text:
        raise ValueError(
            f"must be a share such as 40% or a quantity such as 64 or 256Gi, not {shown(value)}"
        )
    if text.endswith("i") and resource in (CPU, PODS):
        raise ValueError(
            f"{text} of {resource} is an amount of bytes: write {text.rstrip(ascii_letters)}"
        )
    try:
        amount = parse_quantity(text, scale=unit_scale(resource), round_up=False)
        is_none = parse_quantity(text) == 0
    except QuantityError as error:
        raise ValueError(
            f"{error}; write a share such as 40% or a quantity such as 64 or 256Gi"
        ) from None
    if amount < (LEAST_BYTES if _in_bytes(resource) else 1) and not is_none:
        number = text.rstrip(ascii_letters)
        least = (
            f"{number}Mi or {number}Gi"
            if _in_bytes(resource)
            else "1m or more"
            if resource == CPU
            else "1 or more"
        )
        raise ValueError(
            f"{text} of {resource} is too little for any pod: write {least}, or 0 for nothing"
        )
    return Share(absolute=amount)


def _in_bytes(resource: str) -> bool:
    return resource in (MEMORY, EPHEMERAL_STORAGE) or resource.startswith("hugepages-")
