"""Changes travel together while they come, unless one is urgent."""

import pytest

from agents.runtime.coalescing import MOST_PAUSES, MOST_QUIET_PAUSES, coalesce_changes

# What each pause brings, the pauses before an urgent change and before an unexpected one, and the pauses there are.
COMING = {
    "a change alone": ((0,), 99, 0, 1),
    "some": ((3, 1, 0, 5), 99, 0, 3),
    "without end": ((1,) * 20, 99, 0, MOST_PAUSES),
    "an urgent one before": ((1,) * 20, 0, 0, 1),
    "an urgent one among others": ((1,) * 20, 2, 0, 2),
    "confirmations alone, with gaps": ((1, 0, 0, 2) * 5, 99, 99, MOST_QUIET_PAUSES),
    "an unexpected one among confirmations, then none": ((1, 0, 1, 0, 1), 99, 3, 4),
    "an unexpected one late among confirmations without end": ((1,) * 20, 99, 7, 7),
    "an urgent one among confirmations": ((1, 0, 1) * 5, 3, 3, 3),
}


@pytest.mark.parametrize(("coming", "urgent_from", "unexpected_from", "pauses"), COMING.values(), ids=COMING.keys())
async def test_an_answer_waits_on_while_changes_come(
    coming: tuple[int, ...], urgent_from: int, unexpected_from: int, pauses: int
) -> None:
    revisions = [7]

    async def pause() -> None:
        revisions.append(revisions[-1] + coming[len(revisions) - 1])

    def made(pauses: int) -> bool:
        return len(revisions) > pauses

    await coalesce_changes(lambda: revisions[-1], pause, lambda: made(urgent_from), lambda: made(unexpected_from))
    assert len(revisions) - 1 == pauses
