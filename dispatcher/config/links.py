"""The round-trip times between clusters that are configured instead of measured."""

from collections.abc import Iterator, Sequence

from dispatcher.config.document import Document
from dispatcher.config.problems import Path, Problem
from dispatcher.config.sections import LinksSection
from dispatcher.scheduling.framework.plugin_args import did_you_mean, shown


def link_problems(
    section: LinksSection, clusters: Sequence[str], document: Document
) -> list[Problem]:
    """Names of clusters that are not configured, a cluster and itself, a pair that is given twice."""
    return [document.problem(path, text) for path, text in _wrong(section, clusters)]


def _wrong(section: LinksSection, clusters: Sequence[str]) -> Iterator[tuple[Path, str]]:
    seen: set[frozenset[str]] = set()
    for at, row in enumerate(section.between):
        path: Path = ("links", "between", at, "clusters")
        unknown = [
            (number, name) for number, name in enumerate(row.clusters) if name not in clusters
        ]
        for number, name in unknown:
            yield (
                (*path, number),
                f"{shown(name)} is no configured cluster{did_you_mean(name, clusters)}",
            )
        pair = frozenset(row.clusters)
        if not unknown and len(pair) == 1:
            yield path, "names a cluster and itself: name two"
        elif pair in seen:
            yield path, f"{' and '.join(sorted(pair))} are given twice"
        seen.add(pair)
