"""What the Makefile and CI name is there: a target that only CI runs would tell of it last."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("file", ["Makefile", ".ci/run"])
def test_every_test_that_is_named_is_there(file: str) -> None:
    named = re.findall(r"\btests/[\w/]+(?:\.py)?", (ROOT / file).read_text())
    assert [one for one in named if not (ROOT / one).exists()] == []
    assert named or file != "Makefile"
