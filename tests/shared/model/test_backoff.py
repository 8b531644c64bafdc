"""The one back-off of dispatcher and agents."""

import pytest

from shared.model.backoff import Backoff


@pytest.mark.parametrize(
    ("attempts", "pause"), [(1, 2.0), (2, 4.0), (3, 8.0), (4, 15.0), (10**9, 15.0)], ids=lambda value: f"{value:g}"
)
def test_a_pause_doubles_up_to_the_longest_and_never_overflows(attempts: int, pause: float) -> None:
    assert Backoff(2.0, 15.0).after(attempts) == pause


def test_by_default_pods_wait_as_in_kube_scheduler() -> None:
    assert (Backoff().first_s, Backoff().most_s) == (1.0, 10.0)
