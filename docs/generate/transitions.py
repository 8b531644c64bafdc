"""The states of a pod's one intent in flight, for docs/protocol.md: `TRANSITIONS` as tables."""

from collections.abc import Iterator
from pathlib import Path

from dispatcher.scheduling.delegation.in_flight import TRANSITIONS, IntentKind, Transition
from docs.generate.markdown import code, table
from shared.messages import REFUSED, STALE

FILE = Path(__file__).parents[1] / "protocol.md"
_BEGIN = "<!-- transitions: begin -->"
_END = "<!-- transitions: end -->"

# Transitions after which another intent of the pod is sent at once, and which.
FOLLOWS = {
    Transition.CREATE: IntentKind.CREATE,
    Transition.PROXY: IntentKind.PROXY,
    Transition.UNCLAIM: IntentKind.UNCLAIM,
    Transition.UPDATE: IntentKind.UPDATE,
}
# What the others lead to.
MEANS = {
    Transition.SETTLE: "it holds; waits until the watch shows it",
    Transition.MADE: "the delegate is there, unbound: the same intent binds it once those of its group are there",
    Transition.GIVE_BACK: "forgets the place, and is queued again with back-off",
    Transition.AGAIN: "the same intent again, later; so does `unknown`, and no answer, of all but `sign` and `update`",
    Transition.LATER: "holds no place: is looked at again after a pause that grows; so do these two",
    Transition.ABSENT: "it is noted that the API server has no such pod",
    Transition.ENDED: "it is noted whether the delegate goes on, and how it ends",
    Transition.DROP: "nothing holds: is looked at again",
}


def render() -> str:
    """What each answer leads to, and what these states mean."""
    ends = (transition for transition in Transition if transition not in FOLLOWS)
    meanings = table(("state", "the pod"), ((code(one.value), MEANS[one]) for one in ends))
    answers = table(("intent", "done, bound or claimed", STALE, REFUSED), _rows())
    return f"{answers}\n\n{meanings}"


def _rows() -> Iterator[tuple[str, ...]]:
    """One for all intents of which every answer leads to the same."""
    alike: dict[tuple[str, ...], list[IntentKind]] = {}
    for kind in IntentKind:
        done = [
            verdict
            for one, verdict in TRANSITIONS
            if one is kind and verdict not in {STALE, REFUSED}
        ]
        first = cell(kind, done[0])
        more = [f"{verdict}: {cell(kind, verdict)}" for verdict in done[1:]]
        answers = ("; ".join([first, *more]), cell(kind, STALE), cell(kind, REFUSED))
        alike.setdefault(answers, []).append(kind)
    for cells, kinds in alike.items():
        yield (", ".join(code(kind.value) for kind in kinds), *cells)


def cell(kind: IntentKind, verdict: str) -> str:
    """The state that an answer leads to, or the intent that follows at once."""
    transition = TRANSITIONS[kind, verdict]
    follows = FOLLOWS.get(transition)
    return code(transition.value) if follows is None else f"then intent {code(follows.value)}"


def with_states(text: str) -> str:
    """A page with the states of today between its two marks."""
    before, _, rest = text.partition(_BEGIN)
    _, _, after = rest.partition(_END)
    return f"{before}{_BEGIN}\n{render()}\n{_END}{after}"
