"""The page of reasons why a pod waits, with what to do about each, as plugins and dispatcher declare
them.
"""

from dispatcher.plugins.registry import REGISTRY, reasons_of
from docs.generate.markdown import code, page, table


def render() -> str:
    """The page."""
    rows = ((code(one.words), one.remedy) for one in reasons_of(REGISTRY))
    return page(
        "Reasons",
        "Why a pod waits is a condition of the pod (`kubectl describe pod`), an event, and in full "
        "`global-dispatcher explain NAMESPACE/POD`. The texts are kube-scheduler's where it has "
        "one; `{}` stands for what it is about.",
        table(("reason", "what to do"), rows),
    )
