"""Renders the charts with the real Helm, offline."""

import base64
import json
import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

Object = dict[str, Any]
CHARTS = Path(__file__).parents[2] / "helm"
NAMES = ("dispatcher", "agent")
NAMESPACE = "global-dispatcher"
KUBELET_ACCOUNT = f"{NAMESPACE}/agent-kubelets"  # as whom the agent of a release asks kubelets
_FAST = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # the same, in C where PyYAML was built with it
WORKLOADS = ("Deployment", "StatefulSet")
MISSING = "no Helm: neither built by localfleet.controlplane.binaries nor on PATH"
ADMISSION = tuple(
    f"admissionregistration.k8s.io/v1/{kind}" for kind in ("MutatingAdmissionPolicy", "ValidatingAdmissionPolicy")
)


class HelmError(RuntimeError):
    """Helm ended with an error; carries its words."""


def example_values(chart: str) -> Object:
    """The least that must be set."""
    values: Object = yaml.safe_load((CHARTS / chart / "ci" / "example-values.yaml").read_text())
    return values


@dataclass(frozen=True)
class Helm:
    """Helm with a folder of its own for all that it would leave at home."""

    program: str
    folder: Path

    def __call__(self, *words: str, **environment: str) -> str:
        """Run it; what it prints. HelmError with what it says else."""
        homes = {f"HELM_{kind}_HOME": str(self.folder / kind.lower()) for kind in ("CACHE", "CONFIG", "DATA")}
        env = {**os.environ, **homes, **environment}
        done = subprocess.run([self.program, *words], capture_output=True, text=True, check=False, env=env, timeout=60)
        if done.returncode != 0:
            raise HelmError(f"{done.stdout}\n{done.stderr}")
        return done.stdout

    def template(self, chart: str, values: Object | None = None, *, apis: tuple[str, ...] = ADMISSION) -> list[Object]:
        """The objects of a chart with its example values and these."""
        words = [word for api in apis for word in ("--api-versions", api)]
        files = ["-f", str(CHARTS / chart / "ci" / "example-values.yaml"), "-f", self.values_file(values or {})]
        text = self("template", chart, str(CHARTS / chart), "-n", NAMESPACE, *files, *words)
        return [one for one in yaml.load_all(text, _FAST) if one]

    def notes(self, chart: str, values: Object | None = None) -> str:
        """What is shown after an installation with the chart's example values and these."""
        files = ["-f", str(CHARTS / chart / "ci" / "example-values.yaml"), "-f", self.values_file(values or {})]
        text = self("install", chart, str(CHARTS / chart), "-n", NAMESPACE, "--dry-run=client", *files)
        return text.partition("\nNOTES:\n")[2]

    def values_file(self, values: Object) -> str:
        """Values as a file."""
        path = self.folder / "values.json"
        path.write_text(json.dumps(values))
        return str(path)


def of_kind(objects: list[Object], kind: str) -> list[Object]:
    """Those of one kind."""
    return [one for one in objects if one["kind"] == kind]


def only(objects: list[Object], kind: str) -> Object:
    """The one of its kind."""
    (found,) = of_kind(objects, kind)
    return found


def for_purpose(objects: list[Object], kind: str, purpose: str) -> Object:
    """The one of its kind whose name says at its end what it is for."""
    return only([one for one in objects if one["metadata"]["name"].endswith(f"-{purpose}")], kind)


def containers(objects: list[Object]) -> Iterator[Object]:
    """Every container of every pod."""
    for one in objects:
        spec = one["spec"]["template"]["spec"] if one["kind"] in WORKLOADS else one.get("spec", {})
        yield from (*spec.get("initContainers", ()), *spec.get("containers", ()))


def write_mounted(objects: list[Object], folder: Path) -> Path:
    """The files of the pod's ConfigMap, where the pod would see them."""
    data = only(objects, "ConfigMap")["data"]
    spec = of_kind(objects, "Deployment")[0]["spec"]["template"]["spec"]
    (volume,) = [one for one in spec["volumes"] if one["name"] == "config"]
    items = volume["configMap"].get("items") or [{"key": key, "path": key} for key in data]
    for item in items:
        path = folder / item["path"]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(data[item["key"]])
    return folder


def write_key(objects: list[Object], folder: Path) -> Path:
    """The pod's key file, from the Secret that its volume names; the settings must say the path that the pod has."""
    secret = only(objects, "Secret")
    spec = only(objects, "Deployment")["spec"]["template"]["spec"]
    (volume,) = [one for one in spec["volumes"] if one["name"] == "keys"]
    assert volume["secret"]["secretName"] == secret["metadata"]["name"]
    (item,) = volume["secret"]["items"]
    (mount,) = [one for one in spec["containers"][0]["volumeMounts"] if one["name"] == volume["name"]]
    settings = yaml.safe_load(only(objects, "ConfigMap")["data"]["agent.yaml"])
    assert settings["key_file"] == f"{mount['mountPath']}/{item['path']}"
    path = folder / str(item["path"])
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(base64.b64decode(secret["data"][item["key"]]))
    return path


def alert_rules(helm: Helm, chart: str, more: Object | None = None) -> list[Object]:
    """The alerts of a chart, with more values for its `prometheusRule`."""
    served: Object = {"metrics": {"enabled": True}} if chart == "agent" else {}
    objects = helm.template(chart, {**served, "prometheusRule": {"enabled": True, **(more or {})}})
    return [rule for group in only(objects, "PrometheusRule")["spec"]["groups"] for rule in group["rules"]]
