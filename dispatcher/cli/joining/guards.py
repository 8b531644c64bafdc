"""Whether the chart's admission policies stand that hold an agent's account to its own things, and keep its marks."""

from collections.abc import Iterator

from dispatcher.cli.diagnosis import NOTE, Finding
from dispatcher.cli.joining.agents import Agent, agents
from dispatcher.cli.operate.members import Member, MemberError

POLICIES = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
BINDINGS = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings"
ABOUT = "policies of the agent"
_ENDS = {  # of the policies' names, by the value of the chart; with the feature for which there is one
    "guardPolicy": (
        ("guard-nodes", ""),
        ("guard-pods", ""),
        ("guard-volumes", ""),
        ("guard-budgets", ""),
        ("guard-connections", "exec"),
        ("guard-certificates", "csr"),
    ),
    "reserveKeys": (("reserve-pods", ""), ("reserve-bindings", "")),
}
_LOST = {
    "guardPolicy": "who gets hold of its token may do all that its roles name, which RBAC limits less",
    "reserveKeys": "others may write the marks of agents on pods, which count for nothing without a signature",
}


async def unguarded(member: Member) -> list[Finding]:
    """What policies are not there, or deny nothing, of each agent of the chart that writes."""
    try:
        writing = [one for one in await agents(member) if one.component != "observer"]
        known = {one["metadata"]["name"] for one in await member.items(POLICIES)} if writing else set()
        acting = {
            one["spec"].get("policyName")
            for one in (await member.items(BINDINGS) if writing else ())
            if "Deny" in (one["spec"].get("validationActions") or ())
        }
    except MemberError as error:
        if error.status in (0, 404):
            return []  # told by others; an API server without such policies
        fix = "give the context the right to list deployments, and policies and bindings of validating admission"
        return [Finding(member.name, ABOUT, NOTE, f"not known: {error}", fix)]
    return [found for one in writing for found in _missing(member.name, one, known & acting)]


def _missing(cluster: str, agent: Agent, acting: set[str]) -> Iterator[Finding]:
    for value, ends in _ENDS.items():
        wanted = [f"{agent.release}-{end}" for end, feature in ends if not feature or feature in agent.on]
        gone = [name for name in wanted if name not in acting]
        if gone:
            text = f"nothing is refused by {', '.join(gone)}, for {agent.user}: {_LOST[value]}"
            yield Finding(cluster, ABOUT, NOTE, text, f"set {value}.enabled in the agent's chart, and upgrade it")
