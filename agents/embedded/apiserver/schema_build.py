"""Builds schema.json, the field tables of the served kinds, from Kubernetes' own OpenAPI document (Apache-2.0).

Usage: python -m agents.embedded.apiserver.schema_build VERSION kubernetes/api/openapi-spec/swagger.json > schema.json
"""

import json
import sys
from pathlib import Path
from typing import Any

ROOTS = (
    *("core.v1." + kind for kind in ("Binding", "ConfigMap", "Endpoints", "Event", "Namespace", "Node", "Pod")),
    *("core.v1." + kind for kind in ("PersistentVolume", "PersistentVolumeClaim", "Secret", "Service")),
    "core.v1.ServiceAccount",
    *("apps.v1." + kind for kind in ("DaemonSet", "Deployment", "ReplicaSet", "StatefulSet")),
    "batch.v1.Job",
    "batch.v1.CronJob",
    "coordination.v1.Lease",
    "events.v1.Event",
    "scheduling.v1.PriorityClass",
    "policy.v1.PodDisruptionBudget",
    "policy.v1.Eviction",
    "autoscaling.v1.Scale",
    "meta.v1.DeleteOptions",
)
_PREFIXES = (("io.k8s.api.", ""), ("io.k8s.apimachinery.pkg.apis.", ""), ("io.k8s.apimachinery.pkg.", ""))
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


def build(version: str, swagger: dict[str, Any]) -> dict[str, Any]:
    """Every type that ROOTS reach."""
    definitions = {short(name): schema for name, schema in swagger["definitions"].items()}
    types: dict[str, Any] = {}
    waiting = list(ROOTS)
    while waiting:
        name = waiting.pop()
        if name in types:
            continue
        types[name] = build_type(definitions[name])
        waiting += [text.rpartition("@")[2] for text in types[name]["fields"].values() if "@" in text]
    return {
        "source": f"Kubernetes {version} api/openapi-spec/swagger.json (Apache-2.0)",
        "types": dict(sorted(types.items())),
    }


if __name__ == "__main__":
    json.dump(build(sys.argv[1], json.loads(Path(sys.argv[2]).read_text())), sys.stdout, separators=(",", ":"))
    sys.stdout.write("\n")
