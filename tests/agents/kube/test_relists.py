"""Lists that follow each other closely wait, and the more so the longer that goes on."""

from agents.kube.relists import STORM_S, Relists


def test_in_a_storm_the_distances_grow_to_the_longest() -> None:
    relists, now, begun = Relists(1.0, 20.0), 0.0, list[float]()
    for _ in range(12):
        now += relists.wait_s(now)
        relists.listed(now)
        begun.append(now)
    assert begun[:7] == [0.0, 0.0, 1.0, 3.0, 7.0, 15.0, 31.0]
    assert begun[-1] - begun[-2] == 20.0


def test_after_a_quiet_time_nothing_is_waited_for() -> None:
    relists = Relists(1.0, 20.0)
    for _ in range(5):
        relists.listed(0.0)
    assert relists.wait_s(0.0) == 8.0
    assert relists.wait_s(8.0) == 0.0
    relists.listed(STORM_S)
    assert relists.wait_s(STORM_S) == 0.0
