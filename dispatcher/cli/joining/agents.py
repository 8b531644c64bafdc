"""The agents of the chart that run in a cluster, as their Deployments tell."""

import json
from collections.abc import Iterable
from typing import Any, NamedTuple

import msgspec

from dispatcher.cli.diagnosis import NOTE, PROBLEM, Finding
from dispatcher.cli.joining.needed_rights import features
from dispatcher.cli.operate.members import Member, MemberError
from dispatcher.config.sections import ClusterSection

DEPLOYMENTS = "/apis/apps/v1/deployments"
LABEL = "app.kubernetes.io"
Account = tuple[str, str]  # namespace, name


class Agent(NamedTuple):
    """`component`: observer, executor, or agent, which is both. `on`: features that its file turns
    on. `release`: NAMESPACE-FULLNAME, with which the names of the chart's cluster-wide objects
    begin. `settings`: its file, '' if it cannot be read.
    """

    account: Account
    component: str
    on: set[str]
    release: str
    settings: str = ""

    @property
    def user(self) -> str:
        """As the API server knows it."""
        return user(self.account)


async def agents_in_sight(member: Member) -> list[Agent]:
    """The same; none where who asks may not see them, which `rights` tells."""
    try:
        return await agents(member)
    except MemberError as error:
        if error.status == 403:
            return []
        raise


async def settings(cluster: ClusterSection, member: Member) -> list[str]:
    """The files of the agents of a cluster: those of the chart, else of the one that `run` starts.
    MemberError.
    """
    seen = await agents_in_sight(member)
    found = [one.settings for one in seen if one.component != "observer"]
    return found or ([json.dumps(cluster.agent)] if cluster.via == "ray" else [])


def user(account: Account) -> str:
    """Of a service account, as the API server knows it."""
    return f"system:serviceaccount:{account[0]}:{account[1]}"


async def agents(member: Member) -> list[Agent]:
    """One for each Deployment whose pods are agents: the chart's webhook is none. MemberError."""
    found = []
    for one in await member.items(DEPLOYMENTS, labelSelector=f"{LABEL}/part-of=global-dispatcher"):
        template = one["spec"]["template"]
        namespace = one["metadata"]["namespace"]
        name = one["metadata"]["name"]
        labels = template["metadata"].get("labels") or {}
        component = labels.get(f"{LABEL}/component", "")
        if f"{LABEL}/part-of" in labels and component in ("agent", "observer", "executor"):
            account = template["spec"].get("serviceAccountName") or "default"
            text = await _settings(member, namespace, template["spec"])
            release = f"{namespace}-{name.removesuffix(f'-{component}') if component != 'agent' else name}"
            found.append(Agent((namespace, account), component, features(text), release, text))
    return found


RELEASES = "releases of the agent"


def several(cluster: str, found: Iterable[Agent]) -> list[Finding]:
    """That more than one release of the chart writes in a cluster: only one of them may act."""
    releases = sorted({one.release for one in found if one.component != "observer"})
    if len(releases) < 2:
        return []
    text = (
        f"{len(releases)} releases of the agent's chart are there ({', '.join(releases)}): the "
        "executor of one acts, the others wait, and each takes the other's connection over"
    )
    fix = "uninstall all but one (`helm list -A`), with its cluster-wide objects"
    return [Finding(cluster, RELEASES, PROBLEM, text, fix)]


AGAIN = "see why it answers so, and run doctor again"
# what reading an answer fails with that is in another form than Kubernetes'
ODD = (LookupError, TypeError, AttributeError, ValueError, msgspec.MsgspecError)


def not_known(cluster: str, about: str, error: MemberError, rights: str) -> Finding:
    """What doctor says where an API server answered with an error. `rights`: those that the
    question needs.
    """
    may_not_ask = error.status in (401, 403)
    fix = f"give the context the right to {rights}" if may_not_ask else AGAIN
    return Finding(cluster, about, NOTE, f"not known: {error}", fix)


def odd_answer(cluster: str, about: str, error: Exception) -> Finding:
    """What doctor says where reading an answer failed, with one of ODD."""
    text = f"not known: its API server answers in another form than Kubernetes' ({error!r:.200})"
    return Finding(cluster, about, NOTE, text, AGAIN)


async def _settings(member: Member, namespace: str, pod: dict[str, Any]) -> str:
    """Its agent.yaml; '' where it cannot be read: then no feature is asked for."""
    names = [one["configMap"]["name"] for one in pod.get("volumes") or () if "configMap" in one]
    for name in names:
        try:
            data = (
                await member.call("GET", f"/api/v1/namespaces/{namespace}/configmaps/{name}")
            ).get("data") or {}
        except MemberError:
            continue
        if "agent.yaml" in data:
            return str(data["agent.yaml"])
    return ""
