"""Changes travel together while many come, and alone when few do."""

import pytest

from agents.runtime.company import MANY_CHANGES, MOST_PAUSES, wait_for_company

MANY, FEW = MANY_CHANGES, MANY_CHANGES - 1
COMING = {
    "a change alone": ((0,), 1),
    "a few": ((FEW, MANY), 1),
    "many at first": ((MANY, MANY, FEW, MANY), 3),
    "many without end": ((MANY + 50,) * 20, MOST_PAUSES),
}


@pytest.mark.parametrize(("coming", "pauses"), COMING.values(), ids=COMING.keys())
async def test_an_answer_waits_on_while_many_changes_come(coming: tuple[int, ...], pauses: int) -> None:
    revisions = [7]

    async def pause() -> None:
        revisions.append(revisions[-1] + coming[len(revisions) - 1])

    await wait_for_company(lambda: revisions[-1], pause)
    assert len(revisions) - 1 == pauses
