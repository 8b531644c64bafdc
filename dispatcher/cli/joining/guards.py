"""Whether the ValidatingAdmissionPolicies of the agent's chart are there and deny: those that hold
its service account to its own objects, and those that reserve the marks of agents for it.
"""

from collections.abc import Iterator

from dispatcher.cli.diagnosis import NOTE, Finding
from dispatcher.cli.joining.agents import Agent, agents, not_known
from dispatcher.cli.operate.members import Member, MemberError

POLICIES = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
BINDINGS = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings"
ABOUT = "policies of the agent"
_ASKING = "list deployments, validatingadmissionpolicies and validatingadmissionpolicybindings"
# by value of the chart: (how a policy's name ends, the feature without which the chart has none)
_ENDS = {
    "guardPolicy": (
        ("guard-nodes", ""),
        ("guard-pods", ""),
        ("guard-volumes", ""),
        ("guard-budgets", ""),
        ("guard-copies", ""),
        ("guard-services", "services"),
        ("guard-namespaces", "namespaces"),
        ("guard-connections", "exec"),
        ("guard-certificates", "csr"),
    ),
    "reserveKeys": (
        ("reserve-pods", ""),
        ("reserve-gone", ""),
        ("reserve-nodes", ""),
        ("reserve-bindings", ""),
    ),
}
UNDONE = (
    "what is changed on a pod that runs in another cluster, and does not reach it, is taken all the "
    "same, in silence"
)
_OF_INSTALL = "global-dispatcher-reserve-gone"  # for clusters whose agent `run` starts
_LOST = {
    "guardPolicy": "who gets hold of its token may do all that its roles name, with objects of "
    "others, too",
    "reserveKeys": "others may write the marks of agents, which count for nothing on pods, "
    "without a signature, but do "
    f"on nodes; and {UNDONE}",
}


async def unguarded(member: Member, *, run_starts_agents: bool = False) -> list[Finding]:
    """Which policies are not there, or deny nothing: a note for each agent of the chart that
    writes, and value; without any, where `run` starts the cluster's agent, for the one policy that
    `install` makes.
    """
    try:
        writing = [one for one in await agents(member) if one.component != "observer"]
        asks = bool(writing) or run_starts_agents
        known = {one["metadata"]["name"] for one in await member.items(POLICIES)} if asks else set()
        acting = {
            one["spec"].get("policyName")
            for one in (await member.items(BINDINGS) if asks else ())
            if "Deny" in (one["spec"].get("validationActions") or ())
        }
    except MemberError as error:
        if error.status in (0, 404):
            return []  # told by others; an API server without such policies
        return [not_known(member.name, ABOUT, error, _ASKING)]
    if asks and not writing and _OF_INSTALL not in known & acting:
        fix = "run `global-dispatcher install --context CONTEXT`"
        return [
            Finding(member.name, ABOUT, NOTE, f"nothing is refused by {_OF_INSTALL}: {UNDONE}", fix)
        ]
    return [found for one in writing for found in _missing(member.name, one, known & acting)]


def _missing(cluster: str, agent: Agent, acting: set[str]) -> Iterator[Finding]:
    for value, ends in _ENDS.items():
        wanted = [
            f"{agent.release}-{end}" for end, feature in ends if not feature or feature in agent.on
        ]
        gone = [name for name in wanted if name not in acting]
        if gone:
            text = f"nothing is refused by {', '.join(gone)}, for {agent.user}: {_LOST[value]}"
            yield Finding(
                cluster,
                ABOUT,
                NOTE,
                text,
                f"set {value}.enabled in the agent's chart, and upgrade it",
            )
