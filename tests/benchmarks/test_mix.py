"""The command for mixed work with arguments of one's own."""

import json
from dataclasses import fields

import pytest

from benchmarks.mix import main
from benchmarks.workloads.mixed import Mix

SMALL = ("--nodes", "40", "--pods", "60", "--classes", "6", "--sizes", "3", "--seed", "9")


def told(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, dict[str, float]]:
    main((*SMALL, *words))
    found: dict[str, dict[str, float]] = json.loads(capsys.readouterr().out)
    return found


def test_every_argument_of_the_generator_is_an_option_and_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    found = told(capsys, "--tenants", "2", "--churn", "20", "--no-interleaved")
    assert found["work"].keys() == {one.name for one in fields(Mix)}
    assert (found["work"]["tenants"], found["work"]["churn"], found["work"]["interleaved"]) == (2, 20, False)
    assert found["CPU time"]["bound/s"] > 0


def test_pods_that_fit_nowhere_are_refused_at_first_and_after_an_event(capsys: pytest.CaptureFixture[str]) -> None:
    found = told(capsys, "--nothing-fits")
    assert set(found["CPU time"]) == {"refusals/s", "refusals/s after an event"}
    assert all(rate > 0 for rate in found["CPU time"].values())


def test_work_that_the_fleet_has_no_room_for_is_an_error_that_says_so() -> None:
    with pytest.raises(RuntimeError, match="fleet is too small: "):
        main((*SMALL, "--node-cpu", "500"))
