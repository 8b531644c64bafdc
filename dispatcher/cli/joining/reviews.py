"""What an API server lets somebody do: asked by SubjectAccessReviews, or of oneself by
SelfSubjectAccessReviews.
"""

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from dispatcher.cli.joining.needed_rights import OWN, SERVED, Need
from dispatcher.cli.operate.members import Member

_API = "/apis/authorization.k8s.io/v1"
REVIEWS = f"{_API}/subjectaccessreviews"
SELF_REVIEWS = f"{_API}/selfsubjectaccessreviews"
BINDINGS = "/apis/rbac.authorization.k8s.io/v1/rolebindings"
MOST_PLACES = 50  # namespaces that are asked about, one of those with the same roles
_MAKES_PODS = ("create", "pods")
_SERVES = (_MAKES_PODS, ("create", "pods/binding"), ("patch", "pods/status"))
_BY_NAMESPACE = "secrets"  # the feature whose rights an operator gives by namespace
_NAMED = 3
Right = tuple[str, str]  # verb, kind as in Need
Object = dict[str, Any]


class Who(NamedTuple):
    """A user with groups, as the API server knows them. `kubelets`: namespace and name of the
    account as which its agent asks kubelets. `oneself`: whoever asks is it.
    """

    user: str
    groups: tuple[str, ...]
    kubelets: tuple[str, str]
    oneself: bool = False


class Reviews:
    """Of one API server. Each question is asked once, and RoleBindings are listed once, when a
    refusal first needs them.
    """

    def __init__(self, member: Member) -> None:
        self.member = member
        self.left_out = 0  # namespaces with RoleBindings of somebody that were not asked about
        self._bindings: asyncio.Task[list[Object]] | None = None
        self._answers: dict[tuple[str, Right, str, str], asyncio.Task[bool]] = {}

    async def lacks(self, who: Who, need: Need, right: Right) -> str | None:
        """Where somebody lacks a right, as words; '' everywhere, None nowhere."""
        if need.namespace == OWN:
            return None if await self._may(who, right, *who.kubelets) else ""
        if need.namespace != SERVED:
            where = f" in {need.namespace}" if need.namespace else ""
            return None if await self._may(who, right, need.namespace, need.name) else where
        return None if await self._may(who, right) else await self._lacks_served(who, need, right)

    async def _lacks_served(self, who: Who, need: Need, right: Right) -> str | None:
        """The same of a right that is not there for all namespaces: who makes pods in all needs it
        in all, others in each in which they do.
        """
        places = await self._places(who)
        there = [one for one in places if await self._may(who, right, one[0])]
        if not there:
            return ""
        if need.when == _BY_NAMESPACE:
            return None
        if await self._may(who, _MAKES_PODS):
            return f" outside of {_named(there)}"
        lacking = [one for one in places if one not in there and await self._serves(who, one[0])]
        return f" in {_named(lacking)}" if lacking else None

    async def _serves(self, who: Who, namespace: str) -> bool:
        for right in _SERVES:
            if await self._may(who, right, namespace):
                return True
        return False

    async def _places(self, who: Who) -> list[tuple[str, ...]]:
        """Namespaces with RoleBindings of somebody; those with the same ClusterRoles are one."""
        if self._bindings is None:
            self._bindings = asyncio.create_task(self.member.items(BINDINGS))
        roles: dict[str, set[str]] = {}
        for one in await self._bindings:
            if _binds(one, who):
                namespace = one["metadata"]["namespace"]
                roles.setdefault(namespace, set()).add(_role(one, namespace))
        places: dict[frozenset[str], list[str]] = {}
        for namespace in sorted(roles):
            places.setdefault(frozenset(roles[namespace]), []).append(namespace)
        found = [tuple(one) for one in places.values()]
        self.left_out = max(self.left_out, sum(map(len, found[MOST_PLACES:])))
        return found[:MOST_PLACES]

    async def _may(self, who: Who, right: Right, namespace: str = "", name: str = "") -> bool:
        key = (who.user, right, namespace, name)
        if key not in self._answers:
            self._answers[key] = asyncio.create_task(self._ask(who, right, namespace, name))
        return await self._answers[key]

    async def _ask(self, who: Who, right: Right, namespace: str, name: str) -> bool:
        verb, (kind, _, group) = right[0], right[1].partition(".")
        resource, _, sub = kind.partition("/")
        asked = {
            "verb": verb,
            "group": group,
            "resource": resource,
            "subresource": sub,
            "namespace": namespace,
            "name": name,
        }
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview" if who.oneself else "SubjectAccessReview",
            "spec": {
                **({} if who.oneself else {"user": who.user, "groups": list(who.groups)}),
                "resourceAttributes": asked,
            },
        }
        path = SELF_REVIEWS if who.oneself else REVIEWS
        return bool((await self.member.call("POST", path, review))["status"]["allowed"])


def _role(binding: Object, namespace: str) -> str:
    """What a RoleBinding gives, under a name that no other role has."""
    role: Mapping[str, str] = binding.get("roleRef") or {}
    of_cluster = role.get("kind") == "ClusterRole"
    return f"{role['name']}" if of_cluster else f"{namespace}/{role.get('name', '')}"


def _binds(binding: Object, who: Who) -> bool:
    subjects: Iterable[dict[str, str]] = binding.get("subjects") or ()
    return any(_means(one, who) for one in subjects)


def _means(subject: Mapping[str, str], who: Who) -> bool:
    kind, name = subject["kind"], subject["name"]
    if kind == "ServiceAccount":
        return who.user == f"system:serviceaccount:{subject.get('namespace')}:{name}"
    return name == who.user if kind == "User" else kind == "Group" and name in who.groups


def _named(places: Iterable[tuple[str, ...]]) -> str:
    every = sorted(name for one in places for name in one)
    more = f" and {len(every) - _NAMED} more" if len(every) > _NAMED else ""
    return f"{', '.join(every[:_NAMED])}{more}"
