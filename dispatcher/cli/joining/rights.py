"""Whether the agents that run in clusters may do what they need, asked by SubjectAccessReviews."""

import asyncio
import json

from dispatcher.cli.diagnosis import NOTE, PROBLEM, Finding
from dispatcher.cli.joining.agents import (
    ODD,
    RELEASES,
    Account,
    agents,
    agents_in_sight,
    not_known,
    odd_answer,
    several,
    user,
)
from dispatcher.cli.joining.guards import unguarded
from dispatcher.cli.joining.needed_rights import Need, features, needs
from dispatcher.cli.joining.opt_in import uncertain
from dispatcher.cli.joining.reviews import Reviews, Who
from dispatcher.cli.operate.members import Member, MemberError, Members, chosen
from dispatcher.config import DispatcherConfig, agent_settings
from dispatcher.config.sections import ClusterSection
from shared.model.tenant import NEVER

WHO_AM_I = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
ABOUT = "rights of the agent"
_FIX = "upgrade the agent's chart, whose roles have it, or grant it"
_ASKING = "list deployments and rolebindings, and to create subjectaccessreviews"
_FIX_HERE = (
    "run `global-dispatcher install` for that cluster (with --may for what its settings ask for), "
    "or grant it"
)
_ASKING_HERE = "list deployments and rolebindings"


async def all_lacking(config: DispatcherConfig, members: Members, only: str = "") -> list[Finding]:
    """Rights and policies that are not there, in each cluster of a configuration, or in one; of
    those that cannot be reached nothing is known.
    """
    evicting = has_evicted(config)
    asked = [_of(section, member, evicting) for section, member in chosen(config, members, only)]
    return [one for found in await asyncio.gather(*asked) for one in found]


def has_evicted(config: DispatcherConfig) -> bool:
    """Whether agents are asked to evict pods: for rebalancing, or tenants that take quota back."""
    reclaims = any(one.reclaim not in ("", NEVER) for one in config.tenants)
    return config.rebalancing.mode == "on" or reclaims


async def _of(cluster: ClusterSection, member: Member, evicting: bool) -> list[Finding]:
    """Of one cluster; what its API server answers, of whatever form, hides nothing of the others."""
    try:
        if await uncertain(cluster, member):
            return []
        started_here = cluster.via == "ray"
        return [
            *await lacking(member, evicting),
            *(await lacking_here(cluster, member, evicting) if started_here else ()),
            *await unguarded(member, run_starts_agents=started_here),
        ]
    except ODD as error:
        return [odd_answer(member.name, ABOUT, error)]


async def lacking(member: Member, evicting: bool = False) -> list[Finding]:
    """What the agents' accounts lack, and whether there are too many agents; nothing where none of
    the chart is. `evicting`: rebalancing moves pods, or tenants take quota back.
    """
    try:
        found = await agents(member)
        rows = [
            (_of_account(one.account), need)
            for one in found
            for need in needs(one.component, one.on, evicting)
        ]
        return [*several(member.name, found), *await _told(Reviews(member), rows, _FIX)]
    except MemberError as error:
        # That it does not answer is told by others.
        return [not_known(member.name, ABOUT, error, _ASKING)] if error.status else []


async def lacking_here(
    cluster: ClusterSection, member: Member, evicting: bool = False
) -> list[Finding]:
    """What the agent lacks that `run` starts, which is whom the kubeconfig of its entry stands for,
    as doctor is; that agents of the chart run there, too, is told instead.
    """
    try:
        found = await agents_in_sight(member)
        if found:
            text = (
                "`run` starts its agent (`via: ray`), and an agent of the chart runs there, too "
                f"({', '.join(sorted({one.release for one in found}))}): one of them waits"
            )
            fix = "write `via: gateway` into its entry, or uninstall the chart"
            return [Finding(member.name, RELEASES, PROBLEM, text, fix)]
        who = await _myself(member, cluster)
        rows = [
            (who, need) for need in needs("agent", features(json.dumps(cluster.agent)), evicting)
        ]
        return await _told(Reviews(member), rows, _FIX_HERE)
    except MemberError as error:
        return [not_known(member.name, ABOUT, error, _ASKING_HERE)] if error.status else []


def _of_account(account: Account) -> Who:
    namespace, name = account
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}")
    kubelets = (namespace, f"{name.removesuffix('-observer')}-kubelets")
    return Who(user(account), (*groups, "system:authenticated"), kubelets)


async def _myself(member: Member, cluster: ClusterSection) -> Who:
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    info = (await member.call("POST", WHO_AM_I, review))["status"]["userInfo"]
    namespace, _, name = agent_settings(cluster).kubelet.account.partition("/")
    groups = tuple(info.get("groups") or ())
    return Who(info["username"], groups, (namespace, name), oneself=True)


async def _told(reviews: Reviews, rows: list[tuple[Who, Need]], fix: str) -> list[Finding]:
    cluster = reviews.member.name
    asked = (_lacks(reviews, who, need) for who, need in rows)
    texts = []
    for answer in await asyncio.gather(
        *asked, return_exceptions=True
    ):  # of each, or a task is left
        if isinstance(answer, BaseException):
            raise answer
        texts.append(answer)
    told = [
        Finding(cluster, ABOUT, need.level, f"{who.user} may not {text}: {need.lost}", fix)
        for (who, need), text in zip(rows, texts, strict=True)
        if text
    ]
    if reviews.left_out:
        text = (
            f"rights in {reviews.left_out} more namespaces with roles of their own were not asked"
        )
        told.append(Finding(cluster, ABOUT, NOTE, text, "bind the same ClusterRole in all of them"))
    return sorted(told, key=lambda one: one.level != PROBLEM)


async def _lacks(reviews: Reviews, who: Who, need: Need) -> str:
    """What of it somebody may not do, with verbs, kinds and where; '' if all."""
    parts = []
    for kind in need.kinds.split():
        lacking: dict[str, list[str]] = {}  # verbs, by where
        for verb in need.verbs.split():
            where = await reviews.lacks(who, need, (verb, kind))
            if where is not None:
                lacking.setdefault(where, []).append(verb)
        parts += [f"{', '.join(verbs)} {kind}{where}" for where, verbs in lacking.items()]
    return "; ".join(parts)
