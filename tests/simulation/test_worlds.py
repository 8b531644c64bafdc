"""A few stories of `make sim` in every test run, and that a story is the same whenever and wherever it is told."""

import os
import subprocess
import sys

import pytest

from tests.laws.examples import examples
from tests.simulation import planted
from tests.simulation.faults import THEMES, draw
from tests.simulation.minimise import minimised
from tests.simulation.telling import tell

# Themes that hold today on these seeds; `make sim` tells all.
QUIET = ("wire", "watches", "links", "dispatchers")


@pytest.mark.parametrize("theme", QUIET)
def test_all_promises_hold_under_faults(theme: str) -> None:
    told = tell(draw(1, (theme,)))
    assert not told.violations


@pytest.mark.parametrize("seed", range(100, 100 + examples(20)))
def test_all_promises_hold_in_what_chance_draws(seed: int) -> None:
    assert [*map(str, tell(draw(seed)).violations)] == []


def test_a_late_copy_of_an_old_status_is_not_written_over_a_newer_one() -> None:
    told = tell(draw(2, ("links",)))
    assert not told.violations


@pytest.mark.system
def test_the_same_seed_is_the_same_story_under_another_hash_seed() -> None:
    code = "from tests.simulation.faults import draw\nfrom tests.simulation.telling import tell\n"
    code += "print(tell(draw(3, ('dispatchers', 'watches', 'wire'))).digest)"
    digests = set()
    for hash_seed in ("0", "77"):
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": os.pathsep.join(sys.path)}
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True)
        digests.add(done.stdout.strip())
    assert len(digests) == 1


def test_every_kind_of_fault_is_told_to_the_world() -> None:
    from tests.simulation.acts import ACTS

    assert {kind for kinds in THEMES.values() for kind in kinds} <= set(ACTS)


@pytest.mark.patient
def test_a_planted_fault_is_found_and_the_story_is_made_smaller() -> None:
    name = "delegates-stay"
    story = next(one for one in (draw(seed, planted.PLANTED[name].themes) for seed in range(9)) if _breaks(name, one))
    small = minimised(story, lambda one: _breaks(name, one), tries=6)
    assert len(small.faults) + len(small.work) < len(story.faults) + len(story.work)


def _breaks(name: str, story: object) -> bool:
    return bool(planted.told_with(name, story).violations)  # type: ignore[arg-type]
