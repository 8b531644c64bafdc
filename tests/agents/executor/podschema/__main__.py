"""Writes fields.json anew: `python -m tests.agents.executor.podschema`, with Go and its module proxy at hand.

A new minor version of Kubernetes is a new entry of VERSIONS.
"""

import json
import re
import subprocess
from pathlib import Path

VERSIONS = ("0.31.14", "0.32.10", "0.33.6", "0.34.2", "0.35.0", "0.36.0", "0.37.2")
FILES = {
    "api": ("core/v1/types.go",),
    "apimachinery": ("pkg/apis/meta/v1/types.go",),
}
_STRUCT = re.compile(r"^type (\w+) struct \{\n(.*?)^\}", re.MULTILINE | re.DOTALL)
_FIELD = re.compile(r'^\t(?:(\w+) +)?([\w.*\[\]]+) +`json:"(\w*)(,inline)?[^"]*"', re.MULTILINE)


def main() -> None:
    """Fetch the modules, read their types and write what a Pod is made of."""
    found: dict[str, dict[str, dict[str, str]]] = {}
    for version in VERSIONS:
        minor = f"1.{version.split('.')[1]}"
        types = _types(version)
        for kind in _reachable("Pod", types):
            for name, of in types[kind].items():
                field = found.setdefault(kind, {}).setdefault(name, {"of": of, "first": minor})
                field["last"] = minor
    text = json.dumps(found, indent=1, sort_keys=True)
    text = re.sub(r"\{\s+(\"first\"[^}]*?)\s+\}", lambda one: "{" + re.sub(r"\s+", " ", one[1]) + "}", text)
    Path(__file__).with_name("fields.json").write_text(text + "\n", encoding="utf-8")


def _types(version: str) -> dict[str, dict[str, str]]:
    """Struct name -> JSON name of a field -> the struct that it holds, '' where it is a plain value."""
    sources = "".join(
        (_module(name, version) / file).read_text(encoding="utf-8") for name, files in FILES.items() for file in files
    )
    bodies = dict(_STRUCT.findall(sources))
    return {kind: _fields(kind, bodies) for kind in bodies}


def _fields(kind: str, bodies: dict[str, str]) -> dict[str, str]:
    fields: dict[str, str] = {}
    for _, go_type, name, inline in _FIELD.findall(bodies[kind]):
        held = go_type.replace("*", "").replace("[]", "").rpartition(".")[2]
        of = held if held in bodies and "map[" not in go_type else ""
        if inline or not name:
            fields |= _fields(of, bodies) if of else {"apiVersion": "", "kind": ""}
        else:
            fields[name] = of
    return fields


def _reachable(kind: str, types: dict[str, dict[str, str]]) -> list[str]:
    seen = [kind]
    for one in seen:
        seen.extend(of for of in types[one].values() if of and of not in seen and of != "PodStatus")
    return list(dict.fromkeys(seen))


def _module(name: str, version: str) -> Path:
    command = ["go", "mod", "download", "-json", f"k8s.io/{name}@v{version}"]
    said = subprocess.run(command, check=True, capture_output=True, text=True)
    return Path(json.loads(said.stdout)["Dir"])


if __name__ == "__main__":
    main()
