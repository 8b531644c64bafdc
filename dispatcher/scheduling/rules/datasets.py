"""Where data is, as a profile says it: names of data and the clusters that have it."""

from collections.abc import Mapping
from typing import Annotated, Any

from msgspec import Meta

from dispatcher.scheduling.framework.plugin_args import read_by, shown, texts
from shared.model.nearness import NAME_PATTERN, read_dataset

Datasets = tuple[tuple[str, tuple[str, ...]], ...]  # name, clusters that have it


def read_datasets(raw: object) -> Datasets:
    """{name: [clusters]}, at least one cluster each."""
    if not isinstance(raw, Mapping):
        raise ValueError(
            f"must map names of data to clusters, for example {{genomes: [west]}}, not {shown(raw)}"
        )
    found = []
    for name, clusters in raw.items():
        try:
            where = texts(clusters)
            read_dataset(name if isinstance(name, str) else "")
        except ValueError as error:
            raise ValueError(f"{shown(name)} {error}") from None
        if not where:
            raise ValueError(f"{shown(name)} is in no cluster: name one at least, or leave it out")
        found.append((name, where))
    return tuple(found)


_WRITTEN = dict[
    Annotated[str, Meta(pattern=NAME_PATTERN)], Annotated[list[str], Meta(min_length=1)]
]
DATASETS: dict[str, Any] = read_by(read_datasets, _WRITTEN)
