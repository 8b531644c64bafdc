"""How annotated pods get our schedulerName in a cluster: asked of its API server, by a pod that is never stored."""

import asyncio
from typing import Any, NamedTuple

from dispatcher.cli.operate.members import Member, MemberError, reached
from dispatcher.config import DispatcherConfig
from dispatcher.config.sections import ClusterSection
from dispatcher.model import names

REGISTRATION = "/apis/admissionregistration.k8s.io"
POLICIES = "mutatingadmissionpolicies"
VERSIONS = ("v1", "v1beta1")  # of MutatingAdmissionPolicy, the better one first
WEBHOOK = "schedule.global-dispatcher.io"
_PODS = "/api/v1/namespaces/default/pods?dryRun=All"
_QUIET: dict[str, Any] = {  # what namespaces that enforce Pod Security `restricted` want
    "allowPrivilegeEscalation": False,
    "runAsNonRoot": True,
    "capabilities": {"drop": ["ALL"]},
    "seccompProfile": {"type": "RuntimeDefault"},
}
_PROBE: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"generateName": "global-dispatcher-probe-", "annotations": {names.SCHEDULE: "true"}},
    "spec": {"containers": [{"name": "main", "image": "none", "securityContext": _QUIET}]},
}


class OptIn(NamedTuple):
    """`acts`: whether the annotation alone is enough; None: not known, for `problem`. `by`: what does it, if known."""

    acts: bool | None
    by: str = ""
    problem: str = ""

    def __str__(self) -> str:
        """For people."""
        if self.acts is None:
            return f"not known: {self.problem}"
        if not self.acts:
            return "none: pods must name schedulerName: global-dispatcher themselves"
        return self.by or "in force, by what these rights do not show"


async def acts(member: Member) -> bool:
    """Whether a pod with the annotation alone gets our schedulerName. MemberError: such a pod cannot be tried."""
    made = await member.call("POST", _PODS, _PROBE)
    return bool(made["spec"].get("schedulerName") == names.SCHEDULER_NAME)


async def in_force(member: Member) -> OptIn:
    """What is in force in a cluster."""
    try:
        found = await acts(member)
    except MemberError as error:
        return OptIn(None, problem=str(error))
    return OptIn(found, await _mechanism(member) if found else "")


async def all_in_force(config: DispatcherConfig, only: str = "") -> dict[str, OptIn]:
    """What is in force in each cluster of a configuration, or in one."""
    clusters = {one.name: one for one in config.clusters if only in ("", one.name)}
    async with reached(config, clusters) as members:
        found = await asyncio.gather(*(_of(clusters[name], member) for name, member in members.items()))
    return dict(zip(members, found, strict=True))


async def _of(cluster: ClusterSection, member: Member) -> OptIn:
    problem = await uncertain(cluster, member)
    return OptIn(None, problem=problem) if problem else await in_force(member)


async def uncertain(cluster: ClusterSection, member: Member) -> str:
    """Why the context of a cluster may lead nowhere, or to another; '' if it does not."""
    if cluster.via == "gateway" and not (cluster.context or cluster.kubeconfig):
        return "the configuration has no `context` of it"
    try:
        system = await member.call("GET", "/api/v1/namespaces/kube-system") if cluster.uid else {}
    except MemberError as error:
        return str(error)
    if cluster.uid and system["metadata"]["uid"] != cluster.uid:
        return f"context {cluster.context!r} reaches another cluster, as `uid` says"
    return ""


async def _mechanism(member: Member) -> str:
    """Which objects of the cluster do it; '' if none is seen."""
    for version in VERSIONS:
        for one in await _listed(member, f"{REGISTRATION}/{version}/{POLICIES}"):
            if any(f"'{names.SCHEDULER_NAME}'" in _expression(row) for row in one["spec"].get("mutations", ())):
                return f"MutatingAdmissionPolicy {version} ({one['metadata']['name']})"
    for one in await _listed(member, f"{REGISTRATION}/v1/mutatingwebhookconfigurations"):
        if any(row["name"] == WEBHOOK for row in one.get("webhooks", ())):
            return f"webhook ({one['metadata']['name']})"
    return ""


def _expression(mutation: dict[str, Any]) -> str:
    return str(mutation.get("applyConfiguration", {}).get("expression", ""))


async def _listed(member: Member, path: str) -> list[dict[str, Any]]:
    try:
        return await member.items(path)
    except MemberError:  # there is no such kind, or no right to see it
        return []


async def served(member: Member) -> str:
    """The version of MutatingAdmissionPolicy that an API server has; '' for none. MemberError."""
    for version in VERSIONS:
        try:
            found = await member.call("GET", f"{REGISTRATION}/{version}")
        except MemberError as error:
            if error.status == 404:
                continue
            raise
        if any(one["name"] == POLICIES for one in found.get("resources", ())):
            return version
    return ""
