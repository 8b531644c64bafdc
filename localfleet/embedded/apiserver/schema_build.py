"""Builds schema.json, the field tables of the served kinds, from Kubernetes' own sources
(Apache-2.0).

Usage: python -m localfleet.embedded.apiserver.schema_build VERSION SWAGGER API_MODULE
APIMACHINERY_MODULE > schema.json where SWAGGER is kubernetes/api/openapi-spec/swagger.json and the
modules are checkouts of k8s.io/api and k8s.io/apimachinery: field types come from the first,
protobuf numbers and omitted zeros from the others.
"""

import json
import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

ROOTS = (
    *(
        "core.v1." + kind
        for kind in ("Binding", "ConfigMap", "Endpoints", "Event", "Namespace", "Node", "Pod")
    ),
    *(
        "core.v1." + kind
        for kind in ("PersistentVolume", "PersistentVolumeClaim", "Secret", "Service")
    ),
    "core.v1.ServiceAccount",
    *("apps.v1." + kind for kind in ("Deployment", "ReplicaSet")),
    "batch.v1.Job",
    "coordination.v1.Lease",
    "events.v1.Event",
    "scheduling.v1.PriorityClass",
    "policy.v1.PodDisruptionBudget",
    "policy.v1.Eviction",
    *(
        "storage.v1." + kind
        for kind in (
            "CSIDriver",
            "CSINode",
            "CSIStorageCapacity",
            "StorageClass",
            "VolumeAttachment",
        )
    ),
    *(
        f"authorization.v1.{kind}"
        for kind in ("SelfSubjectAccessReview", "SelfSubjectRulesReview", "SubjectAccessReview")
    ),
    "autoscaling.v1.Scale",
    "meta.v1.DeleteOptions",
)
_PREFIXES = (
    ("io.k8s.api.", ""),
    ("io.k8s.apimachinery.pkg.apis.", ""),
    ("io.k8s.apimachinery.pkg.", ""),
)
_SCALARS = {
    "api.resource.Quantity": "quantity",
    "util.intstr.IntOrString": "intorstring",
    "meta.v1.Time": "time",
    "meta.v1.MicroTime": "microtime",
    "meta.v1.FieldsV1": "any",
    "runtime.RawExtension": "any",
}
_PLAIN = {"string": "string", "boolean": "bool", "number": "double", "object": "any"}
_FORMATS = {"int32": "int32", "int64": "int64", "byte": "bytes"}


def short(name: str) -> str:
    """'io.k8s.api.core.v1.Pod' -> 'core.v1.Pod'."""
    for prefix, replacement in _PREFIXES:
        if name.startswith(prefix):
            return replacement + name.removeprefix(prefix)
    return name


def expression(schema: dict[str, Any]) -> str:
    """The type of a field in one word: a scalar, '@type', '[]element' or '{}value'."""
    if "$ref" in schema:
        name = short(schema["$ref"].removeprefix("#/definitions/"))
        return _SCALARS.get(name, "@" + name)
    if schema.get("type") == "array":
        return "[]" + expression(schema["items"])
    if "additionalProperties" in schema:
        return "{}" + expression(schema["additionalProperties"])
    return _FORMATS.get(schema.get("format", ""), _PLAIN.get(schema.get("type", "object"), "int64"))


def build_type(schema: dict[str, Any]) -> dict[str, Any]:
    """Fields of one type, with what merging needs to know of its lists and maps."""
    built: dict[str, Any] = {"fields": {}}
    for name, field in sorted(schema.get("properties", {}).items()):
        built["fields"][name] = expression(field)
        strategies = field.get("x-kubernetes-patch-strategy", "").split(",")
        if "merge" in strategies:
            built.setdefault("merge", {})[name] = field.get("x-kubernetes-patch-merge-key", "")
        if "retainKeys" in strategies:
            built.setdefault("retain", []).append(name)
        if field.get("x-kubernetes-list-type") == "map":
            built.setdefault("keys", {})[name] = field["x-kubernetes-list-map-keys"]
        if field.get("x-kubernetes-list-type") == "set":
            built.setdefault("sets", []).append(name)
        if field.get("x-kubernetes-map-type") == "atomic":
            built.setdefault("atomic", []).append(name)
    if schema.get("x-kubernetes-map-type") == "atomic":
        built["whole"] = True
    return built


