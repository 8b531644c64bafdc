"""Changes travel together while they come, unless one is urgent."""

import pytest

from agents.runtime.coalescing import MOST_PAUSES, coalesce_changes

COMING = {
    "a change alone": ((0,), 99, 1),
    "some": ((3, 1, 0, 5), 99, 3),
    "without end": ((1,) * 20, 99, MOST_PAUSES),
    "an urgent one before": ((1,) * 20, 0, 1),
    "an urgent one among others": ((1,) * 20, 2, 2),
}


@pytest.mark.parametrize(("coming", "urgent_from", "pauses"), COMING.values(), ids=COMING.keys())
async def test_an_answer_waits_on_while_changes_come(coming: tuple[int, ...], urgent_from: int, pauses: int) -> None:
    revisions = [7]

    async def pause() -> None:
        revisions.append(revisions[-1] + coming[len(revisions) - 1])

    await coalesce_changes(lambda: revisions[-1], pause, lambda: len(revisions) > urgent_from)
    assert len(revisions) - 1 == pauses
