"""The kubelet that a plane of KWOK nodes lacks: it runs what Deployments of our charts ask for as processes here.

It reads pod templates, ConfigMaps and Secrets from the API server as they are there, mounts them as folders, and
gives each process the rights of its service account. A template that changes ends the old process and starts a new one.
"""

import json
import threading
from base64 import b64decode
from pathlib import Path
from typing import Any

import yaml

from localfleet.controlplane.plane import ControlPlane
from tests.charts.pods import run_container
from tests.charts.rendering import NAMESPACE, Object
from tests.system.ray_fleet import Process, free_ports

_DEPLOYMENTS = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments"
_LOOK_S = 0.3
_STOP_S = 30.0
_FIRST_SYNC_S = 3.0  # else the dispatcher waits so long for members whose agents begin after it
IP = "127.0.0.1"


class Kubelet:
    """Of the pods of our charts in some planes. `gateway`: the free port that stands for the gateway's of its pod."""

    def __init__(self, planes: dict[str, ControlPlane], folder: Path, gateway: int) -> None:
        self._planes, self._folder, self._gateway = planes, folder, gateway
        (self.http,) = free_ports(1)
        self._running: dict[tuple[str, str], tuple[str, Process]] = {}
        self._stopped, self._thread = threading.Event(), threading.Thread(target=self._go_on)
        self._error: Exception | None = None
        self.started: list[str] = []

    def __enter__(self) -> "Kubelet":
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stopped.set()
        self._thread.join()
        for _template, process in self._running.values():
            process.__exit__(None, None, None)
        if self._error is not None:
            raise self._error

    def tails(self) -> str:
        """The ends of all logs."""
        return "\n".join(
            f"== {plane}/{name}, code {process.code}\n{process.tail()}"
            for (plane, name), (_, process) in self._running.items()
        )

    def ended(self) -> list[str]:
        """Of what should run: where a process has ended by itself, or why nothing is run any more."""
        codes = {f"{plane}/{name}": one.code for (plane, name), (_, one) in list(self._running.items())}
        found = [f"{name} ended with {code}" for name, code in codes.items() if code is not None]
        return [*found, *([repr(self._error)] if self._error else [])]

    def _go_on(self) -> None:
        try:
            while not self._stopped.wait(_LOOK_S):
                for name, plane in self._planes.items():
                    self._sync(name, plane)
        except Exception as error:  # told when the test ends
            self._error = error

    def _sync(self, name: str, plane: ControlPlane) -> None:
        wanted = {one["metadata"]["name"]: one["spec"]["template"] for one in plane.admin.get(_DEPLOYMENTS)["items"]}
        for where, (seen, process) in list(self._running.items()):
            if where[0] == name and json.dumps(wanted.get(where[1]), sort_keys=True) != seen:
                del self._running[where]
                assert process.terminate(_STOP_S) == 0, process.tail()
        for deployment, template in wanted.items():
            if (name, deployment) in self._running:
                continue
            process = self._start(plane, deployment, template)
            self._running[name, deployment] = (json.dumps(template, sort_keys=True), process)
            self.started.append(f"{name}/{deployment}")

    def _start(self, plane: ControlPlane, deployment: str, template: Object) -> Process:
        spec = template["spec"]
        (container,) = spec["containers"]
        at = self._folder / plane.name / deployment
        filled = {one["name"] for one in spec["volumes"] if _fill(plane, one, at / one["name"])}
        mounts = {mount["mountPath"]: mount["name"] for mount in container["volumeMounts"]}
        folders = {path: at / name for path, name in mounts.items() if name in filled}
        account = str(plane.kubeconfig_for(spec["serviceAccountName"], NAMESPACE))
        for file in (at / "config").glob("*.yaml"):
            file.write_text(self._told_here(file, folders, account, plane.name))
        here = {"in-cluster": account}
        env = [
            {**one, "value": here.get(one["value"], one["value"])} if "value" in one else one
            for one in container["env"]
        ]
        return run_container({**container, "env": env}, IP, folders, self._folder / f"{plane.name}-{deployment}.log")

    def _told_here(self, file: Path, folders: dict[str, Path], account: str, context: str) -> str:
        """A file of settings with the paths, the ports and the access of this machine."""
        text = file.read_text()
        for there, here in folders.items():
            text = text.replace(f"{there}/", f"{here}/")
        told: Any = yaml.safe_load(text)
        if file.name == "dispatcher.yaml":
            told["gateway"] |= {"host": IP, "port": self._gateway}
            told["http"] |= {"host": IP, "port": self.http}
            told["timing"]["first_sync_s"] = _FIRST_SYNC_S
        elif file.name == "agent.yaml":
            told |= {"kubeconfig": account, "context": context, "health": {"port": free_ports(1)[0]}}
            if told.get("relay", {}).get("port"):
                told["relay"]["port"] = free_ports(1)[0]
        return yaml.safe_dump(told)


def _fill(plane: ControlPlane, volume: Object, folder: Path) -> bool:
    """A ConfigMap or a Secret as a folder of files; False for other volumes."""
    core = f"/api/v1/namespaces/{NAMESPACE}"
    if "configMap" in volume:
        data = plane.admin.get(f"{core}/configmaps/{volume['configMap']['name']}")["data"]
        files = {key: text.encode() for key, text in data.items()}
        items = volume["configMap"].get("items")
    elif "secret" in volume:
        data = plane.admin.get(f"{core}/secrets/{volume['secret']['secretName']}")["data"]
        files = {key: b64decode(text) for key, text in data.items()}
        items = volume["secret"].get("items")
    else:
        return False
    for item in items or [{"key": key, "path": key} for key in files]:
        path = folder / item["path"]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        path.touch(0o600)
        path.write_bytes(files[item["key"]])
    return True
