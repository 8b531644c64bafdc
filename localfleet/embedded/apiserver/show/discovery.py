"""What the server serves: discovery, old and aggregated, and OpenAPI v3 as far as kubectl reads it."""

import hashlib
from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from localfleet.embedded.apiserver.resources import READ, RESOURCES, Resource
from localfleet.embedded.apiserver.status import Object

VERSION: Object = {
    "major": "1",
    "minor": "37",
    "gitVersion": "v1.37.2",
    "gitCommit": "",
    "gitTreeState": "clean",
    "buildDate": "1970-01-01T00:00:00Z",
    "goVersion": "",
    "compiler": "",
    "platform": "linux/amd64",
}


class Entry(NamedTuple):
    """One line of discovery. `answers` is the kind of a subresource with its group and version."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool
    verbs: tuple[str, ...]
    short: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    subresources: tuple[str, ...] = ()

    @property
    def singular(self) -> str:
        """Lower case of the kind; metrics-server gives none."""
        return "" if self.group == "metrics.k8s.io" else self.kind.lower()


# Served by functions, not stored.
VIRTUAL = (
    Entry(
        "authentication.k8s.io", "v1", "selfsubjectreviews", "SelfSubjectReview", False, ("create",)
    ),
    Entry(
        "authorization.k8s.io",
        "v1",
        "selfsubjectaccessreviews",
        "SelfSubjectAccessReview",
        False,
        ("create",),
    ),
    Entry(
        "authorization.k8s.io",
        "v1",
        "selfsubjectrulesreviews",
        "SelfSubjectRulesReview",
        False,
        ("create",),
    ),
    Entry(
        "authorization.k8s.io",
        "v1",
        "subjectaccessreviews",
        "SubjectAccessReview",
        False,
        ("create",),
    ),
    Entry("metrics.k8s.io", "v1beta1", "nodes", "NodeMetrics", False, ("get", "list")),
    Entry("metrics.k8s.io", "v1beta1", "pods", "PodMetrics", True, ("get", "list")),
)
# subresource -> (group, version, kind, verbs); "" kind: that of its resource
_SUBRESOURCES: dict[str, tuple[str, str, str, tuple[str, ...]]] = {
    "attach": ("", "v1", "PodAttachOptions", ("create", "get")),
    "binding": ("", "v1", "Binding", ("create",)),
    "ephemeralcontainers": ("", "", "", ("get", "patch", "update")),
    "eviction": ("policy", "v1", "Eviction", ("create",)),
    "exec": ("", "v1", "PodExecOptions", ("create", "get")),
    "finalize": ("", "", "", ("update",)),
    "log": ("", "", "", ("get",)),
    "portforward": ("", "v1", "PodPortForwardOptions", ("create", "get")),
    "resize": ("", "", "", ("get", "patch", "update")),
    "scale": ("autoscaling", "v1", "Scale", ("get", "patch", "update")),
    "status": ("", "", "", ("get", "patch", "update")),
    "token": ("authentication.k8s.io", "v1", "TokenRequest", ("create",)),
}


def _entry(row: Resource) -> Entry:
    return Entry(
        row.group,
        row.version,
        row.plural,
        row.kind,
        row.namespaced,
        row.verbs,
        row.short,
        row.categories,
        row.subresources,
    )


ENTRIES = sorted(
    [*(_entry(row) for row in RESOURCES.values()), *VIRTUAL],
    key=lambda entry: (entry.group, entry.plural),
)
GROUPS = sorted({(entry.group, entry.version) for entry in ENTRIES if entry.group})


def _kind_of(entry: Entry, subresource: str) -> tuple[str, str, str]:
    group, version, kind, _ = _SUBRESOURCES[subresource]
    return (group, version, kind) if kind else (entry.group, entry.version, entry.kind)


def _in(group: str, version: str) -> list[Entry]:
    return [entry for entry in ENTRIES if (entry.group, entry.version) == (group, version)]


# --- the old form: /api, /apis, /api/v1, /apis/GROUP/VERSION ---


def legacy(group: str, version: str) -> Object | None:
    """APIResourceList of one group version, None if it is not served."""
    resources = [line for entry in _in(group, version) for line in _legacy_lines(entry)]
    if not resources:
        return None
    name = f"{group}/{version}" if group else version
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": name,
        "resources": resources,
    }


def _legacy_lines(entry: Entry) -> Iterable[Object]:
    line: Object = {
        "name": entry.plural,
        "singularName": entry.singular,
        "namespaced": entry.namespaced,
    }
    line |= {"kind": entry.kind, "verbs": list(entry.verbs)}
    line |= {"shortNames": list(entry.short)} if entry.short else {}
    yield line | ({"categories": list(entry.categories)} if entry.categories else {})
    for name in entry.subresources:
        group, version, kind = _kind_of(entry, name)
        sub: Object = {
            "name": f"{entry.plural}/{name}",
            "singularName": "",
            "namespaced": entry.namespaced,
        }
        if _SUBRESOURCES[name][2]:
            sub |= {"group": group, "version": version}
        yield sub | {"kind": kind, "verbs": list(_SUBRESOURCES[name][3])}


def api_versions() -> Object:
    """/api."""
    return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}


def group(name: str, version: str) -> Object:
    """APIGroup without kind and apiVersion, as a list holds it."""
    preferred = {"groupVersion": f"{name}/{version}", "version": version}
    return {"name": name, "versions": [preferred], "preferredVersion": preferred}


def group_list() -> Object:
    """/apis."""
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": [group(*pair) for pair in GROUPS]}


# --- the aggregated form ---


def aggregated(*, core: bool) -> Object:
    """APIGroupDiscoveryList of the core group, or of all named groups."""
    pairs = [("", "v1")] if core else GROUPS
    items = [
        {
            "metadata": {"name": name, "creationTimestamp": None}
            if name
            else {"creationTimestamp": None},
            "versions": [
                {
                    "version": version,
                    "freshness": "Current",
                    "resources": [_aggregated(entry) for entry in _in(name, version)],
                }
            ],
        }
        for name, version in pairs
    ]
    return {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": "apidiscovery.k8s.io/v2",
        "metadata": {},
        "items": items,
    }


def _aggregated(entry: Entry) -> Object:
    line: Object = {
        "resource": entry.plural,
        "responseKind": {"group": entry.group, "version": entry.version, "kind": entry.kind},
        "scope": "Namespaced" if entry.namespaced else "Cluster",
        "singularResource": entry.singular,
        "verbs": list(entry.verbs),
    }
    line |= {"shortNames": list(entry.short)} if entry.short else {}
    line |= {"categories": list(entry.categories)} if entry.categories else {}
    if entry.subresources:
        line["subresources"] = [_aggregated_sub(entry, name) for name in entry.subresources]
    return line


def _aggregated_sub(entry: Entry, name: str) -> Object:
    kind = dict(zip(("group", "version", "kind"), _kind_of(entry, name), strict=True))
    return {"subresource": name, "responseKind": kind, "verbs": list(_SUBRESOURCES[name][3])}


# --- OpenAPI v3: which kinds can be patched with field validation done by the server ---

_PARAMETERS = [
    {"name": name, "in": "query", "schema": {"type": "string", "uniqueItems": True}}
    for name in ("dryRun", "fieldManager", "fieldValidation")
]


def openapi(group_name: str, version: str) -> Object | None:
    """The OpenAPI v3 document of one group version, None if it is not served."""
    entries = [entry for entry in _in(group_name, version) if entry.verbs != READ]
    if not entries:
        return None
    root = f"/apis/{group_name}/{version}" if group_name else f"/api/{version}"
    return {
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": VERSION["gitVersion"]},
        "paths": {path: item for entry in entries for path, item in _paths(root, entry)},
        "components": {"schemas": {}},
    }


def _paths(root: str, entry: Entry) -> Iterable[tuple[str, Object]]:
    collection = (
        f"{root}/namespaces/{{namespace}}/{entry.plural}"
        if entry.namespaced
        else f"{root}/{entry.plural}"
    )
    kind = {"group": entry.group, "version": entry.version, "kind": entry.kind}
    verbs = {
        "create": ("post", collection),
        "patch": ("patch", collection + "/{name}"),
        "update": ("put", collection + "/{name}"),
    }
    items: dict[str, Object] = {}
    for verb, (method, path) in verbs.items():
        if verb in entry.verbs:
            operation = {
                "x-kubernetes-action": verb,
                "x-kubernetes-group-version-kind": kind,
                "parameters": _PARAMETERS,
            }
            items.setdefault(path, {})[method] = operation | {
                "responses": {"200": {"description": "OK"}}
            }
    return items.items()


def openapi_index() -> Object:
    """/openapi/v3: where each document is, with a hash of its content so that clients may keep it."""
    paths: Object = {}
    for name, version in [("", "v1"), *GROUPS]:
        document = openapi(name, version)
        where = f"apis/{name}/{version}" if name else f"api/{version}"
        digest = hashlib.sha256(msgspec.json.encode(document)).hexdigest()
        paths[where] = {"serverRelativeURL": f"/openapi/v3/{where}?hash={digest}"}
    return {"paths": paths}
