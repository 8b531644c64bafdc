"""Where the configured clusters are: that each kubeconfig and context is there, and that no API
server has two names.

Nothing connects. Only where agents run beside the dispatcher: those on another Ray have their files
there.
"""

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path as FilePath
from typing import Any
from urllib.parse import urlsplit

import yaml

from dispatcher.config.document import Document
from dispatcher.config.problems import Path, Problem
from dispatcher.config.sections import IN_CLUSTER, ClusterSection, LeaderElectionSection

MAX_BYTES = 2**24
MAX_SHOWN = 10
_NAME_IT = "name a kubeconfig file"
_LOADER: type[yaml.SafeLoader] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_PORTS = {"https": 443, "http": 80}
_POD = "the service account of the pod that this runs in"
TOKEN = FilePath("/var/run/secrets/kubernetes.io/serviceaccount/token")


class AccessError(ValueError):
    """Why a cluster cannot be reached by its entry; `key` of the entry is at fault."""

    def __init__(self, key: str, text: str) -> None:
        super().__init__(text)
        self.key = key


@dataclass(frozen=True)
class Server:
    """An API server as a client finds it; equal ones are one. `shown` is the address as it was
    written.
    """

    where: tuple[str, ...]
    shown: str = field(compare=False)


def usual_kubeconfig() -> str:
    """kubectl's choice; empty (the pod's own service account) if there is no such file."""
    path = _usual_path()
    return str(path) if os.path.isfile(path) else ""


def _usual_path() -> FilePath:
    first = os.environ.get("KUBECONFIG", "").split(os.pathsep)[0]
    return FilePath(first) if first else FilePath.home() / ".kube" / "config"


def access_problems(clusters: Sequence[ClusterSection], document: Document) -> list[Problem]:
    """What keeps the clusters of `document` from being reached, and which of them are one; paths
    are whole already.
    """
    problems: list[Problem] = []
    known: dict[Server, str] = {}
    for at, cluster in enumerate(clusters):
        path: Path = ("clusters", at)
        if cluster.via != "ray":
            continue
        try:
            server = server_of(cluster)
        except AccessError as error:
            problems.append(document.problem((*path, error.key), str(error)))
            continue
        other = known.setdefault(server, cluster.name)
        if other != cluster.name:
            key = "context" if cluster.context else "kubeconfig" if cluster.kubeconfig else "name"
            text = (
                f"{cluster.name} is {other} under another name: both are {server.shown}; remove "
                "one of them"
            )
            problems.append(document.problem((*path, key), text))
    return problems


def lease_problems(
    section: LeaderElectionSection, clusters: Sequence[ClusterSection], document: Document
) -> list[Problem]:
    """What keeps the Lease from being reached; without a kubeconfig of its own it is in the first
    of `clusters`.
    """
    if not section.enabled:
        return []
    try:
        if section.kubeconfig == IN_CLUSTER:
            _pod_server(IN_CLUSTER)
        elif section.kubeconfig:
            _server_in(_read(section.kubeconfig), section.kubeconfig, section.context)
        elif section.context and clusters:
            server_of(clusters[0].model_copy(update={"context": section.context}))
    except AccessError as error:
        if section.kubeconfig or error.key == "context":  # else it is told at the cluster
            return [document.problem(("leader_election", error.key), str(error))]
    return []


def check_context(file: str, context: str) -> None:
    """AccessError: the kubeconfig cannot be read, or has no such context ('': the current one) with
    a server.
    """
    _server_in(_read(file), file, context)


def server_of(cluster: ClusterSection) -> Server:
    """The API server that its entry leads to; AccessError says why none."""
    file = cluster.kubeconfig or usual_kubeconfig()
    if file:
        return _server_in(_read(file), file, cluster.context)
    if os.environ.get("KUBECONFIG"):
        raise AccessError(
            "kubeconfig", f"is empty, and $KUBECONFIG names {_usual_path()}, which is no file"
        )
    if cluster.context:
        text = (
            f"{cluster.context!r} is in no kubeconfig: there is no {_usual_path()}; give "
            "`kubeconfig`, too"
        )
        raise AccessError("context", text)
    return _pod_server(f"is empty, and there is no {_usual_path()}")


