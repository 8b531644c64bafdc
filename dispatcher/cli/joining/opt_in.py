"""How annotated pods get our schedulerName in a cluster: asked of its API server, by a pod that is
never stored.
"""

import asyncio
from typing import Any, NamedTuple

from dispatcher.cli.operate.members import (
    Member,
    MemberError,
    Members,
    access_to,
    chosen,
    has_context,
)
from dispatcher.config import DispatcherConfig
from dispatcher.config.sections import ClusterSection
from shared.model import names

REGISTRATION = "/apis/admissionregistration.k8s.io"
POLICIES = "mutatingadmissionpolicies"
VERSIONS = ("v1", "v1beta1")  # of MutatingAdmissionPolicy, the better one first
WEBHOOK = "schedule.global-dispatcher.io"
POLICY_KIND = "MutatingAdmissionPolicy"
_USUAL = "default"  # the namespace that is tried where nothing says otherwise
_QUIET: dict[str, Any] = {  # what namespaces that enforce Pod Security `restricted` want
    "allowPrivilegeEscalation": False,
    "runAsNonRoot": True,
    "capabilities": {"drop": ["ALL"]},
    "seccompProfile": {"type": "RuntimeDefault"},
}
_PROBE: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {
        "generateName": "global-dispatcher-probe-",
        "annotations": {names.SCHEDULE: "true"},
    },
    "spec": {"containers": [{"name": "main", "image": "none", "securityContext": _QUIET}]},
}


class OptIn(NamedTuple):
    """`acts`: whether the annotation alone is enough; None: not known, for `problem`. `by`: what
    does it, if known, or what is there and does nothing.
    """

    acts: bool | None
    by: str = ""
    problem: str = ""

    def __str__(self) -> str:
        """For people."""
        if self.acts is None:
            return f"not known: {self.problem}"
        if not self.acts:
            without = f" ({self.by} is there and does nothing)" if self.by else ""
            return f"none: pods must name schedulerName: global-dispatcher themselves{without}"
        return self.by or "in force, by what these rights do not show"


class Mechanism(NamedTuple):
    """An object of a cluster that is to give pods our schedulerName. `selector`: of the namespaces
    that it is for.
    """

    name: str
    selector: dict[str, Any]


async def in_force(member: Member) -> OptIn:
    """What is in force in a cluster, tried in a namespace that each object for it lets in."""
    mechanisms = await _mechanisms(member)
    tried = OptIn(False)
    for one in mechanisms or [Mechanism("", {})]:
        namespace = await _namespace_of(member, one.selector)
        if not namespace:
            tried = OptIn(
                None, one.name, f"{one.name} is for namespaces of which there is none yet"
            )
            continue
        try:
            found = await _acts(member, namespace)
        except MemberError as error:
            tried = OptIn(None, problem=str(error))
            continue
        where = "" if namespace == _USUAL else f", in namespaces such as {namespace}"
        if found:
            return OptIn(True, f"{one.name}{where}" if one.name else "")
        tried = OptIn(False, one.name)
    return tried


async def _acts(member: Member, namespace: str) -> bool:
    """Whether a pod with the annotation alone gets our schedulerName. MemberError: such a pod
    cannot be tried.
    """
    made = await member.call("POST", f"/api/v1/namespaces/{namespace}/pods?dryRun=All", _PROBE)
    return bool(made["spec"].get("schedulerName") == names.SCHEDULER_NAME)


async def _namespace_of(member: Member, selector: dict[str, Any]) -> str:
    """A namespace that a selector lets in, `default` if it may be that; '' where there is none.
    Without the right to list them: `default`.
    """
    wanted = _query(selector)
    if not wanted:
        return _USUAL
    try:
        found = await member.items("/api/v1/namespaces", labelSelector=wanted)
    except MemberError:
        return _USUAL
    there = [
        one["metadata"]["name"]
        for one in found
        if one.get("status", {}).get("phase") != "Terminating"
    ]
    return _USUAL if _USUAL in there else next(iter(there), "")


