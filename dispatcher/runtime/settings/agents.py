"""What each agent is told: its section of dispatcher.yaml as the agent's own settings."""

from typing import Any

from pydantic import ValidationError

from agents.runtime.settings import AgentSettings
from dispatcher.runtime.settings.access import usual_kubeconfig
from dispatcher.runtime.settings.document import Document
from dispatcher.runtime.settings.problems import Problem
from dispatcher.runtime.settings.sections import ClusterSection
from dispatcher.runtime.settings.validation import findings

_BESIDE = {"cluster": "name", "kubeconfig": "kubeconfig", "context": "context"}  # set by keys of the cluster itself


def agent_settings(cluster: ClusterSection) -> AgentSettings:
    """The settings of the agent of one cluster; pydantic's ValidationError for keys that the agent does not know."""
    given: dict[str, Any] = {
        **cluster.agent,
        "cluster": cluster.name,
        "kubeconfig": cluster.kubeconfig or usual_kubeconfig(),
        "context": cluster.context,
    }
    return AgentSettings.model_validate(given)


def agent_problems(cluster: ClusterSection, at: int, document: Document) -> list[Problem]:
    """What is wrong with the `agent` section of the cluster at index `at`."""
    path = ("clusters", at, "agent")
    problems = [
        document.problem((*path, key), f"is set by `{beside}` of the cluster: remove it here")
        for key, beside in _BESIDE.items()
        if key in cluster.agent
    ]
    try:
        agent_settings(cluster)
    except ValidationError as error:
        problems += findings(AgentSettings, document, error, path)
    return problems
