"""What speaks against a command: told, with the way out, before anything is written."""

from dispatcher.cli.operate.census import Object, PodAt
from dispatcher.cli.operate.members import Member, MemberError
from dispatcher.cli.operate.survey import Sight, bound
from dispatcher.cli.operate.table import Wish
from dispatcher.cli.operate.words import behind
from dispatcher.scheduling.framework.plugin_args import did_you_mean
from dispatcher.service.errors import CommandError, ExitCode
from shared.model import names

_NAMED = 10  # pods in one line


def check_name(wish: Wish, known: list[str], sights: list[Sight]) -> None:
    """Refuse a name that is neither configured nor known to any cluster that answers. CommandError."""
    if wish.cluster in known or any(
        sight.proxy not in ("", "absent") or sight.found.left for sight in sights
    ):
        return
    answered = [sight.name for sight in sights if not sight.problem]
    silent = "".join(
        f"; {sight.name} does not answer ({sight.problem})" for sight in sights if sight.problem
    )
    lists = f"lists {', '.join(known)}, and none of them answers" if known else "lists no clusters"
    text = f"{wish.cluster!r} is not in {wish.config}, which {lists}"
    if known and not sights:  # a command that asks the cluster alone
        text = f"{wish.cluster!r} is not in {wish.config}{did_you_mean(wish.cluster, known)}"
    elif answered:
        text = (
            f"{wish.cluster!r} is neither in {wish.config} nor has a proxy node in "
            f"{', '.join(answered)}"
        )
        text += did_you_mean(wish.cluster, known)
    raise CommandError(text + silent, ExitCode.NOT_FOUND)


def refusals(wish: Wish, known: list[str], sights: list[Sight], alive: str) -> list[str]:
    """Why the command is not carried out; none: it may be. `alive`: see `signs_of_life`."""
    asked = (
        _unlisted(wish, known),
        _silent(wish, sights),
        _nobody_has_it(wish, sights),
        _fenced(wish, sights),
        _is_alive(wish, alive),
        _alone(wish, sights),
    )
    return [why for why in asked if why]


def without_controller(sights: list[Sight]) -> list[PodAt]:
    """Pods that nothing replaces."""
    return [pod for pod in bound(sights) if not (pod.controlled or pod.ended)]


def named(pods: list[PodAt]) -> str:
    """The first of them, for people."""
    more = f" and {len(pods) - _NAMED} more" if len(pods) > _NAMED else ""
    return ", ".join(map(str, pods[:_NAMED])) + more


async def signs_of_life(member: Member | None) -> str:
    """What shows that a cluster is not dead: it answers, and has nodes that are Ready. '' if
    nothing does.
    """
    if member is None:
        return ""
    try:
        nodes = [node for node in await member.items("/api/v1/nodes") if not behind(node)]
    except MemberError as error:
        return (
            f"{member.name} answers, but its nodes cannot be listed ({error})"
            if 400 <= error.status < 500
            else ""
        )
    ready = sum(map(_is_ready, nodes))
    return f"{member.name} answers and {ready} of {len(nodes)} nodes are Ready" if ready else ""


def _is_ready(node: Object) -> bool:
    conditions = node.get("status", {}).get("conditions") or ()
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


def _unlisted(wish: Wish, known: list[str]) -> str:
    if wish.action != "leave" or wish.lost or wish.cluster in known:
        return ""
    return (
        f"{wish.config} does not list {wish.cluster!r}: put it back, or say --lost if it never "
        "comes back"
    )


def _silent(wish: Wish, sights: list[Sight]) -> str:
    here = next((sight for sight in sights if sight.name == wish.cluster), None)
    if here is None or not here.problem or not (wish.does.whole or wish.does.itself):
        return ""
    if wish.does.itself:
        return (
            f"cluster {wish.cluster} cannot be asked ({here.problem}): nobody knows what would be "
            "confirmed"
        )
    return f"cluster {wish.cluster} does not answer ({here.problem}): --lost if it never comes back"


def _nobody_has_it(wish: Wish, sights: list[Sight]) -> str:
    asked = [sight for sight in sights if sight.proxy]
    if not wish.does.proxies or any(sight.proxy != "absent" or sight.found.left for sight in asked):
        return ""
    proxy = names.proxy_node_name(wish.cluster)
    if not asked:
        why = (
            "; ".join(f"{sight.name}: {sight.problem}" for sight in sights if sight.problem)
            or "there is no other"
        )
        return (
            f"no cluster could be asked whether it has proxy node {proxy} ({why}): nothing can be "
            "done there"
        )
    missing = f"no proxy node {proxy} is in {', '.join(sight.name for sight in asked)}"
    return (
        f"{missing}: there is nothing to write on; the agents make it when a dispatcher names the "
        "cluster"
    )


def _fenced(wish: Wish, sights: list[Sight]) -> str:
    where = [sight.name for sight in sights if sight.proxy.startswith("fenced")]
    if wish.action != "uncordon" or not where:
        return ""
    return f"{wish.cluster} is fenced in {', '.join(where)}: first `cluster unfence {wish.cluster}`"


def _is_alive(wish: Wish, alive: str) -> str:
    if wish.force or not wish.does.instead or not alive:
        return ""
    command = "leave --lost" if wish.lost else wish.action
    return f"{alive}: {command} is for clusters that are dead; use {wish.does.instead}, or --force"


def _alone(wish: Wish, sights: list[Sight]) -> str:
    alone = without_controller(sights)
    if wish.force or not alone or not (wish.does.evicts or wish.does.instead):
        return ""
    how = "evicts them" if wish.does.evicts else "lets them go, for good,"
    return (
        f"{len(alone)} pods have no controller that would replace them ({named(alone)}): --force "
        f"{how} all the same"
    )
