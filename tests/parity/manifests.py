"""Files of plain Kubernetes manifests (YAML or JSON, several documents, Lists) to cases and back."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from tests.parity.case import Case, Object, key_of
from tests.parity.documents import documents
from tests.parity.kinds import KINDS, is_known

# What refers to something comes after it.
_ORDER = {kind: at for at, kind in enumerate(KINDS)}
_ENDED = ("Succeeded", "Failed")


class ManifestError(ValueError):
    """A file that cannot be read as manifests; the text names the file, the document and what is wrong."""


@dataclass
class File:
    """What a file holds: the case, and in words what of it has no part in the case, and why."""

    case: Case
    left_out: list[str] = field(default_factory=list)


def read(path: Path) -> File:
    """A file's case. An object that is there twice counts as it is there the last time, as under kubectl apply."""
    try:
        found = [obj for at, document in enumerate(documents(_text(path))) for obj in _flat(document, at, path)]
    except (OSError, ManifestError) as error:
        raise ManifestError(str(error)) from None
    except ValueError as error:
        raise ManifestError(f"{path}: {error}") from None
    case = Case(path.stem)
    file = File(case, _unknown(found))
    _name_all(found)
    known = _last_of_each([obj for obj in found if is_known(obj)], file.left_out)
    for obj in sorted(known, key=lambda obj: _ORDER[obj["kind"]]):
        reason = _not_to_place(obj)
        if reason:
            file.left_out.append(f"pod {key_of(obj)}: {reason}")
        else:
            _place_of(case, obj).append(obj)
    case.objects = [*_missing_namespaces(known), *case.objects]
    if not case.pending:
        raise ManifestError(
            "; ".join([f"{path}: no pending pod (a Pod without spec.nodeName) to place", *file.left_out])
        )
    return file


def write(case: Case, path: Path, note: str = "") -> None:
    """Write a case as one YAML file that `read` reads; `note` goes on top as comments."""
    path.parent.mkdir(parents=True, exist_ok=True)
    comment = "".join(f"# {line}\n" for line in note.splitlines())
    path.write_text(comment + yaml.dump_all(map(_plain, case.all_objects()), sort_keys=False, Dumper=_DUMPER))


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8-sig")


def _unknown(found: list[Object]) -> list[str]:
    """The kinds that have no say in where a pod goes."""
    kinds = Counter(f"{obj['kind']} ({obj.get('apiVersion')})" for obj in found if not is_known(obj))
    return [f"{count} x {kind}: no object of this kind places a pod" for kind, count in sorted(kinds.items())]


def _name_all(found: list[Object]) -> None:
    """An API server makes the end of a generateName up; here it is a number."""
    made: Counter[str] = Counter()
    for obj in found:
        meta = obj["metadata"]
        if not meta.get("name"):
            prefix = meta["generateName"]
            meta["name"] = f"{prefix}{made[prefix]}"
            made[prefix] += 1


def _last_of_each(known: list[Object], left_out: list[str]) -> list[Object]:
    """Each object once, where it was first told of."""
    objects: dict[tuple[str, str], Object] = {}
    for obj in known:
        name = (obj["kind"], key_of(obj) if KINDS[obj["kind"]].namespaced else obj["metadata"]["name"])
        if name in objects:
            left_out.append(f"{name[0]} {name[1]}: is in the file more than once, the last one counts")
        objects[name] = obj
    return list(objects.values())


def _not_to_place(obj: Object) -> str:
    """Why kube-scheduler would not look at a pending pod at all."""
    if obj["kind"] != "Pod" or obj["spec"].get("nodeName"):
        return ""
    if obj["metadata"].get("deletionTimestamp"):
        return "is being deleted, so nobody places it"
    phase = (obj.get("status") or {}).get("phase")
    return f"has ended ({phase}), so nobody places it" if phase in _ENDED else ""


def _place_of(case: Case, obj: Object) -> list[Object]:
    if obj["kind"] == "Node":
        return case.nodes
    if obj["kind"] == "Pod":
        return case.bound if obj["spec"].get("nodeName") else case.pending
    return case.objects


def _flat(document: Any, at: int, path: Path) -> Iterator[Object]:
    yield from _objects(document, f"{path}: document {at + 1}")


def _objects(document: Any, where: str) -> Iterator[Object]:
    if document is None:
        return
    if not isinstance(document, dict) or not isinstance(document.get("kind"), str):
        raise ManifestError(f"{where}: is no Kubernetes object (no kind)")
    if document["kind"].endswith("List") and isinstance(document.get("items", []), list | None):
        for at, item in enumerate(document.get("items") or ()):
            # Items of a typed list may leave out what the list says.
            kind = document["kind"].removesuffix("List")
            defaults = {"kind": kind, "apiVersion": document.get("apiVersion", "v1")} if kind else {}
            yield from _objects({**defaults, **item} if isinstance(item, dict) else item, f"{where}, item {at + 1}")
        return
    _check(document, where)
    yield document


def _check(obj: Object, where: str) -> None:
    """What is looked at before an API server has said whether it takes the object."""
    given, kind = obj.get("metadata"), obj["kind"]
    meta = given if isinstance(given, dict) else {}
    name = meta.get("name") or meta.get("generateName")
    if not isinstance(name, str) or not name:
        raise ManifestError(f"{where}: {kind} without metadata.name")
    if kind == "Pod" and not isinstance(obj.get("spec"), dict):
        raise ManifestError(f"{where}: Pod {name} without spec")
    for part in ("spec", "status"):
        if not isinstance(obj.get(part, {}), dict | None):
            raise ManifestError(f"{where}: {part} of {kind} {name} is no mapping")
    if is_known(obj) and not isinstance(meta.get("namespace", ""), str | None):
        raise ManifestError(f"{where}: metadata.namespace of {kind} {name} is no text")


def _missing_namespaces(objects: list[Object]) -> list[Object]:
    given = {obj["metadata"]["name"] for obj in objects if obj["kind"] == "Namespace"}
    used = {obj["metadata"].get("namespace") or "default" for obj in objects if KINDS[obj["kind"]].namespaced}
    missing = sorted(used - given - {"default"})
    return [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in missing]


def _plain(obj: Object) -> Object:
    meta = {key: value for key, value in obj["metadata"].items() if key not in {"managedFields", "resourceVersion"}}
    return {**obj, "metadata": meta}


_DUMPER = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
