"""Files of plain Kubernetes manifests (YAML or JSON, several documents, Lists) to cases and back."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from tests.parity.case import Case, Object
from tests.parity.kinds import KINDS

# What refers to something comes after it.
_ORDER = {kind: at for at, kind in enumerate(KINDS)}


class ManifestError(ValueError):
    """A file that cannot be read as manifests; the text names the file, the document and what is wrong."""


def read(path: Path) -> tuple[Case, list[str]]:
    """The case of a file, and the kinds that were left out since they have no say in where a pod goes."""
    try:
        documents = list(yaml.load_all(path.read_text(), Loader=_LOADER))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ManifestError(f"{path}: {error}") from None
    found = [obj for at, document in enumerate(documents) for obj in _flat(document, f"{path}: document {at + 1}")]
    known = sorted((obj for obj in found if obj["kind"] in KINDS), key=lambda obj: _ORDER[obj["kind"]])
    case = Case(path.stem)
    for obj in known:
        _place_of(case, obj).append(obj)
    case.objects = [*_missing_namespaces(known), *case.objects]
    if not case.pending:
        raise ManifestError(f"{path}: no pending pod (a Pod without spec.nodeName) to place")
    return case, sorted({obj["kind"] for obj in found} - set(KINDS))


def write(case: Case, path: Path, note: str = "") -> None:
    """Write a case as one YAML file that `read` reads; `note` goes on top as comments."""
    path.parent.mkdir(parents=True, exist_ok=True)
    comment = "".join(f"# {line}\n" for line in note.splitlines())
    path.write_text(comment + yaml.dump_all(map(_plain, case.all_objects()), sort_keys=False, Dumper=_DUMPER))


def _place_of(case: Case, obj: Object) -> list[Object]:
    if obj["kind"] == "Node":
        return case.nodes
    if obj["kind"] == "Pod":
        return case.bound if obj["spec"].get("nodeName") else case.pending
    return case.objects


def _flat(document: Any, where: str) -> Iterator[Object]:
    if document is None:
        return
    if not isinstance(document, dict) or not isinstance(document.get("kind"), str):
        raise ManifestError(f"{where}: is no Kubernetes object (no kind)")
    if document["kind"].endswith("List") and isinstance(document.get("items"), list):
        for at, item in enumerate(document["items"]):
            # Items of a typed list may leave out what the list says.
            kind = document["kind"].removesuffix("List")
            defaults = {"kind": kind, "apiVersion": document.get("apiVersion", "v1")} if kind else {}
            yield from _flat({**defaults, **item} if isinstance(item, dict) else item, f"{where}, item {at + 1}")
        return
    meta = document.get("metadata")
    if not isinstance(meta, dict) or not isinstance(meta.get("name"), str):
        raise ManifestError(f"{where}: {document['kind']} without metadata.name")
    if document["kind"] == "Pod" and not isinstance(document.get("spec"), dict):
        raise ManifestError(f"{where}: Pod {meta['name']} without spec")
    yield document


def _missing_namespaces(objects: list[Object]) -> list[Object]:
    given = {obj["metadata"]["name"] for obj in objects if obj["kind"] == "Namespace"}
    used = {obj["metadata"].get("namespace", "default") for obj in objects if KINDS[obj["kind"]].namespaced}
    missing = sorted(used - given - {"default"})
    return [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in missing]


def _plain(obj: Object) -> Object:
    meta = {key: value for key, value in obj["metadata"].items() if key not in {"managedFields", "resourceVersion"}}
    return {**obj, "metadata": meta}


_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_DUMPER = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
