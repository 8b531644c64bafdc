"""What `kubectl logs` shows of a simulated container."""

import pytest

from localfleet.embedded.kubelet.logs import container_log
from localfleet.embedded.meta import stamp
from tests.embedded.simulated import START, Object


def pod_with(state: Object, last: Object | None = None, restarts: int = 0) -> Object:
    entry = {"name": "main", "state": state, "lastState": last or {}, "restartCount": restarts}
    return {"spec": {"nodeName": "n"}, "status": {"containerStatuses": [entry]}}


RUNNING = pod_with({"running": {"startedAt": stamp(START)}})


@pytest.mark.parametrize(
    ("query", "lines"),
    [({}, 4), ({"tailLines": "2"}, 2), ({"tailLines": "0"}, 0), ({"sinceSeconds": "10"}, 1), ({"tailLines": "x"}, 4)],
)
def test_a_running_container_tells_of_its_start_and_every_ten_seconds(query: dict[str, str], lines: int) -> None:
    text = container_log(RUNNING, "main", query, START + 35)
    assert len(text.splitlines()) == lines
    if not query:
        assert text.startswith("main started on n; this container is simulated\n")
        assert text.endswith("main is simulated and has no output (for 30 s)\n")


def test_timestamps_are_those_of_the_lines() -> None:
    first, second = container_log(RUNNING, "main", {"timestamps": "true"}, START + 15).splitlines()
    assert first.startswith("2023-11-14T22:13:20")
    assert second.startswith("2023-11-14T22:13:30")


def test_the_limit_cuts_bytes() -> None:
    assert container_log(RUNNING, "main", {"limitBytes": "4"}, START + 35) == "main"


def test_the_previous_run_can_be_read_after_a_restart() -> None:
    over = {"terminated": {"startedAt": stamp(START), "finishedAt": stamp(START + 5), "exitCode": 3}}
    whole = pod_with({"running": {"startedAt": stamp(START + 6)}}, over, restarts=1)
    previous = container_log(whole, "main", {"previous": "true"}, START + 9)
    assert "exit code 3" in previous
    assert "restart" not in previous
    assert "(restart 1)" in container_log(whole, "main", {}, START + 9)


def test_between_two_runs_the_log_is_that_of_the_last_one() -> None:
    over = {"terminated": {"startedAt": stamp(START), "finishedAt": stamp(START + 5), "exitCode": 3}}
    whole = pod_with({"waiting": {"reason": "CrashLoopBackOff"}}, over, restarts=2)
    text = container_log(whole, "main", {}, START + 9)
    assert "(restart 2)" in text
    assert "exit code 3" in text


def test_a_container_that_never_started_has_said_nothing() -> None:
    assert container_log({"spec": {}, "status": {}}, "main", {}, START) == ""


def test_years_of_running_do_not_make_an_endless_log() -> None:
    assert len(container_log(RUNNING, "main", {}, START + 10 * 365 * 86400).splitlines()) <= 10_001
