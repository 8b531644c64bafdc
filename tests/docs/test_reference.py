"""The reference pages are what the code says."""

import pytest

from dispatcher.model.reasons import Reason
from docs.generate import keys, reasons
from docs.generate.__main__ import FOLDER, PAGES


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_as_the_code_has_it(name: str) -> None:
    assert (FOLDER / name).read_text() == PAGES[name](), "run `python -m docs.generate`"


def test_every_key_of_ours_is_explained() -> None:
    told = [one.name for one in (*keys.USERS, *keys.ADMINS, *keys.OURS)]
    assert sorted(told) == sorted(keys.declared())


def test_every_reason_has_a_remedy() -> None:
    assert set(reasons.REMEDIES) == set(Reason)