_MESSAGE = re.compile(r"^message (\w+) \{(.*?)^\}", re.M | re.S)
_NUMBER = re.compile(r"^  (?:optional |repeated )?(map<[^>]+>|[\w.]+) (\w+) = (\d+);", re.M)
_STRUCT = re.compile(r"^type (\w+) struct \{(.*?)^\}", re.M | re.S)
_MEMBER = re.compile(r'^\t\w+\s+(\S+)\s+`json:"(\w+)((?:,omit\w+)*)', re.M)
_ZEROS: dict[str, Any] = {"string": "", "int32": 0, "int64": 0, "bool": False}
_TIMES = ("time", "microtime")


def messages(modules: Iterable[Path]) -> dict[str, dict[str, tuple[int, str]]]:
    """Type -> field -> (protobuf number, protobuf type)."""
    found = {}
    for path in (path for module in modules for path in module.rglob("generated.proto")):
        text = path.read_text()
        package = short(
            text.split("\npackage k8s.", 1)[1].split(";")[0].replace("io.", "io.k8s.", 1)
        )
        for name, body in _MESSAGE.findall(text):
            fields = {field: (int(number), kind) for kind, field, number in _NUMBER.findall(body)}
            found[f"{package}.{name}"] = fields
    return found


def members(modules: Iterable[Path]) -> dict[str, dict[str, str]]:
    """Type -> field that is no pointer -> its options omitempty and omitzero."""
    found = {}
    for path in (path for module in modules for path in module.rglob("types.go")):
        package = ".".join(path.parent.parts[-2:])
        for name, body in _STRUCT.findall(path.read_text()):
            plain = (
                (field, omit)
                for kind, field, omit in _MEMBER.findall(body)
                if not kind.startswith("*")
            )
            found[f"{package}.{name}"] = dict(plain)
    return found


def add_zeros(built: dict[str, Any], plain: dict[str, str]) -> None:
    """Write into a type what is left out when empty, and what is always there, if only as its zero
    value.

    Go leaves out an empty struct for omitzero alone: a time is then null, an object {}.
    """
    fields = built["fields"]
    built["omit"] = sorted(field for field, omit in plain.items() if omit and field in fields)
    built["always"] = {}
    for field, omit in sorted(plain.items()):
        kind = fields.get(field, "")
        if kind in _TIMES or kind.startswith("@"):
            if "omitzero" not in omit:
                built["always"][field] = None if kind in _TIMES else {}
        elif not omit and kind in _ZEROS:
            built["always"][field] = _ZEROS[kind]


def add_numbers(types: dict[str, Any], numbered: dict[str, dict[str, tuple[int, str]]]) -> None:
    """Write protobuf numbers into `types`; a message that JSON shows inline becomes a type of its
    own.
    """
    waiting = list(types)
    while waiting:
        name = waiting.pop()
        fields = types[name]["fields"]
        for field, (number, kind) in numbered.get(name, {}).items():
            if field in fields:
                types[name].setdefault("numbers", {})[field] = number
                continue
            inner = f"{name.rpartition('.')[0]}.{kind}"
            if inner not in numbered:
                continue  # a field that JSON does not have
            types[name].setdefault("inline", {})[inner] = number
            own = {part: fields[part] for part in numbered[inner] if part in fields}
            if inner not in types:
                types[inner] = {"fields": own}
                waiting.append(inner)


def build(version: str, swagger: dict[str, Any], modules: list[Path]) -> dict[str, Any]:
    """Every type that ROOTS reach."""
    definitions = {short(name): schema for name, schema in swagger["definitions"].items()}
    plain = members(modules)
    types: dict[str, Any] = {}
    waiting = list(ROOTS)
    while waiting:
        name = waiting.pop()
        if name in types:
            continue
        types[name] = build_type(definitions[name])
        add_zeros(types[name], plain.get(name, {}))
        waiting += [
            text.rpartition("@")[2] for text in types[name]["fields"].values() if "@" in text
        ]
    add_numbers(types, messages(modules))
    return {
        "source": f"Kubernetes {version} api/openapi-spec/swagger.json, k8s.io/api, "
        "k8s.io/apimachinery (Apache-2.0)",
        "types": dict(sorted(types.items())),
    }


if __name__ == "__main__":
    swagger_file = json.loads(Path(sys.argv[2]).read_text())
    built_schema = build(sys.argv[1], swagger_file, [Path(argument) for argument in sys.argv[3:]])
    json.dump(built_schema, sys.stdout, separators=(",", ":"))
    sys.stdout.write("\n")