def _pod_server(asked: str) -> Server:
    if os.environ.get("KUBERNETES_SERVICE_HOST") and TOKEN.is_file():
        return Server((_POD,), _POD)
    raise AccessError(
        "kubeconfig",
        f"{asked}: that means the service account of a pod, and there is none here; {_NAME_IT}",
    )


def _read(file: str) -> Mapping[str, Any]:
    try:
        with open(file, "rb") as stream:
            data = yaml.load(stream.read(MAX_BYTES), Loader=_LOADER)  # noqa: S506 - a safe loader
    except OSError as error:
        text = f"{file} cannot be read: {error.strerror or error}; {_NAME_IT}"
        raise AccessError("kubeconfig", text) from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise AccessError(
            "kubeconfig", f"{file} is no YAML: {str(error).splitlines()[0]}"
        ) from None
    if not isinstance(data, Mapping):
        raise AccessError("kubeconfig", f"{file} is no kubeconfig: it holds no map of keys")
    return data


def _server_in(config: Mapping[str, Any], file: str, wanted: str) -> Server:
    contexts = _named(config, "contexts", "context")
    if not contexts:
        raise AccessError("kubeconfig", f"{file} has no contexts: {_NAME_IT} that has one")
    name = wanted or str(config.get("current-context") or "")
    if not name:
        text = f"is empty, and {file} has no current-context: name one{_known(contexts)}"
        raise AccessError("context", text)
    context = contexts.get(name)
    if context is None:
        raise AccessError("context", f"{file} has no context {name!r}{_hint(name, contexts)}")
    for part in ("user", "cluster"):
        named = str(context.get(part) or "")
        entries = _named(config, f"{part}s", part)
        if (named or part == "cluster") and named not in entries:
            text = (
                f"context {name!r} of {file} names the {part} {named!r}, which is not in "
                f"it{_hint(named, entries)}"
            )
            raise AccessError("context", text)
    return _server(
        _named(config, "clusters", "cluster")[str(context["cluster"])],
        f"context {name!r} of {file}",
    )


def _server(cluster: Mapping[str, Any], where: str) -> Server:
    shown = str(cluster.get("server") or "")
    try:
        url = urlsplit(shown)
        port = url.port or _PORTS[url.scheme]
    except (ValueError, KeyError):
        text = f"{where} has the server {shown!r}: write its address as https://host:port"
        raise AccessError("context", text) from None
    host = "127.0.0.1" if url.hostname == "localhost" else url.hostname or ""
    # A tunnel's end may be one address for several servers, told apart by proxy or by the name that
    # TLS asks for.
    beside = (str(cluster.get("proxy-url") or ""), str(cluster.get("tls-server-name") or ""))
    return Server((host, str(port), url.path.rstrip("/"), *beside), shown)


def _named(config: Mapping[str, Any], many: str, one: str) -> dict[str, Mapping[str, Any]]:
    items = config.get(many)
    found = items if isinstance(items, list) else []
    entries = [item for item in found if isinstance(item, Mapping)]
    return {
        str(item.get("name")): inner
        for item in reversed(entries)  # of two of one name the first counts
        if isinstance(inner := item.get(one) or {}, Mapping)
    }


def _hint(name: str, known: Iterable[str]) -> str:
    close = get_close_matches(name, list(known), 1)
    return f"; did you mean {close[0]!r}?" if close else _known(known)


def _known(known: Iterable[str]) -> str:
    names = sorted(known)
    more = f" and {len(names) - MAX_SHOWN} more" if len(names) > MAX_SHOWN else ""
    return f"; known: {', '.join(names[:MAX_SHOWN])}{more}" if names else ""
