"""Pods of rendered workloads as a kubelet runs them: volumes, environment, commands and probes are those of the chart.

What Kubernetes adds to a pod is added here: names of headless Services, tokens of service accounts, the address of
the API server. Programs of the image are those of this checkout.
"""

import base64
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path

import httpx

from localfleet.controlplane.guard import GUARD
from localfleet.controlplane.plane import ControlPlane
from tests.charts.rendering import NAMESPACE, Object, of_kind
from tests.real.cluster.network import Network
from tests.real.spaces import MACHINE, ROOT, Window
from tests.system.ray_fleet import Process

Secrets = Mapping[str, Mapping[str, bytes]]
_UNITS = {"Mi": 2**20, "Gi": 2**30}
# What the image sets (Dockerfile).
_IMAGE = {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONUNBUFFERED": "1", "LANG": "C.UTF-8"}
_TMP = "/tmp"


def of_size(text: str) -> int:
    """Bytes of a quantity such as 512Mi."""
    return int(float(text[:-2]) * _UNITS[text[-2:]])


class Pod:
    """The pod with a number of a workload. It keeps its folder for claims when it is made anew."""

    def __init__(
        self,
        workload: Object,
        number: int,
        objects: list[Object],
        secrets: Secrets,
        where: tuple[Network, ControlPlane],
        folder: Path,
        claims: Path,
    ) -> None:
        template = workload["spec"]["template"]
        self.workload, self.spec = workload, template["spec"]
        self.name = str(workload["metadata"]["name"])
        if workload["kind"] == "StatefulSet":
            self.name += f"-{number}"
        self._subdomain = workload["spec"].get("serviceName") or self.spec.get("subdomain")
        self._objects, self._secrets = objects, secrets
        self._network, self._plane = where
        self.folder = folder / self.name
        self.folder.mkdir()
        self._claims = claims / f"{self.name}-claims"
        self.place = self._network.place(self.name, template["metadata"]["labels"])
        self._api = int(self._plane.server.rpartition(":")[2])
        self._window = Window(self._api, self.place.space.path, MACHINE)
        self._memory: dict[Path, int] = {}
        self._mounted: list[Path] = []
        self._volumes = {one["name"]: self._volume(one) for one in self._all_volumes()}
        self.running: dict[str, Process] = {}

    @property
    def containers(self) -> dict[str, Object]:
        """In the order in which they start: sidecars first."""
        return {one["name"]: one for one in (*self.spec.get("initContainers", ()), *self.spec["containers"])}

    @property
    def names(self) -> list[str]:
        """Under which others find it."""
        if not self._subdomain:
            return []
        host = self.spec.get("hostname", self.name)
        return [f"{host}.{self._subdomain}.{NAMESPACE}{end}" for end in (".svc", "")]

    def _all_volumes(self) -> list[Object]:
        templates = self.workload["spec"].get("volumeClaimTemplates", ())
        claims = [{"name": one["metadata"]["name"], "claim": {}} for one in templates]
        return [*self.spec["volumes"], *claims, *([_TOKEN] if self._has_token else [])]

    @property
    def _has_token(self) -> bool:
        return bool(self.spec.get("automountServiceAccountToken", True))

    def _volume(self, one: Object) -> Path:
        """The folder of a volume."""
        name = str(one["name"])
        path = self.folder / f"volume-{name}"
        if "claim" in one:
            path = self._claims / name
            path.mkdir(parents=True, exist_ok=True)
            _given(path)
            return path
        path.mkdir()
        if "emptyDir" in one:
            self._empty(one["emptyDir"], path)
        elif "configMap" in one or "secret" in one:
            self._files(one, path)
        else:
            self._token(path)
        return path

    def _empty(self, told: Object, path: Path) -> None:
        if told.get("medium") == "Memory":
            self._memory[path] = of_size(told["sizeLimit"])
        _given(path)

    def _files(self, one: Object, path: Path) -> None:
        if "configMap" in one:
            name = one["configMap"]["name"]
            (found,) = [each for each in of_kind(self._objects, "ConfigMap") if each["metadata"]["name"] == name]
            data = {key: text.encode() for key, text in found["data"].items()}
            told = one["configMap"]
        else:
            told, name = one["secret"], one["secret"]["secretName"]
            data = dict(self._secrets.get(name, {})) or self._made_secret(name)
        for item in told.get("items") or [{"key": key, "path": key} for key in data]:
            file = path / item["path"]
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(data[item["key"]])
            if "secret" in one:
                os.chown(file, 0, self._group)
                file.chmod(told.get("defaultMode", 0o644))

    def _made_secret(self, name: str) -> dict[str, bytes]:
        (found,) = [one for one in of_kind(self._objects, "Secret") if one["metadata"]["name"] == name]
        return {key: base64.b64decode(text) for key, text in found["data"].items()}

    def _token(self, path: Path) -> None:
        account = self.spec.get("serviceAccountName", "default")
        (path / "token").write_text(self._plane.token_for(account, NAMESPACE))
        (path / "ca.crt").write_bytes(self._plane.authority.certificate.read_bytes())

    @property
    def _group(self) -> int:
        return int(self.spec["securityContext"]["fsGroup"])

    def start(self, name: str, hosts: Path) -> Process:
        """A container, also once more; `hosts`: the names of all pods, a file as /etc/hosts."""
        container = self.containers[name]
        self._mount_memory()
        root = self.folder / f"root-{name}"
        root.mkdir(exist_ok=True)
        env = self._environment(container)
        _, *rest = [_expanded(word, env) for word in container["command"]]
        command = [str(Path(sys.executable).parent / "python"), "-m", "dispatcher.cli.main"]
        user = self.spec["securityContext"]
        spec = {
            "network": self.place.space.path,
            "programs": sorted({str(ROOT), sys.prefix, sys.base_prefix}),
            "mounts": [*self._mounts(container), *self._own_mounts(hosts)],
            "hostname": self.spec.get("hostname", self.name),
            "folder": _TMP,
            "user": user["runAsUser"],
            "group": user["fsGroup"],
            "command": [*command, *rest],
            "environment": {**env, **_IMAGE, "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin"},
            "root": str(root),
        }
        file = self.folder / f"{name}.json"
        file.write_text(json.dumps(spec))
        words = [sys.executable, "-S", "-m", "tests.real.cluster.container", str(file)]
        made = Process(["env", f"--chdir={ROOT}", *words], self.folder / f"{name}.log", dict(os.environ))
        GUARD.add(made.pid)
        self.running[name] = made
        return made

    def _mount_memory(self) -> None:
        for path in self._memory.keys() - self._mounted:
            size = f"size={self._memory[path]},mode=1777"
            subprocess.run(["mount", "-t", "tmpfs", "-o", size, "tmpfs", str(path)], check=True)
            self._mounted.append(path)

    def _mounts(self, container: Object) -> list[Object]:
        mounts = [*container["volumeMounts"], *([_TOKEN_MOUNT] if self._has_token else [])]
        return [
            {
                "source": str(self._volumes[one["name"]]),
                "target": one["mountPath"],
                "read_only": one.get("readOnly", False),
            }
            for one in mounts
        ]

    def _own_mounts(self, hosts: Path) -> list[Object]:
        users = self.folder / "passwd"
        users.write_text(f"dispatcher:x:{self._group}:{self._group}::/tmp:/usr/sbin/nologin\n")
        nowhere = self.folder / "resolv.conf"
        nowhere.touch()
        files = {"/etc/hosts": hosts, "/etc/passwd": users, "/etc/resolv.conf": nowhere}
        return [{"source": str(here), "target": there, "read_only": True} for there, here in files.items()]

    def _environment(self, container: Object) -> dict[str, str]:
        fields = {"status.podIP": self.place.address, "metadata.name": self.name}
        env = {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": str(self._api)}
        for one in container["env"]:
            source = one.get("valueFrom", {})
            if "fieldRef" in source:
                env[one["name"]] = fields[source["fieldRef"]["fieldPath"]]
            elif "secretKeyRef" in source:
                told = source["secretKeyRef"]
                env[one["name"]] = self._secrets[told["name"]][told["key"]].decode()
            else:
                env[one["name"]] = _expanded(one["value"], env)
        return env

    def probe(self, container: str, kind: str) -> bool:
        """What the kubelet finds: `kind` is startupProbe, readinessProbe or livenessProbe."""
        return not self.problem(container, kind)

    def problem(self, container: str, kind: str) -> str:
        """Why a probe fails, "" if it does not."""
        told = self.containers[container][kind]
        ports = {one["name"]: one["containerPort"] for one in self.containers[container]["ports"]}
        (way,) = {"httpGet", "tcpSocket", "exec"} & set(told)
        port = ports.get(told[way]["port"], told[way]["port"])
        ask = _connected if way == "tcpSocket" else partial(_answered, told[way].get("path", ""))
        return self._network.ask(partial(ask, self.place.address, port, told.get("timeoutSeconds", 1)))

    def processes(self, container: str) -> list[int]:
        """Of a container, as this machine counts them: all that see its files."""
        if self.running[container].code is not None:
            return []
        first = _child(self.running[container].pid)
        files, found = os.stat(f"/proc/{first}/ns/mnt").st_ino, []
        if files == os.stat("/proc/self/ns/mnt").st_ino:
            return [first]  # it has not begun
        for path in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                if os.stat(path / "ns" / "mnt").st_ino == files:
                    found.append(int(path.name))
        return found

    def memory(self, container: str) -> int:
        """Bytes that the processes of a container hold, what several share told once (PSS)."""
        total = 0
        for pid in self.processes(container):
            with suppress(OSError):
                rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
                total += int(rollup.partition("\nPss:")[2].split()[0]) * 1024
        return total

    def ended(self) -> list[str]:
        """Containers that have ended by themselves."""
        return [name for name, process in self.running.items() if process.code is not None]

    def kill(self, container: str = "") -> None:
        """SIGKILL to a container's processes, or to all."""
        for name in [container] if container else reversed(list(self.running)):
            for pid in self.processes(name):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            ended = self.running.pop(name)
            ended.wait(10)
            GUARD.remove(ended.pid)

    def close(self) -> None:
        """Nothing of it runs any more; claims stay."""
        self.kill()
        self._window.close()
        for path in self._mounted:
            subprocess.run(["umount", "--lazy", str(path)], check=True)


_TOKEN: Object = {"name": "account", "projected": {}}
_TOKEN_MOUNT: Object = {
    "name": "account",
    "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount",
    "readOnly": True,
}


def _child(pid: int) -> int:
    """The first one of a process, which is about to have it."""
    children = Path(f"/proc/{pid}/task/{pid}/children")
    while not (found := children.read_text().split()):
        time.sleep(0.01)
    return int(found[0])


def _given(path: Path) -> None:
    path.chmod(0o777)


def _expanded(word: str, env: Mapping[str, str]) -> str:
    for name, value in env.items():
        word = word.replace(f"$({name})", value)
    return word


def _connected(address: str, port: int, timeout_s: float) -> str:
    try:
        socket.create_connection((address, port), timeout_s).close()
    except OSError as error:
        return repr(error)
    return ""


def _answered(path: str, address: str, port: int, timeout_s: float) -> str:
    try:
        answer = httpx.get(f"http://{address}:{port}{path}", timeout=timeout_s, trust_env=False)
    except httpx.HTTPError as error:
        return repr(error)
    return "" if answer.status_code == 200 else f"{answer.status_code}: {answer.text}"