def _query(selector: dict[str, Any]) -> str:
    """A LabelSelector as the query parameter `labelSelector`: {matchExpressions: [{key: a,
    operator: In, values: [b, c]}]} is 'a in (b,c)'.
    """
    forms = {
        "In": "{key} in ({values})",
        "NotIn": "{key} notin ({values})",
        "Exists": "{key}",
        "DoesNotExist": "!{key}",
    }
    terms = [f"{key}={value}" for key, value in (selector.get("matchLabels") or {}).items()]
    terms += [
        forms[one["operator"]].format(key=one["key"], values=",".join(one.get("values") or ()))
        for one in selector.get("matchExpressions") or ()
    ]
    return ",".join(terms)


async def all_in_force(
    config: DispatcherConfig, members: Members, only: str = ""
) -> dict[str, OptIn]:
    """What is in force in each cluster of a configuration, or in one."""
    asked = chosen(config, members, only)
    found = await asyncio.gather(*(_of(section, member) for section, member in asked))
    return {section.name: one for (section, _), one in zip(asked, found, strict=True)}


async def _of(cluster: ClusterSection, member: Member) -> OptIn:
    problem = await uncertain(cluster, member)
    return OptIn(None, problem=problem) if problem else await in_force(member)


async def uncertain(cluster: ClusterSection, member: Member) -> str:
    """Why the context of a cluster may lead nowhere, or to another; '' if it does not."""
    if not has_context(cluster):
        return "the configuration has no `context` of it"
    try:
        system = await member.call("GET", "/api/v1/namespaces/kube-system") if cluster.uid else {}
    except MemberError as error:
        return str(error)
    if cluster.uid and system["metadata"]["uid"] != cluster.uid:
        way = f"context {cluster.context!r}" if cluster.context else access_to(cluster).describe()
        return f"{way} reaches another cluster, as `uid` says"
    return ""


async def _mechanisms(member: Member) -> list[Mechanism]:
    """What of a cluster is to do it, as far as it may be seen; a policy by the best version that is
    served.
    """
    found: dict[str, Mechanism] = {}
    for version in VERSIONS:
        for one in await _listed(member, f"{REGISTRATION}/{version}/{POLICIES}"):
            name = one["metadata"]["name"]
            spec = one["spec"]
            if any(
                f"'{names.SCHEDULER_NAME}'" in _expression(row) for row in spec.get("mutations", ())
            ):
                selector = (spec.get("matchConstraints") or {}).get("namespaceSelector") or {}
                found.setdefault(name, Mechanism(f"{POLICY_KIND} {version} ({name})", selector))
    hooks = [
        Mechanism(f"webhook ({one['metadata']['name']})", row.get("namespaceSelector") or {})
        for one in await _listed(member, f"{REGISTRATION}/v1/mutatingwebhookconfigurations")
        for row in one.get("webhooks", ())
        if row["name"] == WEBHOOK
    ]
    return [*found.values(), *hooks]


def _expression(mutation: dict[str, Any]) -> str:
    return str(mutation.get("applyConfiguration", {}).get("expression", ""))


async def _listed(member: Member, path: str) -> list[dict[str, Any]]:
    try:
        return await member.items(path)
    except MemberError:  # there is no such kind, or no right to see it
        return []


async def served(member: Member, policies: str = POLICIES) -> str:
    """The version of a kind of admission policy, by its plural, that an API server has; '' for
    none. MemberError.
    """
    for version in VERSIONS:
        try:
            found = await member.call("GET", f"{REGISTRATION}/{version}")
        except MemberError as error:
            if error.status == 404:
                continue
            raise
        if any(one["name"] == policies for one in found.get("resources", ())):
            return version
    return ""


async def for_chart(member: Member) -> str:
    """What the agent's chart should do it by: `admissionPolicy.by`. MemberError.

    A server with v1beta1 serves policies also while its feature gate is off, and they do nothing
    then: such a server is given a webhook, which works in any case, but where a policy is in force
    already.
    """
    version = await served(member)
    if version != "v1beta1":
        return version or "webhook"
    found = await in_force(member)
    return version if found.acts and found.by.startswith(POLICY_KIND) else "webhook"
