"""PromQL as data: sets of queries by name (`configs/signals/`), and queries of the agent's own
configuration.

A query answers one measure for all nodes at once. Beside it stands one that tells when its samples
were taken: answers are stamped with the time of the question, and `rate()` goes on for the whole of
its window after an exporter is dead.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from string import Template
from typing import Any

import yaml

from agents.observer.seen import NodeTarget
from agents.telemetry.source import Range, believed

MAX_FILE = 256 * 1024
UNITS = ("share", "share_of_cpu", "share_of_memory", "cores", "bytes", "bytes_per_second", "range")
# What is no network of the node itself, as agents/telemetry/kubelet.py has it, for Prometheus.
VIRTUAL = "lo|veth.*|cali.*|cni.*|docker.*|flannel.*|br-.*|lxc.*|cilium.*|kube-ipvs.*|nodelocaldns.*|tunl.*"
PLACEHOLDERS = ("labels", "window", "interfaces", "virtual", "cluster")
_SHARE = Range()


class QueryError(ValueError):
    """A query or a set of them cannot be used; the text says which and what to do."""


@dataclass(frozen=True, slots=True)
class Query:
    """One measure of all nodes. `unit`: what the number is; for `range`, `within` says what full
    is.
    """

    measure: str
    query: str
    sampled_at: str
    unit: str = "share"
    within: Range = _SHARE

    def value(self, number: float, target: NodeTarget) -> float:
        """The number as the observer knows the measure; ValueError with the reason where it cannot
        be.
        """
        if self.unit == "range":
            return self.within.share(number)
        value = believed(number)
        if not self.unit.startswith("share"):
            return value
        share = _SHARE.share(value)
        if self.unit == "share":
            return share
        full = target.cpu / 1000 if self.unit == "share_of_cpu" else float(target.memory)
        if full <= 0:
            raise ValueError("of a node of unknown capacity")
        return share * full


@dataclass(frozen=True, slots=True)
class Filling:
    """What the placeholders of queries stand for. `cluster` (label, value): the matcher of one
    cluster of several.
    """

    labels: tuple[str, ...]
    window: str = "2m"
    interfaces: str = ".+"
    cluster: tuple[str, str] = ("", "")

    def of(self, text: str) -> str:
        """The PromQL; QueryError for a placeholder that is none."""
        label, value = self.cluster
        values = {
            "labels": ", ".join(self.labels),
            "window": self.window,
            "interfaces": _quoted(self.interfaces),
            "virtual": VIRTUAL,
            "cluster": f'{label}="{_quoted(value)}"' if label else "",
        }
        try:
            return Template(text).substitute(values)
        except (KeyError, ValueError):
            known = ", ".join(f"${name}" for name in PLACEHOLDERS)
            raise QueryError(
                f"{text[:80]!r} has a $ that begins none of {known}: write $$ for a $ itself"
            ) from None

    def fill(self, queries: Iterable[Query]) -> tuple[Query, ...]:
        """The same queries as PromQL."""
        return tuple(
            replace(one, query=self.of(one.query), sampled_at=self.of(one.sampled_at))
            for one in queries
        )


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


def folder() -> Path:
    """Where the sets are: beside this module where it is installed, in the repository else."""
    installed = Path(__file__).parent / "sets"
    return installed if installed.is_dir() else Path(__file__).parents[2] / "configs" / "signals"


def names() -> list[str]:
    """The sets that there are."""
    return sorted(file.stem for file in folder().glob("*.yaml"))


def load(name: str) -> tuple[Query, ...]:
    """A set by name; QueryError for one that is not there or cannot be read."""
    if name not in names():
        raise QueryError(
            f"there is no set of queries {name[:40]!r}: there are {', '.join(names())}"
        )
    return read((folder() / f"{name}.yaml").read_bytes(), name)


def read(raw: bytes, name: str) -> tuple[Query, ...]:
    """A set from its YAML; QueryError names the entry."""
    try:
        if len(raw) > MAX_FILE:
            raise QueryError(f"{name}: larger than {MAX_FILE} bytes")
        data = yaml.safe_load(raw)
        if not isinstance(data, dict) or not isinstance(data.get("queries"), list):
            raise QueryError(f"{name}: needs a list `queries`")
        usual = data.get("sampled_at", "")
        return tuple(
            _query(entry, usual, f"{name}.queries.{at}") for at, entry in enumerate(data["queries"])
        )
    except (yaml.YAMLError, RecursionError) as error:
        raise QueryError(f"{name}: is no YAML: {' '.join(str(error).split())}") from None


def _query(entry: Any, usual: str, path: str) -> Query:
    if not isinstance(entry, Mapping) or (
        wrong := entry.keys() - {"measure", "query", "sampled_at", "unit"}
    ):
        raise QueryError(
            f"{path}: {', '.join(map(str, wrong)) if isinstance(entry, Mapping) else 'not a map of keys'}"
        )
    texts = {key: entry.get(key) for key in ("measure", "query", "unit")}
    texts["sampled_at"] = entry.get("sampled_at") or usual
    for key, text in texts.items():
        if not isinstance(text, str) or not text:
            raise QueryError(f"{path}.{key}: is missing, or no text")
    if texts["unit"] not in UNITS[:-1]:
        raise QueryError(f"{path}.unit: must be one of {', '.join(UNITS[:-1])}")
    if not re.fullmatch(r"[a-z][a-z0-9_]{0,39}", texts["measure"] or ""):
        raise QueryError(f"{path}.measure: lower case letters, digits and underscores")
    return Query(**texts)  # type: ignore[arg-type]
