"""ClusterProfiles (multicluster.x-k8s.io/v1alpha1): what is told of them, and what a kubeconfig
says of each.
"""

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from dispatcher.cli.inventory.providers import Program, Providers
from dispatcher.service.errors import CommandError

Object = Mapping[str, Any]
_HEALTHY = "ControlPlaneHealthy"
# the extension that a program is handed as `config`
_EXEC_INFO = "client.authentication.k8s.io/exec"
# What of a profile's `cluster` is taken over; a path to a file (certificate-authority) would be one
# of another machine.
_CLUSTER_KEYS = ("server", "certificate-authority-data", "tls-server-name", "proxy-url")
_NO_CHECK = "insecure-skip-tls-verify"


@dataclass(frozen=True)
class Listed:
    """One ClusterProfile, for people and for programs. `problem`: why it is not in a kubeconfig; ''
    if it is, or none was asked for.
    """

    name: str
    display_name: str
    manager: str
    version: str
    healthy: str
    server: str
    provider: str
    problem: str = ""


def listed(profile: Object, provider: str = "", problem: str = "") -> Listed:
    """What is told of a profile; `provider`: whose access is taken, '' for the first that is
    offered.
    """
    spec = _map(profile.get("spec"))
    status = _map(profile.get("status"))
    offered = offered_by(profile)
    chosen = provider or next(iter(offered), "")
    conditions = (one for one in _list(status.get("conditions")) if one.get("type") == _HEALTHY)
    return Listed(
        str(_map(profile.get("metadata")).get("name", "")),
        str(spec.get("displayName", "")),
        str(_map(spec.get("clusterManager")).get("name", "")),
        str(_map(status.get("version")).get("kubernetes", "")),
        str(next(conditions, {}).get("status", "Unknown")),
        str(offered.get(chosen, {}).get("server", "")),
        chosen,
        problem,
    )


def offered_by(profile: Object) -> dict[str, Object]:
    """The `cluster` of each access provider by its name; of the older `credentialProviders`, too."""
    status = _map(profile.get("status"))
    both = (*_list(status.get("credentialProviders")), *_list(status.get("accessProviders")))
    return {str(one.get("name", "")): _map(one.get("cluster")) for one in both}


def entries(profile: Object, providers: Providers) -> tuple[str, dict[str, Any], dict[str, Any]]:
    """(provider, `cluster`, `user`) of a kubeconfig. CommandError says why the cluster cannot be
    reached by it.
    """
    offered = offered_by(profile)
    found = providers.choose(offered)
    if found is None:
        has = ", ".join(offered) or "none"
        raise CommandError(
            f"its access providers ({has}) are none of the providers file "
            f"({', '.join(providers.names)})"
        )
    name, program = found
    cluster = {key: offered[name][key] for key in _CLUSTER_KEYS if key in offered[name]}
    if not _is_https(str(cluster.get("server", ""))):
        raise CommandError(
            f"access provider {name} has the server {cluster.get('server')!r}, no https:// address"
        )
    if offered[name].get(_NO_CHECK):
        raise CommandError(
            f"access provider {name} says {_NO_CHECK}: whoever is between would get the token"
        )
    return name, cluster, {"exec": _exec(program, offered[name], cluster)}


def _exec(program: Program, offered: Object, cluster: Mapping[str, Any]) -> dict[str, Any]:
    """The `exec` section. What the program is told of its cluster is written out, as not all
    clients would tell it.
    """
    command = program.command
    args = list(program.args)
    if program.knows_cluster:
        config = next(
            (
                one.get("extension")
                for one in _list(offered.get("extensions"))
                if one.get("name") == _EXEC_INFO
            ),
            None,
        )
        told = {**cluster, **({"config": config} if config is not None else {})}
        info = {
            "apiVersion": program.api_version,
            "kind": "ExecCredential",
            "spec": {"interactive": False, "cluster": told},
        }
        command, args = (
            shutil.which("env") or "/usr/bin/env",
            [f"KUBERNETES_EXEC_INFO={json.dumps(info)}", command, *args],
        )
    return {
        "apiVersion": program.api_version,
        "command": command,
        "args": args,
        "env": [{"name": name, "value": value} for name, value in program.env.items()],
        "interactiveMode": "Never",
    }


def _is_https(server: str) -> bool:
    try:
        url = urlsplit(server)
        return (
            url.scheme == "https"
            and bool(url.hostname)
            and server == server.strip()
            and url.port != 0
        )
    except ValueError:
        return False


def _map(found: object) -> Object:
    return found if isinstance(found, Mapping) else {}


def _list(found: object) -> list[Object]:
    return [one for one in found if isinstance(one, Mapping)] if isinstance(found, list) else []
