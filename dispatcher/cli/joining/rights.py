"""Whether the agents that run in clusters may do what they need, asked by SubjectAccessReviews."""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import msgspec

from dispatcher.cli.diagnosis import NOTE, PROBLEM, Finding
from dispatcher.cli.joining.agents import AGAIN, Account, agents, not_known, user
from dispatcher.cli.joining.guards import unguarded
from dispatcher.cli.joining.needed_rights import OWN, SERVED, Need, needs
from dispatcher.cli.joining.opt_in import uncertain
from dispatcher.cli.operate.members import Member, MemberError, Members, chosen
from dispatcher.config import DispatcherConfig
from dispatcher.config.sections import ClusterSection

REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
BINDINGS = "/apis/rbac.authorization.k8s.io/v1/rolebindings"
ABOUT = "rights of the agent"
_FIX = "upgrade the agent's chart, whose roles have it, or grant it"
_ASKING = "list deployments and rolebindings, and to create subjectaccessreviews"


async def all_lacking(config: DispatcherConfig, members: Members, only: str = "") -> list[Finding]:
    """Rights and policies that are not there, in each cluster of a configuration, or in one; of
    those that cannot be reached nothing is known.
    """
    moving = config.rebalancing.mode == "on"
    asked = [_of(section, member, moving) for section, member in chosen(config, members, only)]
    return [one for found in await asyncio.gather(*asked) for one in found]


async def _of(cluster: ClusterSection, member: Member, moving: bool) -> list[Finding]:
    """Of one cluster; what its API server answers, of whatever form, hides nothing of the others."""
    try:
        if await uncertain(cluster, member):
            return []
        return [
            *await lacking(member, moving),
            *await unguarded(member, run_starts_agents=cluster.via == "ray"),
        ]
    except (LookupError, TypeError, AttributeError, ValueError, msgspec.MsgspecError) as error:
        text = (
            f"not known: its API server answers in another form than Kubernetes' ({error!r:.200})"
        )
        return [Finding(member.name, ABOUT, NOTE, text, AGAIN)]


async def lacking(member: Member, moving: bool = False) -> list[Finding]:
    """What the agents' accounts lack; nothing where no agent of the chart is. `moving`: rebalancing
    evicts pods.
    """
    server = _Server(member)
    try:
        found = await agents(member)
        rows = [
            (one.account, need) for one in found for need in needs(one.component, one.on, moving)
        ]
        texts = await asyncio.gather(*(_lacks(server, who, need) for who, need in rows))
    except MemberError as error:
        if not error.status:
            return []  # that it does not answer is told by others
        return [not_known(member.name, ABOUT, error, _ASKING)]
    told = [
        Finding(member.name, ABOUT, need.level, f"{user(who)} may not {text}: {need.lost}", _FIX)
        for (who, need), text in zip(rows, texts, strict=True)
        if text
    ]
    return sorted(told, key=lambda one: one.level != PROBLEM)


async def _lacks(server: "_Server", who: Account, need: Need) -> str:
    """What of it the account may not do, with verbs and kinds; '' if it may do all."""
    parts = []
    for kind in need.kinds.split():
        verbs = [
            verb for verb in need.verbs.split() if not await server.may(who, need, (verb, kind))
        ]
        parts += [f"{', '.join(verbs)} {kind}"] if verbs else []
    where = f" in {need.namespace}" if need.namespace not in ("", OWN, SERVED) else ""
    return "; ".join(parts) + where if parts else ""


@dataclass
class _Server:
    """Asks an API server what accounts may do; its RoleBindings are listed once, when a refusal
    first needs them.
    """

    member: Member
    bindings: asyncio.Task[list[dict[str, Any]]] | None = None

    async def may(self, who: Account, need: Need, right: tuple[str, str]) -> bool:
        """A right in served namespaces is there if it is in all, or in any for which the account
        has a RoleBinding.
        """
        if need.namespace == OWN:
            namespace, account = who
            kubelets = f"{account.removesuffix('-observer')}-kubelets"
            return await self._allowed(who, right, namespace, kubelets)
        if need.namespace != SERVED:
            return await self._allowed(who, right, need.namespace, need.name)
        if await self._allowed(who, right):
            return True
        for namespace in await self._bound(who):
            if await self._allowed(who, right, namespace):
                return True
        return False

    async def _bound(self, who: Account) -> list[str]:
        if self.bindings is None:
            self.bindings = asyncio.create_task(self.member.items(BINDINGS))
        return sorted(
            {one["metadata"]["namespace"] for one in await self.bindings if _binds(one, who)}
        )

    async def _allowed(
        self, who: Account, right: tuple[str, str], namespace: str = "", name: str = ""
    ) -> bool:
        verb, (kind, _, group) = right[0], right[1].partition(".")
        resource, _, sub = kind.partition("/")
        asked = {
            "verb": verb,
            "group": group,
            "resource": resource,
            "subresource": sub,
            "namespace": namespace,
        }
        groups = [
            "system:serviceaccounts",
            f"system:serviceaccounts:{who[0]}",
            "system:authenticated",
        ]
        spec = {"user": user(who), "groups": groups, "resourceAttributes": {**asked, "name": name}}
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": spec,
        }
        return bool((await self.member.call("POST", REVIEWS, review))["status"]["allowed"])


def _binds(binding: dict[str, Any], who: Account) -> bool:
    subjects: Iterable[dict[str, str]] = binding.get("subjects") or ()
    return any(
        ("ServiceAccount", *who) == (one["kind"], one.get("namespace"), one["name"])
        for one in subjects
    )
