"""Each story of the folder `stories` goes as it is written there, and breaks no promise.

An agent's clock may run at another rate than the dispatcher's, calls come late or get lost, and agents and dispatcher
die: of a pod of failover mode `lease` there are never two all the same.
"""

import random
from pathlib import Path

import pytest

from shared.model.leases import RATE
from tests.laws.examples import examples, some
from tests.simulation import scenario

TOLD = some(scenario.STORIES, 3)


@pytest.mark.parametrize("file", TOLD, ids=lambda file: file.stem)
def test_a_story_goes_as_it_is_written(file: Path) -> None:
    written, shown = scenario.tell(file.read_text())
    if scenario.REWRITE:
        file.write_text(shown)
    else:
        assert shown == written


def cut_off(dice: random.Random) -> str:
    """A pod of failover mode `lease` in a cluster that is cut off, and who dies meanwhile, as a story."""
    deaths = {dice.randrange(5, 240): who for who in ("west", "north", "dispatcher")}
    lines = ["submit web replicas=1 to=west failover=lease at-once", "until web Running"]
    lines += [f"clock {cluster} {dice.choice((1 / RATE, 1.0, RATE))}" for cluster in ("west", "north", "east")]
    lines += ["wait 30", "template web to=west,east"]
    lines += [f"links west lose={dice.choice((0.0, 0.3))} late_s={dice.choice((0.01, 200.0))}"]
    lines += [f"wait {dice.randrange(5, 60)}", "cut west"]
    now = 0
    for at, who in sorted(deaths.items()):
        lines += [f"wait {at - now}", f"kill {who}", f"start {who}"]
        now = at
    return "\n".join([*lines, f"wait {dice.randrange(20, 400)}", "mend west", "wait 200", "show"])


@pytest.mark.parametrize("seed", range(examples(8)))
def test_no_two_copies_run_whoever_dies_and_however_late_calls_come(seed: int) -> None:
    shown = scenario.tell(cut_off(random.Random(seed)), seed)[1].splitlines()
    assert sum("runs" in line and "deleting" not in line for line in shown) == 1, shown
