"""The sentences in which a refusal is told: kube-scheduler's own, where it knows the reason."""

from collections import Counter

from shared.model.reasons import Why

_NO_NODES = "no nodes available to schedule pods"


def no_place_message(nodes: int, texts: Counter[str]) -> str:
    """kube-scheduler's sentence: '0/30 nodes are available: 12 Insufficient cpu, 18 Too many pods.'

    A node may be refused for several reasons; the parts are sorted as texts, as kube-scheduler
    does.
    """
    if not nodes:
        return _NO_NODES
    parts = sorted(f"{count} {text}" for text, count in texts.items())
    return (
        f"0/{nodes} nodes are available: {', '.join(parts)}."
        if parts
        else f"0/{nodes} nodes are available."
    )


def refusal_message(nodes: int, why: Why) -> str:
    """The sentence for a pod that is refused as a whole: kube-scheduler's where the reason is one
    of its own.
    """
    if why.reason.verbatim:
        return why.text
    return f"0/{nodes} nodes are available: {why.text}." if nodes else _NO_NODES
