"""Who asks, and what they may do: the admin everything, the reader what Kubernetes' ClusterRole
`view` allows, and look at nodes.

An API server of ours has no roles. With a second user one can see kubectl refused as a real API
server refuses it.
"""

import hmac
from dataclasses import dataclass

from aiohttp import web

from localfleet.embedded.apiserver.resources import READ, RESOURCES
from localfleet.embedded.apiserver.status import ApiError, Object
from localfleet.embedded.rest.target import Target
from localfleet.embedded.tls import MASTERS

_HIDDEN = ("secrets",)
_READ_PARTS = ("", "log", "scale", "status")
_ANYBODYS = ("selfsubjectaccessreviews", "selfsubjectrulesreviews", "selfsubjectreviews")
_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch"}


@dataclass(frozen=True)
class Asked:
    """What somebody wants to do, as authorization sees it. `name` and `namespace` are empty where
    they are not said.
    """

    verb: str
    group: str
    resource: str
    subresource: str
    namespace: str
    name: str

    @property
    def kind(self) -> str:
        """RESOURCE, or RESOURCE/SUBRESOURCE."""
        return f"{self.resource}/{self.subresource}" if self.subresource else self.resource


@dataclass(frozen=True)
class User:
    """Known by a bearer token."""

    name: str
    groups: tuple[str, ...]

    @property
    def info(self) -> Object:
        """As SelfSubjectReview tells it."""
        return {"username": self.name, "groups": list(self.groups)}

    @property
    def may_all(self) -> bool:
        """Whether it is refused nothing."""
        return MASTERS in self.groups

    @property
    def path_verbs(self) -> tuple[str, ...]:
        """What it may do with paths that are no resources."""
        return ("*",) if self.may_all else ("get", "head")

    def may(self, asked: Asked) -> bool:
        """Whether it may do this."""
        if self.may_all:
            return True
        if "*" in (asked.group, asked.resource):
            return False  # what is hidden is among these
        if asked.verb == "create" and asked.resource in _ANYBODYS:
            return True
        return (
            asked.verb in READ
            and asked.resource not in _HIDDEN
            and asked.subresource in _READ_PARTS
        )

    @property
    def rules(self) -> list[Object]:
        """What it may do, as SelfSubjectRulesReview tells it."""
        if self.may_all:
            return [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}]
        seen: dict[str, list[str]] = {"metrics.k8s.io": ["nodes", "pods"]}
        for row in RESOURCES.values():
            if row.plural not in _HIDDEN:
                parts = [f"{row.plural}/{part}" for part in row.subresources if part in _READ_PARTS]
                seen.setdefault(row.group, []).extend([row.plural, *parts])
        return [
            {"verbs": list(READ), "apiGroups": [group], "resources": found}
            for group, found in seen.items()
        ]


ADMIN = User("embedded:admin", (MASTERS, "system:authenticated"))
READER = User("embedded:reader", ("system:authenticated",))
USER = web.RequestKey("user", User)


def known_by(sent: bytes, tokens: dict[str, User]) -> User | None:
    """Whose token an Authorization header shows."""
    found = None
    for token, user in tokens.items():
        if hmac.compare_digest(sent, f"Bearer {token}".encode()):
            found = user
    return found


def check(request: web.Request, target: Target) -> None:
    """ApiError 403, in kube-apiserver's words, if the user may not do what the request asks for."""
    user = request[USER]
    asked = _asked(request, target)
    if user.may(asked):
        return
    what = f"{asked.resource}.{asked.group}" if asked.group else asked.resource
    named = f'{what} "{asked.name}"' if asked.name else what
    scope = f'in the namespace "{asked.namespace}"' if asked.namespace else "at the cluster scope"
    why = (
        f'User "{user.name}" cannot {asked.verb} resource "{asked.kind}" in API group '
        f'"{asked.group}" {scope}'
    )
    details = {"name": asked.name} if asked.name else {}
    details |= {"group": asked.group} if asked.group else {}
    raise ApiError(
        403, "Forbidden", f"{named} is forbidden: {why}", {**details, "kind": asked.resource}
    )


def _asked(request: web.Request, target: Target) -> Asked:
    one = bool(target.name)
    if request.method in ("GET", "HEAD"):
        watches = request.query.get("watch", "false").lower() not in ("false", "0")
        verb = "get" if one else "watch" if watches else "list"
    elif request.method == "DELETE":
        verb = "delete" if one else "deletecollection"
    else:
        verb = _VERBS.get(request.method, request.method.lower())
    # as kube-apiserver has it
    namespace = target.name if target.plural == "namespaces" else target.namespace
    return Asked(verb, target.group, target.plural, target.subresource, namespace, target.name)
